//! Why a job directory cannot be claimed, for people.

use crate::model::is_full;
use std::io;
use std::path::{Path, PathBuf};

/// Why a job directory, or its output folder, cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum ClaimError {
    /// The job runs.
    #[error(
        "{who} is running in {}: wait for it to end, or name another place with --job-dir",
        dir.display()
    )]
    Running {
        /// The job directory.
        dir: PathBuf,
        /// The job and its process.
        who: String,
    },
    /// The job is completed.
    #[error(
        "job '{name}' is finished in {}: use --overwrite to run it again, or --job-dir for another \
         place",
        dir.display()
    )]
    Finished {
        /// The job directory.
        dir: PathBuf,
        /// The job.
        name: String,
    },
    /// The job is completed, and its result is not what this job would come to.
    #[error(
        "job '{name}' is finished in {}, and its result is not reused: {why}; use --overwrite to \
         run it again, or --job-dir for another place",
        dir.display()
    )]
    NotReused {
        /// The job directory.
        dir: PathBuf,
        /// The job.
        name: String,
        /// What is not as it was.
        why: String,
    },
    /// The job was not completed, and something that decides its rows has changed since.
    #[error(
        "job '{name}' in {} {how} before it was finished, with {mini_batches} mini-batch{} and {rows} row{} \
         done, which do not fit what the job is now: {why}. To keep them, undo that and run the job again; to run \
         it from its beginning, use --overwrite, or --job-dir for another place",
        dir.display(),
        if *mini_batches == 1 { "" } else { "es" },
        if *rows == 1 { "" } else { "s" }
    )]
    Changed {
        /// The job directory.
        dir: PathBuf,
        /// The job.
        name: String,
        /// How it ended: "failed".
        how: &'static str,
        /// Mini-batches that succeeded.
        mini_batches: u64,
        /// Rows of these.
        rows: u64,
        /// What is not as it was.
        why: String,
    },
    /// There is no job to take up.
    #[error("{} is no job directory (it holds no job.json): name the one of a job that was begun", .0.display())]
    NoJob(PathBuf),
    /// The job was made by a program, which alone knows it.
    #[error(
        "{} does not say which job file the job '{name}' was made of: run it again with what began \
         it, and it is taken up",
        dir.display()
    )]
    NoJobFile {
        /// The job directory.
        dir: PathBuf,
        /// The job.
        name: String,
    },
    /// The directory is another job's.
    #[error(
        "{} is the directory of job '{found}', not of '{wanted}': name another place with --job-dir",
        dir.display()
    )]
    OtherJob {
        /// The job directory.
        dir: PathBuf,
        /// Whose it is.
        found: String,
        /// Who wants it.
        wanted: String,
    },
    /// The folder is no job directory.
    #[error(
        "{} is no job directory (it holds '{holds}' but no job.json): name an empty or new folder \
         with --job-dir",
        dir.display()
    )]
    Foreign {
        /// The folder.
        dir: PathBuf,
        /// Something in it.
        holds: String,
    },
    /// `job.json` says nothing that this version understands.
    #[error(
        "{} cannot be understood ({what}): name another place with --job-dir, or use the version \
         of sandmill that wrote it",
        path.display()
    )]
    UnknownState {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// There is something else.
    #[error("{} is no folder: name an empty or new one", .0.display())]
    NotAFolder(PathBuf),
    /// The output folder and the job directory are in each other's way.
    #[error(
        "the output folder {} is in the way of the job directory {}: name a folder for `output` \
         that neither holds the job directory nor is one of its own folders",
        output.display(), dir.display()
    )]
    Misplaced {
        /// The output folder.
        output: PathBuf,
        /// The job directory.
        dir: PathBuf,
    },
    /// Another running job writes to the output folder.
    #[error(
        "another running job writes to the output folder {}: name another folder for `output`",
        .0.display()
    )]
    OutputInUse(PathBuf),
    /// The output folder holds what is not this job's.
    #[error(
        "the output folder {} is not empty (it holds '{holds}'): it may be another job's output; \
         name an empty or new folder for `output`",
        output.display()
    )]
    OutputNotEmpty {
        /// The output folder.
        output: PathBuf,
        /// Something in it.
        holds: String,
    },
    /// The job's own earlier output folder holds more than its rows.
    #[error(
        "the output folder {} holds '{holds}' beside the rows of the earlier run, and only those \
         can be replaced: remove its files yourself, or name an empty or new folder for `output`",
        output.display()
    )]
    OutputHasMore {
        /// The output folder.
        output: PathBuf,
        /// Something in it.
        holds: String,
    },
    /// What the job would copy to its parent is to go where another job's copies are.
    #[error(
        "parent: {} holds what another job, or the same job in another job directory, copied there, and nothing of \
         that is overwritten: name another folder for `parent`, give the job another name, or move that folder away",
        .0.display()
    )]
    ParentTaken(PathBuf),
    /// A folder cannot be made or written to.
    #[error("cannot {what} {}: {source}; name one where you may write", path.display())]
    Folder {
        /// What was tried, as in "make the folder".
        what: &'static str,
        /// With which.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The file system says no.
    #[error("cannot {what} {}: {source}", path.display())]
    Io {
        /// What was tried, as in "make the folder".
        what: &'static str,
        /// With what.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
}

impl ClaimError {
    pub(super) fn folder(what: &'static str, path: &Path, source: io::Error) -> Self {
        Self::Folder { what, path: path.to_owned(), source }
    }

    pub(super) fn io(what: &'static str, path: &Path, source: io::Error) -> Self {
        Self::Io { what, path: path.to_owned(), source }
    }

    /// Whether there was no room on the disk, or for this user.
    pub(super) fn is_full(&self) -> bool {
        matches!(self, Self::Io { source, .. } if is_full(source))
    }
}
