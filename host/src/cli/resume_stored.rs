//! `sandmill resume --store`: continues a job on a machine that does not have its job file. The job store has the job.

use super::exit::Problem;
use super::job_source::stored_state;
use crate::bus::SourceToFetch;
use crate::compile::Cache;
use crate::engine::{JobFile, JobState, StoredView};
use crate::model::{Address, shell_word};
use crate::node::NodeOptions;
use crate::nodes::FetchedJob;
use crate::spec::{JobSpec, JobStorePlace};
use anyhow::anyhow;
use std::path::{Path, PathBuf};

/// The folder for the files of entry scripts, in the cache folder.
const WORK_FOLDER: &str = "resumed-jobs";

/// A job that was fetched from its job store.
pub(super) struct ResumedFromStore {
    /// The job's name.
    pub(super) name: String,
    pub(super) job_file: JobFile,
    /// Keeps the entry script's files until it is dropped.
    pub(super) fetched: FetchedJob,
}

/// Fetches a job from its job store, as the user named it.
///
/// # Errors
/// If the job has no run that counts, if the store does not have its job file, or if the policy forbids the store.
pub(super) fn fetch(
    (view, store): (&StoredView, &Path),
    options: &NodeOptions,
) -> Result<ResumedFromStore, Problem> {
    let JobState { job_file, started_by, .. } = stored_state(view)?;
    let name = view.name().to_owned();
    let Some(job_file) = job_file else {
        return Err(Problem::usage(anyhow!(
            "job {name} was made by a program and not by a job file: to resume the job, run that program again"
        )));
    };
    let Some(content) = job_file.source.clone() else {
        return Err(Problem::usage(anyhow!(
            "job {name} was started without a broker, so {} does not have its job file: to continue the job here, \
             copy its files to this machine, and run: sandmill run {}",
            view.place(),
            shell_word(&job_file.path.display().to_string())
        )));
    };
    let tenant = started_by.map(|by| by.tenant).unwrap_or_default();
    let source = SourceToFetch { store: absolute(store)?, tenant, content };
    let cache = options.cache_dir.clone().or_else(Cache::default_folder);
    let work_dir = cache.map(|cache| cache.join(WORK_FOLDER));
    let fetched = FetchedJob::to_lead(&name, &source, options, work_dir.as_deref());
    let fetched = fetched.map_err(Problem::usage)?;
    Ok(ResumedFromStore { name, job_file, fetched })
}

/// Checks that the job's own job store is the one in which it was found. Otherwise it would begin anew in the other one.
///
/// # Errors
/// If it is another one.
pub(super) fn check_place(spec: &JobSpec, store: &Path) -> Result<(), Problem> {
    let name = &spec.name;
    let place = spec.job_store.as_ref();
    let is_same = match place {
        Some(JobStorePlace::Folder(folder)) => {
            let real = folder.canonicalize();
            real.is_ok_and(|real| store.canonicalize().is_ok_and(|store| store == real))
        }
        Some(JobStorePlace::Address(address)) => {
            let ends = |text: &str| text.trim_end_matches('/').to_owned();
            ends(&address.to_string()) == ends(&store.to_string_lossy())
        }
        None => false,
    };
    if is_same {
        return Ok(());
    }
    let place = place.map_or_else(|| "no job store".to_owned(), ToString::to_string);
    Err(Problem::usage(anyhow!(
        "job {name} was found in {}, but its job file names {place}: mount or link the job store there, as on the other \
         machines, or name it in the same way",
        store.display()
    )))
}

/// The job store as all machines could name it.
fn absolute(store: &Path) -> Result<String, Problem> {
    let text = store.to_string_lossy();
    if Address::looks_like_one(&text) {
        return Ok(text.into_owned());
    }
    let folder: PathBuf = store.canonicalize().map_err(Problem::usage)?;
    Ok(folder.display().to_string())
}
