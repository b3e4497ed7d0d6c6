//! The history of a job, read from its events: the data that `sandmill status`, `logs` and `explain` show.
//! The history keeps a bounded part of the events, and four bytes for each attempt.

use super::log_folders::LogFolders;
use crate::event::{Event, EventKind};
use crate::model::{
    AttemptReport, FailedItem, Failure, FailureKind, ItemCounts, JobResult, MiniBatchId,
    ReceiptTotals, add_bytes,
};
use crate::opening::regular;
use jiff::Timestamp;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::{self, BufRead, BufReader, ErrorKind};

/// At most this many kinds of failures are kept.
const MAX_GROUPS: usize = 50;
/// At most this many mini-batches are kept for each kind of failure.
const MAX_NAMED: usize = 8;
/// At most this many failed items are kept, and as many notices, unexpected exits and unfinished
/// mini-batches.
const MAX_ITEMS: usize = 10;
/// At most this many slow attempts are kept.
const MAX_SLOW: usize = 10;

/// A job's history, and its current state if it is running.
#[derive(Debug, Default)]
pub struct History {
    /// The job's name; empty if nothing was read.
    pub job: String,
    /// The tenant of the last run.
    pub tenant: String,
    /// When the last run began.
    pub began: Option<Timestamp>,
    /// The time of the last event.
    pub last: Option<Timestamp>,
    /// How often the job was resumed.
    pub times_resumed: u64,
    /// The number of workers that the job wants.
    pub wanted: u32,
    /// The mini-batches planned so far.
    pub planned: u64,
    /// Whether planning is finished.
    pub plan_finished: bool,
    /// The mini-batches that succeeded, in earlier runs too.
    pub succeeded: u64,
    /// The mini-batches that failed for good.
    pub failed: u64,
    /// The mini-batches that succeeded with fewer rows than items.
    pub short: u64,
    /// The items of the mini-batches that ended.
    pub items: ItemCounts,
    /// The rows that are committed.
    pub rows: u64,
    /// The CPU seconds of the workers in all attempts of the last run.
    pub processor_seconds: f64,
    /// The bytes that workers read in all attempts of the last run; `None` if the kernel does not count them.
    pub bytes_read: Option<u64>,
    /// Since when the job waits for other jobs to free resources; `None` if it does not wait.
    pub waits_since: Option<Timestamp>,
    /// The number of attempts that ended.
    pub attempts: u64,
    /// The number of results that came after Sandmill had stopped waiting for them, and were discarded.
    pub late: u64,
    /// The number of second attempts at slow mini-batches, made while the first one continued.
    pub twins: u64,
    /// The backends of nodes that compute models in another way than the job, by the nodes' numbers.
    pub mixed_backends: BTreeMap<u32, String>,
    /// The mini-batches whose last attempt failed and that wait for the next one.
    pub waiting: HashSet<MiniBatchId>,
    /// The live workers, by name.
    pub workers: BTreeMap<String, WorkerHistory>,
    /// The workers that the leader ended inside `run` at the end of the job: the name, the mini-batch, the
    /// attempt, and how many seconds the attempt had lasted.
    pub unfinished: Vec<(String, MiniBatchId, u32, f64)>,
    /// The first workers that ended unexpectedly: the name, and how the process ended.
    pub exits: Vec<(String, String)>,
    /// How many workers ended unexpectedly.
    pub exit_count: u64,
    /// How often a worker failed to start.
    pub init_failures: u64,
    /// The first failed start: the worker and the failure.
    pub first_init_failure: Option<(String, Failure)>,
    /// The failed attempts, grouped by kind and message, in the order of each group's first attempt.
    pub groups: Vec<FailureGroup>,
    group_indexes: HashMap<(FailureKind, String), usize>,
    /// The first items that failed in attempts that succeeded, with their mini-batches.
    pub failed_items: Vec<(MiniBatchId, FailedItem)>,
    /// The slowest attempts, the slowest first.
    pub slowest: Vec<Attempt>,
    run_seconds: Vec<f32>,
    /// Why the job is winding down, or wound down; `None` if it did not.
    pub winding_down: Option<String>,
    /// The last notices since work began.
    pub notices: Vec<String>,
    /// How the last run ended; `None` if it is running or was cut off.
    pub result: Option<JobResult>,
    /// The sums of the job's receipts, of all its runs, when they were last reported. `None` if they were not.
    pub receipts: Option<Box<ReceiptTotals>>,
}

/// A live worker.
#[derive(Clone, Debug)]
pub struct WorkerHistory {
    /// The process ID.
    pub pid: u32,
    /// The GPU that the worker leases; `None` if it has none.
    pub gpu_index: Option<u32>,
    /// Its current activity.
    pub doing: WorkerActivity,
    /// When the activity began.
    pub since: Timestamp,
}

/// The activity of a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WorkerActivity {
    /// The worker loads the entry script or is inside `init`.
    Starting,
    /// The worker waits for a mini-batch, or loads one.
    Waiting,
    /// The worker is inside `run`, in this attempt at the mini-batch.
    Running(MiniBatchId, u32),
}

