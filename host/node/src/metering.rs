//! Measures what attempts use, for their receipts. This process measures wall time, CPU time, memory and GPU time itself.
//! What only a worker can count is bounded by what is possible in the time that this process has measured: a worker
//! process may be compromised, and may report anything.

use crate::model::{AttemptReport, AttemptUsage, MiniBatchId, WorkerId};
use crate::pool::Pool;
use crate::protocol::NodeNews;
use std::collections::HashMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// More fuel than a processor can use in a microsecond.
const MAX_FUEL_PER_US: u64 = 100_000;
/// More bytes than a process can read in a microsecond.
const MAX_BYTES_PER_US: u64 = 1_000_000;
/// The peak memory is read after each attempt that took at least this long, and otherwise after this time. Reading it
/// after each short attempt would take longer than the attempt.
const PEAK_INTERVAL: Duration = Duration::from_millis(100);

/// What the attempts of this machine's workers use.
#[derive(Debug, Default)]
pub(super) struct Metering {
    workers: HashMap<WorkerId, WorkerMeter>,
    /// The bytes of the objects that attempts need that have not ended.
    fetched: HashMap<(MiniBatchId, u32), u64>,
    /// The files that were requested for mini-batches, if the leader on this machine has requested them. Each counts for the
    /// first attempt.
    files: HashMap<MiniBatchId, Vec<PathBuf>>,
    /// The memory that is reserved for each worker, in bytes.
    budget: u64,
}

/// What one worker has used.
#[derive(Debug, Default)]
struct WorkerMeter {
    /// The CPU time of `init` and of all attempts that have ended, in microseconds.
    cpu_before: u64,
    /// The CPU time of the process when it was killed.
    cpu_at_kill: Option<u64>,
    /// The wall time of all attempts that have ended, in microseconds.
    busy_us: u64,
    /// What the worker has reported of these attempts.
    reported: Reported,
    peak_memory: u64,
    peak_read: Option<Instant>,
    /// Since when the time of the worker's GPU belongs to the next attempt. `None` if it has no GPU.
    gpu_since: Option<Instant>,
}

/// Sums of what a worker has reported.
#[derive(Clone, Copy, Debug, Default)]
struct Reported {
    fuel: u64,
    bytes_read: u64,
    model_calls: u64,
    model_us: u64,
}

impl Metering {
    /// `budget`: the memory that is reserved for each worker, in bytes.
    pub(super) fn new(budget: u64) -> Self {
        Self { budget, ..Self::default() }
    }

    /// A worker was started. `has_gpu`: whether it has a leased GPU.
    pub(super) fn on_spawned(&mut self, worker: WorkerId, has_gpu: bool) {
        let gpu_since = has_gpu.then(Instant::now);
        self.workers.insert(worker, WorkerMeter { gpu_since, ..WorkerMeter::default() });
    }

    /// Must be called before a worker is killed.
    pub(super) fn note_kill(&mut self, worker: WorkerId, pool: &Pool) {
        if let Some(meter) = self.workers.get_mut(&worker)
            && meter.cpu_at_kill.is_none()
        {
            meter.cpu_at_kill = pool.cpu_us(worker);
            meter.read_peak(worker, pool);
        }
    }

    /// Forgets a worker that is gone, after its last attempt has been reported.
    pub(super) fn forget(&mut self, worker: WorkerId) {
        self.workers.remove(&worker);
    }

    /// An attempt needs objects with so many bytes. The node may have some of them already.
    pub(super) fn note_fetch(&mut self, attempt: (MiniBatchId, u32), bytes: u64) {
        if bytes > 0 {
            self.fetched.insert(attempt, bytes);
        }
    }

    /// These files are requested for a mini-batch. The node may have some of them already.
    pub(super) fn note_files(&mut self, id: MiniBatchId, files: &[PathBuf]) {
        if !files.is_empty() {
            self.files.insert(id, files.to_vec());
        }
    }

    /// The bytes of the objects that an attempt needs.
    fn take_fetched(&mut self, attempt: (MiniBatchId, u32)) -> u64 {
        let files = self.files.remove(&attempt.0).unwrap_or_default();
        let lengths = files.iter().filter_map(|file| Some(file.metadata().ok()?.len()));
        let bytes = self.fetched.remove(&attempt).unwrap_or_default();
        lengths.fold(bytes, u64::saturating_add)
    }

