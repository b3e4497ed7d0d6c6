//! How a node ends an attempt whose twin has succeeded on another node, and how it ends its workers.

use super::*;
use crate::protocol::{Assignment, Grant, NodeNews, Order, WorkersEnd};
use sandmill_node::machine::{NodeAction, NodeMachine, NodeMessage, NodeOutput};

fn assignment(id: u64) -> Assignment {
    let mini_batch = MiniBatch::new(MiniBatchId(id), 0, MiniBatchWork::Files(["a", "b"].into()));
    Assignment { mini_batch, attempt: 1, is_last: false, objects: Vec::new() }
}

fn cancel(id: u64, attempt: u32) -> Order {
    Order::Cancel { id: MiniBatchId(id), attempt }
}

/// A node whose only worker runs mini-batch 0, and has mini-batch 1 in its queue.
fn node() -> NodeMachine {
    let mut node = NodeMachine::new(policy().node_policy(), 0);
    let now = secs(1);
    node.obey(Order::Want(1), now);
    node.handle(NodeMessage::Spawned(W0, 1), now);
    node.handle(NodeMessage::Ready(W0, CallStats::default()), now);
    let grant = Grant { assignment: assignment(0), failed_on: None };
    node.obey(Order::Grant(vec![grant]), now);
    node.handle(NodeMessage::Started(W0, MiniBatchId(0)), now);
    node.obey(Order::GrantAhead(vec![assignment(1)]), now);
    node
}

fn finish(node: &mut NodeMachine, id: u64) -> Vec<NodeOutput> {
    let MachineMessage::Finished(worker, report) = report(id, 1, 2, segment()) else {
        unreachable!()
    };
    node.handle(NodeMessage::Finished(worker, report), secs(3))
}

fn news(outputs: &[NodeOutput]) -> Vec<NodeNews> {
    let pick = |output: &NodeOutput| match output {
        NodeOutput::Report(news) => Some(news.clone()),
        NodeOutput::Do(_) => None,
    };
    outputs.iter().filter_map(pick).collect()
}

fn kills(outputs: &[NodeOutput]) -> bool {
    outputs.iter().any(|output| matches!(output, NodeOutput::Do(NodeAction::Kill(W0))))
}

/// The worker is killed. Its other attempts go back to the leader, and a report of the ended attempt does not count.
#[test]
fn a_cancelled_attempt_ends_with_its_worker() {
    let mut node = node();
    let outputs = node.obey(cancel(0, 1), secs(2));
    assert!(kills(&outputs));
    assert_eq!(news(&outputs), [NodeNews::Returned(vec![(MiniBatchId(1), 1)])]);
    assert_eq!((node.standing().doomed, node.standing().running), (1, 0));
    assert!(finish(&mut node, 0).is_empty());
    let exit = WorkerExit { signal: Some(9), ..WorkerExit::default() };
    let outputs = node.handle(NodeMessage::Exited(W0, exit), secs(4));
    assert!(
        matches!(&news(&outputs)[..], [NodeNews::Exited { expected: true, .. }]),
        "{outputs:?}"
    );
}

/// An attempt in a worker's queue ends when its turn comes, so that the running attempt is not lost.
#[test]
fn a_cancelled_attempt_in_a_queue_does_not_run() {
    let mut node = node();
    assert!(node.obey(cancel(1, 1), secs(2)).is_empty());
    let outputs = finish(&mut node, 0);
    assert!(kills(&outputs));
    let reported = news(&outputs);
    assert!(matches!(&reported[..], [NodeNews::Finished { .. }]), "{reported:?}");
}

/// The attempt may have ended already, or be another one.
#[test]
fn an_unknown_attempt_is_not_cancelled() {
    let mut node = node();
    for order in [cancel(0, 2), cancel(9, 1)] {
        assert!(node.obey(order, secs(2)).is_empty());
    }
    finish(&mut node, 0);
    assert!(node.obey(cancel(0, 1), secs(4)).is_empty());
    assert_eq!(node.standing().loading, 1, "the next mini-batch continues");
}

/// A node that ends its workers takes nothing more for their queues.
#[test]
fn a_node_that_drains_lets_no_queue_grow() {
    let mut node = node();
    let outputs = node.obey(Order::End(WorkersEnd::Orderly), secs(2));
    assert_eq!(news(&outputs), [NodeNews::Returned(vec![(MiniBatchId(1), 1)])]);
    assert_eq!(node.standing().ahead, None);
    // The order has crossed the news.
    let outputs = node.obey(Order::GrantAhead(vec![assignment(2)]), secs(2));
    assert_eq!(news(&outputs), [NodeNews::Returned(vec![(MiniBatchId(2), 1)])]);
}
