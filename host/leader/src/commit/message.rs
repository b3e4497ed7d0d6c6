//! Requests to the committer, and its replies.

use super::error::CommitError;
use crate::model::{
    AttemptReceipt, Failure, ItemCounts, MiniBatchId, OutputHeader, Segment, WorkerId,
};
use std::path::PathBuf;

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum CommitRequest {
    Success(Success),
    /// A mini-batch failed for good.
    Failure(FinalFailure),
    /// The receipt of an attempt that does not end its mini-batch.
    Receipt(Box<AttemptReceipt>),
    /// A worker is gone. Its part file may be closed after all earlier requests have been handled.
    WorkerGone(WorkerId),
    /// A worker has ended normally, after `shutdown`, and writes nothing more. What `init` or `shutdown` left
    /// in its output folder is published when the job completes.
    WorkerDone(WorkerId),
    /// A note for the journal.
    Note {
        /// The note's name. A later note of the same name replaces this one.
        key: String,
        /// The note's text.
        value: String,
    },
    /// Look whether another process leads the job by now. The reply is [`CommitReply::Fatal`] if one does. Also if a
    /// process waits to lead the job, and has written to this file since the last request that named the file.
    CheckLead {
        /// Set if this leader is cut off from its nodes.
        successor: Option<PathBuf>,
    },
}

/// A successful attempt, as its worker reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Success {
    /// The worker.
    pub worker: WorkerId,
    /// The mini-batch.
    pub id: MiniBatchId,
    /// The attempt, from 1.
    pub attempt: u32,
    /// The mini-batch's items.
    pub items: ItemCounts,
    /// Whether `run` returned fewer rows than it received items.
    pub is_short: bool,
    /// The attempt's rows in the worker's part file.
    pub segment: Segment,
    /// The beginning of the output file, if the job wants a header.
    pub header: Option<OutputHeader>,
    /// Whether the attempt left files to publish.
    pub has_files: bool,
    /// The stamp of the mini-batch's descriptor and files.
    pub stamp: u64,
    /// The attempt's receipt. `None` if no worker had the attempt.
    pub receipt: Option<Box<AttemptReceipt>>,
}

/// A mini-batch that will not be tried again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FinalFailure {
    /// The mini-batch.
    pub id: MiniBatchId,
    /// Attempts made.
    pub attempts: u32,
    /// The worker of the last attempt.
    pub worker: Option<WorkerId>,
    /// The mini-batch's items, all failed.
    pub items: ItemCounts,
    /// The last failure.
    pub failure: Failure,
    /// The stamp of the mini-batch's descriptor and files.
    pub stamp: u64,
    /// The attempt's receipt. `None` if no worker had the attempt.
    pub receipt: Option<Box<AttemptReceipt>>,
}

/// A reply of the committer. If [`Committer::end_job`](super::Committer::end_job) was called, but the channel
/// closes before `Finished` or `Fatal`, the committer's thread has failed. Treat this as fatal.
#[derive(Debug)]
#[cfg_attr(test, derive(PartialEq))]
pub(crate) enum CommitReply {
    /// These mini-batches are committed, whether they succeeded or failed for good.
    Committed(Vec<MiniBatchId>),
    /// The rows of these attempts are in the output. The workers may overwrite these rows in the part files,
    /// and all rows that they reported before.
    Reclaimable(Vec<ReclaimableAttempt>),
    /// An attempt was rejected although its worker called it a success: its files cannot be published, or its
    /// rows are not where the worker says. Nothing of it is committed.
    Rejected { id: MiniBatchId, failure: Failure },
    /// The output is being made, and this many bytes are done. Sent after
    /// [`Committer::end_job`](super::Committer::end_job) was called.
    Finishing(u64),
    /// The output is complete and synced. Sent after [`Committer::end_job`](super::Committer::end_job) was
    /// called. The last reply.
    Finished,
    /// The job cannot continue. What was reported as committed is safe. The last reply.
    Fatal(CommitError),
}

/// An attempt whose rows are in the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReclaimableAttempt {
    /// The worker that made the attempt.
    pub worker: WorkerId,
    /// The mini-batch.
    pub id: MiniBatchId,
    /// The attempt, from 1.
    pub attempt: u32,
}
