//! Finds the jobs below a folder and their states, for `jobs`, `clean` and `metrics`.

use super::config::Config;
use super::exit::Problem;
use super::policy::PolicyArgument;
use crate::engine::{JobStanding, JobState, StoredJob, is_locked};
use crate::model::{JobDir, JobStatus};
use crate::report::History;
use jiff::Timestamp;
use serde::Serialize;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

/// The number of levels of folders that are searched for job directories.
const MAX_DEPTH: u32 = 4;

/// The jobs that a command works on.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct RootArgument {
    /// The folder that is searched for job directories, four levels deep; links are not followed [default:
    /// $SANDMILL_JOBS_ROOT, else jobs_root of the user's config file, else jobs].
    #[arg(long, value_name = "DIR")]
    pub(super) root: Option<PathBuf>,
}

impl RootArgument {
    pub(super) fn folder(&self) -> Result<PathBuf, Problem> {
        match &self.root {
            Some(root) => Ok(root.clone()),
            None => Ok(Config::load(&PolicyArgument::default())?.jobs_root()),
        }
    }
}

/// The state of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub(super) enum CurrentState {
    /// The job is running.
    Running,
    /// The job waits for other jobs to free resources.
    Waiting,
    /// The job's process is gone: the process was killed, or the machine went down. Or the job's results could not be
    /// written to their address.
    Interrupted,
    /// The job is completed.
    Completed,
    /// The job failed.
    Failed,
    /// The job was cancelled.
    Cancelled,
}

impl CurrentState {
    pub(super) const ALL: [Self; 6] = [
        Self::Running,
        Self::Waiting,
        Self::Interrupted,
        Self::Completed,
        Self::Failed,
        Self::Cancelled,
    ];

    /// The name in JSON and on the command line.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Waiting => "waiting",
            Self::Interrupted => "interrupted",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }

    /// The state of a job with these facts.
    pub(super) fn determine(state: &JobState, history: &History, is_locked: bool) -> Self {
        match (is_locked, state.status) {
            (true, _) if history.waits_since.is_some() => Self::Waiting,
            (true, _) => Self::Running,
            (false, JobStanding::Running) => Self::Interrupted,
            // Another run writes the results.
            (false, _) if state.is_unpublished => Self::Interrupted,
            (false, JobStanding::Completed) => Self::Completed,
            (false, JobStanding::Failed) => Self::Failed,
            (false, JobStanding::Cancelled) => Self::Cancelled,
        }
    }

    /// The state of a job in a job store.
    pub(super) fn of_stored(job: &StoredJob) -> Self {
        match job.status {
            _ if job.is_running() => Self::Running,
            Some(JobStatus::Completed) if job.is_unpublished => Self::Interrupted,
            Some(JobStatus::Completed) => Self::Completed,
            Some(JobStatus::Failed) => Self::Failed,
            Some(JobStatus::Cancelled) => Self::Cancelled,
            None => Self::Interrupted,
        }
    }

    /// Whether the job has a process.
    pub(super) fn is_live(self) -> bool {
        matches!(self, Self::Running | Self::Waiting)
    }
}

impl fmt::Display for CurrentState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A job directory that was found.
#[derive(Debug)]
pub(super) struct FoundJob {
    /// The directory, as a path that begins with the given root.
    pub(super) dir: PathBuf,
    pub(super) state: JobState,
    pub(super) history: History,
    pub(super) now: CurrentState,
}

impl FoundJob {
    /// The tenant on whose behalf the job runs; empty if unknown.
    pub(super) fn tenant(&self) -> &str {
        let noted = self.state.started_by.as_ref().map(|by| by.tenant.as_str());
        noted.unwrap_or(&self.history.tenant)
    }

    /// When the job ended. If the job was interrupted: the time of its last event. `None` while the job has a
    /// process.
    pub(super) fn ended(&self) -> Option<Timestamp> {
        let last = self.history.last.unwrap_or(self.state.started);
        (!self.now.is_live()).then(|| self.state.ended.unwrap_or(last))
    }
}

/// Returns all jobs below a folder, with the most recently started job first. Also returns an error for each
/// job or subfolder that could not be read.
///
/// # Errors
/// If the folder itself cannot be read.
pub(super) fn jobs_below(root: &Path) -> std::io::Result<(Vec<FoundJob>, Vec<String>)> {
    let (dirs, mut troubles) = job_dirs_below(root)?;
    let mut found = Vec::new();
    dirs.iter().for_each(|dir| add_job(dir, &mut found, &mut troubles));
    found.sort_by(|one, other| {
        (other.state.started, &one.dir).cmp(&(one.state.started, &other.dir))
    });
    troubles.sort();
    Ok((found, troubles))
}

