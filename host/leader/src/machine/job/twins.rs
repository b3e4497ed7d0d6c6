//! Twins: if a mini-batch takes much longer than most near the end of a job on several nodes, another node makes a
//! second attempt at it, while the first one continues. A worker may hang, or its machine may be slow.
//!
//! - The first success counts. The other attempt is ended, and its worker is killed.
//! - While one of the attempts continues, a failure of the other one does not count. If both fail, the last failure
//!   counts as one try.
//! - Both attempts have the same number. Their rows and files have different names, because these contain the
//!   worker's number, and each node has workers of its own.

use super::JobMachine;
use super::granted::{GrantedAttempt, GrantedMiniBatch};
use super::node::JobNode;
use crate::event::EventKind;
use crate::machine::RetryPolicy;
use crate::model::{MiniBatchId, NodeId, ReceiptEnd, WorkerId};
use crate::protocol::{Grant, Order};
use std::collections::BTreeMap;
use std::time::Duration;

impl JobMachine {
    /// Whether all mini-batches that have not ended are granted, and another node may take one.
    pub(super) fn is_near_end(&self) -> bool {
        self.nodes.len() > 1
            && self.plan_finished
            && self.ending.is_none()
            && self.queue.is_empty()
            && !self.granted.is_empty()
    }

    /// The time that most attempts take. `None` until as many have succeeded as are still running.
    fn usual_time(&self) -> Option<Duration> {
        (self.times.count >= self.granted.len()).then(|| self.times.median()).flatten()
    }

    /// Finds the mini-batches that take too long, if that is due. Called only for a tick: messages that arrived while
    /// the leader was held up are handled first.
    pub(super) fn find_slow(&mut self) {
        if self.slow_check.take_if(|at| self.now >= *at).is_none() {
            return;
        }
        let Some(median) = self.usual_time() else { return };
        let limit = median.saturating_mul(RetryPolicy::TWIN_FACTOR).max(RetryPolicy::TWIN_MIN_TIME);
        let slow = self.granted.iter().filter_map(|(id, granted)| {
            let GrantedAttempt { since, runs_on, .. } = *granted.without_twin()?;
            // It may wait in a queue.
            let waits = runs_on.map_or(self.policy.queues().reserve, |_| Duration::ZERO);
            let is_slow = self.now.saturating_sub(since) >= limit.saturating_add(waits);
            is_slow.then_some((since, *id))
        });
        let mut slow: Vec<(Duration, MiniBatchId)> = slow.collect();
        slow.sort_unstable();
        self.slow = slow.into_iter().map(|(_, id)| id).collect();
    }

    /// Grants the slow mini-batches a second time, to nodes with idle workers. The slowest comes first.
    pub(super) fn grant_twins(&mut self) {
        let mut grants: BTreeMap<NodeId, Vec<Grant>> = BTreeMap::new();
        for id in std::mem::take(&mut self.slow) {
            let granted = self.granted.get(&id);
            let Some(first) = granted.and_then(GrantedMiniBatch::without_twin) else { continue };
            let first_node = first.node;
            let since = first.since;
            let Some(node) =
                self.node_besides(|id| id == first_node, |node| node.free_workers() > 0)
            else {
                self.want_worker_besides(|id| id == first_node);
                self.slow.push(id);
                continue;
            };
            let Some(grant) = self.grant_twin(id, node) else { continue };
            self.emit(EventKind::TwinGranted {
                id,
                attempt: grant.assignment.attempt,
                node: node.0,
                first_node: first_node.0,
                seconds: self.now.saturating_sub(since).as_secs_f64(),
                median_seconds: self.times.median().unwrap_or_default().as_secs_f64(),
            });
            grants.entry(node).or_default().push(grant);
        }
        self.order_grants(grants);
    }

    fn grant_twin(&mut self, id: MiniBatchId, node: NodeId) -> Option<Grant> {
        let granted = self.granted.get_mut(&id)?;
        granted.add_twin(node, self.now);
        let pending = &self.granted.get(&id)?.pending;
        let grant = self.grant_of(pending, node);
        self.nodes.get_mut(&node)?.standing.loads_one();
        Some(grant)
    }

    /// Among the other nodes that have reported their current state, one for which `holds` is true.
    pub(super) fn node_besides(
        &self,
        is_avoided: impl Fn(NodeId) -> bool,
        holds: impl Fn(&JobNode) -> bool,
    ) -> Option<NodeId> {
        let is_open = |node: &JobNode| node.has_answered() && !node.standing.is_ending;
        let found =
            self.nodes.iter().find(|(id, node)| !is_avoided(**id) && is_open(node) && holds(node));
        found.map(|(id, _)| *id)
    }

    /// Requests a worker for a twin, if no other node has an idle worker and one of them may start another.
    pub(super) fn want_worker_besides(&mut self, is_avoided: impl Fn(NodeId) -> bool) {
        let has_starting = |node: &JobNode| node.standing.starting > 0 && !node.standing.is_full;
        if self.node_besides(&is_avoided, has_starting).is_some() {
            return;
        }
        let has_room = |node: &JobNode| {
            let live = node.standing.live();
            let is_open = !node.standing.is_pausing && !node.standing.is_full;
            live < node.workers && is_open && !self.is_hopeless(node)
        };
        if let Some(id) = self.node_besides(&is_avoided, has_room) {
            let live = self.nodes.get(&id).map_or(0, |node| node.standing.live());
            self.want(id, live + 1);
        }
    }

    /// Ends the attempt whose twin, on the worker `by`, has succeeded.
    pub(super) fn cancel_twin(
        &mut self,
        twin: &GrantedAttempt,
        (id, attempt): (MiniBatchId, u32),
        by: WorkerId,
    ) {
        self.order(twin.node, Order::Cancel { id, attempt });
        self.issue_unmeasured((id, attempt), twin, ReceiptEnd::DUPLICATE);
        if let Some(worker) = twin.runs_on {
            let worker = worker.to_string();
            self.emit(EventKind::AttemptCancelled { worker, id, attempt, by: by.to_string() });
        }
    }
}
