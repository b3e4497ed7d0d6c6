//! The settings that decisions depend on.

use crate::model::{AllowedPercent, ErrorThreshold, JobLimits, OutputAction};
#[cfg(test)]
use crate::protocol::NodePolicy;
use std::time::Duration;

/// The settings that decisions depend on.
#[derive(Clone, Debug)]
pub struct RetryPolicy {
    /// The number of workers wanted on each node.
    pub workers: u32,
    /// The maximum number of attempts at each mini-batch; at least 1.
    pub max_try: u32,
    /// How many failed items the job tolerates (docs/parallel-run-step.md C9).
    pub error_threshold: ErrorThreshold,
    /// The longest that one call of `run` or `shutdown` may take (C16).
    pub run_timeout: Duration,
    /// The longest that loading a mini-batch may take (A1).
    pub load_timeout: Duration,
    /// How many failed mini-batches the job tolerates (C10).
    pub allowed_failed_count: ErrorThreshold,
    /// Which share of failed mini-batches the job tolerates (C11).
    pub allowed_failed_percent: AllowedPercent,
    /// The longest time until the first mini-batch exists (A3).
    pub first_task_timeout: Duration,
    /// The longest time without progress (A2).
    pub progress_timeout: Duration,
    /// The indices of the GPUs that a test's node leases to workers. A real node knows its own.
    pub gpus: Vec<u32>,
    /// Whether rows are written. If so, a job in which no item succeeded has failed (W10).
    pub output_action: OutputAction,
    /// Limits on what the leader spends on the job.
    pub limits: JobLimits,
}

impl RetryPolicy {
    /// The part of the policy that a test's node knows. A real node has the job's settings itself.
    #[cfg(test)]
    pub fn of_node(&self) -> NodePolicy {
        NodePolicy {
            workers: self.workers,
            run_timeout: self.run_timeout,
            load_timeout: self.load_timeout,
            gpus: self.gpus.clone(),
        }
    }

    /// I2: after this time, a job in which no `init` has succeeded tolerates fewer failures.
    pub const INIT_FAILURE_AGE: Duration = Duration::from_secs(120);

    /// I2: a job that is older than [`RetryPolicy::INIT_FAILURE_AGE`] ends after more consecutive failures of
    /// `init` than this.
    pub fn init_failures_when_old(&self) -> u32 {
        self.workers.saturating_mul(2)
    }

    /// How long running mini-batches may continue after a cancellation.
    pub const CANCEL_GRACE: Duration = Duration::from_secs(10);

    /// While this many finished mini-batches are not in the journal yet, workers get no further ones: the
    /// disk is slower than the workers, or does not respond.
    pub const UNWRITTEN: usize = 4096;

    /// After this many retries in a row, a first attempt has its turn, so that mini-batches that keep failing
    /// leave room for the others.
    pub const RETRIES_IN_A_ROW: u32 = 2;

    /// A mini-batch has failed once this many nodes were lost while running it: it may be what ends them.
    pub const NODE_LOSSES: u32 = 5;

    /// How long there must have been no failure before the leader pauses again. After a failed attempt, a
    /// worker waits for the leader's decision.
    pub const SMOOTH: Duration = Duration::from_secs(1);

    /// How long the retry of a mini-batch that could not be read waits, after this many attempts. A store or
    /// a disk may recover soon.
    pub fn retry_pause(attempts: u32) -> Duration {
        let factor = 4_u32.saturating_pow(attempts.saturating_sub(1));
        Duration::from_millis(100).saturating_mul(factor).min(Duration::from_secs(10))
    }
}
