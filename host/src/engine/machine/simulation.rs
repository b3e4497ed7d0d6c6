//! Random schedules against a small model of the world: workers that succeed, fail, hang, die and
//! speak too late; a committer that takes its time and refuses; a user who cancels. After every
//! step the invariants of the leader are checked.

use super::{Action, Machine, Message, Policy, Settled};
use crate::event::EventKind;
use crate::model::{
    AttemptReport, CallStats, ErrorThreshold, Failure, FailureKind, ItemCounts, JobResult,
    JobStatus, MiniBatch, MiniBatchId, OutputAction, Segment, Work, WorkerId,
};
use crate::pool::WorkerExit;
use crate::protocol::Assignment;
use jiff::Timestamp;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::time::Duration;

const ITEMS: u64 = 3;

#[derive(Debug, Default)]
struct FakeWorker {
    ready: bool,
    started: bool,
    inbox: VecDeque<Assignment>,
    asked_to_end: bool,
    killed: bool,
    killed_at: Duration,
    failed_init: bool,
    /// The machine does not wait for it any more.
    given_up: bool,
}

#[derive(Debug)]
struct World {
    machine: Machine,
    policy: Policy,
    now: Duration,
    unplanned: VecDeque<MiniBatch>,
    plan_told: bool,
    workers: BTreeMap<WorkerId, FakeWorker>,
    committer: VecDeque<Settled>,
    committed: BTreeSet<MiniBatchId>,
    failed: BTreeSet<MiniBatchId>,
    last_attempt: HashMap<MiniBatchId, u32>,
    winding_down: bool,
    result: Option<JobResult>,
    steps: u32,
}

impl World {
    fn new(batches: u64, workers: u32, max_try: u32, threshold: ErrorThreshold) -> Self {
        let policy = Policy {
            allowed_failed_count: ErrorThreshold::Ignore,
            allowed_failed_percent: crate::model::AllowedPercent::ALL,
            first_task_timeout: Duration::from_secs(600),
            progress_timeout: Duration::from_secs(86_400),
            gpus: 0,
            workers,
            max_try,
            error_threshold: threshold,
            run_timeout: Duration::from_secs(60),
            load_timeout: Duration::from_secs(600),
            output_action: OutputAction::AppendRow,
        };
        let unplanned = (0..batches)
            .map(|id| {
                MiniBatch::new(MiniBatchId(id), 0, Work::Files(vec![String::new(); ITEMS as usize]))
            })
            .collect();
        Self {
            machine: Machine::new(
                policy.clone(),
                Vec::new(),
                Timestamp::UNIX_EPOCH,
                crate::model::Restored::default(),
            ),
            policy,
            now: Duration::ZERO,
            unplanned,
            plan_told: false,
            workers: BTreeMap::new(),
            committer: VecDeque::new(),
            committed: BTreeSet::new(),
            failed: BTreeSet::new(),
            last_attempt: HashMap::new(),
            winding_down: false,
            result: None,
            steps: 0,
        }
    }

    fn tell(&mut self, message: Message) {
        self.steps += 1;
        self.now += Duration::from_millis(1);
        for action in self.machine.handle(message, self.now) {
            self.act(action);
        }
        self.check();
    }

    fn act(&mut self, action: Action) {
        assert!(self.result.is_none(), "{action:?} after the end");
        match action {
            Action::Spawn(id, _) => {
                assert!(!self.winding_down, "a worker is started although the job ends");
                assert!(self.workers.insert(id, FakeWorker::default()).is_none(), "{id} again");
            }
            Action::Assign(id, assignment) => {
                assert!(!self.winding_down, "work is handed out although the job ends");
                let worker = self.workers.get_mut(&id).expect("a live worker");
                assert!(!worker.killed && !worker.asked_to_end);
                let mini_batch = assignment.mini_batch.id;
                assert!(
                    !self.committed.contains(&mini_batch) && !self.failed.contains(&mini_batch)
                );
                let last = self.last_attempt.entry(mini_batch).or_insert(0);
                assert!(assignment.attempt == *last || assignment.attempt == *last + 1);
                assert!(assignment.attempt <= self.policy.max_try);
                *last = assignment.attempt;
                worker.inbox.push_back(assignment);
                assert!(worker.inbox.len() <= 2);
            }
            Action::Shutdown(id) => {
                self.workers.get_mut(&id).expect("a live worker").asked_to_end = true;
            }
            Action::Kill(id) => {
                let worker = self.workers.get_mut(&id).expect("a live worker");
                let grace = self.now >= worker.killed_at + Policy::KILL_GRACE;
                assert!(!worker.killed || grace, "{id} is killed twice");
                worker.given_up = worker.killed || worker.failed_init;
                worker.killed = true;
                worker.killed_at = self.now;
            }
            Action::Commit(settled) => self.committer.push_back(settled),
            Action::Emit(EventKind::WindingDown { .. }) => self.winding_down = true,
            Action::Emit(_) => {}
            Action::Finish(result) => self.result = Some(*result),
        }
    }