    /// An attempt goes back to the leader.
    fn give_back(&mut self, attempt: (MiniBatchId, u32)) {
        self.fetched.remove(&attempt);
    }

    /// Adds to the news of an attempt's end what the attempt used. Must be called with all news of the machine, which has
    /// no news of a message that a worker sent out of turn.
    pub(super) fn measure_news(&mut self, news: &mut NodeNews, pool: &Pool) {
        match news {
            NodeNews::Ready { worker, .. } => {
                if let Some(meter) = self.workers.get_mut(worker) {
                    meter.end_init(pool.cpu_us(*worker));
                }
            }
            NodeNews::Finished { worker, age, usage, report, .. } => {
                let attempt = (*worker, (report.id, report.attempt));
                *usage = self.measure(attempt, *age, Some(report), pool);
            }
            NodeNews::Lost { worker, id, attempt, age, process_seconds, usage, .. } => {
                *usage = self.measure((*worker, (*id, *attempt)), *age, None, pool);
                // The worker cannot report it.
                *process_seconds = Duration::from_micros(usage.cpu_us).as_secs_f64();
            }
            NodeNews::Unfetched { id, attempt, .. } => self.give_back((*id, *attempt)),
            NodeNews::Returned(attempts) => {
                attempts.iter().for_each(|attempt| self.give_back(*attempt));
            }
            _ => {}
        }
    }

    /// What an attempt used that has ended now and began `age` ago. `report`: the worker's own report. `None` if the
    /// worker is gone.
    fn measure(
        &mut self,
        (worker, attempt): (WorkerId, (MiniBatchId, u32)),
        age: Duration,
        report: Option<&AttemptReport>,
        pool: &Pool,
    ) -> AttemptUsage {
        let wall_us = micros(age);
        let bytes_fetched = self.take_fetched(attempt);
        let memory = u128::from(self.budget) * u128::from(wall_us) / 1000;
        let memory_byte_ms = u64::try_from(memory).unwrap_or(u64::MAX);
        let meter = self.workers.entry(worker).or_default();
        meter.busy_us = meter.busy_us.saturating_add(wall_us);
        let cpu_us = meter.take_cpu(pool.cpu_us(worker));
        let is_due = |at: Instant| age >= PEAK_INTERVAL || at.elapsed() >= PEAK_INTERVAL;
        if meter.peak_read.is_none_or(is_due) {
            meter.read_peak(worker, pool);
        }
        let gpu_us = meter.gpu_since.as_mut().map_or(0, |since| {
            let now = Instant::now();
            micros(now - std::mem::replace(since, now))
        });
        let usage = AttemptUsage {
            wall_us,
            cpu_us,
            memory_byte_ms,
            peak_memory: meter.peak_memory,
            bytes_fetched,
            gpu_us,
            ..meter.take_reported(report)
        };
        usage.capped()
    }
}

impl WorkerMeter {
    /// `init` has ended: its time belongs to no attempt. `now`: the CPU time of the process, if it still exists.
    fn end_init(&mut self, now: Option<u64>) {
        self.cpu_before = now.unwrap_or(self.cpu_before);
    }

    /// The CPU time since the attempt before. `now`: the CPU time of the process, if it still exists.
    fn take_cpu(&mut self, now: Option<u64>) -> u64 {
        let Some(total) = self.cpu_at_kill.or(now) else { return 0 };
        let used = total.saturating_sub(self.cpu_before);
        self.cpu_before = self.cpu_before.max(total);
        used
    }

    fn read_peak(&mut self, worker: WorkerId, pool: &Pool) {
        self.peak_read = Some(Instant::now());
        self.peak_memory = self.peak_memory.max(pool.peak_memory(worker).unwrap_or_default());
    }

