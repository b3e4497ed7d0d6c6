//! The settings and constants that govern how a node treats its workers.

use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The settings that govern how a node treats its workers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodePolicy {
    /// Workers at the same time, at most.
    pub workers: u32,
    /// The longest that one call of `run` or `shutdown` may take (docs/parallel-run-step.md C16).
    pub run_timeout: Duration,
    /// The longest that loading a mini-batch may take (A1).
    pub load_timeout: Duration,
    /// The indices of the GPUs that may be leased to workers, lowest first (G1, G2).
    pub gpus: Vec<u32>,
}

impl NodePolicy {
    /// How long `init` may take while no worker has got past it (I3), and how long for a single worker while
    /// others work.
    pub fn init_timeout(run_timeout: Duration) -> Duration {
        run_timeout.saturating_mul(3).saturating_add(Duration::from_secs(30))
    }

    /// How many failures of `init` in a row are allowed before no more workers are started (I1).
    pub fn init_failures_allowed(workers: u32) -> u32 {
        workers.saturating_mul(3)
    }

    /// How long a killed process may take to disappear. A process that hangs in the kernel (a dead network
    /// file system) must not delay the end of the job.
    pub const KILL_GRACE: Duration = Duration::from_secs(30);

    /// The largest number of mini-batches in a worker's queue. It holds as many as take the worker
    /// [`NodePolicy::AHEAD_TIME`], and one if a mini-batch takes longer.
    pub const AHEAD: usize = 63;

    /// How much work a worker has in its queue. It is just enough to hide the leader's pauses.
    pub const AHEAD_TIME: Duration = Duration::from_millis(8);

    /// How long the leader sleeps while all workers have enough work.
    pub const PAUSE: Duration = Duration::from_millis(2);

    /// How many messages out of turn a worker may send. An honest worker sends none, except a few while it is
    /// asked to end.
    pub const STRAYS: u32 = 16;

    /// How long a worker's place stays empty if its GPU is not free yet. Then another worker takes the place,
    /// without that GPU: a GPU whose memory is still occupied after that time is probably lost for good.
    pub const GPU_PATIENCE: Duration = Duration::from_secs(60);

    /// A worker whose start takes less than this is always fast enough for a retry.
    pub const SLOW_START: Duration = Duration::from_millis(100);

    /// How long to wait after a worker process could not be started, if others work.
    pub const SPAWN_PAUSE: Duration = Duration::from_secs(10);

    /// How long to wait before checking again whether other jobs have left room on the machine.
    pub const ROOM_PAUSE: Duration = Duration::from_millis(200);
}