    /// What must hold after every step.
    fn check(&self) {
        let live = self.workers.values().filter(|w| !w.killed && !w.failed_init).count();
        assert!(live <= self.policy.workers as usize, "{live} workers live");
        let mut held = BTreeSet::new();
        for worker in self.workers.values().filter(|w| !w.killed && !w.failed_init) {
            for assignment in &worker.inbox {
                if !self.winding_down {
                    assert!(held.insert(assignment.mini_batch.id), "given to two workers");
                }
            }
        }
        let Some(result) = &self.result else { return };
        let waited = self.workers.values().all(|worker| worker.given_up);
        assert!(waited, "the job ended before its workers");
        assert!(self.committer.is_empty(), "the job ended before its commits");
        assert_eq!(result.succeeded_mini_batches, self.committed.len() as u64);
        assert_eq!(result.failed_mini_batches, self.failed.len() as u64);
        if result.status == JobStatus::Completed {
            let ended = self.committed.len() + self.failed.len();
            assert!(self.plan_told && self.unplanned.is_empty());
            assert_eq!(ended as u64, result.mini_batches, "every mini-batch ends exactly once");
            assert!(!self.policy.error_threshold.exceeded_by(result.items.failed));
        }
    }

    fn report(assignment: &Assignment, outcome: Result<Segment, Failure>) -> Box<AttemptReport> {
        let returned = if outcome.is_ok() { ITEMS } else { 0 };
        Box::new(AttemptReport {
            header: None,
            id: assignment.mini_batch.id,
            attempt: assignment.attempt,
            items: ItemCounts::from_returned(ITEMS, returned),
            outcome,
            failed_items: Vec::new(),
            surplus_rows: 0,
            has_files: false,
            elapsed_seconds: 0.0,
            process_seconds: 0.0,
            run: CallStats::default(),
        })
    }

    fn exit(&mut self, id: WorkerId, code: Option<i32>, signal: Option<i32>) {
        self.workers.remove(&id);
        self.tell(Message::Exited(id, WorkerExit { code, signal, note: String::new() }));
    }

    /// Lets one worker take one step; `luck` 0 is always the good way.
    fn step_worker(&mut self, id: WorkerId, luck: u32) {
        let Some(worker) = self.workers.get_mut(&id) else { return };
        if worker.failed_init || (worker.killed && !luck.is_multiple_of(3)) {
            let killed = worker.killed;
            return self.exit(id, worker_code(killed), killed.then_some(9));
        }
        if !worker.ready {
            if luck % 4 == 1 {
                worker.failed_init = true;
                let failure = Failure::new(FailureKind::ScriptError, "no");
                return self.tell(Message::InitFailed(id, failure));
            }
            if luck % 16 == 2 {
                return self.exit(id, None, Some(11));
            }
            if worker.killed {
                return self.exit(id, None, Some(9));
            }
            worker.ready = true;
            return self.tell(Message::Ready(id, CallStats::default()));
        }
        let Some(assignment) = worker.inbox.front().cloned() else {
            if worker.asked_to_end || worker.killed {
                let killed = worker.killed;
                self.exit(id, worker_code(killed), killed.then_some(9));
            }
            return;
        };
        if luck % 16 == 3 {
            return self.exit(id, None, Some(9));
        }
        if !worker.started {
            worker.started = true;
            return self.tell(Message::Started(id, assignment.mini_batch.id));
        }
        worker.inbox.pop_front();
        worker.started = false;
        let breaks = luck % 8 == 5;
        worker.ready = !breaks;
        let outcome = if luck % 4 == 1 {
            Err(Failure::new(FailureKind::Trap, "trap"))
        } else {
            Ok(Segment { offset: 0, length: 1, checksum: 0, rows: ITEMS })
        };
        self.tell(Message::Finished(id, Self::report(&assignment, outcome)));
        if breaks {
            self.tell(Message::Restarting(id));
        }
    }

