//! The policy for the jobs of one signer.

use super::file::OperatorPolicy;
use super::signers::Signer;
use crate::model::SignerKey;

/// Why the policy allows no job of a signer. The text is a clause that names the next step.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SignerRefusal {
    /// The job has no signature.
    #[error(
        "it is not signed, and the policy allows only jobs of {signers} ({policy}): start the job with --signing-key FILE, a key \
         of one of them"
    )]
    Unsigned {
        /// The names of the signers whose jobs are allowed.
        signers: String,
        /// The policy file, and the line with the signers.
        policy: String,
    },
    /// The policy does not have the signer's key.
    #[error(
        "its signer is {key}, which the policy does not name ({policy}): to allow jobs of this signer, add a line below signers, \
         such as `NAME: {{keys: [\"{key}\"]}}`, and restart the agent"
    )]
    Unknown {
        /// The key.
        key: SignerKey,
        /// The policy file, and the line with the signers.
        policy: String,
    },
}

impl OperatorPolicy {
    /// The names of the signers whose jobs an agent may run. `None` if it may run all jobs.
    pub fn signers(&self) -> Option<Vec<&str>> {
        let signers = self.0.as_ref()?.signers.as_ref()?;
        Some(signers.value.iter().map(|signer| signer.name.as_str()).collect())
    }

    /// The policy for jobs of other machines with this signer, narrowed as the policy says. `signer` is `None` if the
    /// job is not signed.
    ///
    /// # Errors
    /// If the policy has signers, and this one is not among them.
    pub fn for_signer(&self, signer: Option<SignerKey>) -> Result<Self, SignerRefusal> {
        let Some((settings, signers)) =
            self.0.as_ref().and_then(|settings| Some((settings, settings.signers.as_ref()?)))
        else {
            return Ok(self.clone());
        };
        let policy = || settings.file_and_line(&signers.origin);
        let Some(key) = signer else {
            let names: Vec<&str> = signers.value.iter().map(|it| it.name.as_str()).collect();
            return Err(SignerRefusal::Unsigned { signers: names.join(", "), policy: policy() });
        };
        let found = signers.value.iter().find(|signer| signer.keys.contains(&key));
        let Some(Signer { roots, models, datastores, entry_script_stores, store_roots, .. }) =
            found
        else {
            return Err(SignerRefusal::Unknown { key, policy: policy() });
        };
        let mut narrowed = settings.clone();
        // A signer with narrower folders for entry scripts must not get them from elsewhere because other signers may.
        narrowed.entry_script_stores = entry_script_stores
            .clone()
            .or(narrowed.entry_script_stores.filter(|_| roots.is_none()));
        narrowed.roots = roots.clone().or(narrowed.roots);
        narrowed.models = models.clone().or(narrowed.models);
        narrowed.datastores = datastores.clone().or(narrowed.datastores);
        narrowed.store_roots = store_roots.clone().or(narrowed.store_roots);
        Ok(Self(Some(narrowed)))
    }
}
