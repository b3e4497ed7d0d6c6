//! The random events of a simulation.

use super::super::MachineMessage;
use super::world::{ITEMS, SimulatedWorld};
use crate::model::{
    AllowedPercent, AttemptReport, CallStats, EndedBy, ErrorThreshold, Failure, FailureKind,
    ItemCounts, MiniBatchId, Segment, WorkerId,
};
use crate::protocol::Assignment;
use std::time::Duration;

impl SimulatedWorld {
    /// Makes one random event happen.
    pub(super) fn step(&mut self) {
        if self.result.is_some() {
            if !self.is_completed() && self.dice.one_in(4) {
                let retry = self.dice.one_in(2);
                self.resume(retry);
            }
            return;
        }
        match self.dice.below(16) {
            0 | 1 => self.step_plan(),
            2..=4 => self.step_committer(),
            5 => self.step_clock(),
            6 => self.step_fault(),
            _ => {
                let nth = self.dice.below(self.workers.len().max(1) as u64) as usize;
                if let Some(id) = self.workers.keys().nth(nth).copied() {
                    self.step_worker(id);
                }
            }
        }
    }

    /// Continues without further faults: the job must end. If the job did not complete, resumes it with
    /// thresholds that tolerate everything: then every mini-batch must have ended.
    pub(super) fn settle(&mut self) {
        self.dice.calm = true;
        self.run_to_end();
        if !self.is_completed() {
            self.policy.error_threshold = ErrorThreshold::Ignore;
            self.policy.allowed_failed_count = ErrorThreshold::Ignore;
            self.policy.allowed_failed_percent = AllowedPercent::ALL;
            self.resume(true);
            self.run_to_end();
            let ended_by = self.result.as_ref().and_then(|result| result.ended_by);
            // All mini-batches may have returned too few rows before.
            assert!(matches!(ended_by, None | Some(EndedBy::NothingSucceeded)), "{ended_by:?}");
            assert_eq!(self.journal.len(), self.plan.len(), "every mini-batch has ended");
        }
    }

    fn run_to_end(&mut self) {
        for _ in 0..1000 {
            if self.result.is_some() {
                return;
            }
            let before = self.now;
            self.step_plan();
            self.step_committer();
            for id in self.workers.keys().copied().collect::<Vec<_>>() {
                self.step_worker(id);
            }
            if self.now == before {
                self.tick();
            }
        }
        panic!("the job does not end: {self:#?}");
    }

    fn step_plan(&mut self) {
        if self.result.is_some() || self.plan_reported || !self.machine.wants_plan() {
            return;
        }
        let wanted = 1 + self.dice.below(6) as usize;
        let count = wanted.min(self.plan.len() - self.planned);
        if count > 0 {
            let batches = self.plan[self.planned..self.planned + count].to_vec();
            self.planned += count;
            self.send(MachineMessage::Planned(batches));
        } else if self.dice.one_in(64) {
            self.send(MachineMessage::PlanFailed("unreadable".to_owned()));
        } else {
            self.plan_reported = true;
            self.send(MachineMessage::PlanFinished);
        }
    }

    fn step_committer(&mut self) {
        if self.committer_dead || self.result.is_some() {
            return;
        }
        if self.dice.one_in(8) {
            return self.reject();
        }
        self.write();
        if self.dice.calm || self.dice.one_in(2) {
            self.report_written();
        }
    }

    /// Lets time pass, up to the next deadline or less.
    fn step_clock(&mut self) {
        if self.dice.one_in(2) {
            return self.tick();
        }
        let deadline = self.machine.next_deadline().unwrap_or_default();
        let left = deadline.saturating_sub(self.now).as_millis() as u64;
        self.now += Duration::from_millis(self.dice.below(left.max(1)));
        self.send(MachineMessage::Notice("time passes".to_owned()));
    }

    fn tick(&mut self) {
        let deadline = self.machine.next_deadline();
        let deadline = deadline.unwrap_or_else(|| panic!("the job hangs: {self:#?}"));
        self.now = self.now.max(deadline);
        self.send(MachineMessage::Tick);
    }

    /// Makes one of the rarer faults happen.
    fn step_fault(&mut self) {
        match self.dice.below(18) {
            0 => {
                let at_once = self.dice.one_in(2);
                self.cancelled = true;
                self.send(MachineMessage::Cancel { reason: "asked".to_owned(), at_once });
            }
            1..=3 => self.crash(),
            4 => {
                self.committer_dead = true;
                self.committer.clear();
                self.send(MachineMessage::CommitFailed("disk full".to_owned()));
            }
            5..=8 => self.overrun(),
            9..=12 => self.lie(),
            13 | 14 => self.free_gpu(),
            15 | 16 => {
                let beyond = 1 + self.dice.below(3) as u32;
                self.send(MachineMessage::BeyondShare(beyond));
            }
            _ => self.send(MachineMessage::NoSpace("no room for an object".to_owned())),
        }
    }

    /// Kills the leader and resumes the job. Before that, a random number of pending results reach the
    /// journal.
    fn crash(&mut self) {
        for _ in 0..self.dice.below(3) {
            if !self.committer_dead {
                self.write();
            }
        }
        let retry = self.dice.one_in(4);
        self.resume(retry);
    }

    fn random_worker(&mut self) -> Option<WorkerId> {
        let nth = self.dice.below(self.workers.len().max(1) as u64) as usize;
        self.workers.keys().nth(nth).copied()
    }

