//! The simulated environment of the state machines: processes, a committer, a plan, and a journal that
//! outlives the leader.

use super::super::{LocalMachine, MachineAction, MachineMessage, RetryPolicy, SettledMiniBatch};
use super::dice::SimulationRandom;
use super::receipt_book::ReceiptBook;
use crate::event::EventKind;
use crate::model::WorkerExit;
use crate::model::{
    AllowedPercent, ErrorThreshold, Failure, FailureKind, ItemCounts, JobResult, JobStatus,
    MiniBatch, MiniBatchId, MiniBatchWork, OutputAction, Restored, WorkerId,
};
use crate::protocol::{Assignment, NodePolicy};
use jiff::Timestamp;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

/// How many items a mini-batch has, unless it is void.
pub(super) const ITEMS: u64 = 3;

#[derive(Debug, Default)]
pub(super) struct FakeWorker {
    pub(super) ready: bool,
    pub(super) started: bool,
    pub(super) inbox: VecDeque<Assignment>,
    pub(super) asked_to_end: bool,
    pub(super) killed: bool,
    killed_at: Duration,
    pub(super) failed_init: bool,
    /// Whether the worker waits for the leader's decision after a failed attempt.
    pub(super) awaits_decision: bool,
    /// Whether the worker has falsely claimed that its instance broke. Then its next "ready" may be ignored.
    pub(super) lied: bool,
    /// Whether the state machine has stopped waiting for the worker to exit.
    pub(super) given_up: bool,
    pub(super) gpu: Option<u32>,
    /// All attempts that the worker ever received.
    received: BTreeSet<(MiniBatchId, u32)>,
    /// The attempt that the worker was running when it was killed.
    abandoned: Option<(MiniBatchId, u32)>,
}

impl FakeWorker {
    pub(super) fn is_live(&self) -> bool {
        !self.killed && !self.failed_init
    }

    /// Whether the worker is inside `init`, as far as the state machine knows. With `counts_lies`,
    /// also true if the worker falsely claims to be there. The state machine need not believe such
    /// a claim.
    fn is_starting(&self, counts_lies: bool) -> bool {
        self.is_live() && !self.ready && (counts_lies || !self.lied)
    }
}

/// Totals of what failed and succeeded.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct SimulatedCounts {
    pub(super) succeeded: u64,
    pub(super) failed: u64,
    pub(super) short: u64,
    pub(super) items: ItemCounts,
    pub(super) rows: u64,
}

impl SimulatedCounts {
    pub(super) fn add(&mut self, settled: &SettledMiniBatch) {
        self.items += settled.report.items;
        let Ok(segment) = &settled.report.outcome else {
            self.failed += 1;
            return;
        };
        self.succeeded += 1;
        self.rows += segment.rows;
        self.short += u64::from(settled.report.is_short);
    }
}

