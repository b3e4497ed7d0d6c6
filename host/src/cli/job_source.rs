//! The job that `status`, `logs`, `explain` and `cancel` work on: a job directory, or a job in a job store.

use super::config::Config;
use super::datastores::DatastoresArgument;
use super::exit::Problem;
use super::job_store_place::open_place;
use super::jobs::stored_in;
use super::jobs_found::CurrentState;
use super::policy::PolicyArgument;
use super::which::{JobArgument, is_job_dir};
use crate::compile::Cache;
use crate::engine::{CancelRequest, JobState, LastWord, StorePlace, StoredView, is_locked};
use crate::model::{JobDir, on_one_line, only_name, shell_word};
use crate::report::{History, LogFolders, ReportPaths, Resume};
use anyhow::{Context, anyhow};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The environment variable with the job store.
const STORE_VARIABLE: &str = "SANDMILL_JOB_STORE";

/// The job that a command works on, which may be in a job store.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct AnyJobArgument {
    #[command(flatten)]
    job: JobArgument,
    /// Finds the job by its name in this job store (job_store of the job file), on any machine that has the store. The
    /// job may run on other machines [default: $SANDMILL_JOB_STORE, if no job directory is found].
    #[arg(long, value_name = "STORE")]
    store: Option<PathBuf>,
    #[command(flatten)]
    pub(super) datastores: DatastoresArgument,
}

/// Where a job is.
#[derive(Debug)]
pub(super) enum JobSource {
    /// The job's directory, as shown to the user.
    Directory(PathBuf),
    /// A job in a job store, and the store as shown to the user.
    Store(Box<StoredView>, PathBuf),
}

impl AnyJobArgument {
    /// Finds the job.
    ///
    /// # Errors
    /// If there is no such job, or if the job store cannot be read.
    pub(super) fn find(&self) -> Result<JobSource, Problem> {
        self.find_below(&Config::load(&PolicyArgument::default())?)
    }

    /// As [`find`](Self::find), with this config file.
    pub(super) fn find_below(&self, config: &Config) -> Result<JobSource, Problem> {
        if let Some(store) = &self.store {
            return self.in_store(store, config);
        }
        let found = self.job.dir_below(config);
        let is_found = found.as_deref().is_ok_and(is_job_dir);
        let variable = std::env::var_os(STORE_VARIABLE).filter(|value| !value.is_empty());
        match variable.filter(|_| !is_found && self.may_be_name()) {
            Some(store) => self.in_store(Path::new(&store), config),
            None => found.map(JobSource::Directory),
        }
    }

    /// The job as it was given.
    #[cfg(feature = "server")]
    pub(super) fn given(&self) -> Option<&Path> {
        self.job.given()
    }

    /// Whether the job was not given as a path.
    fn may_be_name(&self) -> bool {
        self.job.given().is_none_or(|given| only_name(given).is_some())
    }

    fn in_store(&self, store: &Path, config: &Config) -> Result<JobSource, Problem> {
        let place = open_place(store, &self.datastores)?;
        let name = match self.job.given() {
            Some(name) => name.to_string_lossy().into_owned(),
            None => newest_in(&place)?,
        };
        let view = open_stored(&place, &name, config)?;
        Ok(JobSource::Store(Box::new(view), store.to_owned()))
    }
}

/// Opens a job in a job store, with copies of its logs in the user's cache folder.
pub(super) fn open_stored(
    store: &StorePlace,
    name: &str,
    config: &Config,
) -> Result<StoredView, Problem> {
    let Some(cache) = config.cache_dir(None).or_else(Cache::default_folder) else {
        return Err(Problem::usage(anyhow!(
            "there is no folder for copies of the job's logs, because none of SANDMILL_CACHE_DIR, XDG_CACHE_HOME \
             and HOME is set: set SANDMILL_CACHE_DIR to one of your folders"
        )));
    };
    StoredView::open(store, name, &cache).map_err(Problem::usage)
}

