//! Failures of entry scripts and of workers, as data.

use serde::{Deserialize, Serialize};
use std::{fmt, io};

/// Why an attempt, or an `init`, failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The kind, for counting and for programs.
    pub kind: FailureKind,
    /// What happened, in one line for the user. If a limit was exceeded, the line names the limit and its
    /// value.
    pub message: String,
    /// Further lines, such as a stack or the end of stderr. May be empty.
    pub detail: String,
}

impl Failure {
    /// A failure without detail.
    pub fn new(kind: FailureKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), detail: String::new() }
    }

    /// Adds detail lines.
    #[must_use]
    pub fn with_detail(mut self, detail: impl Into<String>) -> Self {
        self.detail = detail.into();
        self
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// Whether an error means that the disk is full, or that this user's quota is used up.
pub fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// The kinds of [`Failure`]. Later versions may have more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// The entry script returned an error.
    ScriptError,
    /// The guest trapped: a panic, an out-of-bounds access, a stack overflow.
    Trap,
    /// The guest ended itself with `exit`.
    Exit,
    /// The guest requested more memory than `limits.memory`, or the worker process was killed
    /// because it used too much memory.
    OutOfMemory,
    /// The memory of the GPU was full.
    DeviceOutOfMemory,
    /// A call used up `limits.fuel`.
    OutOfFuel,
    /// A call took longer than its time-out, so the worker was killed.
    Timeout,
    /// Loading the mini-batch took longer than `task_overhead_timeout`, so the worker was killed.
    LoadTimeout,
    /// `run` returned fewer or more rows than items, and the job requires one row for each item
    /// (`strict_cardinality`).
    ShortResults,
    /// `run` returned something that is not a valid result.
    BadResults,
    /// The mini-batch could not be read.
    LoadFailed,
    /// A file that the guest wrote could not be published.
    BadOutput,
    /// The guest exceeded another limit of `limits`. The message names the limit.
    OverLimit,
    /// The worker process made a system call that entry scripts do not need. The system-call filter ended it.
    Forbidden,
    /// The worker process ended unexpectedly.
    WorkerDied,
    /// A fault of Sandmill or of the machine, such as a full disk.
    HostFault,
    /// The mini-batch's data was read but cannot be decoded. A retry would read the same data.
    BadInput,
    /// The disk with the job directory is too full for the results of an attempt. This ends the job.
    NoSpace,
}

impl FailureKind {
    /// Whether a retry may succeed.
    pub fn may_succeed_on_retry(self) -> bool {
        self != Self::BadInput
    }

    /// Whether this failure of `run` breaks the instance of the entry script, so that the worker makes a new
    /// instance.
    pub fn breaks_instance(self) -> bool {
        use FailureKind::{Exit, OutOfFuel, OutOfMemory, OverLimit, Trap};
        matches!(self, Trap | Exit | OutOfMemory | OutOfFuel | OverLimit)
    }

    /// The status word of the attempt in `processed_mini-batches.csv`.
    pub fn status_word(self) -> &'static str {
        match self {
            Self::Timeout => "RUN_TIMEOUT",
            Self::LoadTimeout => "LOAD_TIMEOUT",
            Self::LoadFailed | Self::BadInput => "LOAD_EXCEPTION",
            _ => "RUN_EXCEPTION",
        }
    }
}

/// Prints the kind as reports write it: `out_of_memory`.
impl fmt::Display for FailureKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ScriptError => "script_error",
            Self::Trap => "trap",
            Self::Exit => "exit",
            Self::OutOfMemory => "out_of_memory",
            Self::DeviceOutOfMemory => "device_out_of_memory",
            Self::OutOfFuel => "out_of_fuel",
            Self::Timeout => "timeout",
            Self::LoadTimeout => "load_timeout",
            Self::ShortResults => "short_results",
            Self::BadResults => "bad_results",
            Self::LoadFailed => "load_failed",
            Self::BadOutput => "bad_output",
            Self::OverLimit => "over_limit",
            Self::Forbidden => "forbidden",
            Self::WorkerDied => "worker_died",
            Self::HostFault => "host_fault",
            Self::BadInput => "bad_input",
            Self::NoSpace => "no_space",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rule W13 in docs/parallel-run-step.md: the status words of attempts that did not succeed.
    #[test]
    fn each_kind_has_its_status_word() {
        let words = [
            (FailureKind::Timeout, "RUN_TIMEOUT"),
            (FailureKind::LoadTimeout, "LOAD_TIMEOUT"),
            (FailureKind::LoadFailed, "LOAD_EXCEPTION"),
            (FailureKind::BadInput, "LOAD_EXCEPTION"),
            (FailureKind::ShortResults, "RUN_EXCEPTION"),
            (FailureKind::Trap, "RUN_EXCEPTION"),
            (FailureKind::WorkerDied, "RUN_EXCEPTION"),
        ];
        for (kind, word) in words {
            assert_eq!(kind.status_word(), word, "{kind}");
        }
    }
}