#[derive(Debug)]
pub(super) struct SimulatedWorld {
    pub(super) machine: LocalMachine,
    pub(super) policy: RetryPolicy,
    pub(super) dice: SimulationRandom,
    pub(super) now: Duration,
    pub(super) plan: Vec<MiniBatch>,
    pub(super) planned: usize,
    pub(super) plan_reported: bool,
    pub(super) workers: BTreeMap<WorkerId, FakeWorker>,
    pub(super) next_worker: u32,
    /// GPUs that are still in use although their workers are gone, and the time until which the job waits for
    /// each.
    pub(super) busy_gpus: BTreeMap<WorkerId, (u32, Duration)>,
    /// The results that the committer still has to write.
    pub(super) committer: VecDeque<SettledMiniBatch>,
    /// The results that the committer has written, but not reported yet.
    pub(super) unreported: VecDeque<SettledMiniBatch>,
    /// Whether nothing more can be written, for example because the disk is full.
    pub(super) committer_dead: bool,
    /// The journal. It outlives the leader.
    pub(super) journal: BTreeMap<MiniBatchId, SettledMiniBatch>,
    /// The totals that the state machine must have. Successes count once their commit is reported, and final
    /// failures count immediately.
    pub(super) counted: SimulatedCounts,
    /// How many mini-batches wait for a worker, or are held by one.
    pub(super) open: usize,
    attempts: BTreeMap<MiniBatchId, u32>,
    /// Retries that no worker has. For each: how many other attempts have begun since the retry started to
    /// wait, and how many others may begin before it.
    pub(super) retries: BTreeMap<MiniBatchId, (usize, usize)>,
    /// Retries of mini-batches that could not be read: until when each may wait.
    pub(super) pausing: BTreeMap<MiniBatchId, Duration>,
    /// The message of a mini-batch's last failure, if it was a trap.
    last_trap: BTreeMap<MiniBatchId, Option<String>>,
    /// How often `init` has failed since its last success.
    init_failures: u32,
    pub(super) winding_down: bool,
    pub(super) cancelled: bool,
    /// Until when there may be fewer workers than wanted, because a worker could not be started.
    pub(super) paused_until: Duration,
    /// Whether other jobs use the whole machine. Valid only for the current round of actions.
    is_machine_full: bool,
    pub(super) commits_given_up: bool,
    /// How many late results the state machine has discarded.
    pub(super) late: u64,
    pub(super) result: Option<JobResult>,
    pub(super) runs: u32,
    /// The receipts in the journal.
    pub(super) receipts: ReceiptBook,
}

impl SimulatedWorld {
    pub(super) fn new(mut dice: SimulationRandom) -> Self {
        let has_void = dice.one_in(4);
        let plan = (0..dice.below(14)).map(|id| {
            let names = (0..ITEMS).map(|_| "").collect();
            let work = if has_void && id % 2 == 0 {
                MiniBatchWork::Void
            } else {
                MiniBatchWork::Files(names)
            };
            MiniBatch::new(MiniBatchId(id), 0, work)
        });
        let plan = plan.collect();
        let policy = random_policy(&mut dice);
        Self {
            machine: machine(&policy, Restored::default()),
            policy,
            dice,
            now: Duration::ZERO,
            plan,
            planned: 0,
            plan_reported: false,
            workers: BTreeMap::new(),
            next_worker: 0,
            busy_gpus: BTreeMap::new(),
            committer: VecDeque::new(),
            unreported: VecDeque::new(),
            committer_dead: false,
            journal: BTreeMap::new(),
            counted: SimulatedCounts::default(),
            open: 0,
            attempts: BTreeMap::new(),
            retries: BTreeMap::new(),
            pausing: BTreeMap::new(),
            last_trap: BTreeMap::new(),
            init_failures: 0,
            winding_down: false,
            cancelled: false,
            paused_until: Duration::ZERO,
            is_machine_full: false,
            commits_given_up: false,
            late: 0,
            result: None,
            runs: 1,
            receipts: ReceiptBook::default(),
        }
    }

    /// Kills the leader, if the job is still running, and resumes the job from the journal.
    pub(super) fn resume(&mut self, retry_failed: bool) {
        if retry_failed {
            self.journal.retain(|_, settled| settled.report.outcome.is_ok());
        }
        let mut counted = SimulatedCounts::default();
        self.journal.values().for_each(|settled| counted.add(settled));
        let mut restored = Restored {
            finished: crate::model::MiniBatchSet::default(),
            succeeded: counted.succeeded,
            failed: counted.failed,
            short: counted.short,
            items: counted.items,
            rows: counted.rows,
            next_worker: self.next_worker,
            has_shut_down: self.dice.one_in(2),
        };
        self.journal.keys().for_each(|id| restored.finished.insert(*id));
        self.machine = machine(&self.policy, restored);
        self.now = Duration::ZERO;
        self.busy_gpus.clear();
        (self.planned, self.plan_reported, self.open) = (0, false, 0);
        self.workers.clear();
        self.committer.clear();
        self.unreported.clear();
        self.committer_dead = false;
        self.counted = counted;
        self.attempts.clear();
        self.retries.clear();
        self.pausing.clear();
        self.last_trap.clear();
        self.init_failures = 0;
        (self.winding_down, self.cancelled) = (false, false);
        self.paused_until = Duration::ZERO;
        (self.commits_given_up, self.late) = (false, 0);
        self.result = None;
        self.runs += 1;
        self.receipts.lose_leader();
    }

