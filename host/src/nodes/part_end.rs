//! How an agent's part in a job may end.

/// How an agent's part in a job ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PartEnd {
    /// The job is over.
    Over,
    /// The leader does not want this node.
    Refused(String),
    /// The leader wants no more nodes now.
    NotNeeded,
    /// This machine cannot run the job.
    Declined(String),
    /// The leader does not count on this agent any longer.
    GivenUp,
    /// The leader was silent for too long.
    LeaderLost,
    /// The job was cancelled while its leader was silent.
    Cancelled,
    /// The agent was asked to end.
    Stopped,
    /// Another leader leads the job.
    Followed,
    /// The machine's disk has no room for the work, for this reason.
    NoRoom {
        /// The reason.
        reason: String,
        /// Whether the machine has joined the job, and no attempt has ended there.
        was_useless: bool,
    },
    /// The leader wants nodes again after it has ended the workers here.
    Renewed,
}
