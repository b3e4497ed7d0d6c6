//! What became of a job, told from its raw events: the base of `sandmill status`, `logs` and
//! `explain`. Holds a bounded part of them, however long the job.

use crate::event::{Event, EventKind};
use crate::model::{
    AttemptReport, FailedItem, Failure, FailureKind, ItemCounts, JobDir, JobResult, MiniBatchId,
    add_bytes,
};
use crate::opening::regular;
use jiff::Timestamp;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::{self, BufRead, BufReader};

/// Kinds of failures that are told apart.
const MOST_GROUPS: usize = 50;
/// Mini-batches that are named for each kind.
const MOST_NAMED: usize = 8;
/// Items that are named.
const MOST_ITEMS: usize = 10;
/// Slow attempts that are named.
const MOST_SLOW: usize = 10;

/// A job's past, and where it stands if it runs.
#[derive(Debug, Default)]
pub struct History {
    /// The job's name; empty if nothing was read.
    pub job: String,
    /// On whose behalf it ran last.
    pub tenant: String,
    /// When the last run of it began.
    pub began: Option<Timestamp>,
    /// The last event.
    pub last: Option<Timestamp>,
    /// How often it was taken up.
    pub taken_up: u64,
    /// Workers wanted.
    pub wanted: u32,
    /// Mini-batches known.
    pub planned: u64,
    /// Whether these are all.
    pub plan_finished: bool,
    /// Mini-batches that succeeded, those of earlier runs too.
    pub succeeded: u64,
    /// Mini-batches that failed for good.
    pub failed: u64,
    /// Mini-batches that succeeded with fewer rows than items.
    pub short: u64,
    /// Items of those that ended.
    pub items: ItemCounts,
    /// Rows that are committed.
    pub rows: u64,
    /// CPU seconds of workers in all attempts of the last run.
    pub processor_seconds: f64,
    /// Bytes that workers read in them; `None` where the kernel does not count them.
    pub bytes_read: Option<u64>,
    /// Since when it waits for other jobs to leave room; `None` where it has workers.
    pub waits_since: Option<Timestamp>,
    /// Attempts that ended.
    pub attempts: u64,
    /// Results that came too late, and were discarded.
    pub late: u64,
    /// Mini-batches whose last attempt failed, and that wait for the next.
    pub waiting: HashSet<MiniBatchId>,
    /// Live workers by name.
    pub workers: BTreeMap<String, Worker>,
    /// Workers that the leader ended inside `run` with the job: name, mini-batch, attempt and for how
    /// many seconds.
    pub unfinished: Vec<(String, MiniBatchId, u32, f64)>,
    /// Workers that ended unbidden: name and how, the first ones.
    pub exits: Vec<(String, String)>,
    /// How many workers ended unbidden.
    pub exit_count: u64,
    /// Failed starts of workers, and the first of them.
    pub init_failures: u64,
    /// The first failed start: worker and failure.
    pub first_init_failure: Option<(String, Failure)>,
    /// Failed attempts by kind and message, in the order of their first.
    pub groups: Vec<Group>,
    known: HashMap<(FailureKind, String), usize>,
    /// Items that failed in attempts that succeeded, the first ones with their mini-batch.
    pub failed_items: Vec<(MiniBatchId, FailedItem)>,
    /// The slowest attempts, slowest first.
    pub slowest: Vec<Attempt>,
    run_seconds: Vec<f32>,
    /// Why it winds down, or did.
    pub winding_down: Option<String>,
    /// Notices since work began, the last ones.
    pub notices: Vec<String>,
    /// How the last run ended; none if it runs or was cut off.
    pub result: Option<JobResult>,
}

/// A live worker.
#[derive(Clone, Debug)]
pub struct Worker {
    /// Its process.
    pub pid: u32,
    /// The GPU leased to it.
    pub gpu_index: Option<u32>,
    /// What it does.
    pub doing: Doing,
    /// Since when.
    pub since: Timestamp,
}

