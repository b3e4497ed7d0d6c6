//! Signatures of jobs. A signer signs an [`Offer`]: who leads which run, and what nodes shall execute. Agents verify
//! the signature before they load anything of the job.
//!
//! A signature is made over bytes that begin with a text for this purpose. Each part is preceded by its length, so no
//! two offers give the same bytes.

use super::messages::{ExpectedJob, JobForNode, Offer, OfferSignature, WorkDigest};
use super::seal::{NoRandomBytes, public_key, secret_text};
use ring::digest::{SHA256, digest};
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};
use sandmill_model::{SignerKey, is_random_name};
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

/// The beginning of the bytes that are signed.
const OFFER_DOMAIN: &[u8] = b"sandmill signature of an offer, version 1";
/// The beginning of the bytes that [`JobForNode::digest`] digests.
const WORK_DOMAIN: &[u8] = b"sandmill work of a job, version 2";

/// The private key of a signer, for Ed25519. As text, it is `sandmill-signing-key:` and 64 hexadecimal digits.
#[derive(Clone)]
pub struct SigningKey(Arc<Ed25519KeyPair>);

impl fmt::Debug for SigningKey {
    /// Shows the public key only.
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "SigningKey({})", self.public())
    }
}

impl SigningKey {
    /// The text of a new private key. It is secret.
    ///
    /// # Errors
    /// If the system has no random bytes.
    pub fn new_text() -> Result<String, NoRandomBytes> {
        Ok(SignerKey::PRIVATE_PREFIX.to_owned() + &secret_text()?)
    }

    /// The private key in a text. `None` if the text is anything else.
    pub fn parse(text: &str) -> Option<Self> {
        let digits = text.trim().strip_prefix(SignerKey::PRIVATE_PREFIX)?;
        let seed = hex::decode(digits).ok()?;
        Ed25519KeyPair::from_seed_unchecked(&seed).ok().map(|pair| Self(Arc::new(pair)))
    }

    /// The public key.
    pub fn public(&self) -> SignerKey {
        let mut key = [0; 32];
        // The public key of Ed25519 has this length.
        key.copy_from_slice(self.0.public_key().as_ref());
        SignerKey(key)
    }
}

/// Why an offer is not what it claims to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OfferError {
    /// The leader's name is not a name that leaders of such offers have.
    #[error("the name of its leader is malformed")]
    Name,
    /// The signature is not that of the signer, or the offer was changed.
    #[error("its signature is wrong")]
    Signature,
}

impl Offer {
    /// Signs the offer. `work` is the [digest](JobForNode::digest) of what nodes shall execute.
    pub fn sign(&mut self, key: &SigningKey, work: WorkDigest) {
        let signer = key.public();
        let signature = key.0.sign(&self.signed_bytes(signer, work)).as_ref().to_vec();
        self.signature = Some(OfferSignature { signer, work, signature });
    }

    /// The signer. `None` if the job is not signed.
    ///
    /// # Errors
    /// If the signature is wrong, or the leader's name is malformed.
    pub fn verify(&self) -> Result<Option<SignerKey>, OfferError> {
        let Some(OfferSignature { signer, work, signature }) = &self.signature else {
            return if is_random_name(&self.leader) { Ok(None) } else { Err(OfferError::Name) };
        };
        public_key(&self.leader).ok_or(OfferError::Name)?;
        let key = UnparsedPublicKey::new(&ED25519, signer.0);
        let verified = key.verify(&self.signed_bytes(*signer, *work), signature);
        verified.map(|()| Some(*signer)).map_err(|_| OfferError::Signature)
    }

    fn signed_bytes(&self, signer: SignerKey, work: WorkDigest) -> Vec<u8> {
        // Names every field, so that a new one is signed, too.
        let Self { protocol, version, job, run, leader, epoch, signature: _ } = self;
        let mut bytes = SignedBytes::new(OFFER_DOMAIN);
        bytes.add(&protocol.to_be_bytes());
        for text in [version, job, run, leader] {
            bytes.add(text.as_bytes());
        }
        bytes.add(&epoch.to_be_bytes());
        bytes.add(&signer.0);
        bytes.add(&work);
        bytes.0
    }
}