    fn step_committer(&mut self, luck: u32) {
        let Some(settled) = self.committer.pop_front() else { return };
        let id = settled.report.id;
        if settled.report.outcome.is_err() {
            assert!(self.failed.insert(id), "{id} failed twice");
            assert!(!self.committed.contains(&id));
            return self.tell(Message::Committed(vec![id]));
        }
        if luck % 8 == 1 {
            let failure = Failure::new(FailureKind::BadOutput, "a link");
            return self.tell(Message::Rejected(id, failure));
        }
        assert!(self.committed.insert(id), "{id} committed twice");
        assert!(!self.failed.contains(&id));
        self.tell(Message::Committed(vec![id]));
    }

    fn step_plan(&mut self, luck: u32) {
        if self.plan_told || !self.machine.wants_plan() {
            return;
        }
        let count = self.unplanned.len().min(1 + luck as usize % 5);
        if count > 0 {
            let batches = self.unplanned.drain(..count).collect();
            self.tell(Message::Planned(batches));
        } else {
            self.plan_told = true;
            self.tell(Message::PlanFinished);
        }
    }

    fn step(&mut self, choice: u32) {
        let (what, luck) = (choice % 16, choice / 16);
        match what {
            0 | 1 => self.step_plan(luck),
            2 | 3 => self.step_committer(luck),
            4 => {
                if let Some(at) = self.machine.next_deadline() {
                    self.now = self.now.max(at);
                    self.tell(Message::Tick);
                }
            }
            5 if luck % 32 == 5 => {
                let at_once = luck % 64 == 5;
                self.tell(Message::Cancel { reason: "asked".to_owned(), at_once });
            }
            _ => {
                let ids: Vec<WorkerId> = self.workers.keys().copied().collect();
                if !ids.is_empty() {
                    self.step_worker(ids[luck as usize % ids.len()], luck / 7);
                }
            }
        }
    }

    /// From here on everything goes well: the job must end.
    fn settle(&mut self) {
        for _ in 0..20_000 {
            if self.result.is_some() {
                return;
            }
            let steps = self.steps;
            self.step_plan(0);
            self.step_committer(0);
            for id in self.workers.keys().copied().collect::<Vec<_>>() {
                self.step_worker(id, 0);
            }
            if self.steps == steps {
                let at = self.machine.next_deadline();
                let at = at.unwrap_or_else(|| panic!("the job hangs: {self:#?}"));
                self.now = self.now.max(at);
                self.tell(Message::Tick);
            }
        }
        panic!("the job does not end: {self:#?}");
    }
}

fn worker_code(killed: bool) -> Option<i32> {
    if killed { None } else { Some(0) }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn every_schedule_keeps_the_invariants(
        batches in 0u64..40,
        workers in 1u32..5,
        max_try in 1u32..4,
        threshold in prop_oneof![
            Just(ErrorThreshold::Ignore),
            (0u64..20).prop_map(ErrorThreshold::AtMost),
        ],
        choices in prop::collection::vec(any::<u32>(), 0..400),
    ) {
        let mut world = World::new(batches, workers, max_try, threshold);
        for choice in choices {
            if world.result.is_some() {
                break;
            }
            world.step(choice);
        }
        world.settle();
    }

    /// Without trouble every mini-batch succeeds at its first attempt.
    #[test]
    fn a_calm_world_completes(batches in 0u64..80, workers in 1u32..5) {
        let mut world = World::new(batches, workers, 3, ErrorThreshold::AtMost(0));
        world.settle();
        let result = world.result.expect("settled");
        prop_assert_eq!(result.status, JobStatus::Completed);
        prop_assert_eq!(result.succeeded_mini_batches, batches);
        prop_assert_eq!(result.items.succeeded, batches * ITEMS);
        prop_assert_eq!(result.rows, batches * ITEMS);
        prop_assert!(world.last_attempt.values().all(|attempt| *attempt == 1));
    }
}
