//! The settings and constants by which a node treats its workers.

use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The settings by which a node treats its workers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodePolicy {
    /// Workers at the same time, at most.
    pub workers: u32,
    /// The longest that one call of `run` or `shutdown` may take (prs-semantics C16).
    pub run_timeout: Duration,
    /// The longest that loading a mini-batch may take (A1).
    pub load_timeout: Duration,
    /// The indices of the GPUs to lease to workers, the lowest first (G1, G2).
    pub gpus: Vec<u32>,
}

impl NodePolicy {
    /// How long all workers may be inside `init` (I3), and one of them while others work.
    pub fn init_timeout(run_timeout: Duration) -> Duration {
        run_timeout.saturating_mul(3).saturating_add(Duration::from_secs(30))
    }

    /// How many failures of `init` in a row end the attempts to start workers (I1).
    pub fn init_failures_allowed(workers: u32) -> u32 {
        workers.saturating_mul(3)
    }

    /// How long a killed process may take to vanish. One that hangs in the kernel (a dead network
    /// file system) must not hold up the end of the job.
    pub const KILL_GRACE: Duration = Duration::from_secs(30);

    /// Mini-batches that a worker is given ahead, at most: as many as take it
    /// [`NodePolicy::AHEAD_TIME`], and one where they take longer.
    pub const AHEAD: usize = 63;

    /// How much work a worker is given ahead of time. No more than it takes to hide how long the
    /// leader is away.
    pub const AHEAD_TIME: Duration = Duration::from_millis(8);

    /// How long the leader looks away while all workers are supplied with work.
    pub const PAUSE: Duration = Duration::from_millis(2);

    /// Messages out of turn that a worker may send. An honest one sends none, but for a few while it
    /// is asked to end.
    pub const STRAYS: u32 = 16;

    /// How long the place of a worker stays empty whose GPU is not free yet. Then another one takes it, without
    /// that GPU: one whose memory is not free after that long has lost it for good, more likely than not.
    pub const GPU_PATIENCE: Duration = Duration::from_secs(60);

    /// A worker that starts faster is never too slow for a retry.
    pub const SLOW_START: Duration = Duration::from_millis(100);

    /// How long to wait after a worker process could not be started, while others work.
    pub const SPAWN_PAUSE: Duration = Duration::from_secs(10);

    /// How long to wait before it is looked again whether other jobs have left room on the machine.
    pub const ROOM_PAUSE: Duration = Duration::from_millis(200);
}
