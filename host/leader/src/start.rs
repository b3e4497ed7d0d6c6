//! Starts the running parts of a prepared job: the node, the journal and the committer.

use super::EngineError;
use super::commit::{
    CommitReply, CommitRequest, CommitTarget, Committer, FinalFailure, OutputConversion,
    SavedResults, Success, WorkerFolders, note_unpublished, worker_of,
};
use super::job::{PreparedJob, ResumedJob};
use super::machine::SettledMiniBatch;
use super::nodes::{JobOnNode, RunningNode, StartRequest};
use super::presence::Presence;
use super::stored_plan::PlanUse;
use crate::event::Resumed;
use crate::fail_point;
use crate::journal::{JobIdentity, Journal, JournalError};
use crate::model::{JobDir, OutputAction, ReceiptRun, Restored};
use crate::opening::folder_at_its_path;
use crate::protocol::node::PlanOptions;
use rustix::fs::Mode;
use std::fs::File;
use std::io;
use std::panic::resume_unwind;
use std::path::PathBuf;
use std::thread;
use tokio::sync::mpsc;
use tracing::Span;

/// The running parts of a job.
pub(super) struct Started<R> {
    /// The running job on the node.
    pub(super) node: R,
    pub(super) committer: Committer,
    pub(super) commits: mpsc::UnboundedReceiver<CommitReply>,
    /// What an earlier run completed.
    pub(super) restored: Restored,
    /// See [`BeginRequest::epoch`](super::nodes::BeginRequest::epoch).
    pub(super) epoch: u64,
    /// Shows other machines that this process leads the job. `None` if a lock does, or there are no others.
    pub(super) presence: Option<Presence>,
}

/// What commits results, and what it has found of an earlier run.
struct StartedCommitter {
    committer: Committer,
    restored: Restored,
    epoch: u64,
    presence: Option<Presence>,
}

/// Starts all parts. Moves `job.resumed`, which describes an earlier run, out of `job`.
pub(super) fn start<N: JobOnNode + Send>(
    job: &mut PreparedJob<N>,
) -> Result<Started<N::Running>, EngineError> {
    let failed = |error: N::Error| EngineError(error.to_string());
    if let Some(remote) = &job.remote {
        make_worker_folders(&remote.folder).map_err(|(folder, error)| {
            let folder = folder.display();
            EngineError(format!(
                "the folder {folder} for the workers' files cannot be made: {error}"
            ))
        })?;
    }
    let request = StartRequest {
        plan: PlanOptions {
            retried_files: job.unreadable.clone(),
            stores_spill: job.remote.is_some(),
            ..job.plan.as_ref().map(PlanUse::options).unwrap_or_default()
        },
        remote: job.remote.clone(),
    };
    let mut node = job.node.start(&request).map_err(failed)?;
    let (replies, commits) = mpsc::unbounded_channel();
    let started = if job.resumed.is_some() {
        node.plan().map_err(failed)?;
        start_committer(job, replies)?
    } else {
        let span = Span::current();
        // In parallel: the node waits for the planner's process, and the journal waits for the disk.
        thread::scope(|scope| {
            let start = || span.in_scope(|| start_committer(job, replies));
            let thread = thread::Builder::new().spawn_scoped(scope, start);
            let thread = thread.map_err(|e| {
                EngineError(format!("the thread that makes the journal cannot be started: {e}"))
            })?;
            let planned = node.plan();
            let started = thread.join().unwrap_or_else(|panic| resume_unwind(panic));
            planned.map_err(failed)?;
            started
        })?
    };
    // This must come last, because the start of the committer removes the models of an earlier run.
    give_models(job)?;
    job.claim.reserve_space(&job.job_dir);
    node.watch().map_err(failed)?;
    let StartedCommitter { committer, restored, epoch, presence } = started;
    Ok(Started { node, committer, commits, restored, epoch, presence })
}

/// What the first event reports about an earlier run.
pub(super) fn resumed(restored: &Restored, has_earlier_run: bool) -> Option<Resumed> {
    let &Restored { succeeded, failed, items, rows, .. } = restored;
    has_earlier_run.then_some(Resumed { succeeded, failed, items, rows })
}

