//! Turns a checked job into one that can run: asks the node for what the job needs, and claims the job
//! directory. The claim comes last, so that an earlier error leaves no trace.

use super::ClaimError;
use super::claim::{ClaimRequest, JobDirLock, lock_job_dir, resolve};
use super::job::PreparedOnNode;
use super::job_state::{JobFile, JobStanding, JobState};
use super::job_store::{JobStore, LocalRun};
use super::nodes::{JobOnNode, NodeHandle};
use super::options::LeaderOptions;
use super::prepare_error::PreparationError;
use super::resume::ReadyToResume;
use crate::model::{Address, JobDir, OutputAction};
use crate::protocol::node::PrepareRequest;
use crate::spec::{JobSpec, JobStorePlace};
use sandmill_commit_log::CommitLog;
use std::path::{Path, PathBuf};

/// Prepares a job on a node. `say` receives lines for the user about steps that take time.
///
/// If an earlier run was not completed, the job resumes. But it is refused if something that
/// decides its rows has changed. If the earlier run was completed and nothing has changed, its
/// result is reused.
///
/// # Errors
/// If the job cannot begin.
pub fn prepare<N: NodeHandle>(
    spec: JobSpec,
    options: &LeaderOptions,
    node: N,
    say: &mut dyn FnMut(&str),
) -> Result<PreparedOnNode<N::Job>, PreparationError<N::Error>> {
    let spec = with_earlier_name(spec, options)?;
    let request = prepare_request(&spec, options)?;
    let (found, node) = node.prepare(&request, say).map_err(PreparationError::Node)?;
    let job_dir = JobDir::new(&request.job_dir);
    let output_file = (spec.worker.output_action == OutputAction::AppendRow)
        .then_some(spec.append_row_file_name.as_str());
    let output = request.output.as_deref();
    let results = spec.upload.as_ref().map(Address::to_string);
    let wanted = ClaimRequest { name: &spec.name, output, results, output_file };
    let mut held = lock_job_dir(&job_dir, wanted)?;
    let found_log = find_log(&spec, request.job_store.as_deref(), options, &node, &mut held, say);
    let (store, log) = match found_log {
        Ok(found) => found,
        Err(error) => {
            held.give_up();
            return Err(error);
        }
    };
    let mut ready =
        ReadyToResume { spec, found, node, job_dir, parent: request.parent, store, log };
    match held.earlier().cloned() {
        Some(earlier) if !options.overwrite => {
            ready.node.await_objects(say);
            ready.continue_earlier(held, &earlier, options, say)
        }
        _ => ready.begin(held, options, say),
    }
}

/// Refuses to run a job without the store that has its log: another machine would continue the log.
fn refuse_to_leave_log(held: &JobDirLock, overwrite: bool) -> Result<(), ClaimError> {
    let job_dir = held.job_dir();
    let earlier = held.earlier();
    let has_ended = earlier.is_some_and(|earlier| earlier.status == JobStanding::Completed);
    let is_from_log = earlier.is_some_and(|earlier| earlier.is_from_log);
    // If the job resumes, its journal is opened later, and checked then. A journal that cannot be read is
    // removed, as always.
    let has_log = || overwrite && matches!(LocalRun::read(job_dir), Ok(Some(run)) if run.has_log);
    if (is_from_log && (overwrite || !has_ended)) || has_log() {
        return Err(ClaimError::StoreNotNamed(job_dir.root().to_owned()));
    }
    Ok(())
}

/// The job's store, if it has one, and its log, if the job continues.
type FoundLog = (Option<JobStore>, Option<CommitLog>);

