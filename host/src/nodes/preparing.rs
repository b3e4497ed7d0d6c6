//! Prepares a job on an agent's machine: fetches the job file and the entry script, and finds what the job needs.

use super::agent_error::AgentError;
use super::agent_options::{AgentOptions, LoadJob};
use super::fetched_job::{FetchedJob, open_store};
use super::proof::is_shared;
use super::scratch::Scratch;
use super::signed_job::{check_asked, check_found, check_job_file};
use super::spill_fetch::SpillFetch;
use crate::bus::{JobForNode, NodeBackends, Offer};
use crate::engine::{
    JobFile, LogStore, backend_names, is_run_id, make_worker_folders, node_request, settings,
    worker_dir,
};
use crate::model::JobDir;
use crate::node::{self, NodeJob, NodeRole, SpillCopies};
use crate::opening::folder_at_its_path;
use crate::spec::{JobSpec, JobStorePlace};
use rustix::fs::Mode;
use std::sync::Arc;

/// A job that the machine can run workers of.
#[derive(Debug)]
pub(super) struct PreparedPart {
    pub(super) job: NodeJob,
    /// The job's objects in its store.
    pub(super) objects: Arc<dyn LogStore>,
    /// A folder of this machine, which only this part of the job uses. It has copies of the planner's files.
    pub(super) scratch: Scratch,
    /// Whether the folder of workers' files is in `scratch`. Otherwise all machines share it.
    pub(super) is_folder_own: bool,
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
    /// What computes with models.
    pub(super) backends: NodeBackends,
    /// Keeps the files of the entry script.
    _fetched: FetchedJob,
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
    if !is_run_id(&asked.run) {
        return Err(AgentError::Run);
    }
    let JobForNode { store, job, tenant, source, .. } = asked;
    let (place, objects) = open_store(store, (job, tenant), &options.node)?;
    check_shared(&*objects, asked, &place)?;
    let policy = &options.node.policy;
    let fetched = FetchedJob::fetch(&*objects, source, policy, options.work_dir.as_deref())?;
    let job_file = JobFile::new(&asked.job_file, &asked.overrides);
    let spec = load(&job_file, &fetched.given, policy).map_err(AgentError::JobFile)?;
    check_job_file(asked, &spec)?;
    check_named(asked, &spec)?;
    let mut request = node_request(&spec, &job_file)?;
    let scratch = scratch(options)?;
    let is_folder_own = place.folder().is_none();
    let folder = match is_folder_own {
        true => scratch.dir(),
        false => {
            let store = request.job_store.clone().ok_or(AgentError::NoStore)?;
            worker_dir(&store.join(&spec.name), &asked.run)
        }
    };
    let first_worker = asked.node.first_worker().ok_or(AgentError::Number)?;
    request.job_dir = folder.root().to_owned();
    request.listed = Some(asked.listed.clone());
    let workers = spec.process_count;
    let say = &mut |line: &str| (options.say)(line);
    let (found, mut job) = node::prepare(spec.clone(), options.node.clone(), &request, say)?;
    let settings = settings(&spec, &found);
    check_found(asked, &found.component, &settings)?;
    let notices = job.lease_gpus(say)?;
    found.notices.iter().chain(&notices).for_each(|notice| (options.say)(notice));
    job.share(folder.clone(), NodeRole::RunsWorkers(asked.node));
    job.read_spill_from(scratch.dir().spill());
    if is_folder_own {
        job.own_folder();
        job.give_models()?;
    }
    let libraries = backend_names(&found);
    let devices = if libraries.is_empty() { Vec::new() } else { job.device_kinds() };
    let backends = NodeBackends { libraries, devices };
    let component = found.component;
    Ok(PreparedPart {
        job,
        objects,
        scratch,
        is_folder_own,
        folder,
        first_worker,
        component,
        settings,
        workers,
        backends,
        _fetched: fetched,
    })
}

impl PreparedPart {
    /// What fetches copies of the planner's files.
    ///
    /// # Errors
    /// If it cannot be started.
    pub(super) fn spill_copies(&self, run: &str) -> Result<SpillCopies, AgentError> {
        let folder = self.scratch.dir().spill();
        SpillFetch::start(self.objects.clone(), run, folder).map_err(AgentError::Thread)
    }
}

/// Checks that the job file has what the leader says of the job.
fn check_named(asked: &JobForNode, spec: &JobSpec) -> Result<(), AgentError> {
    if spec.name != asked.job {
        return Err(AgentError::OtherJob);
    }
    let place = spec.job_store.as_ref().ok_or(AgentError::NoStore)?;
    let is_same = place.to_string() == asked.store && spec.settings.tenant == asked.tenant;
    if is_same { Ok(()) } else { Err(AgentError::OtherStore) }
}

/// Checks that the leader uses the store that the job names on this machine.
fn check_shared(
    objects: &dyn LogStore,
    asked: &JobForNode,
    place: &JobStorePlace,
) -> Result<(), AgentError> {
    let store = place.to_string();
    let advice = match place {
        JobStorePlace::Folder(_) => "the machines must share job_store at the same path",
        JobStorePlace::Address(_) => {
            "the machines must reach the same store (check the datastores, and variables such as AWS_ENDPOINT_URL)"
        }
    };
    match is_shared(objects, &asked.run, asked.node, &asked.proof) {
        Ok(true) => Ok(()),
        Ok(false) => Err(AgentError::NotShared { store, advice }),
        Err(source) => Err(AgentError::Unreadable { store, source }),
    }
}

/// A folder of this machine for the files of the job's workers.
fn scratch(options: &AgentOptions) -> Result<Scratch, AgentError> {
    let root = options.work_dir.as_deref().ok_or(AgentError::NoWorkDir)?;
    let scratch = Scratch::new(root).map_err(|error| AgentError::local("use", root, error))?;
    let made = make_worker_folders(&scratch.dir()).and_then(|()| {
        let spill = scratch.dir().spill();
        folder_at_its_path(&spill, Mode::RWXU).map(drop).map_err(|error| (spill, error))
    });
    made.map_err(|(folder, error)| AgentError::local("make", &folder, error))?;
    Ok(scratch)
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
