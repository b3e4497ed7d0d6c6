//! Prepares a job on an agent's machine: reads the job file, and finds what the job needs.

use super::agent_error::AgentError;
use super::agent_options::{AgentOptions, LoadJob};
use super::proof::is_shared;
use super::signed_job::{check_asked, check_found, check_job_file};
use crate::bus::{JobForNode, Offer};
use crate::engine::{JobFile, is_run_id, node_request, settings, worker_dir};
use crate::model::JobDir;
use crate::node::{self, NodeJob, NodeRole};

/// A job that the machine can run workers of.
#[derive(Debug)]
pub(super) struct PreparedPart {
    pub(super) job: NodeJob,
    /// The folder of workers' files.
    pub(super) folder: JobDir,
    /// The number of the first worker.
    pub(super) first_worker: u32,
    /// The SHA-256 of the entry script's component.
    pub(super) component: String,
    /// The settings that decide the job's rows.
    pub(super) settings: Vec<(String, String)>,
    /// The most workers at the same time.
    pub(super) workers: u32,
}

/// Prepares the job of an offer. May take minutes, because the entry script is compiled.
///
/// # Errors
/// If the job cannot run here.
pub(super) fn prepare(
    asked: &JobForNode,
    offer: &Offer,
    options: &AgentOptions,
    load: &LoadJob,
) -> Result<PreparedPart, AgentError> {
    check_asked(asked, offer)?;
    let job_file = JobFile::new(&asked.job_file, &asked.overrides);
    let spec = load(&job_file, &options.node.policy).map_err(AgentError::JobFile)?;
    check_job_file(asked, &spec)?;
    if spec.name != asked.job {
        return Err(AgentError::OtherJob(job_file.path));
    }
    let mut request = node_request(&spec, &job_file)?;
    let store = request.job_store.clone().ok_or(AgentError::NoStore)?;
    if !is_run_id(&asked.run) {
        return Err(AgentError::Run);
    }
    let folder = worker_dir(&store.join(&spec.name), &asked.run);
    let not_shared = |source| AgentError::NotShared { folder: folder.root().to_owned(), source };
    match is_shared(&folder, asked.node, &asked.proof) {
        Ok(true) => {}
        Ok(false) => return Err(not_shared(None)),
        Err(error) => return Err(not_shared(Some(error))),
    }
    let first_worker = asked.node.first_worker().ok_or(AgentError::Number)?;
    request.job_dir = folder.root().to_owned();
    let workers = spec.process_count;
    let say = &mut |line: &str| (options.say)(line);
    let (found, mut job) = node::prepare(spec.clone(), options.node.clone(), &request, say)?;
    let settings = settings(&spec, &found);
    check_found(asked, &found.component, &settings)?;
    let notices = job.lease_gpus(say)?;
    found.notices.iter().chain(&notices).for_each(|notice| (options.say)(notice));
    job.share(folder.clone(), NodeRole::RunsWorkers(asked.node), &offer.leader);
    Ok(PreparedPart { job, folder, first_worker, component: found.component, settings, workers })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_cannot_lead_out_of_the_store() {
        assert!(is_run_id("20261128T195109Z-bd213d9b"));
        for text in ["", ".", "..", "/", "/a", "a/b", "../a", "a/", "a/.."] {
            assert!(!is_run_id(text), "{text}");
        }
    }
}