/// Opens the job's store, if it has one, and its log if the job continues. An output folder that machines share is
/// locked first, so that what the store says stays true. `folder`: the store's folder, without links.
fn find_log<J: JobOnNode>(
    spec: &JobSpec,
    folder: Option<&Path>,
    options: &LeaderOptions,
    node: &J,
    held: &mut JobDirLock,
    say: &mut dyn FnMut(&str),
) -> Result<FoundLog, PreparationError<J::Error>> {
    let Some(place) = &spec.job_store else {
        refuse_to_leave_log(held, options.overwrite)?;
        return Ok((None, None));
    };
    let locked = match spec.upload {
        Some(_) => Ok(()),
        None => lock_shared_output(held, folder.map(|folder| folder.join(&spec.name))),
    };
    // The store may say which process has locked the folder.
    let in_use = match locked {
        Err(error @ ClaimError::OutputInUse(_)) => Some(error),
        locked => locked.map(|()| None)?,
    };
    let mut store = match place {
        JobStorePlace::Folder(named) => {
            JobStore::in_folder(folder.unwrap_or(named), spec, options)?
        }
        JobStorePlace::Address(address) => {
            let objects = node.job_objects(spec, address).map_err(PreparationError::Node)?;
            JobStore::at_address(objects, address, spec, options)?
        }
    };
    if let Some(in_use) = in_use {
        return Err(store.name_leader(held, in_use).into());
    }
    let log = match options.overwrite {
        true => store.check_overwrite(held, say).map(|()| None),
        false => store.catch_up(held, say),
    };
    Ok((Some(store), log?))
}

/// Locks the output folder of a job with a store. `store`: the job's folder in it.
fn lock_shared_output(held: &mut JobDirLock, store: Option<PathBuf>) -> Result<(), ClaimError> {
    let output = held.output().to_owned();
    let clashes = |store: &PathBuf| output.starts_with(store) || store.starts_with(&output);
    if let Some(store) = store.filter(clashes) {
        return Err(ClaimError::StoreInOutput { output, store });
    }
    if output.starts_with(held.root()) {
        return Err(ClaimError::OutputInJobDir { output, dir: held.root() });
    }
    held.lock_output()
}

/// If an earlier version of Sandmill began the job in this directory, the output file keeps the
/// name that the earlier version gave it.
fn with_earlier_name(mut spec: JobSpec, options: &LeaderOptions) -> Result<JobSpec, ClaimError> {
    if options.overwrite || spec.earlier_file_name.is_none() {
        return Ok(spec);
    }
    let earlier = JobState::read(&JobDir::new(&options.job_dir))?;
    let earlier = earlier.and_then(|state| state.output_file);
    if let Some(name) = earlier.filter(|name| spec.earlier_file_name.as_ref() == Some(name)) {
        let passed = spec.arguments.iter_mut().skip(spec.own_arguments);
        passed.filter(|it| **it == spec.append_row_file_name).for_each(|it| it.clone_from(&name));
        spec.append_row_file_name = name;
    }
    Ok(spec)
}

/// The request to the node, with the paths that the leader writes to. The paths are resolved once, so that
/// the paths checked against the operator's policy are the paths that are opened.
fn prepare_request(spec: &JobSpec, options: &LeaderOptions) -> Result<PrepareRequest, ClaimError> {
    Ok(PrepareRequest {
        output: spec.output.as_deref().map(resolve).transpose()?,
        parent: spec.parent.as_ref().map(|parent| resolve(&parent.folder)).transpose()?,
        job_store: store_folder(spec)?,
        job_dir: resolve(&absolute(&options.job_dir))?,
        is_own_dir: false,
        job_file: options.job_file.as_ref().map(|file| file.path.clone()),
        begins: options.overwrite || !JobDir::new(&options.job_dir).state_file().exists(),
        listed: None,
        has_remote_workers: options.remote_workers,
    })
}

/// The request to a node of another machine. Its `job_dir` must still be set, and `listed` if the job has inputs in stores.
///
/// # Errors
/// If a path cannot be resolved.
pub fn node_request(spec: &JobSpec, job_file: &JobFile) -> Result<PrepareRequest, ClaimError> {
    Ok(PrepareRequest {
        output: spec.output.as_deref().map(resolve).transpose()?,
        parent: None,
        job_store: store_folder(spec)?,
        job_dir: PathBuf::new(),
        is_own_dir: true,
        job_file: Some(job_file.path.clone()),
        begins: false,
        listed: None,
        has_remote_workers: false,
    })
}

/// The folder of the job's store, without links. `None` if the store is not a folder.
fn store_folder(spec: &JobSpec) -> Result<Option<PathBuf>, ClaimError> {
    spec.job_store.as_ref().and_then(JobStorePlace::folder).map(resolve).transpose()
}

/// The absolute path. Child processes have other working directories, so they get only absolute paths.
fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}
