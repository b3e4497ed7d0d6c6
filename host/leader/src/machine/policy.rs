//! The settings and constants on which the leader's decisions depend.

use crate::model::{AllowedPercent, ErrorThreshold, JobLimits, OutputAction};
#[cfg(test)]
use crate::protocol::NodePolicy;
use crate::protocol::QueuePolicy;
use std::time::Duration;

/// The settings on which the leader's decisions depend.
#[derive(Clone, Debug)]
pub struct RetryPolicy {
    /// The number of workers wanted on each node.
    pub workers: u32,
    /// The number of nodes that the job asks for, if nodes may join at any time. `None` if the job has exactly one
    /// node, from its beginning to its end.
    pub node_count: Option<u32>,
    /// The maximum number of attempts at each mini-batch; at least 1.
    pub max_try: u32,
    /// How many failed items the job tolerates (rule C9 in docs/parallel-run-step.md, as all rules below).
    pub error_threshold: ErrorThreshold,
    /// The longest that one call of `run` or `shutdown` may take (C16).
    pub run_timeout: Duration,
    /// The longest that loading a mini-batch may take (A1).
    pub load_timeout: Duration,
    /// How many failed mini-batches the job tolerates (C10).
    pub allowed_failed_count: ErrorThreshold,
    /// What percentage of failed mini-batches the job tolerates (C11).
    pub allowed_failed_percent: AllowedPercent,
    /// The longest time until the planner has sent the first mini-batch (A3).
    pub first_task_timeout: Duration,
    /// The longest time without progress (A2).
    pub progress_timeout: Duration,
    /// The indices of the GPUs that the node of a test leases to workers. A real node detects its GPUs.
    pub gpus: Vec<u32>,
    /// Whether rows are written. If they are, a job in which no item succeeded has failed (W10).
    pub output_action: OutputAction,
    /// Limits on what the leader spends on the job.
    pub limits: JobLimits,
}

impl RetryPolicy {
    /// The part of the policy that a node needs, for the nodes of tests. A real node reads the job's
    /// settings.
    #[cfg(test)]
    pub fn node_policy(&self) -> NodePolicy {
        NodePolicy {
            workers: self.workers,
            run_timeout: self.run_timeout,
            load_timeout: self.load_timeout,
            gpus: self.gpus.clone(),
            queues: self.queues(),
        }
    }

    /// How much work workers have in their queues.
    pub(super) fn queues(&self) -> QueuePolicy {
        match self.node_count {
            Some(_) => QueuePolicy::OTHER_MACHINE,
            None => QueuePolicy::SAME_MACHINE,
        }
    }

    /// I2: once a job is older than this, it tolerates fewer failures of `init`.
    pub const INIT_FAILURE_AGE: Duration = Duration::from_secs(120);

    /// I2: how many consecutive failures of `init` for each node a job tolerates once it is older than
    /// [`RetryPolicy::INIT_FAILURE_AGE`].
    pub fn init_failures_when_old(&self) -> u32 {
        self.workers.saturating_mul(2)
    }

    /// I1: if `init` keeps failing on all nodes, a job waits this long for another node. Then it fails.
    pub const HOPELESS_WAIT: Duration = Duration::from_secs(30);

    /// A mini-batch gets a twin near the job's end if it takes this many times as long as most attempts.
    pub const TWIN_FACTOR: u32 = 3;

    /// A mini-batch that takes less than this gets no twin, however short the others are.
    pub const TWIN_MIN_TIME: Duration = Duration::from_secs(1);

    /// How often the leader looks near the job's end for mini-batches that take too long.
    pub const TWIN_INTERVAL: Duration = Duration::from_millis(500);

    /// If a node could not fetch an object of a store, and there is no other node, it tries again after this time.
    pub const FETCH_PAUSE: Duration = Duration::from_secs(5);

    /// The same, if the job asks for more nodes than it has.
    pub const FETCH_JOIN_PAUSE: Duration = Duration::from_secs(30);

    /// How long running mini-batches may continue after a cancellation.
    pub const CANCEL_GRACE: Duration = Duration::from_secs(10);

    /// While this many finished mini-batches are not in the journal yet, workers get no further mini-batches:
    /// the disk is slower than the workers, or does not respond.
    pub const UNWRITTEN: usize = 4096;

    /// After this many retries in a row, the next attempt is a first attempt. So mini-batches that
    /// keep failing do not hold up the other mini-batches.
    pub const MAX_RETRIES_IN_A_ROW: u32 = 2;

    /// A mini-batch has failed once this many nodes were lost while running it, because the mini-batch may be
    /// the cause.
    pub const MAX_NODE_LOSSES: u32 = 5;

    /// How long the leader makes no [pauses](QueuePolicy::pause) after a failed attempt,
    /// because the worker waits for the leader's decision.
    pub const NO_PAUSE_AFTER_FAILURE: Duration = Duration::from_secs(1);

    /// How long a retry waits after this many attempts, if the mini-batch could not be read. A store or a
    /// disk may recover meanwhile.
    pub fn retry_pause(attempts: u32) -> Duration {
        let factor = 4_u32.saturating_pow(attempts.saturating_sub(1));
        Duration::from_millis(100).saturating_mul(factor).min(Duration::from_secs(10))
    }
}
