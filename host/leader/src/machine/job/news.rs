//! Handles the reports of nodes.

use super::JobMachine;
use super::granted::{GrantedAttempt, GrantedMiniBatch};
use super::performer::{AttemptWorker, LostAttempt};
use crate::event::EventKind;
use crate::model::{CallStats, EndedBy, Failure, FailureKind, MiniBatchId, NodeId, WorkerId};
use crate::protocol::{NodeNews, NodePolicy, OtherWorkers, WorkersStanding};
use std::time::Duration;

impl JobMachine {
    /// Handles a node's report. Ignores it if the node was lost before.
    pub(super) fn on_news(&mut self, id: NodeId, news: NodeNews) {
        if !self.nodes.contains_key(&id) {
            return;
        }
        let Some(news) = self.without_unplanned(id, news) else { return };
        match news {
            NodeNews::Continues(attempts) => self.on_continues(id, attempts),
            NodeNews::Standing(standing) => self.on_standing(id, standing),
            NodeNews::Notice(message) => self.notice(message),
            NodeNews::Spawned { worker, pid, gpu } => self.on_spawned(worker, pid, gpu),
            NodeNews::SpawnFailed { worker, reason, is_alone } => {
                self.on_spawn_failed(id, worker, &reason, is_alone);
            }
            NodeNews::NoRoom(other_workers) => self.on_no_room(id, other_workers),
            NodeNews::Ready { worker, start, init } => self.on_ready(worker, start, init),
            NodeNews::InitFailed { worker, failure } => self.on_init_failed(worker, failure),
            NodeNews::Started { worker, id: batch, attempt } => {
                self.on_started(id, worker, (batch, attempt));
            }
            NodeNews::Finished { worker, age, has_run, usage, report } => {
                self.issue_earlier(id, (report.id, report.attempt), Some(worker));
                let cost = self.measured(id, (report.id, report.attempt), age, usage);
                let Some(granted) = self.remove_granted(id, (report.id, report.attempt)) else {
                    return;
                };
                // An attempt that has entered `run` was counted when it did so.
                if !has_run {
                    self.count_begun(granted.pending.attempt);
                }
                let by = AttemptWorker { node: id, worker };
                // A node on this machine has checked this already.
                if !report.fits(granted.pending.mini_batch.planned_items()) {
                    let text = "its node reported what does not fit to the mini-batch";
                    let failure = Failure::new(FailureKind::WorkerDied, text);
                    // The node cannot be believed, so nothing is known of what the attempt used.
                    let cost = self.unmeasured(self.now);
                    let lost = LostAttempt { run: None, process_seconds: 0.0, cost };
                    return self.attempt_lost(by, granted, lost, failure);
                }
                if report.outcome.is_ok() {
                    self.times.add(age);
                }
                self.attempt_ended(by, granted, cost, report);
            }
            NodeNews::Lost {
                worker,
                id: batch,
                attempt,
                age,
                run,
                process_seconds,
                usage,
                failure,
            } => {
                self.issue_earlier(id, (batch, attempt), Some(worker));
                let cost = self.measured(id, (batch, attempt), age, usage);
                let Some(granted) = self.remove_granted(id, (batch, attempt)) else { return };
                let by = AttemptWorker { node: id, worker };
                let lost = LostAttempt { run, process_seconds, cost };
                self.attempt_lost(by, granted, lost, failure);
            }
            NodeNews::Returned(attempts) => {
                for attempt in attempts.into_iter().rev() {
                    self.issue_given_back(id, attempt);
                    match self.remove_granted(id, attempt) {
                        Some(granted) if granted.is_over() => self.put_back(granted.pending),
                        Some(granted) => self.keep_granted(granted),
                        None => {}
                    }
                }
            }
            NodeNews::Unfetched { id: batch, attempt, objects } => {
                self.on_unfetched(id, (batch, attempt), objects);
            }
            NodeNews::Late { worker, id, attempt, succeeded } => {
                self.late_results += 1;
                let worker = worker.to_string();
                self.emit(EventKind::AttemptDiscarded { worker, id, attempt, succeeded });
            }
            NodeNews::Closing => self.shutdown_requested = true,
            NodeNews::Exited { worker, how, expected } => {
                let worker = worker.to_string();
                self.emit(EventKind::WorkerExited { worker, how, expected });
            }
        }
    }

    /// The attempt that was granted to this node. `None` if the node has no such attempt.
    pub(super) fn granted_attempt(
        &mut self,
        node: NodeId,
        (id, attempt): (MiniBatchId, u32),
    ) -> Option<&mut GrantedAttempt> {
        let granted = self.granted.get_mut(&id);
        granted.filter(|granted| granted.pending.attempt == attempt)?.attempt_on(node)
    }

    /// Removes an attempt that was granted to this node, and that the node no longer has. Also removes and returns
    /// its mini-batch, which may have another attempt. `None` if the node has no such attempt: its message crossed the
    /// order to cancel the attempt.
    pub(super) fn remove_granted(
        &mut self,
        node: NodeId,
        (id, attempt): (MiniBatchId, u32),
    ) -> Option<GrantedMiniBatch> {
        let granted = self.granted.get_mut(&id)?;
        if granted.pending.attempt != attempt {
            return None;
        }
        granted.remove(node)?;
        self.granted.remove(&id)
    }

