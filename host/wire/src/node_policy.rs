//! The settings and constants that govern how a node treats its workers.

use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The settings that govern how a node treats its workers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodePolicy {
    /// The most workers at the same time.
    pub workers: u32,
    /// The longest that one call of `run` or `shutdown` may take (rule C16 in docs/parallel-run-step.md).
    pub run_timeout: Duration,
    /// The longest that loading a mini-batch may take (rule A1).
    pub load_timeout: Duration,
    /// The indices of the GPUs that may be leased to workers, lowest first (rules G1 and G2).
    pub gpus: Vec<u32>,
    /// How much work workers have in their queues.
    pub queues: QueuePolicy,
}

/// How much work each worker has in its queue, so that it does not idle until the leader's next answer. If mini-batches
/// are tiny, one message then says what many of them did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueuePolicy {
    /// The queue has as many mini-batches as the worker can do in this time, and at least one.
    pub time: Duration,
    /// The most mini-batches in a queue.
    pub most: u32,
    /// The queue may have more mini-batches than these, up to as many as the worker can do in this time, but not more than
    /// [`MOST_RESERVE`](Self::MOST_RESERVE).
    pub reserve: Duration,
    /// How long the leader (or the node, if it is on another machine) pauses while all workers have enough work. After
    /// a pause, it handles many messages together.
    pub pause: Duration,
}

impl QueuePolicy {
    /// If leader and node are on the same machine.
    pub const SAME_MACHINE: Self = Self {
        time: Duration::from_millis(8),
        most: 63,
        reserve: Duration::ZERO,
        pause: Duration::from_millis(2),
    };

    /// If they are on different machines. An answer of the leader takes longer, because the node first syncs a shared
    /// file system, which may take 100 ms. The reserve lasts until another leader grants, if this one is lost. Near the end
    /// of a job, the leader lets queues be shorter.
    pub const OTHER_MACHINE: Self = Self {
        time: Duration::from_millis(200),
        most: 255,
        reserve: Duration::from_secs(6),
        pause: Duration::from_millis(8),
    };

    /// The most mini-batches in a reserve. If the next ones take much longer than those before, other workers cannot take
    /// them.
    pub const MOST_RESERVE: u32 = 64;

    /// How many mini-batches a queue should have if each takes this long.
    pub fn target(&self, pace: Duration) -> usize {
        let lasting = |time: Duration, most: u32| {
            let count = time.as_nanos() / pace.as_nanos().max(1);
            usize::try_from(count).unwrap_or(usize::MAX).min(most as usize)
        };
        let reserve = lasting(self.reserve, Self::MOST_RESERVE);
        lasting(self.time, self.most).max(reserve).max(1)
    }
}

impl NodePolicy {
    /// How long `init` may take. While no worker is past `init`, the limit holds for all workers
    /// together (rule I3). Once a worker is past `init`, the limit holds for each of the others.
    pub fn init_timeout(run_timeout: Duration) -> Duration {
        run_timeout.saturating_mul(3).saturating_add(Duration::from_secs(30))
    }

    /// After this many failures of `init` in a row, no more workers are started (rule I1).
    pub fn init_failures_allowed(workers: u32) -> u32 {
        workers.saturating_mul(3)
    }

    /// How long a killed process may take to disappear. A process that hangs in the kernel (a dead network
    /// file system) must not delay the end of the job.
    pub const KILL_GRACE: Duration = Duration::from_secs(30);

    /// If objects of stores are fetched for mini-batches, a worker's queue has at least this many: while one runs, the
    /// objects of the next ones arrive.
    pub const AHEAD_OBJECTS: usize = 3;

    /// How many unexpected messages a worker may send before it is killed. An honest worker sends
    /// only a few: those that cross the request to end.
    pub const STRAYS: u32 = 16;

    /// How long the node waits for the GPU of a worker that has ended. Then it starts a worker without that
    /// GPU: a GPU whose memory is still occupied after this time is probably lost for good.
    pub const GPU_PATIENCE: Duration = Duration::from_secs(60);

    /// A start that takes no longer than this is never slow: a retry may wait for it, however short the
    /// mini-batches are.
    pub const SLOW_START: Duration = Duration::from_millis(100);

    /// How long to wait after a worker process could not be started, if other workers run.
    pub const SPAWN_PAUSE: Duration = Duration::from_secs(10);

    /// How long to wait before checking again whether other jobs have left room on the machine.
    pub const ROOM_PAUSE: Duration = Duration::from_millis(200);
}
