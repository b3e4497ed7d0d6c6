//! The committer: a thread that makes finished mini-batches durable, in groups.
//!
//! The rule: what the journal refers to is on the disk before the journal has it; the journal has it
//! before anybody is told that it is committed, and before its files get their names. For a group, the
//! steps are these, and their order is the promise that no row is lost or doubled (`group`):
//!
//! 1. All of it is checked: rows lie where the worker says, files can be published.
//! 2. The files that wait to be published are put on the disk.
//! 3. The rows are copied to the output file: in the order of commits, or, for ordered output, in
//!    that of ids. They are read back, held against the workers' checksums and put on the disk (should the file's
//!    time tell that somebody wrote to it meanwhile, all of it is read back at the job's end). What has to
//!    wait for a lower id stays in its part file, which is put on the disk.
//!    Rows of mini-batches without files are copied and read back before the rest of their group is there, as soon as
//!    there are many: then little is left to be copied and to be put on the disk when a job ends.
//! 4. One transaction journals the ends of the mini-batches, how long the output is now, where the rows lie
//!    in the part files, the files with the places they will have, and notes.
//! 5. The files are published: moved to their names; or, where files are appended, copied to the
//!    places that the journal has for them, put on the disk, and only then removed where they were.
//! 6. The leader is told; and, where no rows wait in part files, the workers: they may write over them.
//!
//! The journal does not say where rows lie in the output: that follows from the order of its entries. At a
//! job's end: what `init` and `shutdown` left is published if the job has completed, rows that are
//! held are appended, and the journal notes the end. An output file that is
//! not of lines is made before that, under another name, by a process of its own (`finish`): what rows are
//! appended to is called otherwise, and is there until the end is noted. Where each worker's rows stay in a
//! file of their own, part files take the output's place in step 3, and the folder of these files is made at
//! the end (`split`).
//!
//! After a crash between any two steps the output has more than the journal knows, or files are not at
//! their names yet. `recover` makes it what the journal says; rows that are whole neither in the
//! output nor in a part file are taken out of the journal, and their mini-batches run again. Whatever needs a
//! new file in the place of an old one goes through `replace`. Between the steps are points at which tests end
//! the process ([`fail_point`](crate::fail_point)).

use super::error::CommitError;
use super::message::{CommitReply, CommitRequest, Success};
use super::queue::{Queue, Task};
use super::rows::Rows;
use super::store::Store;
use super::target::CommitTarget;
use crate::journal::Journal;
use crate::model::{Failure, JobStatus, Restored};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;
use tracing::{Span, debug, error_span};

/// Groups begin at least this far apart, or a fifth of it where they are full of bytes, unless they are full of
/// requests or a flush is asked for.
const INTERVAL: Duration = Duration::from_millis(100);

/// A group with so many bytes of rows is full: the sooner room in part files is free, the fewer pages of memory they
/// take.
const FULL: u64 = 4 << 20;

/// The leader's end of the committer thread. Dropping it commits what was submitted, without
/// marking the job as finished, and waits for that unless it was abandoned.
#[derive(Debug)]
pub(crate) struct Committer {
    queue: Arc<Queue>,
    thread: Option<JoinHandle<()>>,
}

impl Committer {
    /// Makes the output what the journal says, and starts the thread. Returns what the journal
    /// holds: nothing if it is new.
    ///
    /// With `retry_failed`, mini-batches that failed for good are taken out of the journal, and so
    /// run again, as do those whose rows are lost.
    ///
    /// Fails if the output cannot be made or put in order, or the thread cannot be started. The next
    /// start goes on from there.
    pub(crate) fn start(
        target: CommitTarget,
        journal: Journal,
        retry_failed: bool,
        replies: mpsc::UnboundedSender<CommitReply>,
    ) -> Result<(Self, Restored), CommitError> {
        let (store, restored) = super::recover::recover(target, journal, retry_failed)?;
        // Where rows wait in part files, room in them is not free sooner.
        let copies = store.rows.as_ref().is_some_and(Rows::takes_all);
        let queue = Arc::new(Queue::new(if copies { FULL } else { u64::MAX }));
        let worker = Worker { queue: queue.clone(), store, replies };
        let job = Span::current();
        let run = move || job.in_scope(|| worker.run());
        let thread = std::thread::Builder::new().name("sandmill-commit".into()).spawn(run);
        let thread = thread.map_err(CommitError::Thread)?;
        Ok((Self { queue, thread: Some(thread) }, restored))
    }

