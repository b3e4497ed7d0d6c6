//! What the committer is asked for, and what it answers.

use super::error::CommitError;
use crate::model::{Failure, Header, ItemCounts, MiniBatchId, Segment, WorkerId};

/// Something to commit.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum CommitRequest {
    /// An attempt succeeded.
    Success(Success),
    /// A mini-batch failed for good.
    Failure(FinalFailure),
    /// A worker is gone: after what was submitted before, its part file may be closed.
    WorkerGone(WorkerId),
    /// A worker has ended in order, after `shutdown`: what lies in its output folder, made by
    /// `init` or `shutdown`, is published when the job completes. Nobody writes there any more.
    WorkerDone(WorkerId),
    /// Something to note in the journal.
    Note {
        /// Its name. A later note of the same name takes its place.
        key: String,
        /// What to note.
        value: String,
    },
}

/// An attempt that succeeded, as its worker reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Success {
    /// The worker.
    pub worker: WorkerId,
    /// The mini-batch.
    pub id: MiniBatchId,
    /// The attempt, from 1.
    pub attempt: u32,
    /// Its items.
    pub items: ItemCounts,
    /// Whether it returned fewer rows than it was given items.
    pub is_short: bool,
    /// Its rows in the worker's part file.
    pub segment: Segment,
    /// What the output file begins with, where the job wants that.
    pub header: Option<Header>,
    /// Whether it left files to publish.
    pub has_files: bool,
    /// Of the mini-batch's descriptor and files.
    pub stamp: u64,
}

/// A mini-batch that will not be tried again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FinalFailure {
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
/// [`Committer::finish`](super::Committer::finish) was called, the committer broke down: treat it as fatal.
#[derive(Debug)]
#[cfg_attr(test, derive(PartialEq))]
pub(crate) enum CommitReply {
    /// These are committed, successes and final failures.
    Committed(Vec<MiniBatchId>),
    /// Rows that are in the output: what their workers have in their part files of these attempts, and
    /// of all that they reported before, is not wanted any more.
    Free(Vec<Free>),
    /// An attempt that its worker called a success is none: its files cannot be published, or its
    /// rows are not where it says. Nothing of it is committed.
    Rejected {
        /// The mini-batch.
        id: MiniBatchId,
        /// Why.
        failure: Failure,
    },
    /// After [`Committer::finish`](super::Committer::finish): the output is being made, and so many bytes of it are done.
    Finishing(u64),
    /// After [`Committer::finish`](super::Committer::finish): the output is complete and on the disk. The last reply.
    Finished,
    /// The job cannot go on. What was reported as committed is safe. The last reply.
    Fatal(CommitError),
}

/// An attempt whose rows are in the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Free {
    /// The worker that made it.
    pub worker: WorkerId,
    /// The mini-batch.
    pub id: MiniBatchId,
    /// The attempt, from 1.
    pub attempt: u32,
}
