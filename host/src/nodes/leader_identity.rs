//! Who a leader is for the agents: its name, and its keys if the job is signed.

use crate::bus::{
    BUS_PROTOCOL, Channel, ExpectedJob, JobForNode, LinkEnd, LinkKey, NoRandomBytes, Offer,
    SigningKey, secret_text, to_node,
};
use crate::engine::RemoteWork;
use crate::model::{NodeId, random_name};

/// The name of a leader, and its keys if the job is signed.
#[derive(Debug)]
pub(crate) struct LeaderIdentity {
    name: String,
    /// `None` if the job is not signed.
    keys: Option<Keys>,
}

#[derive(Debug)]
struct Keys {
    signer: SigningKey,
    link: LinkKey,
    /// See [`ExpectedJob::salt`].
    salt: String,
}

impl LeaderIdentity {
    /// A new leader. It signs the job if there is a signer.
    ///
    /// # Errors
    /// If the system has no random bytes for a key.
    pub(crate) fn new(signer: Option<SigningKey>) -> Result<Self, NoRandomBytes> {
        let Some(signer) = signer else { return Ok(Self { name: random_name(), keys: None }) };
        let link = LinkKey::new()?;
        let salt = secret_text()?;
        Ok(Self { name: link.name().to_owned(), keys: Some(Keys { signer, link, salt }) })
    }

    /// The leader's name.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The offer of this job.
    pub(super) fn offer(&self, work: &RemoteWork, epoch: u64) -> Offer {
        let mut offer = Offer {
            protocol: BUS_PROTOCOL,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            job: work.job.clone(),
            run: work.run.clone(),
            leader: self.name.clone(),
            epoch,
            signature: None,
        };
        // The digest is the same for all nodes.
        let digest = self.job_for(work, NodeId::ONLY, String::new()).digest();
        if let (Some(keys), Some(digest)) = (&self.keys, digest) {
            offer.sign(&keys.signer, digest);
        }
        offer
    }

    /// What a node shall prepare.
    pub(super) fn job_for(&self, work: &RemoteWork, node: NodeId, proof: String) -> JobForNode {
        let expected = |keys: &Keys| ExpectedJob {
            salt: keys.salt.clone(),
            job_file: work.job_file_sha256.clone(),
            component: work.component.clone(),
            settings: work.settings.clone(),
        };
        JobForNode {
            node,
            proof,
            store: work.place.clone(),
            tenant: work.tenant.clone(),
            source: work.source.clone(),
            job_file: work.job_file.path.clone(),
            overrides: work.job_file.overrides.clone(),
            job: work.job.clone(),
            run: work.run.clone(),
            expected: self.keys.as_ref().map(expected),
            listed: work.listed.clone(),
        }
    }

    /// What the user must know if agents take no part because of their policies. A clause.
    pub(super) fn signer_advice(&self) -> String {
        match &self.keys {
            None => "a machine whose policy has signers runs only signed jobs (--signing-key)"
                .to_owned(),
            Some(keys) => format!(
                "a policy that has signers must name the signer of this job, {}",
                keys.signer.public()
            ),
        }
    }

    /// The channel to this incarnation of an agent. `None` if the job is signed, and the incarnation has no key.
    pub(super) fn channel(&self, incarnation: &str) -> Option<Channel> {
        let seal = match &self.keys {
            Some(keys) => Some(keys.link.seal_with(incarnation, LinkEnd::Leader)?),
            None => None,
        };
        Some(Channel::new(to_node(incarnation), seal))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{JobFile, folder_objects};
    use crate::model::{ContentRef, JobDir};
    use crate::protocol::node::ListedInputs;

    #[test]
    fn what_a_node_is_asked_for_is_what_the_offer_signs() {
        let work = RemoteWork {
            job: "nightly".to_owned(),
            run: "run".to_owned(),
            folder: JobDir::new("/shared/jobs/nightly/run/workers"),
            is_folder_shared: true,
            keeps_rows: false,
            objects: folder_objects("/shared/jobs".as_ref(), "nightly").unwrap(),
            store: "/shared/jobs/nightly".to_owned(),
            place: "/shared/jobs".to_owned(),
            tenant: "default".to_owned(),
            source: ContentRef { sha256: [5; 32], bytes: 7 },
            job_file: JobFile::new("/shared/job.yaml".as_ref(), &[]),
            job_file_sha256: "aa".to_owned(),
            component: "bb".to_owned(),
            settings: Vec::new(),
            backends: Vec::new(),
            allow_mixed: false,
            node_count: 1,
            listed: ListedInputs::default(),
        };
        let signer = SigningKey::parse(&SigningKey::new_text().unwrap()).unwrap();
        let leader = LeaderIdentity::new(Some(signer.clone())).unwrap();
        let offer = leader.offer(&work, 3);
        assert_eq!(offer.verify(), Ok(Some(signer.public())));
        let asked = leader.job_for(&work, NodeId(7), "proof".to_owned());
        assert_eq!(asked.digest(), offer.signature.map(|signature| signature.work));
        assert!(leader.signer_advice().ends_with(&signer.public().to_string()));
        // The salt differs, so the digests of two leaders of the same job differ.
        let other = LeaderIdentity::new(Some(signer)).unwrap().job_for(
            &work,
            NodeId(7),
            "proof".to_owned(),
        );
        assert_ne!(other.digest(), asked.digest());
        let unsigned = LeaderIdentity::new(None).unwrap();
        assert_eq!(unsigned.offer(&work, 3).verify(), Ok(None));
    }
}