    /// Keeps a mini-batch whose other attempt continues.
    pub(super) fn keep_granted(&mut self, granted: GrantedMiniBatch) {
        self.granted.insert(granted.pending.mini_batch.id, granted);
    }

    fn on_standing(&mut self, id: NodeId, standing: WorkersStanding) {
        let Some(node) = self.nodes.get_mut(&id) else { return };
        node.last_start = standing.last_start.map(|age| self.now.saturating_sub(age));
        let could_make_progress = node.can_make_progress();
        node.standing = standing;
        (node.wanted, node.retired) = (None, None);
        if !could_make_progress && node.can_make_progress() {
            // The job did not have to make progress while the node had no room.
            self.progressed();
        }
    }

    fn on_spawned(&mut self, worker: WorkerId, pid: u32, gpu_index: Option<u32>) {
        self.reported_spawn_trouble = false;
        if let Some(since) = self.waits_since.take() {
            self.progressed();
            self.waited += self.now.saturating_sub(since);
            let waited = self.now.saturating_sub(since).as_secs();
            self.notice(format!(
                "the job continues: after {waited} s, the machine has room for it"
            ));
        }
        self.emit(EventKind::WorkerStarted { worker: worker.to_string(), pid, gpu_index });
    }

    /// Handles a worker process that could not be started. If there are other workers, the job continues with
    /// them, because the machine may have room for one more process later.
    fn on_spawn_failed(&mut self, id: NodeId, worker: WorkerId, reason: &str, is_alone: bool) {
        let text = format!("the worker process {worker} cannot be started: {reason}");
        if is_alone && self.is_empty_except(id) {
            return self.fail(EndedBy::Spawn, text);
        }
        if !self.reported_spawn_trouble {
            self.reported_spawn_trouble = true;
            let pause = NodePolicy::SPAWN_PAUSE.as_secs();
            self.notice(format!(
                "{text}; the other workers continue, and Sandmill tries again every {pause} s"
            ));
        }
    }

    /// Whether no other node has workers.
    fn is_empty_except(&self, id: NodeId) -> bool {
        self.nodes.iter().all(|(other, node)| *other == id || node.is_empty())
    }

    /// Handles a worker that was not started because other jobs use the machine. The node tries again soon.
    /// Meanwhile, the job continues with the workers that it has, or waits.
    fn on_no_room(&mut self, id: NodeId, other_workers: OtherWorkers) {
        let is_other_working = |(other, node): (&NodeId, &super::node::JobNode)| {
            *other != id && node.standing.live() > 0
        };
        if other_workers == OtherWorkers::Working || self.nodes.iter().any(is_other_working) {
            if !std::mem::replace(&mut self.reported_no_room, true) {
                self.notice(format!(
                    "fewer than {} workers run: other jobs use the rest of what this machine gives \
                     to jobs (machine, in the operator's policy); more workers are started when \
                     there is room",
                    self.workers()
                ));
            }
            return;
        }
        // Waiting for other jobs does not count as a lack of progress, however long it takes.
        self.progressed();
        // A worker that is being killed counts against the machine's limits until it is gone.
        let is_alone = other_workers == OtherWorkers::Alone && self.is_empty_except(id);
        if is_alone && self.waits_since.is_none() {
            self.waits_since = Some(self.now);
            self.emit(EventKind::WaitsForTurn);
            self.notice(
                "the job waits for its turn: other jobs use all that this machine gives to jobs \
                 (machine, in the operator's policy)"
                    .to_owned(),
            );
        }
    }

    fn on_ready(&mut self, worker: WorkerId, start: Duration, init: CallStats) {
        self.init_succeeded();
        self.progressed();
        self.emit(EventKind::WorkerReady {
            worker: worker.to_string(),
            start_seconds: start.as_secs_f64(),
            init_seconds: init.seconds,
            init_fuel: init.fuel,
        });
    }

    fn on_started(&mut self, node: NodeId, worker: WorkerId, (id, attempt): (MiniBatchId, u32)) {
        let now = self.now;
        let Some(begun) = self.granted_attempt(node, (id, attempt)) else { return };
        let changes = begun.runs_on.is_some_and(|earlier| earlier != worker);
        // A node that keeps reporting other workers gets no more receipts for one grant.
        if changes && !std::mem::replace(&mut begun.has_changed_worker, true) {
            self.issue_earlier(node, (id, attempt), Some(worker));
        }
        let Some(begun) = self.granted_attempt(node, (id, attempt)) else { return };
        begun.runs_on = Some(worker);
        begun.since = now;
        self.count_begun(attempt);
        self.progressed();
        self.emit(EventKind::AttemptStarted { worker: worker.to_string(), id, attempt });
    }

    pub(super) fn count_begun(&mut self, attempt: u32) {
        self.begun += 1;
        self.queue.on_begun(attempt);
    }
}
