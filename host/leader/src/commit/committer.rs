//! The committer: a thread that makes finished mini-batches durable, in groups.
//!
//! What the journal refers to is on the disk before the journal refers to it. A mini-batch is in
//! the journal before the leader learns that it is committed, and before its files get their final
//! names. The steps of a group, in `group`, follow these two rules. The order of the steps
//! guarantees that no row is lost or duplicated:
//!
//! 1. Check everything: rows are where their workers say, and files can be published.
//! 2. Sync the files that wait to be published.
//! 3. Copy the rows to the output file: in commit order, or, if the output is ordered, in the order
//!    of ids. Read them back, compare them with the workers' checksums, and sync them. (If the
//!    file's modification time changes in between, another program may have written to the file.
//!    Then the committer reads back the whole file at the job's end.) Rows that must wait for a
//!    lower id stay in their part file, which is synced. If many rows come from mini-batches
//!    without files, these rows are copied and read back before the rest of their group arrives.
//!    Then little is left to copy and sync when a job ends.
//! 4. Journal the group in one transaction: the ends of the mini-batches, the new length of the output, the
//!    positions of rows in part files, the files with their destinations, and notes.
//! 5. Publish the files: move them to their final names. If files are appended to others, copy them to the
//!    positions in the journal, sync them, and only then remove their sources.
//! 6. Notify the leader. If no rows wait in part files, notify the workers too: they may overwrite the
//!    group's rows.
//!
//! The journal does not record where rows are in the output: that follows from the order of its entries.
//!
//! At a job's end, the committer publishes the files that `init` and `shutdown` left (if the job
//! has completed), appends the rows that still wait for a lower id, and journals the end. If the
//! output file does not consist of lines (for example Parquet), a separate process (`typed_output`)
//! makes it under a temporary name before the committer journals the end. In such a job, rows are
//! appended to another file, which stays until the end is journaled. If the output has one file per
//! worker, the committer leaves out step 3: the rows stay in the part files, and the folder of
//! output files is made at the end (`parts_output`).
//!
//! After a crash between any two steps, the output holds more than the journal records, or some
//! files do not have their final names yet. `recover` restores the state that the journal
//! describes. If neither the output nor a part file holds all rows of a mini-batch, `recover`
//! removes the mini-batch from the journal, so that the mini-batch runs again. Wherever an old file is
//! replaced by a new one, the module `replace` does it. Between the steps are points at which tests kill the
//! process ([`fail_point`](crate::fail_point)).

use super::error::CommitError;
use super::message::{CommitReply, CommitRequest, Success};
use super::queue::{CommitQueue, CommitTask};
use super::rows::RowsOutput;
use super::store::CommitState;
use super::target::CommitTarget;
use crate::journal::Journal;
use crate::model::{Failure, JobStatus, ReceiptTotals, Restored};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;
use tracing::{Span, debug, error_span};

/// The shortest time between the beginnings of two groups. If a group is full of bytes, a fifth of this is
/// enough. If a group is full of requests, or a flush was requested, it begins immediately.
const GROUP_INTERVAL: Duration = Duration::from_millis(100);

/// A group with this many bytes of rows is full. A full group begins earlier, because its space in the part
/// files can then be reused earlier, and the part files occupy less memory.
const FULL_GROUP_BYTES: u64 = 4 << 20;

/// The leader's handle of the committer thread. The drop commits what was submitted, but does not
/// mark the job as finished. It waits for the thread, unless [`abandon`](Self::abandon) was called.
#[derive(Debug)]
pub(crate) struct Committer {
    queue: Arc<CommitQueue>,
    thread: Option<JoinHandle<()>>,
    receipts: Arc<Mutex<ReceiptTotals>>,
}