/// What a worker does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Doing {
    /// It loads the entry script or is inside `init`.
    Starting,
    /// It waits for a mini-batch, or loads one.
    Waiting,
    /// It is inside `run`.
    Running(MiniBatchId, u32),
}

/// Failed attempts of one kind with one message.
#[derive(Clone, Debug)]
pub struct Group {
    /// How many.
    pub count: u64,
    /// Their mini-batches, the first ones.
    pub mini_batches: Vec<MiniBatchId>,
    /// Whether there are more of them than these.
    pub unnamed: bool,
    /// The first of them.
    pub first: Attempt,
    /// Why it failed.
    pub failure: Failure,
}

/// One attempt that ended.
#[derive(Clone, Debug)]
pub struct Attempt {
    /// The mini-batch.
    pub id: MiniBatchId,
    /// From 1.
    pub attempt: u32,
    /// The worker's name.
    pub worker: String,
    /// Where the data lies.
    pub location: String,
    /// When it began.
    pub started: Timestamp,
    /// Its items.
    pub items: u64,
    /// Wall seconds of all of it.
    pub elapsed: f64,
    /// CPU seconds of the whole process.
    pub cpu: f64,
    /// Wall seconds of `run`.
    pub run: f64,
}

impl Attempt {
    /// An attempt as its end was reported.
    pub fn of(worker: &str, report: &AttemptReport, location: &str, started: Timestamp) -> Self {
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

/// Hands each event of a job's raw events to `visit`. A line that is no event, as the last one of a
/// job that was cut off may be, is passed over.
///
/// # Errors
/// If there are none, or they cannot be read.
pub(super) fn read_events(dir: &JobDir, visit: &mut dyn FnMut(Event)) -> io::Result<()> {
    let mut lines = BufReader::with_capacity(1 << 20, regular(&dir.events())?.0);
    let mut line = Vec::new();
    while lines.read_until(b'\n', &mut line)? > 0 {
        if let Ok(event) = serde_json::from_slice(&line) {
            visit(event);
        }
        line.clear();
    }
    Ok(())
}

impl History {
    /// Reads a job's past from its log tree.
    ///
    /// # Errors
    /// If there are no events, or they cannot be read.
    pub fn read(dir: &JobDir) -> io::Result<Self> {
        let mut history = Self::default();
        read_events(dir, &mut |event| history.take(event))?;
        Ok(history)
    }

    /// The middle of all times that `run` took.
    pub fn median_run(&self) -> Option<f64> {
        let mut all = self.run_seconds.clone();
        let middle = all.len() / 2;
        if all.is_empty() {
            return None;
        }
        let (_, median, _) = all.select_nth_unstable_by(middle, f32::total_cmp);
        Some(f64::from(*median))
    }

    fn take(&mut self, event: Event) {
        let at = event.at;
        self.last = Some(at);
        match event.kind {
            EventKind::JobStarted { job, tenant, workers, resumed } => {
                let taken_up = if resumed.is_some() { self.taken_up + 1 } else { 0 };
                // What failed in earlier runs is tried again, but for the items of mini-batches that
                // succeeded.
                let kept = resumed.is_some().then(|| std::mem::take(&mut self.failed_items));
                let failed_items = kept.unwrap_or_default();
                *self = Self {
                    job,
                    tenant,
                    wanted: workers,
                    taken_up,
                    failed_items,
                    ..Self::default()
                };
                (self.began, self.last) = (Some(at), Some(at));
                if let Some(resumed) = resumed {
                    (self.succeeded, self.failed) = (resumed.succeeded, resumed.failed);
                    (self.items, self.rows) = (resumed.items, resumed.rows);
                }
            }
            // What comes before was told of the job file.
            EventKind::Notice { message } if self.attempts > 0 || !self.workers.is_empty() => {
                self.notices.push(message);
                if self.notices.len() > MOST_ITEMS {
                    self.notices.remove(0);
                }
            }
            EventKind::Planned { mini_batches, finished, .. } => {
                (self.planned, self.plan_finished) = (mini_batches, finished);
            }
            EventKind::WaitsForTurn => self.waits_since = Some(at),
            EventKind::WindingDown { reason } => self.winding_down = Some(reason),
            EventKind::JobFinished { result } => self.result = Some(*result),
            kind => self.take_work(kind, at),
        }
    }

    fn take_work(&mut self, kind: EventKind, at: Timestamp) {
        match kind {
            EventKind::WorkerStarted { worker, pid, gpu_index } => {
                self.waits_since = None;
                let doing = Doing::Starting;
                self.workers.insert(worker, Worker { pid, gpu_index, doing, since: at });
            }
            EventKind::WorkerReady { worker, .. } => self.set(&worker, Doing::Waiting, at),
            EventKind::InitFailed { worker, failure } => {
                self.init_failures += 1;
                self.first_init_failure.get_or_insert((worker, failure));
            }
            EventKind::WorkerExited { worker, how, expected } => {
                if let Some(Worker { doing: Doing::Running(id, attempt), since, .. }) =
                    self.workers.remove(&worker)
                    && expected
                    && self.unfinished.len() < MOST_ITEMS
                {
                    let lasted = at.duration_since(since).as_secs_f64();
                    self.unfinished.push((worker.clone(), id, attempt, lasted));
                }
                if !expected {
                    self.exit_count += 1;
                    if self.exits.len() < MOST_ITEMS {
                        self.exits.push((worker, how));
                    }
                }
            }
            EventKind::AttemptDiscarded { .. } => self.late += 1,
            EventKind::AttemptStarted { worker, id, attempt } => {
                self.set(&worker, Doing::Running(id, attempt), at);
            }
            EventKind::AttemptFinished { worker, report, location, started, will_retry } => {
                // The end of a success is told when it is committed: the worker may be at the next.
                let running = Doing::Running(report.id, report.attempt);
                if self.workers.get(&worker).is_some_and(|found| found.doing == running) {
                    self.set(&worker, Doing::Waiting, at);
                }
                let attempt = Attempt::of(&worker, &report, &location, started);
                self.take_attempt(attempt, *report, will_retry);
            }
            _ => {}
        }
    }

    fn set(&mut self, worker: &str, doing: Doing, since: Timestamp) {
        if let Some(worker) = self.workers.get_mut(worker) {
            (worker.doing, worker.since) = (doing, since);
        }
    }

    #[expect(clippy::cast_possible_truncation, reason = "half the memory for seven digits")]
    fn take_attempt(&mut self, attempt: Attempt, report: AttemptReport, will_retry: bool) {
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
                let room = MOST_ITEMS.saturating_sub(self.failed_items.len());
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
        let place = self.slowest.partition_point(|other| other.elapsed >= attempt.elapsed);
        if place < MOST_SLOW {
            self.slowest.insert(place, attempt.clone());
            self.slowest.truncate(MOST_SLOW);
        }
    }

    fn note_failure(&mut self, attempt: Attempt, failure: Failure) {
        let key = (failure.kind, failure.message.clone());
        if let Some(&index) = self.known.get(&key) {
            let group = &mut self.groups[index];
            group.count += 1;
            if !group.mini_batches.contains(&attempt.id) {
                if group.mini_batches.len() < MOST_NAMED {
                    group.mini_batches.push(attempt.id);
                } else {
                    group.unnamed = true;
                }
            }
        } else if self.groups.len() < MOST_GROUPS {
            self.known.insert(key, self.groups.len());
            let mini_batches = vec![attempt.id];
            self.groups.push(Group {
                count: 1,
                mini_batches,
                unnamed: false,
                first: attempt,
                failure,
            });
        }
    }
}