    fn overrun(&mut self) {
        if let Some(id) = self.random_worker() {
            let failure = Failure::new(FailureKind::OutOfMemory, "too much");
            self.send(MachineMessage::Overrun(id, failure));
        }
    }

    /// Sends a message that no honest worker sends, from a worker that its guest controls.
    fn lie(&mut self) {
        let Some(id) = self.random_worker() else { return };
        let held = self.workers[&id].inbox.front().cloned();
        let other = MiniBatchId(self.dice.below(20));
        match (self.dice.below(4), held) {
            (0, _) => {
                self.workers.entry(id).and_modify(|worker| {
                    (worker.ready, worker.lied) = (false, true);
                });
                self.send(MachineMessage::Restarting(id));
            }
            (1, Some(mut assignment)) => {
                assignment.attempt += 1;
                let report = report(&assignment, ITEMS, success(ITEMS));
                self.send(MachineMessage::Finished(id, report));
            }
            (2, Some(assignment)) => {
                let mut report = report(&assignment, ITEMS, success(ITEMS));
                report.items.failed += 1;
                self.send(MachineMessage::Finished(id, report));
            }
            _ => self.send(MachineMessage::Started(id, other)),
        }
    }

    fn step_worker(&mut self, id: WorkerId) {
        let may_exit = self.dice.calm || !self.dice.one_in(3);
        let Some(worker) = self.workers.get_mut(&id) else { return };
        if worker.failed_init || (worker.killed && may_exit) {
            let code = (!worker.killed).then_some(0);
            let signal = worker.killed.then_some(9);
            return self.exit(id, code, signal);
        }
        if !worker.ready {
            return self.step_init(id);
        }
        let Some(assignment) = worker.inbox.front().cloned() else {
            if worker.asked_to_end || worker.killed {
                self.exit(id, Some(0), None);
            }
            return;
        };
        let has_started = worker.started;
        if !has_started && self.dice.one_in(8) {
            return self.step_unreadable(id, &assignment);
        }
        let Some(worker) = self.workers.get_mut(&id) else { return };
        worker.started = true;
        let is_live = worker.is_live();
        if self.dice.one_in(16) {
            return self.exit(id, None, Some(9));
        }
        if !has_started {
            if is_live {
                self.attempt_begins(assignment.mini_batch.id);
            }
            return self.send(MachineMessage::Started(id, assignment.mini_batch.id));
        }
        self.step_finish(id, &assignment);
    }

    fn step_init(&mut self, id: WorkerId) {
        if self.dice.one_in(16) {
            return self.exit(id, None, Some(11));
        }
        let fails = self.dice.one_in(4);
        let Some(worker) = self.workers.get_mut(&id) else { return };
        if fails {
            worker.failed_init = true;
            let failure = Failure::new(FailureKind::ScriptError, "no");
            return self.send(MachineMessage::InitFailed(id, failure));
        }
        worker.ready = true;
        self.send(MachineMessage::Ready(id, CallStats::default()));
    }

    /// The mini-batch cannot be read, so `run` does not begin.
    fn step_unreadable(&mut self, id: WorkerId, assignment: &Assignment) {
        let kind =
            if self.dice.one_in(2) { FailureKind::LoadFailed } else { FailureKind::BadInput };
        let outcome = Err(Failure::new(kind, "cannot be read"));
        if let Some(worker) = self.workers.get_mut(&id) {
            worker.inbox.pop_front();
            worker.awaits_decision = kind == FailureKind::LoadFailed && !assignment.is_last;
        }
        self.send(MachineMessage::Finished(id, report(assignment, 0, outcome)));
    }

    fn step_finish(&mut self, id: WorkerId, assignment: &Assignment) {
        let breaks = self.dice.one_in(8);
        let total = assignment.mini_batch.planned_items();
        let (returned, outcome) = if self.dice.one_in(256) {
            (0, Err(Failure::new(FailureKind::NoSpace, "disk full")))
        } else if self.dice.one_in(4) {
            (0, Err(Failure::new(FailureKind::Trap, format!("trap {}", self.dice.below(3)))))
        } else if self.dice.one_in(8) {
            let returned = self.dice.below(total.max(1));
            (returned, success(returned))
        } else {
            (total, success(total))
        };
        if let Some(worker) = self.workers.get_mut(&id) {
            worker.inbox.pop_front();
            worker.started = false;
            worker.ready = !breaks;
            worker.awaits_decision = outcome.is_err() && !assignment.is_last;
        }
        self.send(MachineMessage::Finished(id, report(assignment, returned, outcome)));
        if breaks {
            self.send(MachineMessage::Restarting(id));
        }
    }
}

pub(super) fn success(rows: u64) -> Result<Segment, Failure> {
    Ok(Segment { length: rows, rows, ..Segment::sample() })
}

pub(super) fn report(
    assignment: &Assignment,
    returned: u64,
    outcome: Result<Segment, Failure>,
) -> Box<AttemptReport> {
    let total = assignment.mini_batch.planned_items();
    Box::new(AttemptReport {
        id: assignment.mini_batch.id,
        attempt: assignment.attempt,
        stamp: assignment.mini_batch.stamp,
        items: ItemCounts::from_returned(total, returned),
        is_short: returned < total && outcome.is_ok(),
        outcome,
        // Some mini-batches are so short that many are queued in a worker, and some are long.
        elapsed_seconds: [0.0, 0.0005, 3.0, f64::NAN][assignment.mini_batch.id.0 as usize % 4],
        ..AttemptReport::sample()
    })
}
