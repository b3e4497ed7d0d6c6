//! Decides which node gets the next mini-batch.

use super::JobMachine;
use super::granted::GrantedMiniBatch;
use super::node::JobNode;
use super::performer::AttemptWorker;
use super::queue::PendingMiniBatch;
use crate::machine::RetryPolicy;
use crate::model::NodeId;
use crate::protocol::{Grant, GrowingQueues, Order};
use std::collections::BTreeMap;

impl JobMachine {
    /// Grants mini-batches. First, each idle worker gets one; retries come before first attempts. Then, while
    /// many mini-batches are waiting, workers get some for their queues, so that they need not wait for the
    /// leader between two mini-batches. Near the end, queues do not grow: a queued mini-batch would wait for
    /// a slow one while other workers idle. Queues also do not grow while a retry is waiting, because the
    /// next free worker gets the retry. If no mini-batch is waiting, slow ones get twins.
    pub(super) fn assign(&mut self) {
        let is_disk_slow = self.committing.len() >= RetryPolicy::UNWRITTEN;
        let awaits_offers = self.now < self.offers_until;
        let holds_back = is_disk_slow || awaits_offers || self.commits_would_end_it();
        if self.is_near_end() {
            self.slow_check.get_or_insert(self.now + RetryPolicy::TWIN_INTERVAL);
            if !holds_back {
                self.grant_twins();
            }
        } else {
            self.slow_check = None;
            self.slow.clear();
            if self.ending.is_none() && !self.queue.is_empty() && !holds_back {
                self.grant_to_free();
                if !self.queue.has_retries() {
                    self.grant_ahead();
                }
            }
        }
        self.let_workers_continue();
    }

    fn grant_to_free(&mut self) {
        let mut grants: BTreeMap<NodeId, Vec<Grant>> = BTreeMap::new();
        self.grant_troubled(&mut grants);
        loop {
            let turns = self.turns();
            let retry = self.queue.due_retry(turns).map(|retry| retry.failed_on);
            let found = match retry {
                Some(failed_on) => self.node_for_retry(failed_on),
                None => self.node_with(|node| node.free_workers() > 0),
            };
            let Some(id) = found else { break };
            let next = match retry {
                Some(_) => self.queue.pop_retry(turns),
                None => self.queue.pop_first(),
            };
            let Some(pending) = next else { break };
            let grant = self.grant_of(&pending, id);
            self.note_grant(pending, id);
            grants.entry(id).or_default().push(grant);
            if let Some(node) = self.nodes.get_mut(&id) {
                node.standing.loads_one();
            }
            // The node chooses the worker for a retry. Only its answer shows whether one of its workers still
            // waits for a decision of the leader. So grant nothing more before the answer.
            if retry.is_some() {
                break;
            }
        }
        self.order_grants(grants);
    }

    pub(super) fn order_grants(&mut self, grants: BTreeMap<NodeId, Vec<Grant>>) {
        for (id, grants) in grants {
            self.order(id, Order::Grant(grants));
        }
    }

    /// A node with a free worker for a retry. Prefers a worker other than the one on which the mini-batch has
    /// just failed. If no worker is free, returns a node with a worker that waits for a decision after a
    /// failed attempt.
    fn node_for_retry(&self, failed_on: Option<AttemptWorker>) -> Option<NodeId> {
        let is_other_node = |id: NodeId| failed_on.is_none_or(|by| by.node != id);
        let answered = self.nodes.iter().filter(|(_, node)| node.has_answered());
        let mut free = answered.filter(|(_, node)| node.free_workers() > 0).map(|(id, _)| *id);
        let first = free.next();
        let has_two_idle = |id: NodeId| self.nodes[&id].free_workers() > 1;
        let with_other_worker = first.filter(|id| is_other_node(*id) || has_two_idle(*id));
        with_other_worker.or_else(|| free.next()).or(first).or_else(|| {
            self.node_with(|node| {
                !node.standing.is_full && node.standing.awaits_decision == Some(true)
            })
        })
    }

    /// Among the nodes that have reported their current state, the first for which `holds` is true.
    fn node_with(&self, holds: impl Fn(&JobNode) -> bool) -> Option<NodeId> {
        let found = self.nodes.iter().find(|(_, node)| node.has_answered() && holds(node));
        found.map(|(id, _)| *id)
    }

    /// Finds the node with the shortest queues, and grants it mini-batches until its queues are long enough. The queues
    /// grow evenly: the longer they are, the more mini-batches must be waiting for other workers.
    fn grant_ahead(&mut self) {
        let answered = self.nodes.iter().filter(|(_, node)| node.has_answered());
        let queues = answered.filter_map(|(id, node)| Some((*id, node.standing.ahead?)));
        let Some((id, GrowingQueues { depth, takers, room })) =
            queues.min_by_key(|(_, queues)| queues.depth)
        else {
            return;
        };
        let workers = self.workers() as usize;
        let mut assignments = Vec::new();
        for number in 0..room {
            let depth = (depth + number / takers.max(1)) as usize;
            let is_first_of_round = number.is_multiple_of(takers.max(1));
            if is_first_of_round && self.queue.first_attempts() <= depth * workers {
                break;
            }
            let Some(pending) = self.queue.pop_first() else { break };
            assignments.push(self.assignment(&pending));
            self.note_grant(pending, id);
        }
        if !assignments.is_empty() {
            self.order(id, Order::GrantAhead(assignments));
        }
    }

    /// The grant of a mini-batch to a node.
    pub(super) fn grant_of(&self, pending: &PendingMiniBatch, node: NodeId) -> Grant {
        let failed_on = pending.failed_on.filter(|by| by.node == node).map(|by| by.worker);
        Grant { assignment: self.assignment(pending), failed_on }
    }

    pub(super) fn note_grant(&mut self, pending: PendingMiniBatch, node: NodeId) {
        let id = pending.mini_batch.id;
        self.granted.insert(id, GrantedMiniBatch::new(pending, node, self.now));
    }

    /// Lets workers continue that have reported a failed attempt, now wait, and got no retry.
    fn let_workers_continue(&mut self) {
        let waits = |node: &JobNode| node.has_answered() && node.standing.awaits_decision.is_some();
        let nodes = self.nodes.iter().filter(|(_, node)| waits(node));
        for node in nodes.map(|(id, _)| *id).collect::<Vec<_>>() {
            self.order(node, Order::GoOn);
        }
    }

    /// Whether the leader may pause: probably no worker waits for a decision of the leader.
    pub fn awaits_no_decision(&self) -> bool {
        self.now >= self.no_pause_until && !self.queue.has_retries()
    }
}
