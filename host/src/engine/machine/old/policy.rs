//! The settings that decisions rest on.

use crate::model::{AllowedPercent, ErrorThreshold, JobLimits, OutputAction};
use std::time::Duration;

/// The settings that decisions rest on.
#[derive(Clone, Debug)]
pub(crate) struct Policy {
    /// Workers wanted.
    pub(crate) workers: u32,
    /// Attempts at each mini-batch, at least 1.
    pub(crate) max_try: u32,
    /// Failed items that the job bears (prs-semantics C9).
    pub(crate) error_threshold: ErrorThreshold,
    /// The longest that one call of `run` or `shutdown` may take (C16).
    pub(crate) run_timeout: Duration,
    /// The longest that loading a mini-batch may take (A1).
    pub(crate) load_timeout: Duration,
    /// Failed mini-batches that the job bears (C10).
    pub(crate) allowed_failed_count: ErrorThreshold,
    /// The share of failed mini-batches that the job bears (C11).
    pub(crate) allowed_failed_percent: AllowedPercent,
    /// The longest until there is a mini-batch (A3).
    pub(crate) first_task_timeout: Duration,
    /// The longest that nothing may move (A2).
    pub(crate) progress_timeout: Duration,
    /// The indices of the GPUs to lease to workers, the lowest first (G1, G2).
    pub(crate) gpus: Vec<u32>,
    /// Whether rows are written: then a job in which no item succeeded has failed (W10).
    pub(crate) output_action: OutputAction,
    /// What the leader spends on the job.
    pub(crate) limits: JobLimits,
}

impl Policy {
    /// How long all workers may be inside `init` (I3), and one of them while others work.
    pub(crate) fn init_timeout(&self) -> Duration {
        self.run_timeout.saturating_mul(3).saturating_add(Duration::from_secs(30))
    }

    /// How many failures of `init` in a row end the attempts to start workers (I1).
    pub(crate) fn init_failures_allowed(&self) -> u32 {
        self.workers.saturating_mul(3)
    }

    /// I2: a job older than this, in which no `init` succeeded, gets less patience.
    pub(crate) const INIT_FAILURE_AGE: Duration = Duration::from_secs(120);

    /// More failures of `init` in a row than this end a job that is older than
    /// [`Policy::INIT_FAILURE_AGE`] (I2).
    pub(crate) fn init_failures_when_old(&self) -> u32 {
        self.workers.saturating_mul(2)
    }

    /// How long a killed process may take to vanish. One that hangs in the kernel (a dead network
    /// file system) must not hold up the end of the job.
    pub(crate) const KILL_GRACE: Duration = Duration::from_secs(30);

    /// How long running mini-batches may go on after a cancellation.
    pub(crate) const CANCEL_GRACE: Duration = Duration::from_secs(10);

    /// With so many finished mini-batches that are not in the journal yet, nobody gets a further one:
    /// the disk is slower than the workers, or does not answer.
    pub(crate) const UNWRITTEN: usize = 4096;

    /// Mini-batches that a worker is given ahead, at most: as many as take it
    /// [`Policy::AHEAD_TIME`], and one where they take longer.
    pub(crate) const AHEAD: usize = 63;

    /// How much work a worker is given ahead of time. No more than it takes to hide how long the
    /// leader is away.
    pub(crate) const AHEAD_TIME: Duration = Duration::from_millis(8);

    /// How long the leader looks away while all workers are [supplied](super::Machine::may_pause).
    pub(crate) const PAUSE: Duration = Duration::from_millis(2);

    /// Messages out of turn that a worker may send. An honest one sends none, but for a few while it
    /// is asked to end.
    pub(crate) const STRAYS: u32 = 16;

    /// How long the place of a worker stays empty whose GPU is not free yet. Then another one takes it, without
    /// that GPU: one whose memory is not free after that long has lost it for good, more likely than not.
    pub(crate) const GPU_PATIENCE: Duration = Duration::from_secs(60);

    /// So many retries are handed out one after the other; then a first attempt has its turn, so that
    /// mini-batches which fail again and again leave room for the others.
    pub(crate) const RETRIES_IN_A_ROW: u32 = 2;

    /// A worker that starts faster is never too slow for a retry.
    pub(crate) const SLOW_START: Duration = Duration::from_millis(100);

    /// How long nothing may have failed before the leader looks away again: a worker waits for the
    /// leader's word after a failed attempt.
    pub(crate) const SMOOTH: Duration = Duration::from_secs(1);

    /// How long the retry of a mini-batch that could not be read waits, after so many attempts: a store
    /// or a disk may be well again soon.
    pub(crate) fn retry_pause(attempts: u32) -> Duration {
        let factor = 4_u32.saturating_pow(attempts.saturating_sub(1));
        Duration::from_millis(100).saturating_mul(factor).min(Duration::from_secs(10))
    }

    /// How long to wait after a worker process could not be started, while others work.
    pub(crate) const SPAWN_PAUSE: Duration = Duration::from_secs(10);

    /// How long to wait before it is looked again whether other jobs have left room on the machine.
    pub(crate) const ROOM_PAUSE: Duration = Duration::from_millis(200);
}
