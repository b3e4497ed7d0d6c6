//! Receipts: what each attempt of a job used, and whether it is billable.
//!
//! All numbers are exact integers: microseconds, bytes and byte-milliseconds. No sum can overflow: a sum that would be
//! too large stays at its largest value.

use super::{Failure, FailureKind, MiniBatchId, NodeId, WorkerId};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::fmt;

/// What an attempt used, as the host measured it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttemptUsage {
    /// Wall time in microseconds, from picking up the mini-batch to the report of its end.
    pub wall_us: u64,
    /// CPU time of the worker process in microseconds, user and system. 0 if it is unknown, because the worker's node
    /// did not report the end of the attempt.
    pub cpu_us: u64,
    /// The memory that is reserved for the worker, times the wall time: byte-milliseconds.
    pub memory_byte_ms: u64,
    /// The highest memory of the worker process from its start to the end of the attempt, in bytes. 0 if it is unknown.
    pub peak_memory: u64,
    /// The fuel of the call of `run`. `None` if the job does not measure it.
    pub fuel: Option<u64>,
    /// Bytes that the worker read from files.
    pub bytes_read: u64,
    /// Bytes of rows and files that the attempt added to the output.
    pub bytes_written: u64,
    /// Bytes of the objects in stores that the attempt needs, also if its node had them already.
    pub bytes_fetched: u64,
    /// Calls of models.
    pub model_calls: u64,
    /// The time of these calls, in microseconds.
    pub model_us: u64,
    /// The time of the leased GPU in microseconds: from the lease, or the end of the worker's attempt before, to the
    /// end of this attempt.
    pub gpu_us: u64,
}

impl AttemptUsage {
    /// The highest value of each number. It fits SQLite's integers.
    pub const MAX: u64 = i64::MAX.cast_unsigned();

    /// The same, with each number at most [`Self::MAX`].
    #[must_use]
    pub fn capped(self) -> Self {
        let cap = |value: u64| value.min(Self::MAX);
        Self {
            wall_us: cap(self.wall_us),
            cpu_us: cap(self.cpu_us),
            memory_byte_ms: cap(self.memory_byte_ms),
            peak_memory: cap(self.peak_memory),
            fuel: self.fuel.map(cap),
            bytes_read: cap(self.bytes_read),
            bytes_written: cap(self.bytes_written),
            bytes_fetched: cap(self.bytes_fetched),
            model_calls: cap(self.model_calls),
            model_us: cap(self.model_us),
            gpu_us: cap(self.gpu_us),
        }
    }

    /// Only the wall time is known.
    pub fn of_wall(wall_us: u64) -> Self {
        Self { wall_us, ..Self::default() }.capped()
    }
}

/// How an attempt ended, for its receipt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReceiptOutcome {
    /// Its rows and files are in the output.
    Succeeded,
    /// It failed.
    Failed,
    /// It took longer than its time-out.
    TimedOut,
    /// Its node was lost.
    NodeLost,
    /// It was a twin, and the other one counts.
    Discarded,
    /// Its node gave it back, for example because the machine was shut down.
    GivenBack,
    /// The job ended first.
    Cancelled,
}

impl ReceiptOutcome {
    const NAMED: [(&'static str, Self); 7] = [
        ("succeeded", Self::Succeeded),
        ("failed", Self::Failed),
        ("timed_out", Self::TimedOut),
        ("node_lost", Self::NodeLost),
        ("discarded", Self::Discarded),
        ("given_back", Self::GivenBack),
        ("cancelled", Self::Cancelled),
    ];

    /// The name, as in the journal and in JSON.
    pub fn name(self) -> &'static str {
        Self::NAMED.iter().find(|(_, outcome)| *outcome == self).map_or("", |(name, _)| name)
    }

    /// The outcome with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::NAMED.iter().find(|(known, _)| *known == name).map(|(_, outcome)| *outcome)
    }
}

