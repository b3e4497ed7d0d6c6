//! The nodes of a job: joining, loss, and how many workers each node should run.

use super::JobMachine;
use super::granted::GrantedAttempt;
use super::node::{JobNode, REPEAT_AFTER};
use super::performer::{AttemptCost, AttemptWorker, LostAttempt};
use super::queue::PendingMiniBatch;
use crate::event::EventKind;
use crate::machine::RetryPolicy;
use crate::model::{Failure, FailureKind, JobStatus, MiniBatchId, NodeId, ReceiptEnd, count_u32};
use crate::protocol::{Order, WorkersEnd};
use std::time::Duration;

/// The most backends that the result lists.
const MAX_MIXED: usize = 20;

impl JobMachine {
    pub(super) fn on_node_joined(&mut self, node: NodeId, workers: u32) {
        self.nodes.insert(node, JobNode { workers, ..JobNode::default() });
        self.joined += 1;
        // The job did not have to make progress while it had no node.
        self.progressed();
        if self.ending.is_some() {
            self.order(node, Order::End(WorkersEnd::AtOnce));
        }
    }

    /// Records that a node computes models with other backends than the job.
    pub(super) fn on_mixed_backends(&mut self, node: NodeId, backends: String) {
        self.emit(EventKind::MixedBackends { node: node.0, backends: backends.clone() });
        if self.mixed_backends.len() < MAX_MIXED {
            self.mixed_backends.insert(backends);
        }
    }

    /// Handles the loss of a node. Its mini-batches are granted again, unless their twins continue. The lost attempts
    /// do not count as tries. But a mini-batch has failed once [`RetryPolicy::MAX_NODE_LOSSES`] nodes were lost while
    /// running it.
    pub(super) fn on_node_lost(&mut self, node: NodeId) {
        let Some(lost) = self.nodes.remove(&node) else { return };
        self.repeat_shutdown(&lost);
        self.forget_unplanned(node);
        self.lost_init_failures =
            self.lost_init_failures.saturating_add(lost.standing.init_failures);
        let granted = self.granted.iter_mut();
        let attempts = granted.filter_map(|(id, granted)| Some((*id, granted.remove(node)?)));
        let mut attempts: Vec<(MiniBatchId, GrantedAttempt)> = attempts.collect();
        // Put back the last mini-batch first, so that the first one ends up at the front of the queue.
        attempts.sort_unstable_by_key(|(id, _)| *id);
        for (id, attempt) in attempts.into_iter().rev() {
            let Some(mut granted) = self.granted.remove(&id) else { continue };
            let runs_on = attempt.runs_on;
            granted.pending.losses += u32::from(runs_on.is_some());
            let is_hopeless =
                granted.is_over() && granted.pending.losses >= RetryPolicy::MAX_NODE_LOSSES;
            if !is_hopeless {
                let number = granted.pending.attempt;
                self.issue_unmeasured((id, number), &attempt, ReceiptEnd::NODE_LOST);
            }
            match runs_on {
                _ if !granted.is_over() => self.keep_granted(granted),
                Some(worker) if is_hopeless => {
                    let text = format!(
                        "{} nodes were lost while they ran it",
                        RetryPolicy::MAX_NODE_LOSSES
                    );
                    let failure = Failure::new(FailureKind::WorkerDied, text);
                    let by = AttemptWorker { node, worker };
                    let cost = self.unmeasured(attempt.since);
                    let cost = AttemptCost { end: Some(ReceiptEnd::NODE_LOST), ..cost };
                    let lost = LostAttempt { run: None, process_seconds: 0.0, cost };
                    self.attempt_lost(by, granted, lost, failure);
                }
                _ => self.put_back(granted.pending),
            }
        }
    }

