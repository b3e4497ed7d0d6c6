//! Objects of stores that a node could not fetch. Another node tries, because the machine may be the cause: it may lack
//! credentials, a network or room. A failure is final if no machine could fetch the object, or if two tries failed. Then
//! the mini-batch runs without the object, as on one machine.

use super::JobMachine;
use super::fetch_trouble::{FetchTrouble, may_lack};
use super::granted::GrantedMiniBatch;
use super::node::JobNode;
use super::performer::{AttemptCost, AttemptWorker, LostAttempt};
use crate::machine::RetryPolicy;
use crate::model::{Failure, FailureKind, MiniBatchId, NodeId, WorkerId};
use crate::protocol::Grant;
use crate::protocol::store::UnfetchedObject;
use std::collections::BTreeMap;

impl JobMachine {
    /// Handles an attempt that did not begin, because a node could not fetch its objects.
    pub(super) fn on_unfetched(
        &mut self,
        node: NodeId,
        attempt: (MiniBatchId, u32),
        objects: Vec<UnfetchedObject>,
    ) {
        self.issue_given_back(node, attempt);
        let Some(mut granted) = self.remove_granted(node, attempt) else { return };
        if !granted.is_over() {
            // The twin continues, and gets no other twin.
            granted.note_failure();
            return self.keep_granted(granted);
        }
        self.progressed();
        if !may_lack(&granted.pending.mini_batch, &objects) {
            return self.count_as_loss(node, granted);
        }
        let mut pending = granted.pending;
        let reads = pending.mini_batch.reads();
        let what = |object: &UnfetchedObject| match reads.get(object.file as usize) {
            Some((source, file)) => {
                let folder = self.sources.get(*source as usize);
                format!("{}/{file}", folder.map_or("", |source| source.guest.as_str()))
            }
            None => format!("the input of mini-batch {}", pending.mini_batch.id),
        };
        let first = objects.iter().find(|object| !object.is_final);
        let first = first.map(|object| (what(object), object.reason.clone()));
        if let Some((what, reason)) = first
            && self.reported_unfetched.insert(node)
        {
            let text = format!(
                "node {node} could not fetch {what}: {reason}; another node tries (reported once per node)"
            );
            self.notice(text);
        }
        let may_join =
            self.policy.node_count.is_some_and(|count| self.nodes.len() < count as usize);
        let pause = if may_join { RetryPolicy::FETCH_JOIN_PAUSE } else { RetryPolicy::FETCH_PAUSE };
        let earlier = pending.trouble.take();
        let due = self.now + pause;
        let nodes = (node, self.nodes.keys());
        pending.trouble = FetchTrouble::note(&mut pending.mini_batch, earlier, nodes, objects, due);
        self.put_back(pending);
    }

    /// Handles a report that cannot be true, as if the node were lost.
    fn count_as_loss(&mut self, node: NodeId, mut granted: GrantedMiniBatch) {
        granted.pending.losses += 1;
        if granted.pending.losses < RetryPolicy::MAX_NODE_LOSSES {
            return self.put_back(granted.pending);
        }
        let text = "its node reported what does not fit to the mini-batch";
        let failure = Failure::new(FailureKind::WorkerDied, text);
        let worker = WorkerId(node.first_worker().unwrap_or_default());
        let by = AttemptWorker { node, worker };
        let cost = AttemptCost { has_run: false, ..self.unmeasured(self.now) };
        let lost = LostAttempt { run: None, process_seconds: 0.0, cost };
        self.attempt_lost(by, granted, lost, failure);
    }

    /// Grants mini-batches whose objects a node could not fetch to other nodes. If there is no other node, the same one
    /// tries again after a pause.
    pub(super) fn grant_troubled(&mut self, grants: &mut BTreeMap<NodeId, Vec<Grant>>) {
        let mut place = 0;
        while let Some(trouble) = self.queue.troubled(place) {
            let trouble = trouble.clone();
            let Some(id) = self.node_for_troubled(&trouble) else {
                place += 1;
                continue;
            };
            let Some(pending) = self.queue.take_troubled(place) else { return };
            // The job did not have to make progress while this mini-batch waited.
            self.progressed();
            let grant = self.grant_of(&pending, id);
            self.note_grant(pending, id);
            grants.entry(id).or_default().push(grant);
            if let Some(node) = self.nodes.get_mut(&id) {
                node.standing.loads_one();
            }
        }
    }

    /// The node that shall try next: one that is not avoided. If no such node can work, any node after the pause.
    fn node_for_troubled(&mut self, trouble: &FetchTrouble) -> Option<NodeId> {
        let is_free = |node: &JobNode| node.free_workers() > 0;
        let other = self.node_besides(|id| trouble.avoids(id), is_free);
        if other.is_some() {
            return other;
        }
        let is_due = self.now >= trouble.due;
        let can_work = |(id, node): (&NodeId, &JobNode)| {
            // Its machine may have no room for workers.
            let may_have_worker = node.standing.live() > 0 || !is_due;
            let is_other = !trouble.avoids(*id) && may_have_worker;
            is_other
                && !node.standing.is_ending
                && !node.standing.is_full
                && !self.is_hopeless(node)
        };
        if self.nodes.iter().any(can_work) {
            self.want_worker_besides(|id| trouble.avoids(id));
            return None;
        }
        // The node that tried last may have left.
        is_due.then(|| self.node_besides(|_| false, is_free)).flatten()
    }
}