/// Why an attempt is not billable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NotBillable {
    /// Its node was lost.
    NodeLost,
    /// Its node gave it back before its end.
    Preempted,
    /// The machine or Sandmill failed, for example because a disk was full.
    OperatorFault,
    /// It was a twin, and the other one counts.
    Duplicate,
}

impl NotBillable {
    const NAMED: [(&'static str, Self); 4] = [
        ("node_lost", Self::NodeLost),
        ("preempted", Self::Preempted),
        ("operator_fault", Self::OperatorFault),
        ("duplicate", Self::Duplicate),
    ];

    /// The name, as in the journal and in JSON.
    pub fn name(self) -> &'static str {
        Self::NAMED.iter().find(|(_, reason)| *reason == self).map_or("", |(name, _)| name)
    }

    /// The reason with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::NAMED.iter().find(|(known, _)| *known == name).map(|(_, reason)| *reason)
    }
}

/// How an attempt ended, and whether it is billable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReceiptEnd {
    /// How it ended.
    pub outcome: ReceiptOutcome,
    /// Why it is not billable. `None` if it is billable.
    pub not_billable: Option<NotBillable>,
}

impl ReceiptEnd {
    /// The end of an attempt of a lost node.
    pub const NODE_LOST: Self =
        Self { outcome: ReceiptOutcome::NodeLost, not_billable: Some(NotBillable::NodeLost) };
    /// The end of a twin whose other one counts.
    pub const DUPLICATE: Self =
        Self { outcome: ReceiptOutcome::Discarded, not_billable: Some(NotBillable::Duplicate) };
    /// The end of an attempt that its node gave back.
    pub const GIVEN_BACK: Self =
        Self { outcome: ReceiptOutcome::GivenBack, not_billable: Some(NotBillable::Preempted) };

    /// The end of an attempt with this outcome.
    pub fn of<T>(outcome: &Result<T, Failure>) -> Self {
        let Err(failure) = outcome else {
            return Self { outcome: ReceiptOutcome::Succeeded, not_billable: None };
        };
        let (outcome, not_billable) = match failure.kind {
            FailureKind::Timeout | FailureKind::LoadTimeout => (ReceiptOutcome::TimedOut, None),
            FailureKind::HostFault | FailureKind::NoSpace => {
                (ReceiptOutcome::Failed, Some(NotBillable::OperatorFault))
            }
            _ => (ReceiptOutcome::Failed, None),
        };
        Self { outcome, not_billable }
    }
}

/// The receipt of an attempt, as the leader decides on it. What all attempts of a run share is in [`ReceiptRun`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttemptReceipt {
    /// The mini-batch.
    pub mini_batch: MiniBatchId,
    /// The number of the attempt, from 1. Twins have the same number.
    pub attempt: u32,
    /// The worker that made the attempt.
    pub worker: WorkerId,
    /// The worker's node.
    pub node: NodeId,
    /// When the attempt began, in microseconds since 1970.
    pub started_us: i64,
    /// When the leader learned of its end, in microseconds since 1970.
    pub ended_us: i64,
    /// How it ended.
    pub end: ReceiptEnd,
    /// What it used.
    pub usage: AttemptUsage,
}

/// What the receipts of one run have in common.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReceiptRun {
    /// The id of the run.
    pub run: String,
    /// The tenant.
    pub tenant: String,
    /// The SHA-256 of the entry script, in hexadecimal.
    pub component: String,
    /// The version of Sandmill.
    pub engine: String,
}

/// A receipt with everything that its hash covers. The order of the fields is a part of the format.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Receipt {
    /// The number of the receipt in its job, from 1.
    pub number: u64,
    /// The id of the job: of the run that began it.
    pub job: String,
    /// The job's name.
    pub name: String,
    /// The tenant.
    pub tenant: String,
    /// The run in which the attempt was made.
    pub run: String,
    /// The id of the attempt: no other attempt has it.
    pub attempt_id: String,
    /// The mini-batch.
    pub mini_batch: u64,
    /// The number of the attempt, from 1.
    pub attempt: u32,
    /// The name of the worker.
    pub worker: String,
    /// The number of the worker's node in the job.
    pub node: u32,
    /// The SHA-256 of the entry script, in hexadecimal.
    pub component: String,
    /// The version of Sandmill.
    pub engine: String,
    /// When the attempt began.
    pub started: Timestamp,
    /// When the leader learned of its end.
    pub ended: Timestamp,
    /// How it ended.
    pub outcome: ReceiptOutcome,
    /// Whether it is billable.
    pub billable: bool,
    /// Why it is not billable.
    pub not_billable: Option<NotBillable>,
    /// What the attempt used.
    pub usage: AttemptUsage,
}

