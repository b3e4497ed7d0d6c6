//! Checks what a node on another machine reports. A node must not report on workers of another node, nor what only
//! the leader's own machine can know.

use crate::model::{NodeId, WorkerId};
use crate::protocol::{NodeNews, NodeReport, QueuePolicy, WorkersStanding};

/// Whether this node may send this report.
pub(super) fn is_allowed(report: &NodeReport, node: NodeId) -> bool {
    let is_own = |worker: &WorkerId| worker.node() == node;
    match report {
        NodeReport::News(NodeNews::Standing(standing)) if !is_plausible(standing) => false,
        NodeReport::News(NodeNews::Continues(attempts)) => {
            attempts.iter().filter_map(|continued| continued.runs_on.as_ref()).all(is_own)
        }
        NodeReport::News(news) => worker_of(news).is_none_or(|worker| is_own(&worker)),
        NodeReport::WorkerDone(worker) | NodeReport::WorkerGone(worker) => is_own(worker),
        NodeReport::Notice(_)
        | NodeReport::Arrived
        | NodeReport::GpuUse(_)
        | NodeReport::Wall(_) => true,
        NodeReport::Changed
        | NodeReport::Joined { .. }
        | NodeReport::MixedBackends(_)
        | NodeReport::Lost
        | NodeReport::Planned(_)
        | NodeReport::NoSpace(_)
        | NodeReport::Fetched(..) => false,
    }
}

/// Whether a node can have so many workers.
fn is_plausible(standing: &WorkersStanding) -> bool {
    let WorkersStanding { starting, idle, loading, running, closing, doomed, .. } = *standing;
    let counts = [starting, idle, loading, running, closing, doomed, standing.init_failures];
    let ahead = standing.ahead.map_or(0, |ahead| ahead.depth.max(ahead.takers));
    let room = standing.ahead.map_or(0, |ahead| ahead.room);
    // Each queue has one more attempt than those that wait: the one that runs.
    let most_room = NodeId::WORKER_NUMBERS * (QueuePolicy::OTHER_MACHINE.most + 1);
    counts.into_iter().chain([ahead]).all(|count| count <= NodeId::WORKER_NUMBERS)
        && room <= most_room
}

/// The worker that the news is about. `None` if it is about the node.
fn worker_of(news: &NodeNews) -> Option<WorkerId> {
    match news {
        NodeNews::Spawned { worker, .. }
        | NodeNews::SpawnFailed { worker, .. }
        | NodeNews::Ready { worker, .. }
        | NodeNews::InitFailed { worker, .. }
        | NodeNews::Started { worker, .. }
        | NodeNews::Finished { worker, .. }
        | NodeNews::Lost { worker, .. }
        | NodeNews::Late { worker, .. }
        | NodeNews::Exited { worker, .. } => Some(*worker),
        NodeNews::Standing(standing) => standing.first_starting,
        NodeNews::Notice(_)
        | NodeNews::NoRoom(_)
        | NodeNews::Returned(_)
        | NodeNews::Unfetched { .. }
        | NodeNews::Continues(_)
        | NodeNews::Closing => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::GrowingQueues;

    #[test]
    fn a_node_reports_on_its_own_workers_only() {
        let exited = |worker| {
            let how = "exit code 0".to_owned();
            NodeReport::News(NodeNews::Exited { worker: WorkerId(worker), how, expected: true })
        };
        let first = NodeId(2).first_worker().unwrap();
        assert!(is_allowed(&exited(first), NodeId(2)));
        assert!(is_allowed(&exited(first + NodeId::WORKER_NUMBERS - 1), NodeId(2)));
        assert!(!is_allowed(&exited(first - 1), NodeId(2)));
        assert!(!is_allowed(&NodeReport::WorkerGone(WorkerId(0)), NodeId(2)));
        assert!(!is_allowed(&NodeReport::Joined { workers: 9 }, NodeId(2)));
        let standing = |idle| {
            NodeReport::News(NodeNews::Standing(WorkersStanding { idle, ..Default::default() }))
        };
        assert!(is_allowed(&standing(16), NodeId(2)));
        assert!(!is_allowed(&standing(u32::MAX), NodeId(2)));
        let with_room = |room| {
            let ahead = Some(GrowingQueues { depth: 1, takers: 1, room });
            NodeReport::News(NodeNews::Standing(WorkersStanding { ahead, ..Default::default() }))
        };
        assert!(is_allowed(&with_room(4080), NodeId(2)));
        assert!(!is_allowed(&with_room(u32::MAX), NodeId(2)));
    }
}
