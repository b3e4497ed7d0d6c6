//! Every way in which user code, or the worker around it, can fail, as data.

use serde::{Deserialize, Serialize};
use std::{fmt, io};

/// Why an attempt, or an `init`, failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The kind, for counting and for programs.
    pub kind: FailureKind,
    /// One line for people: what happened, with limit and value where a limit was hit.
    pub message: String,
    /// More lines, if there are any: a stack, the end of stderr. Empty if not.
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

/// Whether there is no room on the disk, or for this user.
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
    /// The guest wanted more memory than `limits.memory`, or the process was killed for memory.
    OutOfMemory,
    /// The memory of the GPU was full.
    DeviceOutOfMemory,
    /// A call used up `limits.fuel`.
    OutOfFuel,
    /// A call took longer than its time-out; the worker was killed.
    Timeout,
    /// Loading the mini-batch took longer than `task_overhead_timeout`; the worker was killed.
    LoadTimeout,
    /// `run` returned fewer or more rows than items, and the job wants one for each
    /// (`strict_cardinality`).
    ShortResults,
    /// `run` returned something that is not a valid result.
    BadResults,
    /// The mini-batch could not be read.
    LoadFailed,
    /// A file that the guest wrote could not be published.
    BadOutput,
    /// The guest went beyond one of `limits` that has no kind of its own; the message names it.
    OverLimit,
    /// The worker process asked the kernel for something that no entry script needs, and was ended
    /// by the system-call filter.
    Forbidden,
    /// The worker process ended unexpectedly.
    WorkerDied,
    /// Sandmill's own fault, or the machine's (a full disk, say).
    HostFault,
    /// What was read of the mini-batch cannot be decoded: another try would read the same.
    BadInput,
    /// The disk that holds the job directory has no room for what an attempt made. The job ends by it.
    NoSpace,
}

impl FailureKind {
    /// Whether another try may end otherwise.
    pub fn can_mend(self) -> bool {
        self != Self::BadInput
    }

    /// Whether the instance of the entry script is broken after a `run` that failed like this, so that a new
    /// one is made.
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

/// Prints the kind as in reports: `out_of_memory`.
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

    /// W13: the status words of attempts that did not succeed.
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
