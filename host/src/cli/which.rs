//! Finds the job that a command works on: a job directory, the name of a job in the folder of jobs, or the
//! newest job there.

use super::config::Config;
use super::exit::Problem;
use crate::engine::JobState;
use crate::model::{JobDir, nearest, only_name};
use anyhow::anyhow;
use std::path::{Path, PathBuf};

/// The maximum number of names that an error lists.
const MAX_NAMED: usize = 10;

/// The job that a command works on.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct JobArgument {
    /// The job's directory, or the job's name, for jobs/NAME or for NAME in the folder of $SANDMILL_JOBS_ROOT
    /// or of the user's config file [default: the newest job there].
    #[arg(value_name = "JOB")]
    job: Option<PathBuf>,
}

impl JobArgument {
    /// The job as it was given.
    pub(super) fn given(&self) -> Option<&Path> {
        self.job.as_deref()
    }

    /// The job's directory, as shown to the user.
    ///
    /// # Errors
    /// If there is no such job.
    pub(super) fn dir_below(&self, config: &Config) -> Result<PathBuf, Problem> {
        find(self.job.as_deref(), &config.jobs_root()).map_err(Problem::usage)
    }
}

fn find(job: Option<&Path>, jobs: &Path) -> anyhow::Result<PathBuf> {
    let Some(given) = job else {
        return newest(jobs).ok_or_else(|| {
            anyhow!(
                "there is no job in {}; name a job directory, or start a job with: sandmill run \
                 JOB.yaml",
                jobs.display()
            )
        });
    };
    if is_job_dir(given) {
        return Ok(given.to_owned());
    }
    if let Some(name) = only_name(given) {
        let named = jobs.join(name);
        if is_job_dir(&named) {
            return Ok(named);
        }
        if !given.exists() {
            return Err(unknown(&name.to_string_lossy(), jobs));
        }
    }
    // The command itself reports what is wrong with this path.
    Ok(given.to_owned())
}

/// The error for a name that is neither a directory nor a job.
fn unknown(name: &str, jobs: &Path) -> anyhow::Error {
    let known = by_age(jobs);
    let shown = jobs.display();
    if known.is_empty() {
        return anyhow!(
            "{name} is not a job directory, and there is no job in {shown}: name a job directory"
        );
    }
    let names: Vec<&str> = known.iter().map(|(name, _)| name.as_str()).collect();
    let like = nearest(name, names.iter().copied());
    let like = like.map_or_else(|| ".".to_owned(), |like| format!("; did you mean {like}?"));
    let more = names.len().saturating_sub(MAX_NAMED);
    let list = names[..names.len().min(MAX_NAMED)].join(", ");
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    anyhow!(
        "{name} is not a job directory, and no job in {shown} has this name{like} The jobs \
         there, the newest first: {list}{more}"
    )
}

/// Whether this is the directory of a job.
pub(super) fn is_job_dir(dir: &Path) -> bool {
    JobDir::new(dir).state_file().symlink_metadata().is_ok()
}

fn newest(jobs: &Path) -> Option<PathBuf> {
    by_age(jobs).into_iter().next().map(|(_, dir)| dir)
}

/// The jobs directly below a folder, with their folders' names. The most recently started job comes first.
fn by_age(jobs: &Path) -> Vec<(String, PathBuf)> {
    let entries = std::fs::read_dir(jobs).into_iter().flatten().flatten();
    let mut found: Vec<_> = entries
        .filter_map(|entry| {
            let state = JobState::read(&JobDir::new(entry.path())).ok()??;
            let name = entry.file_name().to_string_lossy().into_owned();
            Some((state.started, name, entry.path()))
        })
        .collect();
    found.sort_by(|one, other| (other.0, &other.1).cmp(&(one.0, &one.1)));
    found.into_iter().map(|(_, name, path)| (name, path)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::config::DEFAULT_JOBS_FOLDER;
    use crate::cli::jobs_found::testing::job;
    use insta::assert_snapshot;

    #[test]
    fn a_job_is_found_by_folder_by_name_or_by_age() {
        let dir = tempfile::tempdir().unwrap();
        let jobs = &dir.path().join(DEFAULT_JOBS_FOLDER);
        let error = |job: Option<&str>| {
            let error = find(job.map(Path::new), jobs).unwrap_err().to_string();
            error.replace(&jobs.display().to_string(), "jobs")
        };
        assert_snapshot!(error(None), @"there is no job in jobs; name a job directory, or start a job with: sandmill run JOB.yaml");
        assert_snapshot!(error(Some("iris")), @"iris is not a job directory, and there is no job in jobs: name a job directory");
        job(&jobs.join("older"), "2026-11-01T10:00:00Z", "completed");
        job(&jobs.join("iris"), "2026-11-03T10:00:00Z", "completed");
        job(&jobs.join("zoo"), "2026-11-02T10:00:00Z", "failed");
        std::fs::create_dir(jobs.join("none")).unwrap();
        let found = |job: Option<&str>| find(job.map(Path::new), jobs).unwrap();
        assert_eq!(found(None), jobs.join("iris"));
        assert_eq!(found(Some("zoo")), jobs.join("zoo"));
        let whole = jobs.join("older").display().to_string();
        assert_eq!(found(Some(&whole)), jobs.join("older"));
        assert_eq!(found(Some("/etc")), Path::new("/etc"), "the command reports what is missing");
        assert_snapshot!(error(Some("irsi")), @"irsi is not a job directory, and no job in jobs has this name; did you mean iris? The jobs there, the newest first: iris, zoo, older");
        assert_snapshot!(error(Some("unlike-any")), @"unlike-any is not a job directory, and no job in jobs has this name. The jobs there, the newest first: iris, zoo, older");
    }
}
