//! What an agent checks of a job's signature: before it loads anything, that the policy of its machine names the signer.
//! Later, that the leader asks for what was signed, and that the machine has it.

use super::agent_error::AgentError;
use crate::bus::{ExpectedJob, JobForNode, Offer, OfferError};
use crate::engine::without_chosen_backends;
use crate::model::printable;
use crate::spec::{JobSpec, OperatorPolicy, SignerRefusal};
use std::path::{Component, Path, PathBuf};

/// Why an agent takes no part in an offered job.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum OfferRefusal {
    /// The offer is not what it claims to be.
    #[error(transparent)]
    Offer(#[from] OfferError),
    /// The policy of the machine does not name the signer.
    #[error(transparent)]
    Signer(#[from] SignerRefusal),
}

/// The policy for an offered job: that of the machine, narrowed for the job's signer.
///
/// # Errors
/// If the signature is wrong, or the policy allows no job of this signer.
pub(super) fn policy_for(
    offer: &Offer,
    policy: &OperatorPolicy,
) -> Result<OperatorPolicy, OfferRefusal> {
    Ok(policy.for_signer(offer.verify()?)?)
}

/// Checks that the leader asks for what was signed.
///
/// # Errors
/// If the leader asks for something else.
pub(super) fn check_asked(asked: &JobForNode, offer: &Offer) -> Result<(), AgentError> {
    let signed = offer.signature.as_ref().map(|signature| signature.work);
    let is_signed =
        signed == asked.digest() && (&asked.job, &asked.run) == (&offer.job, &offer.run);
    if is_signed { Ok(()) } else { Err(AgentError::NotSigned) }
}

/// Whether a leader asks for the work that an earlier leader of the run has asked of the same node. How the path of the job
/// file is spelled does not count.
pub(super) fn is_same_work(before: &JobForNode, asked: &JobForNode) -> bool {
    let unsalted = |job: &JobForNode| {
        let expected = job.expected.clone();
        let expected = expected.map(|expected| ExpectedJob { salt: String::new(), ..expected });
        let job_file = without_dots(&job.job_file);
        JobForNode { proof: String::new(), job_file, expected, ..job.clone() }
    };
    unsalted(before) == unsalted(asked)
}

/// The path without `.` and `..`. The agent may not have the folders, so links are not followed.
fn without_dots(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                plain.pop();
            }
            part => plain.push(part),
        }
    }
    plain
}

/// Checks that the job file is the one that was signed.
///
/// # Errors
/// If it is another one.
pub(super) fn check_job_file(asked: &JobForNode, spec: &JobSpec) -> Result<(), AgentError> {
    match &asked.expected {
        Some(expected) if expected.job_file != spec.job_file_sha256 => {
            Err(AgentError::OtherJobFile)
        }
        _ => Ok(()),
    }
}

/// Checks that this machine has found the entry script and the settings that were signed.
///
/// # Errors
/// If it has found others.
pub(super) fn check_found(
    asked: &JobForNode,
    component: &str,
    settings: &[(String, String)],
) -> Result<(), AgentError> {
    let Some(expected) = &asked.expected else { return Ok(()) };
    let mut different = differing_settings(&expected.settings, settings);
    if expected.component != component {
        different.insert(0, "entry_script".to_owned());
    }
    if different.is_empty() { Ok(()) } else { Err(AgentError::Different(different.join(", "))) }
}

/// The names of the settings that the node found with other values than the leader. The libraries that machines choose for
/// models do not count: [`NodeBackends`](crate::bus::NodeBackends) are compared.
pub(super) fn differing_settings(
    leader: &[(String, String)],
    node: &[(String, String)],
) -> Vec<String> {
    let [leader, node] = [leader, node].map(without_chosen_backends);
    let changed = leader.iter().filter(|setting| !node.contains(setting));
    let is_known = |name: &String| leader.iter().any(|(known, _)| known == name);
    let added = node.iter().filter(|(name, _)| !is_known(name));
    let changed = changed.map(|(name, _)| name.clone());
    changed.chain(added.map(|(name, _)| printable(name).into_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{ContentRef, NodeId};

    #[test]
    fn another_spelling_of_the_path_does_not_change_the_work() {
        let source = ContentRef { sha256: [1; 32], bytes: 1 };
        let before = JobForNode {
            node: NodeId(3),
            proof: "one".to_owned(),
            store: "/shared/jobs".to_owned(),
            tenant: "default".to_owned(),
            source,
            job_file: "/home/ada/job.yaml".into(),
            overrides: Vec::new(),
            job: "nightly".to_owned(),
            run: "1".to_owned(),
            expected: None,
            listed: Default::default(),
        };
        let elsewhere = JobForNode {
            proof: "two".to_owned(),
            job_file: "/srv/../home/./ada/job.yaml".into(),
            ..before.clone()
        };
        assert!(is_same_work(&before, &elsewhere));
        // The paths in it begin at its folder.
        let copy = JobForNode { job_file: "/home/bob/job.yaml".into(), ..before.clone() };
        assert!(!is_same_work(&before, &copy));
        let other = vec![("run_max_try".to_owned(), "1".to_owned())];
        assert!(!is_same_work(&before, &JobForNode { overrides: other, ..before.clone() }));
        let other = ContentRef { sha256: [2; 32], bytes: 1 };
        assert!(!is_same_work(&before, &JobForNode { source: other, ..before.clone() }));
    }
}