    /// If a worker of a lost node was shutting down, and no other worker has done so, a worker of another node must
    /// call `shutdown`. Otherwise the files that `init` and `shutdown` make would be missing.
    fn repeat_shutdown(&mut self, lost: &JobNode) {
        // The node may have begun to shut down without a word.
        if lost.standing.past_init() == 0 || self.has_shut_down {
            return;
        }
        self.shutdown_requested = self.nodes.values().any(|node| node.standing.closing > 0);
        if !self.shutdown_requested {
            // The nodes that know of the end no longer start workers. Others may join.
            self.ending.take_if(|ending| ending.status == JobStatus::Completed);
        }
    }

    /// Puts a mini-batch back at the front of its queue. Its attempt was not begun, or ended for a reason
    /// outside the mini-batch.
    pub(super) fn put_back(&mut self, mut pending: PendingMiniBatch) {
        if self.ending.is_none() {
            if std::mem::take(&mut pending.skips_number) {
                pending.attempt = (pending.attempt + 1).min(self.policy.max_try);
            }
            self.emit(EventKind::MiniBatchReturned { id: pending.mini_batch.id });
            self.queue.push_front(pending);
        }
    }

    /// How many workers the job wants on all nodes together while there is enough work. While no node takes
    /// part: on one node.
    pub(super) fn workers(&self) -> u32 {
        if self.nodes.is_empty() {
            return self.policy.workers;
        }
        self.nodes.values().fold(0, |sum, node| sum.saturating_add(node.workers))
    }

    pub(super) fn is_one_past_init(&self) -> bool {
        self.nodes.values().any(|node| node.standing.past_init() > 0)
    }

    /// Requests one worker for each mini-batch, up to the wanted number, first on the nodes with the lowest
    /// ids. If all mini-batches are done and no worker can call `shutdown`, requests one worker.
    pub(super) fn want_workers(&mut self) {
        if self.ending.is_some() {
            return;
        }
        self.report_past_init();
        let work = count_u32(self.queue.len() + self.granted.len()).min(self.workers());
        let live: u32 = self.nodes.values().map(JobNode::useful_workers).sum();
        let mut missing = work.max(u32::from(self.needs_worker_to_close())).saturating_sub(live);
        let mut wants = Vec::new();
        // Ask nodes that had no room last.
        let (pausing, open): (Vec<_>, Vec<_>) =
            self.nodes.iter().partition(|(_, node)| node.standing.is_pausing);
        for (id, node) in open.into_iter().chain(pausing) {
            let live = node.standing.live();
            let more = missing.min(node.workers.saturating_sub(live));
            let is_open = !node.standing.is_ending && !node.standing.is_full;
            if more > 0 && is_open && !self.is_hopeless(node) {
                missing -= more;
                wants.push((*id, live + more));
            }
        }
        for (id, wanted) in wants {
            self.want(id, wanted);
        }
    }

    /// Requests this many workers of a node, unless the same request was sent a moment ago, and the node has not
    /// answered since.
    pub(super) fn want(&mut self, id: NodeId, wanted: u32) {
        let now = self.now;
        let Some(node) = self.nodes.get_mut(&id) else { return };
        let is_repeated =
            |(before, at): (u32, Duration)| before == wanted && now < at + REPEAT_AFTER;
        if !node.wanted.is_some_and(is_repeated) {
            node.wanted = Some((wanted, now));
            self.order(id, Order::Want(wanted));
        }
    }

    /// Notifies each node whether a worker of another node is past `init`. A worker that stays inside `init`
    /// is late only if another worker is past `init`, and nodes know only their own workers.
    fn report_past_init(&mut self) {
        let nodes_past_init =
            self.nodes.values().filter(|node| node.standing.past_init() > 0).count();
        let mut changed = Vec::new();
        for (id, node) in &mut self.nodes {
            let is_other_past = nodes_past_init > usize::from(node.standing.past_init() > 0);
            if std::mem::replace(&mut node.reported_past_init, is_other_past) != is_other_past {
                changed.push((*id, is_other_past));
            }
        }
        for (id, is_other_past) in changed {
            self.order(id, Order::PastInitElsewhere(is_other_past));
        }
    }
}
