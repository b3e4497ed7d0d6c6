//! Errors of claiming a job directory. The texts are shown to users.

use crate::journal::JournalError;
use crate::model::{JobStatus, is_full};
use sandmill_commit_log::TrialError;
use std::io;
use std::path::{Path, PathBuf};

/// Why a job directory or its output folder cannot be claimed.
#[derive(Debug, thiserror::Error)]
pub enum ClaimError {
    /// The job is running.
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
    /// The job is completed, but its result would differ from the result of a new run.
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
        /// What differs.
        why: String,
    },
    /// The job was not completed, and something that decides its rows has changed since its last run.
    #[error(
        "job '{name}' in {} {how} before it was finished, with {mini_batches} mini-batch{} and {rows} row{} \
         done. These results do not match the current job: {why}. To keep these results, undo the change and \
         run the job again; to start over, use --overwrite, or --job-dir for another place",
        dir.display(),
        if *mini_batches == 1 { "" } else { "es" },
        if *rows == 1 { "" } else { "s" }
    )]
    Changed {
        /// The job directory.
        dir: PathBuf,
        /// The job.
        name: String,
        /// How the last run ended, as in "failed".
        how: &'static str,
        /// Mini-batches that succeeded.
        mini_batches: u64,
        /// Rows of these mini-batches.
        rows: u64,
        /// What differs.
        why: String,
    },
    /// The folder does not hold a job that could resume.
    #[error(
        "{} is not a job directory (it has no job.json): name the directory of a job that was \
         started",
        .0.display()
    )]
    NoJob(PathBuf),
    /// A program created the job, not a job file. Only that program can create the job again.
    #[error(
        "{} does not say which job file job '{name}' was made from: to resume the job, repeat the \
         command that started it",
        dir.display()
    )]
    NoJobFile {
        /// The job directory.
        dir: PathBuf,
        /// The job.
        name: String,
    },
    /// The directory belongs to another job.
    #[error(
        "{} is the directory of job '{found}', not of '{wanted}': name another place with --job-dir",
        dir.display()
    )]
    OtherJob {
        /// The job directory.
        dir: PathBuf,
        /// The job that the directory belongs to.
        found: String,
        /// The job that asked for the directory.
        wanted: String,
    },
    /// The folder is not a job directory.
    #[error(
        "{} is not a job directory (it holds '{holds}' but no job.json): name an empty or new folder \
         with --job-dir",
        dir.display()
    )]
    Foreign {
        /// The folder.
        dir: PathBuf,
        /// One of the folder's entries.
        holds: String,
    },
    /// This version cannot read `job.json`.
    #[error(
        "{} cannot be understood ({what}): name another place with --job-dir, or use the version \
         of sandmill that wrote it",
        path.display()
    )]
    UnknownState {
        /// The file.
        path: PathBuf,
        /// What is wrong with the file.
        what: String,
    },
    /// The path leads to something other than a folder.
    #[error("{} is not a folder: name an empty or new one", .0.display())]
    NotAFolder(PathBuf),
    /// The job store's folder is missing.
    #[error("job_store: there is no folder {}: make it, or mount the shared folder on this machine", .0.display())]
    NoJobStore(PathBuf),
    /// The job store does not do what a commit log needs.
    #[error("job_store: {0}")]
    StoreUnfit(#[from] TrialError),
    /// Another process leads a job, or has started it over, so the results of this one are not published.
    #[error(
        "the results in {} were not written to the store: another process continues the job, or has started it \
         over",
        .0.display()
    )]
    Superseded(PathBuf),
    /// The commit log of a completed job was removed before its results were published.
    #[error(
        "the results of the job in {} were not written to the store, because the commit log of the job is no longer in \
         its job store (sandmill clean --store removes it): copy the results yourself, or start the job over with \
         --overwrite",
        .0.display()
    )]
    UnpublishedLogGone(PathBuf),
    /// Another process leads the job.
    #[error(
        "job '{name}' is running: {leader} leads it (its commit log is in {store}). Wait until it ends, cancel it \
         there, or run this command with --standby, to continue the job if that process is lost"
    )]
    LedElsewhere {
        /// The job.
        name: String,
        /// The process, as in "process 12 on host a".
        leader: String,
        /// The address of the job in the store.
        store: String,
    },
    /// The job's folder in the job store belongs to another user, or other users can write to it.
    #[error(
        "job_store: the commit log in {folder} cannot be trusted: {why}; name another folder for job_store, or give \
         the job another name"
    )]
    StoreNotOwn {
        /// The job's folder or address.
        folder: String,
        /// What is wrong, as a clause.
        why: String,
    },
    /// The job store has the log of another job with the same name.
    #[error(
        "the job store already has a job '{name}', with the output {output} (its commit log is in {store}): give \
         this job another name or another job_store"
    )]
    StoreTaken {
        /// The name of both jobs.
        name: String,
        /// The output folder of the other job.
        output: String,
        /// The folder or address of the job in the store.
        store: String,
    },
    /// The job was completed in another job directory.
    #[error(
        "job '{name}' was completed from another job directory, and its results went to {output} (its commit log is \
         in {store}): use --overwrite to run it again"
    )]
    FinishedElsewhere {
        /// The job.
        name: String,
        /// The output folder.
        output: String,
        /// The folder or address of the job in the store.
        store: String,
    },
    /// The commit log of the run in the job directory has ended, and no other run has begun since.
    #[error(
        "the run in {} no longer counts: its commit log in {store} was ended, by a run with --overwrite that was \
         interrupted, or because the job did not begin; run the job again with --overwrite",
        dir.display()
    )]
    StartedOver {
        /// The job directory.
        dir: PathBuf,
        /// The folder or address of the job in the store.
        store: String,
    },
    /// This version cannot read the job's state in the commit log.
    #[error(
        "the commit log in {store} cannot be understood ({what}): use the version of sandmill that wrote it"
    )]
    UnknownStateInLog {
        /// The folder or address of the job in the store.
        store: String,
        /// What is wrong with it.
        what: String,
    },
    /// The job ended in another job directory, while this process waited to continue it.
    #[error(
        "job '{name}' {} on the machine that this one waited for (its commit log is in {store}){}",
        match status {
            JobStatus::Completed => "was completed",
            JobStatus::Cancelled => "was cancelled",
            JobStatus::Failed => "failed",
        },
        if *status == JobStatus::Completed {
            ""
        } else {
            ": to continue it here, run it without --standby"
        }
    )]
    EndedElsewhere {
        /// The job.
        name: String,
        /// How it ended.
        status: JobStatus,
        /// The folder or address of the job in the store.
        store: String,
    },
    /// The job was completed in another job directory, while this process waited to continue it.
    #[error("job '{name}' was completed on another machine, and its results are in {output}")]
    CompletedElsewhere {
        /// The job.
        name: String,
        /// The address of the results.
        output: String,
    },
    /// The run that this process was to take over is not the job's latest one.
    #[error(
        "run {run} of the job in {} is not taken over: it is not the latest run in {store}, because the job was \
         started over or its log was removed",
        dir.display()
    )]
    NotLatest {
        /// The job directory.
        dir: PathBuf,
        /// The folder or address of the job in the store.
        store: String,
        /// The id of the run.
        run: String,
    },
    /// The output folder of a job with a job store is in the job directory.
    #[error(
        "the output folder {} is in the job directory {}, and a job with a job_store needs one that other \
         machines can write to: name another folder for `output` or with --job-dir",
        output.display(), dir.display()
    )]
    OutputInJobDir {
        /// The output folder.
        output: PathBuf,
        /// The job directory.
        dir: PathBuf,
    },
    /// The job store failed.
    #[error(transparent)]
    JobStore(#[from] JournalError),
    /// The output folder and the job's folder in the job store contain each other.
    #[error(
        "the output folder {} and the job's folder in the job store, {}, are the same or in each other: name \
         another folder for `output` or `job_store`",
        output.display(), store.display()
    )]
    StoreInOutput {
        /// The output folder.
        output: PathBuf,
        /// The folder of the job in the store.
        store: PathBuf,
    },
    /// The job directory belongs to a job with a commit log, and the log is gone.
    #[error(
        "the job in {} has a commit log in the job store, and {store} has none: restore the store, or start over \
         with --overwrite",
        dir.display()
    )]
    LogGone {
        /// The job directory.
        dir: PathBuf,
        /// The folder or address of the job in the store.
        store: String,
    },
    /// The job directory and the job store hold different runs of the job.
    #[error(
        "{} holds run {local} of the job, and the job store {store} holds run {found}: to continue run {found} here, \
         name an empty folder with --job-dir; to start over, use --overwrite",
        dir.display()
    )]
    OtherRun {
        /// The job directory.
        dir: PathBuf,
        /// The folder or address of the job in the store.
        store: String,
        /// The id of the run in the job directory.
        local: String,
        /// The id of the run in the store.
        found: String,
    },
    /// The job has a commit log, and the job file names no store.
    #[error(
        "the job in {} has a commit log in a job store, and the job file no longer names one: set job_store \
         again, also to start over with --overwrite",
        .0.display()
    )]
    StoreNotNamed(PathBuf),
    /// The output folder contains the job directory, or is one of the job directory's own folders.
    #[error(
        "the output folder {} contains the job directory {}, or is one of the job directory's own \
         folders: name another folder for `output`",
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
    /// The output folder holds files that are not this job's.
    #[error(
        "the output folder {} is not empty (it holds '{holds}'): it may be another job's output; \
         name an empty or new folder for `output`",
        output.display()
    )]
    OutputNotEmpty {
        /// The output folder.
        output: PathBuf,
        /// One of the folder's entries.
        holds: String,
    },
    /// The output folder of the job's earlier run holds other files beside the job's rows.
    #[error(
        "the output folder {} holds '{holds}' beside the rows of the earlier run, and only the rows \
         can be replaced: remove the other files yourself, or name an empty or new folder for `output`",
        output.display()
    )]
    OutputHasMore {
        /// The output folder.
        output: PathBuf,
        /// One of the folder's entries.
        holds: String,
    },
    /// The folder in `parent` for the copies of this job's logs holds copies of another job.
    #[error(
        "parent: {} holds files that another job, or the same job in another job directory, copied there, \
         and Sandmill does not overwrite them: name another folder for `parent`, give the job another name, or move \
         that folder away",
        .0.display()
    )]
    ParentTaken(PathBuf),
    /// A folder cannot be created or written to.
    #[error("cannot {what} {}: {source}; name a folder where you may write", path.display())]
    Folder {
        /// What was tried, as in "make the folder".
        what: &'static str,
        /// The folder.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// A file system operation failed.
    #[error("cannot {what} {}: {source}", path.display())]
    Io {
        /// What was tried, as in "make the folder".
        what: &'static str,
        /// The path.
        path: PathBuf,
        /// The error of the system.
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

    /// Whether the error is a full disk, or this user's full quota.
    pub(super) fn is_full(&self) -> bool {
        matches!(self, Self::Io { source, .. } if is_full(source))
    }
}