impl JobForNode {
    /// The digest of what the agent shall execute, for the signature of the [`Offer`]. It is the same for all agents
    /// of a leader. `None` if the job is not signed.
    pub fn digest(&self) -> Option<WorkDigest> {
        // The number and the proof are those of the agent, and the offer has the job and the run. The contents of inputs
        // are not signed. The job file and the settings have the job store and the tenant.
        let Self { job_file: path, overrides, expected, source, .. } = self;
        let Self { node: _, proof: _, job: _, run: _, listed: _, store: _, tenant: _, .. } = self;
        let ExpectedJob { salt, job_file, component, settings } = expected.as_ref()?;
        let mut bytes = SignedBytes::new(WORK_DOMAIN);
        bytes.add(salt.as_bytes());
        bytes.add(path.as_os_str().as_bytes());
        bytes.add(&source.sha256);
        bytes.add(&source.bytes.to_be_bytes());
        bytes.add(job_file.as_bytes());
        bytes.add(component.as_bytes());
        for pairs in [overrides, settings] {
            bytes.add(&(pairs.len() as u64).to_be_bytes());
            for (name, value) in pairs {
                bytes.add(name.as_bytes());
                bytes.add(value.as_bytes());
            }
        }
        let mut found = [0; 32];
        found.copy_from_slice(digest(&SHA256, &bytes.0).as_ref());
        Some(found)
    }
}

/// Bytes to be signed or digested.
struct SignedBytes(Vec<u8>);

impl SignedBytes {
    fn new(domain: &[u8]) -> Self {
        let mut bytes = Self(Vec::new());
        bytes.add(domain);
        bytes
    }

