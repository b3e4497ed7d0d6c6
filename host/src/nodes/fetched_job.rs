//! Fetches what this machine needs of another machine's job from the job's store: the texts of the job, and the files of
//! its entry script.

use super::scratch::Scratch;
use crate::bus::SourceToFetch;
use crate::engine::{ClaimError, JobSource, LogStore, SourceError, folder_objects};
use crate::model::{ContentRef, only_name};
use crate::node::{self, NodeError, NodeOptions};
use crate::spec::{FetchedScript, GivenJob, JobStorePlace, OperatorPolicy, SpecErrors};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Why another machine's job is not known on this machine. The texts are shown to users.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FetchJobError {
    /// The place of the store is not one that all machines could mean.
    #[error(
        "its job store is neither an absolute path nor an address, or its name is not that of a folder"
    )]
    Place,
    /// The policy of this machine does not allow the store.
    #[error("the job store cannot be used on this machine: {}", .0.to_string().replace('\n', "; "))]
    Policy(#[from] SpecErrors),
    /// The folder of the store cannot be used.
    #[error(transparent)]
    Folder(#[from] ClaimError),
    /// The store cannot be opened.
    #[error(transparent)]
    Node(#[from] NodeError),
    /// The store does not have what the leader says.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// No folder for the files of workers is known.
    #[error("no folder for the files of workers is known: name one by --work-dir")]
    NoWorkDir,
    /// The folder for files on this machine cannot be used.
    #[error("cannot use {}: {source}; the option --work-dir names another folder", path.display())]
    Local {
        /// The folder.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// A job that was fetched from its store.
#[derive(Debug)]
pub(crate) struct FetchedJob {
    pub(crate) given: GivenJob,
    /// The folder of the entry script. `None` if it was not fetched.
    _folder: Option<Scratch>,
}

/// Opens the part of a job store that belongs to a job. `store`: the place, as another machine names it.
///
/// # Errors
/// If the policy does not allow the store, or it cannot be opened.
pub(super) fn open_store(
    store: &str,
    (job, tenant): (&str, &str),
    options: &NodeOptions,
) -> Result<(JobStorePlace, Arc<dyn LogStore>), FetchJobError> {
    let is_name = only_name(job.as_ref()).is_some_and(|only| only == job);
    let place = JobStorePlace::parse(store).filter(|_| is_name).ok_or(FetchJobError::Place)?;
    options.policy.check_job_store(&place)?;
    let objects: Arc<dyn LogStore> = match &place {
        JobStorePlace::Folder(folder) => folder_objects(folder, job)?,
        JobStorePlace::Address(address) => {
            Arc::new(node::objects_of_job((job, tenant), address, options)?)
        }
    };
    Ok((place, objects))
}

impl FetchedJob {
    /// Fetches a job. If the policy does not allow entry scripts of job stores, fetches only the texts. `work_dir`: the
    /// folder for the entry script's files.
    ///
    /// # Errors
    /// If the store does not have this content, or the disk fails.
    pub(super) fn fetch(
        objects: &dyn LogStore,
        content: &ContentRef,
        policy: &OperatorPolicy,
        work_dir: Option<&Path>,
    ) -> Result<Self, FetchJobError> {
        let source = JobSource::read(objects, content)?;
        let component = source.component();
        let mut script = FetchedScript::default();
        let mut folder = None;
        if policy.refusal_of_stored_scripts().is_none() {
            let root = work_dir.ok_or(FetchJobError::NoWorkDir)?;
            let local = |source| FetchJobError::Local { path: root.to_owned(), source };
            let scratch = Scratch::new(root).map_err(local)?;
            script = source.fetch_script(objects, scratch.dir().root())?;
            folder = Some(scratch);
        }
        let given = GivenJob { text: source.text, script, component };
        Ok(Self { given, _folder: folder })
    }

    /// Fetches a job that this process is to lead.
    ///
    /// # Errors
    /// If the store cannot be opened, or does not have this content.
    pub(crate) fn to_lead(
        job: &str,
        source: &SourceToFetch,
        options: &NodeOptions,
        work_dir: Option<&Path>,
    ) -> Result<Self, FetchJobError> {
        let (_, objects) = open_store(&source.store, (job, &source.tenant), options)?;
        Self::fetch(&*objects, &source.content, &options.policy, work_dir)
    }
}

/// The errors of a job file, with the advice for an entry script that is not on this machine.
pub(crate) fn with_advice(errors: &SpecErrors, policy: &OperatorPolicy) -> String {
    let text = errors.to_string().replace('\n', "; ");
    match policy.refusal_of_stored_scripts() {
        None => text,
        Some(refusal) => format!(
            "{text}; this machine does not get the entry script from the job's store: {refusal}"
        ),
    }
}