impl Receipt {
    /// The receipt with this number, of the job with this id and name.
    pub fn new(
        number: u64,
        (job, name): (&str, &str),
        run: &ReceiptRun,
        attempt: &AttemptReceipt,
    ) -> Self {
        let AttemptReceipt { mini_batch, worker, node, end, usage, .. } = *attempt;
        let time = |at: i64| Timestamp::from_microsecond(at).unwrap_or_default();
        Self {
            number,
            job: job.to_owned(),
            name: name.to_owned(),
            tenant: run.tenant.clone(),
            run: run.run.clone(),
            attempt_id: format!("{}/{number}", run.run),
            mini_batch: mini_batch.0,
            attempt: attempt.attempt,
            worker: worker.to_string(),
            node: node.0,
            component: run.component.clone(),
            engine: run.engine.clone(),
            started: time(attempt.started_us),
            ended: time(attempt.ended_us),
            outcome: end.outcome,
            billable: end.not_billable.is_none(),
            not_billable: end.not_billable,
            usage,
        }
    }
}

/// The sum of what several attempts used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct UsageSum {
    /// How many attempts.
    pub attempts: u64,
    /// Wall time in microseconds.
    pub wall_us: u64,
    /// CPU time in microseconds.
    pub cpu_us: u64,
    /// Reserved memory times wall time, in byte-milliseconds. Text in JSON, because it may be larger than the numbers
    /// that programs read there.
    #[serde(with = "as_text")]
    pub memory_byte_ms: u128,
    /// The highest memory of a worker, in bytes.
    pub peak_memory: u64,
    /// Fuel. `None` if no attempt measured it.
    pub fuel: Option<u64>,
    /// Bytes that workers read.
    pub bytes_read: u64,
    /// Bytes in the output.
    pub bytes_written: u64,
    /// Bytes of the objects in stores that attempts need. An object counts for each of them.
    pub bytes_fetched: u64,
    /// Calls of models.
    pub model_calls: u64,
    /// The time of these calls, in microseconds.
    pub model_us: u64,
    /// The time of leased GPUs, in microseconds.
    pub gpu_us: u64,
}

impl UsageSum {
    /// Adds what one attempt used.
    pub fn add(&mut self, usage: &AttemptUsage) {
        let one = Self {
            attempts: 1,
            wall_us: usage.wall_us,
            cpu_us: usage.cpu_us,
            memory_byte_ms: usage.memory_byte_ms.into(),
            peak_memory: usage.peak_memory,
            fuel: usage.fuel,
            bytes_read: usage.bytes_read,
            bytes_written: usage.bytes_written,
            bytes_fetched: usage.bytes_fetched,
            model_calls: usage.model_calls,
            model_us: usage.model_us,
            gpu_us: usage.gpu_us,
        };
        *self += one;
    }
}

impl std::ops::AddAssign for UsageSum {
    fn add_assign(&mut self, other: Self) {
        let add = |sum: &mut u64, more: u64| *sum = sum.saturating_add(more);
        add(&mut self.attempts, other.attempts);
        add(&mut self.wall_us, other.wall_us);
        add(&mut self.cpu_us, other.cpu_us);
        self.memory_byte_ms = self.memory_byte_ms.saturating_add(other.memory_byte_ms);
        self.peak_memory = self.peak_memory.max(other.peak_memory);
        self.fuel = match (self.fuel, other.fuel) {
            (Some(sum), Some(more)) => Some(sum.saturating_add(more)),
            (sum, more) => sum.or(more),
        };
        add(&mut self.bytes_read, other.bytes_read);
        add(&mut self.bytes_written, other.bytes_written);
        add(&mut self.bytes_fetched, other.bytes_fetched);
        add(&mut self.model_calls, other.model_calls);
        add(&mut self.model_us, other.model_us);
        add(&mut self.gpu_us, other.gpu_us);
    }
}