    /// Adds a part, with its length.
    fn add(&mut self, part: &[u8]) {
        self.0.extend_from_slice(&(part.len() as u64).to_be_bytes());
        self.0.extend_from_slice(part);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seal::LinkKey;
    use sandmill_model::{ContentRef, NodeId};
    use sandmill_wire::node::ListedInputs;

    fn key() -> SigningKey {
        SigningKey::parse(&SigningKey::new_text().unwrap()).unwrap()
    }

    fn offer() -> Offer {
        Offer {
            protocol: 2,
            version: "1.2.3".into(),
            job: "nightly".into(),
            run: "20261128T195109Z-bd213d9b".into(),
            leader: "ab".repeat(32),
            epoch: 7,
            signature: None,
        }
    }

    fn job() -> JobForNode {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        JobForNode {
            node: NodeId(3),
            proof: "proof".into(),
            store: "/shared/jobs".into(),
            tenant: "default".into(),
            source: ContentRef { sha256: [5; 32], bytes: 7 },
            job_file: "/shared/job.yaml".into(),
            overrides: vec![pair("a", "1"), pair("b", "2")],
            job: "nightly".into(),
            run: "run".into(),
            expected: Some(ExpectedJob {
                salt: "salt".into(),
                job_file: "aa".into(),
                component: "bb".into(),
                settings: vec![pair("inputs", "[]")],
            }),
            listed: ListedInputs::default(),
        }
    }

    /// The bytes are a contract between versions of Sandmill.
    #[test]
    fn the_signed_bytes_are_these() {
        let mut expected = Vec::new();
        let run = b"20261128T195109Z-bd213d9b";
        let leader = "ab".repeat(32);
        let parts: [&[u8]; 9] = [
            b"sandmill signature of an offer, version 1",
            &[0, 0, 0, 2],
            b"1.2.3",
            b"nightly",
            run,
            leader.as_bytes(),
            &[0, 0, 0, 0, 0, 0, 0, 7],
            &[9; 32],
            &[8; 32],
        ];
        for part in parts {
            expected.extend([0; 7]);
            expected.push(u8::try_from(part.len()).unwrap());
            expected.extend_from_slice(part);
        }
        assert_eq!(offer().signed_bytes(SignerKey([9; 32]), [8; 32]), expected);
    }

    #[test]
    fn a_signed_offer_names_its_signer() {
        let key = key();
        let mut offer = offer();
        assert_eq!(offer.verify(), Err(OfferError::Name), "the name of a signed leader");
        offer.sign(&key, [8; 32]);
        assert_eq!(offer.verify(), Ok(Some(key.public())));
        let unsigned = Offer { leader: "ab".repeat(16), signature: None, ..offer.clone() };
        assert_eq!(unsigned.verify(), Ok(None));
        for leader in ["", "echo", "a.b", &"*".repeat(64), &"AB".repeat(32)] {
            let mut named = Offer { leader: leader.to_owned(), ..offer.clone() };
            named.sign(&key, [8; 32]);
            assert_eq!(named.verify(), Err(OfferError::Name), "{leader}");
        }
    }

    #[test]
    fn a_changed_offer_is_refused() {
        let key = key();
        let mut signed = offer();
        signed.sign(&key, [8; 32]);
        let changes: [fn(&mut Offer); 6] = [
            |offer| offer.protocol += 1,
            |offer| offer.version.push('0'),
            |offer| offer.job.push('x'),
            |offer| offer.run.push('x'),
            |offer| offer.leader.replace_range(..1, "b"),
            |offer| offer.epoch += 1,
        ];
        for (index, change) in changes.iter().enumerate() {
            let mut changed = signed.clone();
            change(&mut changed);
            assert_eq!(changed.verify(), Err(OfferError::Signature), "change {index}");
        }
        // A text cannot move from one field to the next.
        let Offer { job, run, .. } = &signed;
        let moved = Offer {
            job: format!("{job}{}", &run[..1]),
            run: run[1..].to_owned(),
            ..signed.clone()
        };
        assert_eq!(moved.verify(), Err(OfferError::Signature));
        let changes: [fn(&mut OfferSignature); 4] = [
            |signature| signature.work[31] ^= 1,
            |signature| signature.signer.0[0] ^= 1,
            |signature| signature.signature[63] ^= 1,
            |signature| signature.signature.truncate(63),
        ];
        for (index, change) in changes.iter().enumerate() {
            let mut changed = signed.clone();
            change(changed.signature.as_mut().unwrap());
            assert_eq!(changed.verify(), Err(OfferError::Signature), "change {index}");
        }
        // Another signer cannot claim the signature.
        let mut other = signed.clone();
        other.signature.as_mut().unwrap().signer = self::key().public();
        assert_eq!(other.verify(), Err(OfferError::Signature));
    }

    #[test]
    fn the_digest_of_the_work_covers_what_is_executed() {
        let signed = job().digest().unwrap();
        let changes: [fn(&mut JobForNode); 7] = [
            |job| job.job_file = "/shared/other.yaml".into(),
            |job| job.source.sha256[31] = 6,
            |job| job.source.bytes += 1,
            |job| job.overrides[0].1 = "2".into(),
            |job| job.overrides.swap(0, 1),
            |job| drop(job.overrides.pop()),
            // The same texts, in other places.
            |job| {
                let moved = job.overrides.pop().unwrap();
                job.expected.as_mut().unwrap().settings.insert(0, moved);
            },
        ];
        for (index, change) in changes.iter().enumerate() {
            let mut changed = job();
            change(&mut changed);
            assert_ne!(changed.digest(), Some(signed), "change {index}");
        }
        let changes: [fn(&mut ExpectedJob); 4] = [
            |expected| expected.salt.push('x'),
            |expected| expected.job_file.push('x'),
            |expected| expected.component.push('x'),
            |expected| expected.settings[0].1.push('x'),
        ];
        for (index, change) in changes.iter().enumerate() {
            let mut changed = job();
            change(changed.expected.as_mut().unwrap());
            assert_ne!(changed.digest(), Some(signed), "change {index}");
        }
        let elsewhere = JobForNode { node: NodeId(4), proof: "other".into(), ..job() };
        assert_eq!(elsewhere.digest(), Some(signed), "the same for all agents");
        assert_eq!(JobForNode { expected: None, ..job() }.digest(), None);
    }

    #[test]
    fn a_private_key_is_read_back_and_not_shown() {
        let text = SigningKey::new_text().unwrap();
        let key = SigningKey::parse(&format!("{text}\n")).unwrap();
        let secret = text.strip_prefix("sandmill-signing-key:").unwrap();
        assert!(!format!("{key:?}").contains(secret));
        assert_ne!(
            SigningKey::parse(&SigningKey::new_text().unwrap()).unwrap().public(),
            key.public()
        );
        for wrong in
            ["", secret, &text[..text.len() - 1], &format!("{text}00"), &key.public().to_string()]
        {
            assert!(SigningKey::parse(wrong).is_none(), "{wrong}");
        }
        let link = LinkKey::new().unwrap();
        assert_eq!(format!("{link:?}"), format!("LinkKey({})", link.name()));
    }
}