/// The job in a job store that wrote the last record.
fn newest_in(store: &StorePlace) -> Result<String, Problem> {
    let newest = stored_in(store)?.into_iter().max_by_key(|job| job.last_record);
    let none = || Problem::usage(anyhow!("the job store {} has no jobs", store.shown()));
    newest.map(|job| job.name).ok_or_else(none)
}

/// A job, and what is known about it now.
pub(super) struct KnownJob {
    /// The job directory. `None` if the job is in a job store.
    pub(super) dir: Option<PathBuf>,
    /// The job as written on a command line.
    pub(super) word: String,
    pub(super) state: JobState,
    pub(super) history: History,
    pub(super) paths: ReportPaths,
    pub(super) logs: LogFolders,
    /// Whether the job has a process.
    pub(super) is_live: bool,
    /// `process 411`, or `process 411 on machine-1`.
    pub(super) process: String,
    /// `None` if the job is in a job directory.
    pub(super) stored: Option<KnownInStore>,
}

/// What only a job store says about a job.
pub(super) struct KnownInStore {
    /// The job's folder or address in the store.
    pub(super) place: String,
    pub(super) last_word: Option<LastWord>,
    /// The last request to cancel the job that still counts.
    pub(super) cancel: Option<CancelRequest>,
}

impl KnownJob {
    /// Without the result of a job whose results are not all written: the job has not ended.
    fn without_unpublished_result(mut self) -> Self {
        if self.state.is_unpublished {
            self.history.result = None;
            self.state.result = None;
        }
        self
    }

    pub(super) fn now(&self) -> CurrentState {
        CurrentState::determine(&self.state, &self.history, self.is_live)
    }
}

impl JobSource {
    /// Reads what is known about the job now.
    ///
    /// # Errors
    /// If it cannot be read.
    pub(super) fn read(&mut self) -> Result<KnownJob, Problem> {
        match self {
            Self::Directory(dir) => read_directory(dir),
            Self::Store(view, store) => {
                view.read_logs().map_err(Problem::usage)?;
                read_stored(view, store)
            }
        }
    }

    /// Checks whether the job has a process, and then reads its new logs. Returns false only if the logs have
    /// everything that the process wrote.
    ///
    /// # Errors
    /// If the job store cannot be read.
    pub(super) fn is_live(&mut self) -> Result<bool, Problem> {
        match self {
            Self::Directory(dir) => Ok(is_locked(dir)),
            Self::Store(view, _) => {
                view.read_logs().map_err(Problem::usage)?;
                Ok(view.is_live())
            }
        }
    }

    /// The folders with the job's logs now. `None` if they stay those of the first [`read`](Self::read).
    pub(super) fn new_logs(&self) -> Option<LogFolders> {
        match self {
            Self::Directory(_) => None,
            Self::Store(view, _) => Some(logs_of(view)),
        }
    }

    /// The pause between two looks at a job that is followed.
    pub(super) fn interval(&self) -> Duration {
        match self {
            Self::Directory(_) => Duration::from_millis(300),
            Self::Store(..) => Duration::from_secs(1),
        }
    }
}

fn current_dir() -> Result<PathBuf, Problem> {
    std::env::current_dir().context("the current folder cannot be found").map_err(Problem::usage)
}

fn read_directory(path: &Path) -> Result<KnownJob, Problem> {
    let current_dir = current_dir()?;
    let dir = JobDir::new(current_dir.join(path));
    let Some(state) = JobState::read(&dir).map_err(Problem::usage)? else {
        return Err(Problem::usage(anyhow!(
            "{} is not a job directory: it has no job.json; name the folder that `sandmill run` made \
             (jobs/<the job's name> unless --job-dir said otherwise)",
            path.display()
        )));
    };
    let history = match History::read(&dir) {
        Ok(history) => history,
        // The job has just begun.
        Err(error) if error.kind() == ErrorKind::NotFound => History::default(),
        Err(error) => {
            return Err(Problem::usage(anyhow!("{}: {error}", dir.events().display())));
        }
    };
    let logs = LogFolders::new(vec![dir.clone()], state.node_logs());
    // The recorded path of the output is relative to the job directory if the output is in the job directory.
    let output = dir.root().join(&state.output);
    let rows = state.output_file.as_ref().map_or(output.clone(), |file| output.join(file));
    // The other fields are only for writing reports, which these commands do not do.
    let paths = ReportPaths {
        drops_rows: state.output_file.is_none(),
        resume: resume(&state),
        logs: Some(logs.clone()),
        ..ReportPaths::new(state.name.clone(), dir.clone(), rows, current_dir)
    };
    Ok(KnownJob {
        word: shell_word(&path.display().to_string()),
        is_live: is_locked(dir.root()),
        process: format!("process {}", state.pid),
        dir: Some(dir.root().to_owned()),
        state,
        history,
        paths,
        logs,
        stored: None,
    }
    .without_unpublished_result())
}

