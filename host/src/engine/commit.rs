//! The committer: a thread that makes finished mini-batches durable, in groups.
//!
//! The rule: the journal has it before anybody is told that it is committed, and before its rows
//! or files reach the output. After a crash in between the output lacks something that is committed:
//! the journal says where in the output each segment belongs and which staged files are to be
//! published, so that whoever takes the job up again can complete it.

use super::commit_group::Store;
use super::commit_queue::{Queue, Task};
use crate::journal::Journal;
use crate::model::{Failure, ItemCounts, JobDir, JobStatus, MiniBatchId, Segment, WorkerId};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;

/// Groups begin at least this far apart, unless they are full or a flush is asked for.
const INTERVAL: Duration = Duration::from_millis(20);

/// Something to commit.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum CommitRequest {
    /// An attempt succeeded.
    Success(Success),
    /// A mini-batch failed for good.
    Failure(FinalFailure),
    /// A worker is gone: after what was submitted before, its part file may be closed.
    WorkerGone(WorkerId),
}

/// An attempt that succeeded, as its worker reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Success {
    /// The worker.
    pub worker: WorkerId,
    /// The mini-batch.
    pub id: MiniBatchId,
    /// The attempt, from 1.
    pub attempt: u32,
    /// Its items.
    pub items: ItemCounts,
    /// Its rows in the worker's part file.
    pub segment: Segment,
    /// The output file's first line, where the job wants one.
    pub header: Option<String>,
    /// Whether it left files to publish.
    pub has_files: bool,
    /// Of the mini-batch's descriptor and files.
    pub stamp: u64,
}

/// A mini-batch that will not be tried again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FinalFailure {
    /// The mini-batch.
    pub id: MiniBatchId,
    /// Attempts made.
    pub attempts: u32,
    /// The worker of the last one.
    pub worker: Option<WorkerId>,
    /// Its items, all failed.
    pub items: ItemCounts,
    /// The last failure.
    pub failure: Failure,
    /// Of the mini-batch's descriptor and files.
    pub stamp: u64,
}

/// What the committer answers. If the channel closes before `Finished` or `Fatal`, and after
/// [`Committer::finish`] was called, the committer broke down: treat it as fatal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum CommitReply {
    /// These are committed, successes and final failures.
    Committed(Vec<MiniBatchId>),
    /// An attempt that its worker called a success is none: its files cannot be published, or its
    /// rows are not where it says. Nothing of it is committed.
    Rejected {
        /// The worker.
        worker: WorkerId,
        /// The mini-batch.
        id: MiniBatchId,
        /// The attempt.
        attempt: u32,
        /// Why.
        failure: Failure,
    },
    /// After [`Committer::finish`]: the output is complete and on the disk. The last reply.
    Finished,
    /// The job cannot go on, in words for people. What was reported as committed is safe. The last
    /// reply.
    Fatal(String),
}

/// Where results go.
#[derive(Clone, Debug)]
pub(super) struct CommitTarget {
    /// The job directory, with part files and staged files.
    pub job_dir: JobDir,
    /// The output folder. It exists.
    pub output: PathBuf,
    /// The file for rows in it, which must not exist yet; none if rows are only counted.
    pub output_file: Option<String>,
}

/// The leader's end of the committer thread. Dropping it commits what was submitted, without
/// marking the job as finished, and waits for that.
#[derive(Debug)]
pub(super) struct Committer {
    queue: Arc<Queue>,
    thread: Option<JoinHandle<()>>,
}

impl Committer {
    /// Makes the output file, takes the journal of a new job and starts the thread.
    ///
    /// Fails with a text for people if the file cannot be made or the thread cannot be started.
    pub(super) fn start(
        target: CommitTarget,
        journal: Journal,
        replies: mpsc::UnboundedSender<CommitReply>,
    ) -> io::Result<Self> {
        let store = Store::create(target, journal).map_err(io::Error::other)?;
        let queue = Arc::new(Queue::default());
        let worker = Worker { queue: queue.clone(), store, replies };
        let thread =
            std::thread::Builder::new().name("sandmill-commit".into()).spawn(|| worker.run())?;
        Ok(Self { queue, thread: Some(thread) })
    }

    /// Queues a request. Waits for room only while thousands are waiting already. Does nothing
    /// after a fatal error, which was replied.
    pub(super) fn submit(&self, request: CommitRequest) {
        self.queue.submit(request);
    }

    /// Commits what was submitted at once. To be called when nothing more is on its way.
    pub(super) fn flush(&self) {
        self.queue.flush();
    }

    /// Commits what was submitted, syncs the output and notes the job's end in the journal. Then
    /// comes [`CommitReply::Finished`].
    pub(super) fn finish(&self, status: JobStatus) {
        self.queue.finish(status);
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
        if let Err(text) = self.serve() {
            self.reply(CommitReply::Fatal(text));
        }
    }

    fn serve(&mut self) -> Result<(), String> {
        let mut earliest = Instant::now();
        while let Some(task) = self.queue.next(earliest) {
            earliest = Instant::now() + INTERVAL;
            match task {
                Task::Commit(group) => self.commit(group)?,
                Task::Finish(status) => {
                    self.store.finish(status)?;
                    self.reply(CommitReply::Finished);
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    fn commit(&mut self, mut group: Vec<CommitRequest>) -> Result<(), String> {
        while !group.is_empty() {
            let done = self.store.commit(group)?;
            for (success, failure) in done.rejected {
                let Success { worker, id, attempt, .. } = success;
                self.reply(CommitReply::Rejected { worker, id, attempt, failure });
            }
            if !done.committed.is_empty() {
                self.reply(CommitReply::Committed(done.committed));
            }
            group = done.postponed;
        }
        Ok(())
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

#[cfg(test)]
#[path = "commit_tests.rs"]
mod tests;
