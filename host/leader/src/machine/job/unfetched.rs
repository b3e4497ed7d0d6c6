//! Objects of stores that a node could not fetch. Another node tries, because the machine may be the cause: it may lack
//! credentials, a network or room. A failure is final if no machine could fetch the object, or if two tries failed. Then
//! the mini-batch runs without the object, as on one machine.

use super::JobMachine;
use super::granted::GrantedMiniBatch;
use super::performer::{AttemptWorker, LostAttempt};
use super::queue::PendingMiniBatch;
use crate::machine::RetryPolicy;
use crate::model::{Failure, FailureKind, MiniBatchId, NodeId, WorkerId};
use crate::protocol::Grant;
use crate::protocol::store::UnfetchedObject;
use std::collections::BTreeMap;
use std::time::Duration;

/// An object is given up after this many failures.
const MAX_FAILURES: u32 = 2;
/// All objects of a mini-batch that are missing are given up after this many grants.
const MAX_GRANTS: u32 = 8;

/// The objects of a mini-batch that nodes could not fetch.
#[derive(Clone, Debug)]
pub(super) struct FetchTrouble {
    /// The node that tried last. Another one shall try.
    pub(super) node: NodeId,
    /// When the same node may try again, if there is no other one.
    pub(super) due: Duration,
    /// How often each object failed, by its position in [`MiniBatch::reads`](crate::model::MiniBatch::reads).
    failures: BTreeMap<u32, u32>,
    /// How many grants have failed.
    grants: u32,
}

impl PendingMiniBatch {
    /// Whether these can be objects that a node was to fetch for this mini-batch.
    fn may_lack(&self, objects: &[UnfetchedObject]) -> bool {
        let files = self.mini_batch.reads().len();
        let is_open = |object: &UnfetchedObject| {
            (object.file as usize) < files && self.mini_batch.why_unfetched(object.file).is_none()
        };
        let can_lack_any = !objects.is_empty() && !self.mini_batch.is_unfetched();
        can_lack_any && objects.iter().all(is_open)
    }

    /// Notes that a node could not fetch these objects. Failures that are final become part of the mini-batch.
    fn note_unfetched(&mut self, node: NodeId, objects: Vec<UnfetchedObject>, due: Duration) {
        let earlier = self.trouble.take();
        let grants = earlier.as_ref().map_or(0, |trouble| trouble.grants) + 1;
        let mut failures = earlier.map(|trouble| trouble.failures).unwrap_or_default();
        let mut given_up: BTreeMap<u32, String> = self.mini_batch.unfetched.drain(..).collect();
        let mut is_open = false;
        for UnfetchedObject { file, reason, is_final } in objects {
            let count = failures.entry(file).or_default();
            *count += 1;
            if is_final || *count >= MAX_FAILURES || grants >= MAX_GRANTS {
                given_up.insert(file, reason);
            } else {
                is_open = true;
            }
        }
        self.mini_batch.set_unfetched(given_up.into_iter().collect());
        self.trouble = is_open.then(|| Box::new(FetchTrouble { node, due, failures, grants }));
    }
}

impl JobMachine {
    /// Handles an attempt that did not begin, because a node could not fetch its objects.
    pub(super) fn on_unfetched(
        &mut self,
        node: NodeId,
        attempt: (MiniBatchId, u32),
        objects: Vec<UnfetchedObject>,
    ) {
        let Some(mut granted) = self.remove_granted(node, attempt) else { return };
        if !granted.is_over() {
            // The twin continues, and gets no other twin.
            granted.note_failure();
            return self.keep_granted(granted);
        }
        self.progressed();
        if !granted.pending.may_lack(&objects) {
            return self.count_as_loss(node, granted);
        }
        let mut pending = granted.pending;
        let reads = pending.mini_batch.reads();
        let place = |object: &UnfetchedObject| reads.get(object.file as usize).copied();
        let first = objects.iter().find(|object| !object.is_final);
        let first = first.and_then(|object| Some((place(object)?, object.reason.clone())));
        if let Some(((source, file), reason)) = first
            && self.reported_unfetched.insert(node)
        {
            let folder = self.sources.get(source as usize);
            let folder = folder.map_or("", |source| source.guest.as_str());
            let text = format!(
                "node {node} could not fetch {folder}/{file}: {reason}; another node tries (reported once per node)"
            );
            self.notice(text);
        }
        let may_join =
            self.policy.node_count.is_some_and(|count| self.nodes.len() < count as usize);
        let pause = if may_join { RetryPolicy::FETCH_JOIN_PAUSE } else { RetryPolicy::FETCH_PAUSE };
        pending.note_unfetched(node, objects, self.now + pause);
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
        self.attempt_lost(by, granted, LostAttempt::default(), failure);
    }

    /// Grants mini-batches whose objects a node could not fetch to other nodes. If there is no other node, the same one
    /// tries again after a pause.
    pub(super) fn grant_troubled(&mut self, grants: &mut BTreeMap<NodeId, Vec<Grant>>) {
        let mut place = 0;
        while let Some(trouble) = self.queue.troubled(place) {
            let FetchTrouble { node: avoided, due, .. } = *trouble;
            let Some(id) = self.node_for_troubled(avoided, due) else {
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

    fn node_for_troubled(&mut self, avoided: NodeId, due: Duration) -> Option<NodeId> {
        let other = self.node_besides(avoided, |node| node.standing.idle > 0);
        if other.is_some() {
            return other;
        }
        let can_work = |(id, node): (&NodeId, &super::node::JobNode)| {
            *id != avoided && !node.standing.is_ending && !self.is_hopeless(node)
        };
        if self.nodes.iter().any(can_work) {
            self.want_worker_besides(avoided);
            return None;
        }
        let same = self.nodes.get(&avoided)?;
        let is_free = same.has_answered() && same.standing.idle > 0;
        (is_free && self.now >= due).then_some(avoided)
    }
}
