//! The settings that decisions rest on.

use crate::model::{AllowedPercent, ErrorThreshold, JobLimits, OutputAction};
#[cfg(test)]
use crate::protocol::NodePolicy;
use std::time::Duration;

/// The settings that decisions rest on.
#[derive(Clone, Debug)]
pub struct Policy {
    /// Workers wanted on each node.
    pub workers: u32,
    /// Attempts at each mini-batch, at least 1.
    pub max_try: u32,
    /// Failed items that the job bears (prs-semantics C9).
    pub error_threshold: ErrorThreshold,
    /// The longest that one call of `run` or `shutdown` may take (C16).
    pub run_timeout: Duration,
    /// The longest that loading a mini-batch may take (A1).
    pub load_timeout: Duration,
    /// Failed mini-batches that the job bears (C10).
    pub allowed_failed_count: ErrorThreshold,
    /// The share of failed mini-batches that the job bears (C11).
    pub allowed_failed_percent: AllowedPercent,
    /// The longest until there is a mini-batch (A3).
    pub first_task_timeout: Duration,
    /// The longest that nothing may move (A2).
    pub progress_timeout: Duration,
    /// The indices of the GPUs that a node in a test leases to workers. A real one knows its own.
    pub gpus: Vec<u32>,
    /// Whether rows are written: then a job in which no item succeeded has failed (W10).
    pub output_action: OutputAction,
    /// What the leader spends on the job.
    pub limits: JobLimits,
}

impl Policy {
    /// What a node in a test knows of it. A real one has the job's settings itself.
    #[cfg(test)]
    pub fn of_node(&self) -> NodePolicy {
        NodePolicy {
            workers: self.workers,
            run_timeout: self.run_timeout,
            load_timeout: self.load_timeout,
            gpus: self.gpus.clone(),
        }
    }

    /// I2: a job older than this, in which no `init` succeeded, gets less patience.
    pub const INIT_FAILURE_AGE: Duration = Duration::from_secs(120);

    /// More failures of `init` in a row than this end a job that is older than
    /// [`Policy::INIT_FAILURE_AGE`] (I2).
    pub fn init_failures_when_old(&self) -> u32 {
        self.workers.saturating_mul(2)
    }

    /// How long running mini-batches may go on after a cancellation.
    pub const CANCEL_GRACE: Duration = Duration::from_secs(10);

    /// With so many finished mini-batches that are not in the journal yet, nobody gets a further one:
    /// the disk is slower than the workers, or does not answer.
    pub const UNWRITTEN: usize = 4096;

    /// So many retries are handed out one after the other; then a first attempt has its turn, so that
    /// mini-batches which fail again and again leave room for the others.
    pub const RETRIES_IN_A_ROW: u32 = 2;

    /// A mini-batch that so many nodes were lost with, while they ran it, has failed: it may be what ends them.
    pub const NODE_LOSSES: u32 = 5;

    /// How long nothing may have failed before the leader looks away again: a worker waits for the
    /// leader's word after a failed attempt.
    pub const SMOOTH: Duration = Duration::from_secs(1);

    /// How long the retry of a mini-batch that could not be read waits, after so many attempts: a store
    /// or a disk may be well again soon.
    pub fn retry_pause(attempts: u32) -> Duration {
        let factor = 4_u32.saturating_pow(attempts.saturating_sub(1));
        Duration::from_millis(100).saturating_mul(factor).min(Duration::from_secs(10))
    }
}