/// Failed attempts of one kind with the same message.
#[derive(Clone, Debug)]
pub struct FailureGroup {
    /// The number of attempts.
    pub count: u64,
    /// The first mini-batches in which they failed.
    pub mini_batches: Vec<MiniBatchId>,
    /// Whether they also failed in more mini-batches than `mini_batches` names.
    pub has_more_mini_batches: bool,
    /// The first of these attempts.
    pub first: Attempt,
    /// Why the first attempt failed.
    pub failure: Failure,
}

/// An attempt that ended.
#[derive(Clone, Debug)]
pub struct Attempt {
    /// The mini-batch.
    pub id: MiniBatchId,
    /// The number of the attempt, from 1.
    pub attempt: u32,
    /// The worker's name.
    pub worker: String,
    /// Where the mini-batch's data is.
    pub location: String,
    /// When the attempt began.
    pub started: Timestamp,
    /// The number of items of the mini-batch.
    pub items: u64,
    /// The wall-clock seconds of the whole attempt.
    pub elapsed: f64,
    /// The CPU seconds of the whole process.
    pub cpu: f64,
    /// The wall-clock seconds of `run`.
    pub run: f64,
}

impl Attempt {
    /// Makes an attempt from the report of its end.
    pub fn from_report(
        worker: &str,
        report: &AttemptReport,
        location: &str,
        started: Timestamp,
    ) -> Self {
        Self {
            id: report.id,
            attempt: report.attempt,
            worker: worker.to_owned(),
            location: location.to_owned(),
            started,
            items: report.items.total,
            elapsed: report.elapsed_seconds,
            cpu: report.process_seconds,
            run: report.run.seconds,
        }
    }
}

