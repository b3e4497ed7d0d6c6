//! What one instance of an entry script may use, and what the leader spends on one job.

use super::ByteSize;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The budget of one instance. Each limit has a key of its name below `limits` in the job file, and is
/// named in the failure of whoever goes beyond it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// All linear memories and tables of the instance together.
    pub memory: ByteSize,
    /// The stack of a call, in the guest's own code.
    pub stack: ByteSize,
    /// Fuel for each single call of `init`, `run` and `shutdown`; none means not measured, which
    /// makes guest code faster.
    pub fuel: Option<u64>,
    /// The largest file that `host.read` hands over.
    pub read: ByteSize,
    /// Result bytes of one call of `run`.
    pub results: ByteSize,
    /// Bytes of one row that `run` returns.
    pub row: ByteSize,
    /// Bytes that one call may write to stdout, stderr and the log together.
    pub logs: ByteSize,
    /// Bytes that one call may write below its output and log directories, and that each worker may
    /// leave in the log directory.
    pub output: ByteSize,
    /// Files and folders that one call may make there, and that each worker may leave in the log
    /// directory.
    pub files: u64,
    /// Files and other handles of the host that are open at once.
    pub handles: u64,
    /// Bytes that one call of the host may copy out of the guest.
    pub transfer: ByteSize,
    /// Bytes of the model files that the instance may load, all together.
    pub models: ByteSize,
    /// Bytes of the tensors that the guest holds in the host at once.
    pub tensors: ByteSize,
}

impl Default for Limits {
    /// What suits an interpreter such as Python with its libraries: tens of megabytes of code, some
    /// hundred of memory.
    fn default() -> Self {
        Self {
            memory: ByteSize(1 << 30),
            stack: ByteSize(1 << 20),
            fuel: None,
            read: ByteSize(512 << 20),
            results: ByteSize(256 << 20),
            row: ByteSize(64 << 20),
            logs: ByteSize(256 << 20),
            output: ByteSize(16 << 30),
            files: 10_000,
            handles: 10_000,
            transfer: ByteSize(128 << 20),
            models: ByteSize(1 << 30),
            tensors: ByteSize(256 << 20),
        }
    }
}

/// What the leader spends on one job: time, and room on the disk. Each has a key of its name below
/// `limits` in the job file. Neither the journal nor the output is cut by any of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobLimits {
    /// Mini-batches; a job with more fails.
    pub mini_batches: u64,
    /// Bytes of all reports that have a line for each attempt or item; lines beyond are left out.
    pub reports: ByteSize,
    /// Failures that are told in full; later ones are told in short.
    pub failures: u64,
    /// How long one run of the job may last, without what it waits for its turn; none for as long as
    /// it likes.
    pub job_time: Option<Duration>,
}

impl Default for JobLimits {
    fn default() -> Self {
        Self {
            mini_batches: 1_000_000_000,
            reports: ByteSize(10 << 30),
            failures: 10_000,
            job_time: None,
        }
    }
}