    /// Sends a message in the same way as the driver: an answer is delivered only after all actions of the
    /// round are done.
    pub(super) fn send(&mut self, message: MachineMessage) {
        self.now += Duration::from_millis(1);
        let mut has_ticked = matches!(message, MachineMessage::Tick);
        self.is_machine_full = false;
        let mut inbox = VecDeque::from([message]);
        while let Some(message) = inbox.pop_front() {
            self.note(&message);
            let is_late = self.is_late(&message);
            let late_before = self.late;
            let mut actions = self.machine.handle(message, self.now);
            inbox.extend(actions.drain(..).filter_map(|action| self.act(action)));
            assert!(!is_late || self.late > late_before, "a late result was not reported");
            has_ticked &= inbox.is_empty();
        }
        self.check(has_ticked);
    }

    /// Records what the state machine is about to learn.
    fn note(&mut self, message: &MachineMessage) {
        match message {
            MachineMessage::Planned(batches) if !self.winding_down => {
                let is_new = |batch: &&MiniBatch| !self.journal.contains_key(&batch.id);
                self.open += batches.iter().filter(is_new).count();
            }
            MachineMessage::Rejected(..) => self.open += 1,
            MachineMessage::SpawnFailed(worker, _) => {
                self.workers.remove(worker);
                self.paused_until = self.paused_until.max(self.now + NodePolicy::SPAWN_PAUSE);
            }
            MachineMessage::Exited(worker, _) => {
                let until = self.now + NodePolicy::GPU_PATIENCE;
                self.busy_gpus.entry(*worker).and_modify(|busy| busy.1 = until);
            }
            MachineMessage::NoRoom(worker) => {
                self.workers.remove(worker);
                // The next worker gets this number.
                self.next_worker = self.next_worker.min(worker.0);
                self.paused_until = self.paused_until.max(self.now + NodePolicy::ROOM_PAUSE);
            }
            _ => {}
        }
    }

    /// Whether the message is the result that a killed worker was working on. False once the job has ended.
    fn is_late(&mut self, message: &MachineMessage) -> bool {
        let MachineMessage::Finished(id, report) = message else { return false };
        let worker = self.workers.get_mut(id).expect("a worker that has not exited");
        let attempt = (report.id, report.attempt);
        worker.abandoned.take_if(|abandoned| *abandoned == attempt).is_some()
            && self.result.is_none()
    }

    /// Checks that an attempt is discarded only if a killed worker had received it.
    fn discard(&mut self, name: &str, attempt: (MiniBatchId, u32)) {
        self.late += 1;
        let mut workers = self.workers.iter_mut();
        let (_, worker) = workers.find(|(id, _)| id.to_string() == name).expect("a worker");
        assert!(worker.killed && worker.received.remove(&attempt), "{attempt:?} of {name}");
    }

