//! Nodes whose disks are full.

use super::super::job::{JobMessage, JobOutput};
use super::nodes::{A, B, granted, idle, is_end, on_two_nodes, report_state, send};
use super::*;
use crate::model::NodeId;
use crate::protocol::{Assignment, Grant, NodeNews, Order, WorkersStanding};
use sandmill_node::machine::{NodeMachine, NodeMessage, NodeOutput};

fn full(standing: WorkersStanding) -> WorkersStanding {
    WorkersStanding { is_full: true, ..standing }
}

fn wanted(outputs: &[JobOutput]) -> Vec<(NodeId, u32)> {
    let wants = outputs.iter().filter_map(|output| match output {
        JobOutput::Order(node, Order::Want(workers)) => Some((*node, *workers)),
        _ => None,
    });
    wants.collect()
}

/// A node whose disk is full gets no mini-batches, and its workers do not count: others are started elsewhere.
#[test]
fn a_full_node_gets_nothing_until_it_has_room() {
    let mut job = on_two_nodes(policy(), 2);
    let outputs = report_state(&mut job, A, full(idle(0)));
    assert_eq!(granted(&outputs), []);
    assert_eq!(wanted(&report_state(&mut job, B, full(WorkersStanding::default()))), []);
    let outputs = report_state(&mut job, B, WorkersStanding::default());
    assert_eq!((granted(&outputs), wanted(&outputs)), (vec![], vec![(B, 1)]));
    assert_eq!(granted(&report_state(&mut job, A, idle(0))), [(A, 0, 1)]);
}

/// A mini-batch that a full node returns goes to another node, and does not count as a try.
#[test]
fn what_a_full_node_returns_goes_to_another_node() {
    let mut job = on_two_nodes(policy(), 1);
    assert_eq!(granted(&report_state(&mut job, A, idle(0))), [(A, 0, 1)]);
    let returned = NodeNews::Returned(vec![(MiniBatchId(0), 1)]);
    let outputs = send(&mut job, JobMessage::Node(A, returned), 1);
    assert_eq!(granted(&outputs), []);
    assert_eq!(granted(&report_state(&mut job, A, full(idle(1)))), []);
    assert_eq!(granted(&report_state(&mut job, B, idle(0))), [(B, 0, 1)]);
}

/// The node returns what crosses its message that the disk is full. What its worker has goes on.
#[test]
fn a_full_node_returns_what_is_granted() {
    let node_policy = policy().node_policy();
    let mut node = NodeMachine::new(node_policy, 0);
    node.obey(Order::Want(1), secs(0));
    node.handle(NodeMessage::Spawned(W0, 1), secs(0));
    node.handle(NodeMessage::Ready(W0, CallStats::default()), secs(0));
    node.handle(NodeMessage::Full(true), secs(1));
    let assignment = |id| {
        let mini_batch = batches(9).swap_remove(id);
        Assignment { mini_batch, attempt: 1, is_last: false, objects: Vec::new() }
    };
    let grant = |id| Order::Grant(vec![Grant { assignment: assignment(id), failed_on: None }]);
    let outputs = node.obey(grant(3), secs(1));
    let returned = |outputs: &[NodeOutput]| {
        let is_it = |output: &NodeOutput| matches!(output, NodeOutput::Report(NodeNews::Returned(of)) if of[..] == [(MiniBatchId(3), 1)]);
        outputs.iter().any(is_it)
    };
    assert!(returned(&outputs), "{outputs:?}");
    let outputs = node.obey(Order::GrantAhead(vec![assignment(3)]), secs(1));
    assert!(returned(&outputs), "{outputs:?}");
    assert!(node.standing().is_full && node.standing().ahead.is_none());
    assert!(node.obey(Order::Want(2), secs(1)).is_empty());
    node.handle(NodeMessage::Full(false), secs(2));
    assert!(!returned(&node.obey(grant(3), secs(2))));
    assert_eq!(node.standing().loading, 1);
    // Its queue does not grow while the disk is full.
    assert!(node.standing().ahead.is_some());
    node.handle(NodeMessage::Full(true), secs(3));
    assert!(node.standing().ahead.is_none() && node.standing().loading == 1);
}

/// A job whose nodes are all full waits, and does not fail for lack of progress. When there is room, it has its full time.
#[test]
fn a_job_waits_for_room() {
    let mut job = on_two_nodes(RetryPolicy { progress_timeout: secs(25), ..policy() }, 2);
    for node in [A, B] {
        report_state(&mut job, node, full(idle(0)));
    }
    assert!(job.next_deadline().is_none_or(|at| at > secs(1000)), "{:?}", job.next_deadline());
    assert!(!send(&mut job, JobMessage::Tick, 100).iter().any(is_end));
    let news = JobMessage::Node(A, NodeNews::Standing(idle(0)));
    assert_eq!(granted(&send(&mut job, news, 100)), [(A, 0, 1)]);
    assert_eq!(job.next_deadline(), Some(secs(125)));
}

/// One node is full, and `init` keeps failing on the other one: the job waits for room, or for another node.
#[test]
fn a_job_waits_for_room_although_another_node_is_useless() {
    let mut job = on_two_nodes(RetryPolicy { progress_timeout: secs(25), ..policy() }, 2);
    report_state(&mut job, A, full(idle(0)));
    report_state(&mut job, B, WorkersStanding { init_failures: 100, ..WorkersStanding::default() });
    assert!(!send(&mut job, JobMessage::Tick, 100).iter().any(is_end));
}