/// The sums of a job's receipts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ReceiptTotals {
    /// What billable attempts used.
    pub billable: UsageSum,
    /// What other attempts used.
    pub not_billable: UsageSum,
    /// The hash of the last receipt, in hexadecimal. Empty if there is no receipt.
    pub head: String,
}

impl ReceiptTotals {
    /// The number of receipts.
    pub fn receipts(&self) -> u64 {
        self.billable.attempts.saturating_add(self.not_billable.attempts)
    }

    /// Adds a receipt, but not its hash.
    pub fn add(&mut self, end: ReceiptEnd, usage: &AttemptUsage) {
        match end.not_billable {
            None => self.billable.add(usage),
            Some(_) => self.not_billable.add(usage),
        }
    }
}

impl fmt::Display for ReceiptOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Serialises a number as decimal text.
mod as_text {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(super) fn serialize<S: Serializer>(number: &u128, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(number)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<u128, D::Error> {
        let text = String::deserialize(from)?;
        text.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_exact_and_do_not_overflow() {
        let usage = AttemptUsage {
            memory_byte_ms: AttemptUsage::MAX,
            wall_us: 3,
            cpu_us: u64::MAX,
            peak_memory: 7,
            ..AttemptUsage::default()
        };
        let mut sum = UsageSum::default();
        (0..4).for_each(|_| sum.add(&usage));
        assert_eq!((sum.attempts, sum.wall_us, sum.peak_memory, sum.fuel), (4, 12, 7, None));
        assert_eq!(sum.memory_byte_ms, 4 * u128::from(AttemptUsage::MAX));
        assert_eq!(sum.cpu_us, u64::MAX);
        sum.add(&AttemptUsage { fuel: Some(5), ..AttemptUsage::default() });
        sum.add(&AttemptUsage { fuel: Some(6), ..AttemptUsage::default() });
        assert_eq!(sum.fuel, Some(11));
        let json = serde_json::to_value(sum).unwrap();
        assert_eq!(json["memory_byte_ms"], (4 * u128::from(AttemptUsage::MAX)).to_string());
        assert_eq!(serde_json::from_value::<UsageSum>(json).unwrap(), sum);
        assert_eq!(usage.capped().cpu_us, AttemptUsage::MAX);
    }

    #[test]
    fn faults_of_the_machine_are_not_billable() {
        let end = |kind| ReceiptEnd::of::<()>(&Err(Failure::new(kind, "no")));
        assert_eq!(end(FailureKind::NoSpace).not_billable, Some(NotBillable::OperatorFault));
        assert_eq!(end(FailureKind::HostFault).not_billable, Some(NotBillable::OperatorFault));
        assert_eq!(end(FailureKind::Trap).not_billable, None);
        let late = end(FailureKind::Timeout);
        assert_eq!((late.outcome, late.not_billable), (ReceiptOutcome::TimedOut, None));
        assert_eq!(ReceiptEnd::of(&Ok(())).outcome, ReceiptOutcome::Succeeded);
    }

    #[test]
    fn names_are_those_of_json() {
        for (name, outcome) in ReceiptOutcome::NAMED {
            assert_eq!(serde_json::to_value(outcome).unwrap(), name);
            assert_eq!((outcome.name(), ReceiptOutcome::named(name)), (name, Some(outcome)));
        }
        for (name, reason) in NotBillable::NAMED {
            assert_eq!(serde_json::to_value(reason).unwrap(), name);
            assert_eq!((reason.name(), NotBillable::named(name)), (name, Some(reason)));
        }
        assert_eq!(ReceiptOutcome::named("other"), None);
    }
}