impl Committer {
    /// Brings the output into the state that the journal describes, and starts the thread. Returns what the
    /// journal holds. This is empty if the journal is new.
    ///
    /// With `retry_failed`, mini-batches that failed for good are removed from the journal, so that they run
    /// again. Mini-batches whose rows are lost run again in any case.
    ///
    /// Fails if the output cannot be created or repaired, or if the thread cannot be started. The next start
    /// continues the repair.
    pub(crate) fn start(
        target: CommitTarget,
        journal: Journal,
        retry_failed: bool,
        replies: mpsc::UnboundedSender<CommitReply>,
    ) -> Result<(Self, Restored), CommitError> {
        let (store, restored) = super::recover::recover(target, journal, retry_failed)?;
        // Small groups are useful only if their rows leave the part files, so that workers can
        // reuse the space.
        let copies_rows = store.rows.as_ref().is_some_and(RowsOutput::takes_all);
        let queue =
            Arc::new(CommitQueue::new(if copies_rows { FULL_GROUP_BYTES } else { u64::MAX }));
        let receipts = Arc::new(Mutex::new(store.journal.receipt_totals().clone()));
        let commit_thread =
            CommitThread { queue: queue.clone(), store, replies, receipts: receipts.clone() };
        let job = Span::current();
        let run = move || job.in_scope(|| commit_thread.run());
        let thread = std::thread::Builder::new().name("sandmill-commit".into()).spawn(run);
        let thread = thread.map_err(CommitError::Thread)?;
        Ok((Self { queue, thread: Some(thread), receipts }, restored))
    }

    /// Queues a request. Does nothing after a fatal error, which was already sent as a reply.
    pub(crate) fn submit(&self, request: CommitRequest) {
        self.queue.submit(request);
    }

    /// The sums of all receipts in the journal.
    pub(crate) fn receipts(&self) -> ReceiptTotals {
        self.receipts.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Commits immediately what was submitted. Call this when no further requests are on their way.
    pub(crate) fn flush(&self) {
        self.queue.flush();
    }

    /// Commits what was submitted, syncs the output, and records the job's end in the journal. Then sends
    /// [`CommitReply::Finished`].
    pub(crate) fn end_job(&self, status: JobStatus) {
        self.queue.request_end(status);
    }

    /// Keeps the drop from waiting for the committer. Call this if the disk does not respond.
    pub(crate) fn abandon(&mut self) {
        self.thread = None;
    }
}

impl Drop for Committer {
    fn drop(&mut self) {
        self.queue.close();
        if let Some(thread) = self.thread.take() {
            // If the thread panicked, the closed reply channel has already shown that.
            let _ = thread.join();
        }
    }
}

/// The part that runs on the thread.
struct CommitThread {
    queue: Arc<CommitQueue>,
    store: CommitState,
    replies: mpsc::UnboundedSender<CommitReply>,
    /// The sums of all receipts in the journal, for the leader.
    receipts: Arc<Mutex<ReceiptTotals>>,
}

impl CommitThread {
    fn run(mut self) {
        // Stops the queue even after a panic, so that it does not grow without end.
        let _stop = StopOnDrop(self.queue.clone());
        if let Err(error) = self.serve() {
            self.store.give_up();
            self.reply(CommitReply::Fatal(error));
        }
    }