    /// Queues a request. Does nothing after a fatal error, which was replied.
    pub(crate) fn submit(&self, request: CommitRequest) {
        self.queue.submit(request);
    }

    /// Commits what was submitted at once. To be called when nothing more is on its way.
    pub(crate) fn flush(&self) {
        self.queue.flush();
    }

    /// Commits what was submitted, syncs the output and notes the job's end in the journal. Then
    /// comes [`CommitReply::Finished`].
    pub(crate) fn finish(&self, status: JobStatus) {
        self.queue.finish(status);
    }

    /// Waits for the committer no more, also when dropped: the disk does not answer it.
    pub(crate) fn abandon(&mut self) {
        self.thread = None;
    }
}

impl Drop for Committer {
    fn drop(&mut self) {
        self.queue.close();
        if let Some(thread) = self.thread.take() {
            // If it panicked, the closed reply channel has told so.
            let _ = thread.join();
        }
    }
}

/// What runs on the thread.
struct Worker {
    queue: Arc<Queue>,
    store: Store,
    replies: mpsc::UnboundedSender<CommitReply>,
}

impl Worker {
    fn run(mut self) {
        // Also if something below panics: nobody may wait for room for ever.
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
                Task::Copy(requests) => {
                    let rejected = self.store.copy(requests)?;
                    self.reject(rejected);
                }
                Task::Commit(group) => {
                    earliest = Instant::now() + INTERVAL;
                    let _inside = error_span!("commit", requests = group.len()).entered();
                    let begun = Instant::now();
                    self.commit(group)?;
                    debug!(seconds = begun.elapsed().as_secs_f64(), "committed");
                }
                Task::Finish(status) => {
                    let replies = self.replies.clone();
                    // A leader that does not listen any more is ending.
                    let mut told = |bytes| drop(replies.send(CommitReply::Finishing(bytes)));
                    let _inside = error_span!("commit", finish = true).entered();
                    let begun = Instant::now();
                    self.store.finish(status, &mut told)?;
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
            self.reject(done.rejected);
            if !done.free.is_empty() {
                self.reply(CommitReply::Free(done.free));
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
        // A leader that does not listen any more is ending.
        let _ = self.replies.send(reply);
    }
}

struct StopOnDrop(Arc<Queue>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.stop();
    }
}

/// What the end of a job waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StillWriting {
    /// The disk, which has not answered for so long.
    Silent(Duration),
    /// The output file, of which so many bytes are made.
    Finishing(u64),
}

/// Waits for the end that [`Committer::finish`] asks for; `None` if nothing has come for as long as
/// `patience`. `told` is called with the time waited each time that nothing has come for another
/// `interval`.
pub(crate) async fn last_reply(
    replies: &mut mpsc::UnboundedReceiver<CommitReply>,
    (interval, patience): (Duration, Duration),
    told: &mut dyn FnMut(StillWriting),
) -> Option<Result<(), CommitError>> {
    let mut silent_since = Instant::now();
    let mut told_at = Instant::now();
    let mut done = None;
    loop {
        let wait = interval.min(patience.saturating_sub(silent_since.elapsed()));
        match tokio::time::timeout(wait, replies.recv()).await {
            Err(_) if silent_since.elapsed() >= patience => return None,
            Err(_) => told(StillWriting::Silent(silent_since.elapsed())),
            Ok(Some(CommitReply::Finished)) => return Some(Ok(())),
            Ok(Some(CommitReply::Fatal(error))) => return Some(Err(error)),
            Ok(Some(CommitReply::Finishing(bytes))) => {
                // Nothing moves that reads no further.
                if done.replace(bytes) != Some(bytes) {
                    silent_since = Instant::now();
                } else if silent_since.elapsed() >= patience {
                    return None;
                }
                if told_at.elapsed() >= interval {
                    told_at = Instant::now();
                    told(StillWriting::Finishing(bytes));
                }
            }
            Ok(Some(
                CommitReply::Committed(_) | CommitReply::Free(_) | CommitReply::Rejected { .. },
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
#[path = "take_up_tests.rs"]
mod take_up_tests;

#[cfg(test)]
#[path = "read_back_tests.rs"]
mod read_back_tests;

#[cfg(test)]
#[path = "split_tests.rs"]
mod split_tests;

#[cfg(any(test, feature = "testing"))]
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    clippy::unwrap_used,
    reason = "part of tests; a world that cannot be made fails them, and its numbers are small"
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