/// How to resume a job from its directory.
pub(super) fn resume(state: &JobState) -> Resume {
    let command = state.started_by.as_ref().map_or(&[][..], |by| &by.command);
    Resume::for_command(command, state.job_file.is_some())
}

/// How to resume a job whose directory is on another machine.
pub(super) fn resume_elsewhere(state: &JobState) -> Resume {
    let command = state.started_by.as_ref().map_or(&[][..], |by| &by.command);
    match &state.job_file {
        Some(file) => Resume::elsewhere(command, &file.path, &file.overrides),
        None => Resume::ByProgram,
    }
}

fn logs_of(view: &StoredView) -> LogFolders {
    LogFolders::new(view.leader_logs(), view.node_logs())
}

/// The history that the logs of a job in a job store say. Without events, it is empty.
pub(super) fn stored_history(view: &StoredView) -> Result<History, Problem> {
    match History::read(logs_of(view)) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(History::default()),
        Err(error) => Err(Problem::usage(error)),
        Ok(history) => Ok(history),
    }
}

/// The state of a job in a job store.
///
/// # Errors
/// If this version cannot read it, or if no run of the job counts.
pub(super) fn stored_state(view: &StoredView) -> Result<JobState, Problem> {
    if view.is_superseded() {
        return Err(Problem::usage(anyhow!(
            "job {} has no run that counts: it did not begin, or a run with --overwrite is about to begin; try \
             again later",
            view.name()
        )));
    }
    view.state().map_err(Problem::usage)
}

/// The process that leads a job in a job store, or led it last: `process 411 on machine-1`.
pub(super) fn leader_of(view: &StoredView, state: &JobState) -> String {
    match view.last_word() {
        Some(word) => format!("process {} on {}", word.leader.pid, on_one_line(&word.leader.host)),
        None => format!("process {}", state.pid),
    }
}

fn read_stored(view: &StoredView, store: &Path) -> Result<KnownJob, Problem> {
    let name = view.name();
    let state = stored_state(view)?;
    let logs = logs_of(view);
    let output = state.output_shown();
    let rows = state.output_file.as_ref().map(|file| output.join(file));
    let rows = rows.unwrap_or_else(|| output.to_owned());
    let word = format!("{} --store {}", shell_word(name), shell_word(&store.display().to_string()));
    // A leader of an earlier version has no logs in the store.
    let latest = view.leader_logs().pop().or_else(|| view.node_logs());
    let latest = latest.unwrap_or_else(|| JobDir::new(""));
    let paths = ReportPaths {
        drops_rows: state.output_file.is_none(),
        resume: resume_elsewhere(&state),
        logs: Some(logs.clone()),
        word: Some(word.clone()),
        ..ReportPaths::new(state.name.clone(), latest, rows, current_dir()?)
    };
    Ok(KnownJob {
        dir: None,
        word,
        process: leader_of(view, &state),
        history: stored_history(view)?,
        state,
        paths,
        logs,
        is_live: view.is_live(),
        stored: Some(KnownInStore {
            place: view.place().to_owned(),
            last_word: view.last_word().cloned(),
            cancel: view.cancel_request().cloned(),
        }),
    }
    .without_unpublished_result())
}
