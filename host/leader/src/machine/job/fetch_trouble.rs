//! The objects of a mini-batch that nodes could not fetch.

use crate::model::{MiniBatch, NodeId};
use crate::protocol::store::UnfetchedObject;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// An object is given up after this many failures.
const MAX_FAILURES: u32 = 2;
/// All objects of a mini-batch that are missing are given up after this many grants. Other files are given up after
/// this many grants besides the first one on each node that has them.
const MAX_GRANTS: u32 = 8;

/// What nodes could not fetch of a mini-batch: objects, or what it reads of the planner's files.
#[derive(Clone, Debug)]
pub(super) struct FetchTrouble {
    /// The node that tried last. Another one shall try.
    node: NodeId,
    /// When nodes may try again, if there is no other one.
    pub(super) due: Duration,
    /// How often each object failed, by its position in [`MiniBatch::reads`](crate::model::MiniBatch::reads).
    failures: BTreeMap<u32, u32>,
    /// How many grants have failed.
    grants: u32,
    /// The nodes that have other files than the leader's machine. Nodes that have not tried come first.
    others: BTreeSet<NodeId>,
}

/// Whether these can be objects that a node was to fetch for this mini-batch.
pub(super) fn may_lack(mini_batch: &MiniBatch, objects: &[UnfetchedObject]) -> bool {
    let needs = mini_batch.needs();
    let is_open = |object: &UnfetchedObject| {
        (object.file as usize) < needs && mini_batch.why_unfetched(object.file).is_none()
    };
    let can_lack_any = !objects.is_empty() && !mini_batch.is_unfetched();
    can_lack_any && objects.iter().all(is_open)
}

impl FetchTrouble {
    /// Notes that a node could not fetch these objects. Failures that are final become part of the mini-batch. Returns
    /// the trouble that is left. `earlier`: that of the mini-batch before. `nodes`: all nodes that might try.
    pub(super) fn note<'a>(
        mini_batch: &mut MiniBatch,
        earlier: Option<Box<Self>>,
        (node, mut nodes): (NodeId, impl Iterator<Item = &'a NodeId>),
        objects: Vec<UnfetchedObject>,
        due: Duration,
    ) -> Option<Box<Self>> {
        let grants = earlier.as_ref().map_or(0, |trouble| trouble.grants) + 1;
        let (mut failures, mut others) =
            earlier.map(|trouble| (trouble.failures, trouble.others)).unwrap_or_default();
        if objects.iter().any(|object| object.is_other) {
            others.insert(node);
        }
        let again = (grants as usize).saturating_sub(others.len());
        // Each node has tried, and one of them again after a pause. Some nodes may never be able to try.
        let are_all_other =
            again > 0 && nodes.all(|node| others.contains(node)) || again >= MAX_GRANTS as usize;
        let mut given_up: BTreeMap<u32, String> = mini_batch.unfetched.drain(..).collect();
        let mut is_open = false;
        for UnfetchedObject { file, reason, is_final, is_other } in objects {
            let count = failures.entry(file).or_default();
            *count += u32::from(!is_other);
            let is_given_up = match is_other {
                true => are_all_other,
                false => is_final || *count >= MAX_FAILURES || grants >= MAX_GRANTS,
            };
            if is_given_up {
                given_up.insert(file, reason);
            } else {
                is_open = true;
            }
        }
        mini_batch.set_unfetched(given_up.into_iter().collect());
        is_open.then(|| Box::new(Self { node, due, failures, grants, others }))
    }

    /// Whether another node shall try before this one.
    pub(super) fn avoids(&self, node: NodeId) -> bool {
        self.node == node || self.others.contains(&node)
    }
}