    fn act(&mut self, action: MachineAction) -> Option<MachineMessage> {
        assert!(self.result.is_none(), "{action:?} after the end");
        match action {
            MachineAction::Spawn(id, gpu) => return Some(self.spawn(id, gpu)),
            MachineAction::Assign(id, assignment) => self.assign(id, assignment, false),
            MachineAction::AssignFirst(id, assignment) => {
                self.leader_decides(id);
                self.assign(id, assignment, true);
            }
            MachineAction::Withdraw(..) => unreachable!("the leader fetches objects first"),
            MachineAction::GoOn(id) => self.leader_decides(id),
            MachineAction::Shutdown(id) => {
                let worker = self.workers.get_mut(&id).expect("a live worker");
                (worker.asked_to_end, worker.awaits_decision) = (true, false);
            }
            MachineAction::Kill(id) => {
                let worker = self.workers.get_mut(&id).expect("a live worker");
                let is_grace_over = self.now >= worker.killed_at + NodePolicy::KILL_GRACE;
                assert!(!worker.killed || is_grace_over, "{id} is killed twice");
                worker.given_up = worker.killed || worker.failed_init;
                if !worker.killed && worker.ready && worker.started {
                    let running = worker.inbox.front();
                    worker.abandoned =
                        running.map(|running| (running.mini_batch.id, running.attempt));
                }
                worker.killed = true;
                worker.killed_at = self.now;
            }
            MachineAction::Commit(settled) => {
                self.open =
                    self.open.checked_sub(1).expect("committed, but not held by any worker");
                if settled.report.outcome.is_err() {
                    self.counted.add(&settled);
                }
                self.committer.push_back(settled);
            }
            MachineAction::Receipt(receipt) => self.receipts.write(&receipt),
            MachineAction::Emit(EventKind::AttemptStarted { worker, id, attempt }) => {
                self.receipts.begin(&worker, id, attempt);
            }
            MachineAction::Emit(EventKind::WindingDown { reason }) => {
                self.begin_to_wind_down(&reason);
            }
            MachineAction::Emit(EventKind::Notice { message }) => {
                self.commits_given_up |= message.contains("could not be written within");
            }
            MachineAction::Emit(EventKind::AttemptDiscarded { worker, id, attempt, .. }) => {
                self.discard(&worker, (id, attempt));
            }
            MachineAction::Emit(EventKind::AttemptFinished {
                report, will_retry: true, ..
            }) => {
                self.retry_waits(report.id);
                let failure = report.outcome.err();
                let kind = failure.as_ref().map(|failure| failure.kind);
                // Two identical traps in a row end the retries.
                let trap = failure
                    .filter(|failure| failure.kind == FailureKind::Trap)
                    .map(|failure| failure.message);
                let before = self.last_trap.insert(report.id, trap.clone()).flatten();
                assert!(trap.is_none() || before != trap, "{}: {trap:?} again", report.id);
                if matches!(kind, Some(FailureKind::LoadFailed | FailureKind::HostFault)) {
                    let until = self.now + RetryPolicy::retry_pause(report.attempt);
                    self.pausing.insert(report.id, until);
                }
            }
            MachineAction::Emit(EventKind::MiniBatchReturned { id }) => self.returned(id),
            MachineAction::Emit(EventKind::InitFailed { .. }) => self.init_failures += 1,
            MachineAction::Emit(EventKind::WorkerReady { .. }) => self.init_failures = 0,
            MachineAction::Emit(_) => {}
            MachineAction::Finish(result) => self.result = Some(*result),
        }
        None
    }

    fn spawn(&mut self, id: WorkerId, gpu: Option<u32>) -> MachineMessage {
        assert!(!self.winding_down, "a worker is started although the job ends");
        assert_eq!(id.0, self.next_worker, "worker numbers rise, also across runs");
        self.next_worker += 1;
        // A worker keeps its GPU until its process is gone and its memory is free.
        let taken = self.workers.values().filter_map(|worker| worker.gpu);
        let taken: BTreeSet<u32> =
            taken.chain(self.busy_gpus.values().map(|(gpu, _)| *gpu)).collect();
        let lowest = self.policy.gpus.iter().copied().find(|index| !taken.contains(index));
        assert_eq!(gpu, lowest, "the lowest free GPU of {:?}", self.policy.gpus);
        let worker = FakeWorker { gpu, ..FakeWorker::default() };
        assert!(self.workers.insert(id, worker).is_none(), "{id} is started twice");
        // Rule I1 in docs/parallel-run-step.md: no worker is started if the failures of the workers inside
        // `init` would already reach the limit.
        assert!(self.starts_left(false) >= 0, "{id} is started although it can only fail");
        // All later starts in the same round get the same answer.
        self.is_machine_full |= self.dice.one_in(8);
        if self.is_machine_full {
            return MachineMessage::NoRoom(id);
        }
        if self.dice.one_in(64) {
            return MachineMessage::SpawnFailed(id, "no room".to_owned());
        }
        MachineMessage::Spawned(id, 1)
    }