    /// What the worker reports of an attempt, as far as it is possible. The bounds are those of all attempts together:
    /// several reports may arrive at the same time, and the first one then gets the wall time of all of them.
    fn take_reported(&mut self, report: Option<&AttemptReport>) -> AttemptUsage {
        let Some(report) = report else { return AttemptUsage::default() };
        let busy = self.busy_us;
        let take = |sum: &mut u64, claimed: u64, most: u64| {
            let taken = claimed.min(most.saturating_sub(*sum));
            *sum = sum.saturating_add(taken);
            taken
        };
        let sums = &mut self.reported;
        let most_fuel = busy.saturating_mul(MAX_FUEL_PER_US);
        let most_bytes = busy.saturating_mul(MAX_BYTES_PER_US);
        let model_us = Duration::try_from_secs_f64(report.inference.seconds).unwrap_or_default();
        AttemptUsage {
            fuel: report.run.fuel.map(|fuel| take(&mut sums.fuel, fuel, most_fuel)),
            bytes_read: take(
                &mut sums.bytes_read,
                report.bytes_read.unwrap_or_default(),
                most_bytes,
            ),
            model_calls: take(&mut sums.model_calls, report.inference.calls, busy),
            model_us: take(&mut sums.model_us, micros(model_us), busy),
            ..AttemptUsage::default()
        }
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{CallStats, InferenceStats};

    fn lie() -> AttemptReport {
        AttemptReport {
            run: CallStats { seconds: 1e9, fuel: Some(u64::MAX) },
            bytes_read: Some(u64::MAX),
            process_seconds: f64::INFINITY,
            inference: InferenceStats {
                calls: u64::MAX,
                seconds: f64::NAN,
                ..InferenceStats::default()
            },
            ..AttemptReport::sample()
        }
    }

    /// A worker that reports more than is possible is charged for what is possible in the measured time, however many
    /// reports it sends.
    #[test]
    fn a_lying_worker_cannot_inflate_its_usage() {
        let mut meter = WorkerMeter { busy_us: 10, ..WorkerMeter::default() };
        let used = meter.take_reported(Some(&lie()));
        assert_eq!(used.fuel, Some(10 * MAX_FUEL_PER_US));
        assert_eq!(used.bytes_read, 10 * MAX_BYTES_PER_US);
        assert_eq!((used.model_calls, used.model_us), (10, 0));
        let again = meter.take_reported(Some(&lie()));
        assert_eq!((again.fuel, again.bytes_read, again.model_calls), (Some(0), 0, 0));
        assert_eq!(again.cpu_us, 0, "the report does not decide on CPU time");
    }

    /// An honest worker whose reports arrive together is charged for all that it reports.
    #[test]
    fn reports_that_arrive_together_count_in_full() {
        let mut meter = WorkerMeter { busy_us: 3000, ..WorkerMeter::default() };
        let report = AttemptReport {
            run: CallStats { seconds: 0.001, fuel: Some(5_000_000) },
            bytes_read: Some(7),
            inference: InferenceStats { calls: 2, seconds: 0.0005, ..InferenceStats::default() },
            ..AttemptReport::sample()
        };
        for _ in 0..3 {
            let used = meter.take_reported(Some(&report));
            assert_eq!((used.fuel, used.bytes_read), (Some(5_000_000), 7));
            assert_eq!((used.model_calls, used.model_us), (2, 500));
        }
    }

    #[test]
    fn the_cpu_time_of_init_belongs_to_no_attempt() {
        let mut meter = WorkerMeter::default();
        meter.end_init(Some(70));
        assert_eq!(meter.take_cpu(Some(100)), 30);
        meter.end_init(None);
        assert_eq!(meter.take_cpu(Some(110)), 10, "the process was gone for a moment");
    }

    #[test]
    fn cpu_time_counts_once_and_never_goes_back() {
        let mut meter = WorkerMeter { cpu_before: 100, ..WorkerMeter::default() };
        assert_eq!(meter.take_cpu(Some(150)), 50);
        assert_eq!(meter.take_cpu(Some(140)), 0);
        assert_eq!(meter.take_cpu(Some(160)), 10);
        meter.cpu_at_kill = Some(200);
        assert_eq!(meter.take_cpu(None), 40);
        assert_eq!(WorkerMeter::default().take_cpu(None), 0, "the process is gone");
    }
}