/// Passes each event of a job to `visit`. Skips lines that are not valid events, such as a partial last line
/// of a job that was cut off.
///
/// # Errors
/// If there are no events, or they cannot be read.
pub(super) fn read_events(logs: &LogFolders, visit: &mut dyn FnMut(Event)) -> io::Result<()> {
    let mut missing = Some(io::Error::from(ErrorKind::NotFound));
    for path in logs.events() {
        let file = match regular(&path) {
            Ok((file, _)) => file,
            // A leader of the job has just begun.
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        missing = None;
        let mut lines = BufReader::with_capacity(1 << 20, file);
        let mut line = Vec::new();
        while lines.read_until(b'\n', &mut line)? > 0 {
            if let Ok(event) = serde_json::from_slice(&line) {
                visit(event);
            }
            line.clear();
        }
    }
    missing.map_or(Ok(()), Err)
}

impl History {
    /// Reads a job's history from its log tree.
    ///
    /// # Errors
    /// If there are no events, or they cannot be read.
    pub fn read(logs: impl Into<LogFolders>) -> io::Result<Self> {
        let mut history = Self::default();
        read_events(&logs.into(), &mut |event| history.add(event))?;
        Ok(history)
    }

    /// The median of the seconds in `run`; `None` before the first attempt has ended.
    pub fn median_run(&self) -> Option<f64> {
        let mut seconds = self.run_seconds.clone();
        let middle = seconds.len() / 2;
        if seconds.is_empty() {
            return None;
        }
        let (_, median, _) = seconds.select_nth_unstable_by(middle, f32::total_cmp);
        Some(f64::from(*median))
    }

    /// Adds the next event.
    pub fn add(&mut self, event: Event) {
        let at = event.at;
        self.last = Some(at);
        match event.kind {
            EventKind::JobStarted { job, tenant, workers, resumed } => {
                let times_resumed = if resumed.is_some() { self.times_resumed + 1 } else { 0 };
                // A resumed job retries the mini-batches that failed in earlier runs. It does not retry the
                // failed items of mini-batches that succeeded.
                let kept = resumed.is_some().then(|| std::mem::take(&mut self.failed_items));
                let failed_items = kept.unwrap_or_default();
                // These sums include earlier runs.
                let receipts = self.receipts.take().filter(|_| resumed.is_some());
                *self = Self {
                    job,
                    tenant,
                    wanted: workers,
                    times_resumed,
                    failed_items,
                    receipts,
                    ..Self::default()
                };
                (self.began, self.last) = (Some(at), Some(at));
                if let Some(resumed) = resumed {
                    (self.succeeded, self.failed) = (resumed.succeeded, resumed.failed);
                    (self.items, self.rows) = (resumed.items, resumed.rows);
                }
            }
            // Earlier notices are about the job file.
            EventKind::Notice { message } if self.attempts > 0 || !self.workers.is_empty() => {
                self.notices.push(message);
                if self.notices.len() > MAX_ITEMS {
                    self.notices.remove(0);
                }
            }
            EventKind::Planned { mini_batches, finished, .. } => {
                (self.planned, self.plan_finished) = (mini_batches, finished);
            }
            EventKind::WaitsForTurn => self.waits_since = Some(at),
            EventKind::WindingDown { reason } => self.winding_down = Some(reason),
            EventKind::Receipts { totals } => self.receipts = Some(totals),
            EventKind::JobFinished { result } => {
                self.receipts.clone_from(&result.receipts);
                self.result = Some(*result);
            }
            kind => self.add_work_event(kind, at),
        }
    }

    fn add_work_event(&mut self, kind: EventKind, at: Timestamp) {
        match kind {
            EventKind::WorkerStarted { worker, pid, gpu_index } => {
                self.waits_since = None;
                let doing = WorkerActivity::Starting;
                self.workers.insert(worker, WorkerHistory { pid, gpu_index, doing, since: at });
            }
            EventKind::WorkerReady { worker, .. } => {
                self.set_activity(&worker, WorkerActivity::Waiting, at);
            }
            EventKind::InitFailed { worker, failure } => {
                self.init_failures += 1;
                self.first_init_failure.get_or_insert((worker, failure));
            }
            EventKind::WorkerExited { worker, how, expected } => {
                if let Some(WorkerHistory {
                    doing: WorkerActivity::Running(id, attempt),
                    since,
                    ..
                }) = self.workers.remove(&worker)
                    && expected
                    && self.unfinished.len() < MAX_ITEMS
                {
                    let lasted = at.duration_since(since).as_secs_f64();
                    self.unfinished.push((worker.clone(), id, attempt, lasted));
                }
                if !expected {
                    self.exit_count += 1;
                    if self.exits.len() < MAX_ITEMS {
                        self.exits.push((worker, how));
                    }
                }
            }
            EventKind::AttemptDiscarded { .. } => self.late += 1,
            EventKind::TwinGranted { .. } => self.twins += 1,
            EventKind::MixedBackends { node, backends }
                if self.mixed_backends.len() < MAX_ITEMS =>
            {
                self.mixed_backends.insert(node, backends);
            }
            EventKind::AttemptCancelled { worker, .. } => {
                self.set_activity(&worker, WorkerActivity::Waiting, at);
            }
            EventKind::AttemptStarted { worker, id, attempt } => {
                self.set_activity(&worker, WorkerActivity::Running(id, attempt), at);
            }
            EventKind::AttemptFinished { worker, report, location, started, will_retry } => {
                // A success is reported when it is committed: by then, the worker may be at its next
                // mini-batch.
                let running = WorkerActivity::Running(report.id, report.attempt);
                if self.workers.get(&worker).is_some_and(|found| found.doing == running) {
                    self.set_activity(&worker, WorkerActivity::Waiting, at);
                }
                let attempt = Attempt::from_report(&worker, &report, &location, started);
                self.add_attempt(attempt, *report, will_retry);
            }
            _ => {}
        }
    }

    fn set_activity(&mut self, worker: &str, doing: WorkerActivity, since: Timestamp) {
        if let Some(worker) = self.workers.get_mut(worker) {
            (worker.doing, worker.since) = (doing, since);
        }
    }

    #[expect(
        clippy::cast_possible_truncation,
        reason = "seven digits are enough, and an f32 needs half the memory"
    )]
    fn add_attempt(&mut self, attempt: Attempt, report: AttemptReport, will_retry: bool) {
        self.attempts += 1;
        self.processor_seconds += attempt.cpu;
        add_bytes(&mut self.bytes_read, report.bytes_read);
        self.run_seconds.push(report.run.seconds as f32);
        self.note_slow(&attempt);
        self.waiting.remove(&report.id);
        if !will_retry {
            self.items += report.items;
        }
        match report.outcome {
            Ok(segment) => {
                self.succeeded += 1;
                self.short += u64::from(report.is_short);
                self.rows += segment.rows;
                let room = MAX_ITEMS.saturating_sub(self.failed_items.len());
                let items = report.failed_items.into_iter().take(room);
                self.failed_items.extend(items.map(|item| (report.id, item)));
            }
            Err(failure) => {
                if will_retry {
                    self.waiting.insert(report.id);
                } else {
                    self.failed += 1;
                }
                self.note_failure(attempt, failure);
            }
        }
    }

    fn note_slow(&mut self, attempt: &Attempt) {
        let index = self.slowest.partition_point(|other| other.elapsed >= attempt.elapsed);
        if index < MAX_SLOW {
            self.slowest.insert(index, attempt.clone());
            self.slowest.truncate(MAX_SLOW);
        }
    }

    fn note_failure(&mut self, attempt: Attempt, failure: Failure) {
        let key = (failure.kind, failure.message.clone());
        if let Some(&index) = self.group_indexes.get(&key) {
            let group = &mut self.groups[index];
            group.count += 1;
            if !group.mini_batches.contains(&attempt.id) {
                if group.mini_batches.len() < MAX_NAMED {
                    group.mini_batches.push(attempt.id);
                } else {
                    group.has_more_mini_batches = true;
                }
            }
        } else if self.groups.len() < MAX_GROUPS {
            self.group_indexes.insert(key, self.groups.len());
            let mini_batches = vec![attempt.id];
            self.groups.push(FailureGroup {
                count: 1,
                mini_batches,
                has_more_mini_batches: false,
                first: attempt,
                failure,
            });
        }
    }
}