    /// Rule I1: how many more workers may be started, if all workers inside `init` fail.
    pub(super) fn starts_left(&self, counts_lies: bool) -> i64 {
        let starting = self.workers.values().filter(|worker| worker.is_starting(counts_lies));
        let allowed = i64::from(NodePolicy::init_failures_allowed(self.policy.workers));
        allowed - i64::from(self.init_failures) - starting.count() as i64
    }

    /// Records the leader's decision after a failed attempt.
    fn leader_decides(&mut self, id: WorkerId) {
        let worker = self.workers.get_mut(&id).expect("a live worker");
        assert!(worker.is_live() && !worker.asked_to_end);
        // The worker may not be waiting: if it lied, the state machine has declared the attempt failed
        // without the worker.
        worker.awaits_decision = false;
    }

    /// Records that a mini-batch was returned to the queue. If the worker lied about `init`, the
    /// attempt may already have begun. Then it begins once more.
    fn returned(&mut self, id: MiniBatchId) {
        let is_inside = |worker: &FakeWorker| {
            worker.started && worker.inbox.front().is_some_and(|first| first.mini_batch.id == id)
        };
        if self.workers.values().any(is_inside) {
            self.retries.values_mut().for_each(|(_, most)| *most += 1);
        }
        if self.attempts[&id] > 1 {
            self.retry_waits(id);
        }
    }

    /// Records that a retry waits for a worker from now on. The following may begin before it: attempts that
    /// workers are about to start, attempts in their queues, and retries that have waited longer.
    fn retry_waits(&mut self, id: MiniBatchId) {
        let live = self.workers.values().filter(|worker| worker.is_live());
        let queued = live.map(|worker| match worker.started {
            true => worker.inbox.len().saturating_sub(2),
            false => worker.inbox.len().saturating_sub(1),
        });
        let earlier = queued.sum::<usize>() + self.retries.len();
        self.retries.insert(id, (0, 2 * self.policy.workers as usize + earlier));
    }

    /// Checks that each waiting retry begins before too many attempts at other mini-batches have begun.
    pub(super) fn attempt_begins(&mut self, id: MiniBatchId) {
        for (retry, (others, most)) in &mut self.retries {
            *others += usize::from(*retry != id);
            assert!(others < most, "{retry} is not tried again");
        }
    }

    fn assign(&mut self, id: WorkerId, assignment: Assignment, is_first: bool) {
        assert!(!self.winding_down, "work is handed out although the job ends");
        let worker = self.workers.get_mut(&id).expect("a live worker");
        assert!(worker.is_live() && !worker.asked_to_end);
        let mini_batch = assignment.mini_batch.id;
        assert!(!self.journal.contains_key(&mini_batch), "{mini_batch} has ended already");
        let last = self.attempts.entry(mini_batch).or_insert(0);
        assert!(assignment.attempt == *last || assignment.attempt == *last + 1);
        assert!(assignment.attempt <= self.policy.max_try);
        *last = assignment.attempt;
        worker.received.insert((mini_batch, assignment.attempt));
        assert!(
            is_first || assignment.attempt == 1 || worker.inbox.is_empty(),
            "a retry is queued after other work"
        );
        assert_eq!(assignment.is_last, assignment.attempt == self.policy.max_try);
        self.retries.remove(&mini_batch);
        self.pausing.remove(&mini_batch);
        match is_first {
            true => worker.inbox.push_front(assignment),
            false => worker.inbox.push_back(assignment),
        }
        // In addition to the usual maximum, a worker may have a retry.
        assert!(worker.inbox.len() <= 2 + self.policy.queues().most as usize);
    }