fn start_committer<N: JobOnNode>(
    job: &mut PreparedJob<N>,
    replies: mpsc::UnboundedSender<CommitReply>,
) -> Result<StartedCommitter, EngineError> {
    let failed = |error: JournalError| EngineError(error.to_string());
    let (mut journal, retry_failed, log) = match job.resumed.take() {
        Some(ResumedJob { journal, retry_failed, log, .. }) => {
            // Workers on other machines may still run.
            if job.remote.is_none() {
                settle_workers(job);
            }
            (journal, retry_failed, log)
        }
        None => {
            job.claim.sync().map_err(|e| EngineError(e.to_string()))?;
            let journal = Journal::create(&job.job_dir.journal(), &identity(job));
            fail_point::pass("journal-made");
            (journal.map_err(failed)?, false, None)
        }
    };
    let led = match (&job.store, log) {
        (Some(_), Some(log)) => journal.lead(log, job.claim.state()),
        (Some(store), None) => {
            // A job that has begun without a store gets one now.
            let folders = WorkerFolders::in_job_dir(job.job_dir.clone());
            note_unpublished(&mut journal, &folders).map_err(failed)?;
            store.begin(&mut journal, job.claim.state())
        }
        (None, _) => Ok(()),
    };
    led.map_err(failed)?;
    fail_point::pass("log-led");
    let run = journal.job().map_err(failed)?.id;
    let presence = job.store.as_mut().and_then(|store| store.show_presence(&run));
    let saved = job.store.as_ref().and_then(|store| store.saved_results(&run));
    let epoch = journal.log_position().map_err(failed)?.map_or(0, |position| position.number);
    let (committer, restored) =
        Committer::start(commit_target(job, saved), journal, retry_failed, replies)
            .map_err(|e| EngineError(e.to_string()))?;
    Ok(StartedCommitter { committer, restored, epoch, presence })
}

/// Puts models and side inputs where workers find them. If an earlier leader has done this for workers on other
/// machines, they may still use these files, which are the same.
fn give_models<N: JobOnNode>(job: &PreparedJob<N>) -> Result<(), EngineError> {
    let failed = |error: N::Error| EngineError(error.to_string());
    let Some(remote) = &job.remote else { return job.node.give_models().map_err(failed) };
    let given = remote.folder.root().join("given");
    if given.exists() {
        return Ok(());
    }
    job.node.give_models().map_err(failed)?;
    let noted = File::create(&given).and_then(|file| file.sync_all());
    noted.map_err(|e| EngineError(format!("the file {} cannot be made: {e}", given.display())))
}

/// Makes the folders in which workers write if a leader on another machine commits their results. The error names the
/// folder that cannot be made.
///
/// # Errors
/// If a folder cannot be made.
pub fn make_worker_folders(dir: &JobDir) -> Result<(), (PathBuf, io::Error)> {
    for folder in [dir.parts(), dir.work(), dir.links(), dir.models(), dir.logs()] {
        folder_at_its_path(&folder, Mode::RWXU).map_err(|error| (folder, error))?;
    }
    Ok(())
}

/// Cleans up after the workers of a killed leader, before their folders are removed. Skips entries
/// that cannot be read: the workers' logs are in other folders.
fn settle_workers<N: JobOnNode>(job: &PreparedJob<N>) {
    for entry in std::fs::read_dir(job.worker_dir().work()).into_iter().flatten().flatten() {
        if let Some(worker) = entry.file_name().to_str().and_then(worker_of) {
            job.node.settle(worker);
        }
    }
}

/// The job's identity, for the journal.
fn identity<N>(job: &PreparedJob<N>) -> JobIdentity {
    JobIdentity {
        name: job.spec.name.clone(),
        id: job.claim.id().to_owned(),
        entry_script_digest: job.component.clone(),
        settings: job.settings.clone(),
        created: job.claim.started(),
    }
}

/// Where results go.
fn commit_target<N: JobOnNode>(job: &PreparedJob<N>, saved: Option<SavedResults>) -> CommitTarget {
    let appends = job.spec.worker.output_action == OutputAction::AppendRow;
    let name = &job.spec.append_row_file_name;
    let format = &job.spec.output_format;
    let conversion = (appends && !format.kind.is_lines())
        .then(|| OutputConversion { name: name.clone(), make: job.node.finisher() });
    CommitTarget {
        worker_folders: match &job.remote {
            Some(remote) if remote.is_folder_shared => {
                WorkerFolders::in_store(remote.folder.clone())
            }
            _ => WorkerFolders::in_job_dir(job.job_dir.clone()),
        },
        saved,
        output: job.claim.output().to_owned(),
        output_file: appends.then(|| format.appended(name)),
        ordered: job.spec.settings.ordered,
        on_conflict: job.spec.settings.output_files,
        header_wanted: format.has_header(),
        is_plain: format.is_plain(),
        part_suffix: format.part_ending().filter(|_| appends),
        conversion,
        receipt_run: ReceiptRun {
            run: job.claim.id().to_owned(),
            tenant: job.spec.settings.tenant.clone(),
            component: job.component.clone(),
            engine: format!("sandmill {}", env!("CARGO_PKG_VERSION")),
        },
    }
}

/// The commit request for a settled mini-batch.
pub(super) fn commit_request(settled: SettledMiniBatch) -> CommitRequest {
    let SettledMiniBatch { worker, report, receipt } = settled;
    match report.outcome {
        Ok(segment) => CommitRequest::Success(Success {
            worker,
            id: report.id,
            attempt: report.attempt,
            items: report.items,
            is_short: report.is_short,
            segment,
            header: report.header,
            has_files: report.has_files,
            stamp: report.stamp,
            receipt,
        }),
        Err(failure) => CommitRequest::Failure(FinalFailure {
            id: report.id,
            attempts: report.attempt,
            worker: Some(worker),
            items: report.items,
            failure,
            stamp: report.stamp,
            receipt,
        }),
    }
}