    fn serve(&mut self) -> Result<(), CommitError> {
        let mut earliest = Instant::now();
        while let Some(task) = self.queue.next(earliest) {
            match task {
                CommitTask::Copy(requests) => {
                    let rejected = self.store.copy(requests)?;
                    self.reject(rejected);
                }
                CommitTask::Commit(group) => {
                    earliest = Instant::now() + GROUP_INTERVAL;
                    let _inside = error_span!("commit", requests = group.len()).entered();
                    let begun = Instant::now();
                    self.commit(group)?;
                    debug!(seconds = begun.elapsed().as_secs_f64(), "committed");
                }
                CommitTask::EndJob(status) => {
                    let replies = self.replies.clone();
                    // If the leader no longer listens, it is ending.
                    let mut on_progress = |bytes| drop(replies.send(CommitReply::Finishing(bytes)));
                    let _inside = error_span!("commit", finish = true).entered();
                    let begun = Instant::now();
                    self.store.end_job(status, &mut on_progress)?;
                    debug!(seconds = begun.elapsed().as_secs_f64(), "the output is complete");
                    self.reply(CommitReply::Finished);
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    fn commit(&mut self, mut group: Vec<CommitRequest>) -> Result<(), CommitError> {
        loop {
            let done = self.store.commit(group)?;
            let totals = self.store.journal.receipt_totals();
            let mut known = self.receipts.lock().unwrap_or_else(PoisonError::into_inner);
            known.clone_from(totals);
            drop(known);
            self.reject(done.rejected);
            if !done.reclaimable.is_empty() {
                self.reply(CommitReply::Reclaimable(done.reclaimable));
            }
            if !done.committed.is_empty() {
                self.reply(CommitReply::Committed(done.committed));
            }
            group = done.postponed;
            if group.is_empty() {
                return Ok(());
            }
        }
    }

    fn reject(&self, rejected: Vec<(Success, Failure)>) {
        for (success, failure) in rejected {
            self.reply(CommitReply::Rejected { id: success.id, failure });
        }
    }

    fn reply(&self, reply: CommitReply) {
        // If the leader no longer listens, it is ending.
        let _ = self.replies.send(reply);
    }
}

struct StopOnDrop(Arc<CommitQueue>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.stop();
    }
}

/// What a job's end is waiting for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StillWriting {
    /// The disk has been silent for this long.
    Silent(Duration),
    /// The output file is being made, and this many bytes are done.
    Finishing(u64),
}

/// Waits for the reply to [`Committer::end_job`]. `None` if the committer sent nothing for as long as
/// `patience`. Calls `on_progress` each time that another `interval` has passed.
pub(crate) async fn last_reply(
    replies: &mut mpsc::UnboundedReceiver<CommitReply>,
    (interval, patience): (Duration, Duration),
    on_progress: &mut dyn FnMut(StillWriting),
) -> Option<Result<(), CommitError>> {
    let mut silent_since = Instant::now();
    let mut reported_at = Instant::now();
    let mut done = None;
    loop {
        let wait = interval.min(patience.saturating_sub(silent_since.elapsed()));
        match tokio::time::timeout(wait, replies.recv()).await {
            Err(_) if silent_since.elapsed() >= patience => return None,
            Err(_) => on_progress(StillWriting::Silent(silent_since.elapsed())),
            Ok(Some(CommitReply::Finished)) => return Some(Ok(())),
            Ok(Some(CommitReply::Fatal(error))) => return Some(Err(error)),
            Ok(Some(CommitReply::Finishing(bytes))) => {
                // A repeated byte count means that the process makes no progress.
                if done.replace(bytes) != Some(bytes) {
                    silent_since = Instant::now();
                } else if silent_since.elapsed() >= patience {
                    return None;
                }
                if reported_at.elapsed() >= interval {
                    reported_at = Instant::now();
                    on_progress(StillWriting::Finishing(bytes));
                }
            }
            Ok(Some(
                CommitReply::Committed(_)
                | CommitReply::Reclaimable(_)
                | CommitReply::Rejected { .. },
            )) => {
                silent_since = Instant::now();
            }
            Ok(None) => return Some(Err(CommitError::BrokeDown)),
        }
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;

#[cfg(test)]
#[path = "resume_tests.rs"]
mod resume_tests;

#[cfg(test)]
#[path = "read_back_tests.rs"]
mod read_back_tests;

#[cfg(test)]
#[path = "parts_output_tests.rs"]
mod parts_output_tests;

#[cfg(any(test, feature = "testing"))]
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    clippy::unwrap_used,
    reason = "test code: a panic may fail the test, and all numbers are small"
)]
#[path = "crash_world.rs"]
mod crash_world;

#[cfg(any(test, feature = "testing"))]
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "a share of a journal of some KiB"
)]
#[path = "fuzzing.rs"]
pub(super) mod fuzzing;

#[cfg(test)]
#[path = "crash_tests.rs"]
mod crash_tests;