/// Returns the job directories below a folder, sorted, or the folder itself if it is one. Also returns an error for each
/// subfolder that could not be read.
///
/// # Errors
/// If the folder itself cannot be read.
pub(super) fn job_dirs_below(root: &Path) -> std::io::Result<(Vec<PathBuf>, Vec<String>)> {
    let mut found = Vec::new();
    let mut troubles = Vec::new();
    let is_job = |dir: &Path| JobDir::new(dir).state_file().symlink_metadata().is_ok();
    if is_job(root) {
        found.push(root.to_owned());
    } else {
        let mut folders = vec![(root.to_owned(), 0)];
        while let Some((folder, depth)) = folders.pop() {
            let entries = match fs::read_dir(&folder) {
                Ok(entries) => entries,
                Err(error) if depth == 0 => return Err(error),
                Err(error) => {
                    troubles.push(format!("{}: {error}", folder.display()));
                    continue;
                }
            };
            for entry in entries.flatten() {
                // The type of the entry itself: links are not followed.
                if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    continue;
                }
                let path = entry.path();
                if is_job(&path) {
                    found.push(path);
                } else if depth + 1 < MAX_DEPTH {
                    folders.push((path, depth + 1));
                }
            }
        }
    }
    found.sort();
    Ok((found, troubles))
}

/// Adds the job in this directory to `found`. If it cannot be read, adds the reason to `troubles`.
fn add_job(dir: &Path, found: &mut Vec<FoundJob>, troubles: &mut Vec<String>) {
    let job_dir = JobDir::new(dir);
    let state = match JobState::read(&job_dir) {
        Ok(Some(state)) => state,
        Ok(None) => return,
        Err(error) => return troubles.push(error.to_string()),
    };
    // There are no events if the job has just begun, or if its logs were removed.
    let history = History::read(&job_dir).unwrap_or_default();
    let now = CurrentState::determine(&state, &history, is_locked(dir));
    found.push(FoundJob { dir: dir.to_owned(), state, history, now });
}

#[cfg(test)]
pub(super) mod testing {
    use std::path::Path;

    /// Creates a job directory whose job was started at this time and has this status.
    pub(in crate::cli) fn job(dir: &Path, started: &str, status: &str) {
        let name = dir.file_name().unwrap().to_string_lossy();
        let ended = if status == "running" { None } else { Some(started) };
        let state = serde_json::json!({
            "version": 2, "name": name, "id": "run-1", "status": status, "output": "output",
            "output_file": "rows.txt", "pid": 4_000_000, "begun": started, "started": started,
            "ended": ended, "times_resumed": 0, "job_file": null, "result": null, "output_size": null,
        });
        std::fs::create_dir_all(dir.join("output")).unwrap();
        std::fs::write(dir.join("output/rows.txt"), "1\n").unwrap();
        std::fs::write(dir.join("job.json"), state.to_string()).unwrap();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_are_found_and_links_are_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        let job = testing::job;
        job(&root.join("a/one"), "2026-11-01T10:00:00Z", "completed");
        job(&root.join("two"), "2026-11-02T10:00:00Z", "running");
        // Sandmill does not search inside job directories or in folders that are too deep.
        job(&root.join("two/output/three"), "2026-11-02T10:00:00Z", "failed");
        job(&root.join("1/2/3/4/five"), "2026-11-02T10:00:00Z", "failed");
        std::os::unix::fs::symlink(root.join("a"), root.join("link")).unwrap();
        fs::create_dir(root.join("bad")).unwrap();
        fs::write(root.join("bad/job.json"), "{\"version\": 1}").unwrap();
        let (found, troubles) = jobs_below(root).unwrap();
        let reported: Vec<_> = found.iter().map(|job| (job.state.name.as_str(), job.now)).collect();
        assert_eq!(
            reported,
            [("two", CurrentState::Interrupted), ("one", CurrentState::Completed)]
        );
        assert!(troubles.len() == 1 && troubles[0].contains("version is 1"), "{troubles:?}");
        assert_eq!(jobs_below(&root.join("two")).unwrap().0.len(), 1);
        assert!(jobs_below(&root.join("missing")).is_err());
    }
}