    /// The committer writes the first pending result.
    pub(super) fn write(&mut self) {
        let Some(settled) = self.committer.pop_front() else { return };
        let id = settled.report.id;
        settled.receipt.iter().for_each(|receipt| self.receipts.write(receipt));
        self.unreported.push_back(settled.clone());
        assert!(self.journal.insert(id, settled).is_none(), "{id} is committed twice");
    }

    /// The committer reports what it has written.
    pub(super) fn report_written(&mut self) {
        let written: Vec<SettledMiniBatch> = self.unreported.drain(..).collect();
        if written.is_empty() {
            return;
        }
        for settled in written.iter().filter(|settled| settled.report.outcome.is_ok()) {
            self.counted.add(settled);
        }
        self.send(MachineMessage::Committed(
            written.iter().map(|settled| settled.report.id).collect(),
        ));
    }

    pub(super) fn reject(&mut self) {
        let front = self.committer.front();
        if front.is_some_and(|settled| settled.report.outcome.is_ok())
            && let Some(settled) = self.committer.pop_front()
        {
            let failure = Failure::new(crate::model::FailureKind::BadOutput, "a link");
            self.send(MachineMessage::Rejected(settled.report.id, failure));
        }
    }

    pub(super) fn exit(&mut self, id: WorkerId, code: Option<i32>, signal: Option<i32>) {
        let gpu = self.workers.remove(&id).and_then(|worker| worker.gpu);
        let busy_gpu = gpu.filter(|_| self.dice.one_in(8));
        self.busy_gpus.extend(busy_gpu.map(|gpu| (id, (gpu, Duration::MAX))));
        self.send(MachineMessage::Exited(
            id,
            WorkerExit { code, signal, holds_gpu: busy_gpu.is_some(), ..WorkerExit::default() },
        ));
    }

    /// How many of `workers` missing workers wait for the GPU of a worker that is gone.
    pub(super) fn gpus_awaited(&self, workers: usize) -> usize {
        let taken = self.workers.values().filter(|worker| worker.gpu.is_some()).count();
        let free = self.policy.gpus.len() - taken - self.busy_gpus.len();
        let awaited = self.busy_gpus.values().filter(|(_, until)| self.now < *until).count();
        awaited.min(workers.saturating_sub(free))
    }

    pub(super) fn free_gpu(&mut self) {
        if let Some((id, _)) = self.busy_gpus.pop_first() {
            self.send(MachineMessage::GpuFree(id));
        }
    }

    pub(super) fn is_completed(&self) -> bool {
        self.result.as_ref().is_some_and(|result| result.status == JobStatus::Completed)
    }
}

fn machine(policy: &RetryPolicy, restored: Restored) -> LocalMachine {
    LocalMachine::new(policy.clone(), Vec::new(), Timestamp::UNIX_EPOCH, restored)
}

pub(super) fn random_policy(dice: &mut SimulationRandom) -> RetryPolicy {
    let seconds = |seconds| Duration::from_secs(seconds);
    let mut threshold = |below| {
        if dice.one_in(2) {
            ErrorThreshold::AtMost(dice.below(below))
        } else {
            ErrorThreshold::Ignore
        }
    };
    let error_threshold = threshold(20);
    let allowed_failed_count = threshold(6);
    let percent = ["0", "10", "25", "50", "100", "100"][dice.below(6) as usize];
    RetryPolicy {
        workers: 1 + dice.below(4) as u32,
        max_try: 1 + dice.below(3) as u32,
        error_threshold,
        allowed_failed_count,
        allowed_failed_percent: percent.parse().unwrap_or(AllowedPercent::ALL),
        run_timeout: seconds(10),
        load_timeout: seconds(20),
        first_task_timeout: seconds(30),
        // Objects may arrive late, and a clock may be slow, before `load_timeout` ends a worker that hangs.
        progress_timeout: seconds([40, 200, 1000][dice.below(3) as usize]),
        gpus: [1, 2, 5][..dice.below(4) as usize].to_vec(),
        output_action: match dice.below(2) {
            0 => OutputAction::AppendRow,
            _ => OutputAction::SummaryOnly,
        },
        ..super::super::tests::policy()
    }
}
