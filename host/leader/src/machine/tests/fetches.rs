//! Objects of stores that nodes fetch: a failure on one node is tried on another one, and a node's time-outs do not count
//! the time for fetching.

use super::super::job::{JobMachine, JobMessage, JobOutput};
use super::nodes::{
    A, B, WORKERS, committed_failure, granted, idle, on_two_nodes, report_state, send, with_plan,
};
use super::*;
use crate::files::{FileVersion, ManifestObject};
use crate::model::{NodeId, StoredBytes, StoredSpill, TextSlice};
use crate::protocol::store::UnfetchedObject;
use crate::protocol::{Assignment, Grant, GrantedObject, NodeNews, Order};
use sandmill_node::machine::{NodeAction, NodeMachine, NodeMessage, NodeOutput};

/// A node has another first file than the leader's machine.
fn other_file(job: &mut JobMachine, node: NodeId, second: u64) -> Vec<JobOutput> {
    let (reason, is_final, is_other) = ("another file".to_owned(), false, true);
    let objects = vec![UnfetchedObject { file: 0, reason, is_final, is_other }];
    let news = NodeNews::Unfetched { id: MiniBatchId(0), attempt: 1, objects };
    send(job, JobMessage::Node(node, news), second)
}

/// A node reports that it could not fetch these objects of the first mini-batch.
fn unfetched(
    job: &mut JobMachine,
    node: NodeId,
    objects: &[(u32, bool)],
    second: u64,
) -> Vec<JobOutput> {
    let object = |&(file, is_final): &(u32, bool)| UnfetchedObject {
        file,
        reason: format!("no {file}"),
        is_final,
        is_other: false,
    };
    let objects = objects.iter().map(object).collect();
    let news = NodeNews::Unfetched { id: MiniBatchId(0), attempt: 1, objects };
    send(job, JobMessage::Node(node, news), second)
}

/// The files of the granted mini-batch that are given up.
fn given_up(outputs: &[JobOutput]) -> Option<Vec<u32>> {
    outputs.iter().find_map(|output| match output {
        JobOutput::Order(_, Order::Grant(grants)) => {
            let batch = &grants[0].assignment.mini_batch;
            Some(batch.unfetched.iter().map(|(file, _)| *file).collect())
        }
        _ => None,
    })
}

#[test]
fn another_node_tries_first() {
    let mut job = on_two_nodes(policy(), 1);
    assert_eq!(granted(&report_state(&mut job, A, idle(0))), [(A, 0, 1)]);
    assert_eq!(granted(&unfetched(&mut job, A, &[(1, false)], 2)), []);
    // The first node is free, but shall not try again while there is another one.
    assert_eq!(granted(&report_state(&mut job, A, idle(1))), []);
    let outputs = report_state(&mut job, B, idle(0));
    assert_eq!((granted(&outputs), given_up(&outputs)), (vec![(B, 0, 1)], Some(vec![])));
    // After the second failure, the mini-batch runs without the object. It does not matter where.
    let outputs = unfetched(&mut job, B, &[(1, false)], 3);
    assert_eq!((granted(&outputs), given_up(&outputs)), (vec![(A, 0, 1)], Some(vec![1])));
}

/// Only failures that may be the machine's fault are tried elsewhere.
#[test]
fn a_missing_object_is_given_up_at_once() {
    let mut job = on_two_nodes(policy(), 1);
    report_state(&mut job, A, idle(0));
    unfetched(&mut job, A, &[(0, true)], 2);
    let outputs = report_state(&mut job, A, idle(1));
    assert_eq!((granted(&outputs), given_up(&outputs)), (vec![(A, 0, 1)], Some(vec![0])));
    // The other one fails, too: no worker can process the mini-batch, and this attempt is its last.
    unfetched(&mut job, A, &[(1, true)], 3);
    let outputs = report_state(&mut job, A, idle(2));
    assert_eq!(given_up(&outputs), Some(vec![0, 1]));
    let is_last = outputs.iter().any(|output| match output {
        JobOutput::Order(_, Order::Grant(grants)) => grants[0].assignment.is_last,
        _ => false,
    });
    assert!(is_last);
}

/// Without another node, the same one tries again after a pause.
#[test]
fn a_node_that_is_alone_tries_twice() {
    let mut job = on_two_nodes(policy(), 1);
    send(&mut job, JobMessage::NodeLost(B), 0);
    report_state(&mut job, A, idle(0));
    unfetched(&mut job, A, &[(0, false)], 2);
    assert_eq!(granted(&report_state(&mut job, A, idle(1))), []);
    let due = secs(2) + RetryPolicy::FETCH_JOIN_PAUSE;
    assert_eq!(job.next_deadline(), Some(due));
    let outputs = send(&mut job, JobMessage::Tick, due.as_secs());
    assert_eq!((granted(&outputs), given_up(&outputs)), (vec![(A, 0, 1)], Some(vec![])));
    let outputs = unfetched(&mut job, A, &[(0, false)], 40);
    assert_eq!(granted(&outputs), []);
    assert_eq!(given_up(&report_state(&mut job, A, idle(2))), Some(vec![0]));
}

/// Nodes that have other files cost no mini-batch while a node may have the right ones.
#[test]
fn a_node_that_may_have_the_right_files_tries_after_others() {
    let mut job = on_two_nodes(policy(), 1);
    let third = NodeId(2);
    send(&mut job, JobMessage::NodeJoined(third, WORKERS), 0);
    assert_eq!(granted(&report_state(&mut job, A, idle(0))), [(A, 0, 1)]);
    other_file(&mut job, A, 2);
    assert_eq!(granted(&report_state(&mut job, B, idle(0))), [(B, 0, 1)]);
    other_file(&mut job, B, 3);
    // Neither of them tries again.
    assert_eq!(granted(&report_state(&mut job, A, idle(1))), []);
    assert_eq!(granted(&send(&mut job, JobMessage::Tick, 7)), []);
    let outputs = report_state(&mut job, third, idle(0));
    assert_eq!((granted(&outputs), given_up(&outputs)), (vec![(third, 0, 1)], Some(vec![])));
}

/// Files that no node has are given up when each node has tried, and one of them again after a pause.
#[test]
fn files_that_no_node_has_are_given_up() {
    let mut job = on_two_nodes(policy(), 1);
    report_state(&mut job, A, idle(0));
    other_file(&mut job, A, 2);
    assert_eq!(granted(&report_state(&mut job, B, idle(0))), [(B, 0, 1)]);
    other_file(&mut job, B, 3);
    report_state(&mut job, B, idle(1));
    let outputs = send(&mut job, JobMessage::Tick, 100);
    assert_eq!((granted(&outputs), given_up(&outputs)), (vec![(B, 0, 1)], Some(vec![])));
    other_file(&mut job, B, 101);
    assert_eq!(given_up(&report_state(&mut job, B, idle(2))), Some(vec![0]));
}

/// The node that tried last leaves, and the node that is left has other files: it tries again after a pause.
#[test]
fn the_last_node_tries_again_after_the_others_left() {
    let mut job = on_two_nodes(policy(), 1);
    report_state(&mut job, A, idle(0));
    other_file(&mut job, A, 2);
    assert_eq!(granted(&report_state(&mut job, B, idle(0))), [(B, 0, 1)]);
    other_file(&mut job, B, 3);
    send(&mut job, JobMessage::NodeLost(B), 4);
    assert_eq!(granted(&report_state(&mut job, A, idle(1))), []);
    assert_eq!(granted(&send(&mut job, JobMessage::Tick, 100)), [(A, 0, 1)]);
    other_file(&mut job, A, 101);
    assert_eq!(given_up(&report_state(&mut job, A, idle(2))), Some(vec![0]));
}

/// What the planner has unpacked comes from the job's store. It is tried twice, as objects are.
#[test]
fn an_unpacked_text_that_no_node_can_fetch_is_given_up() {
    let parts = StoredBytes { epoch: 1, object: 0, offset: 0, length: 1, sha256: [0; 32] };
    let unpacked = Some("a".to_owned());
    let work = MiniBatchWork::Text(TextSlice { unpacked, ..TextSlice::sample() });
    let batch = MiniBatch {
        spill: Some(Box::new(StoredSpill { parts, names: None })),
        ..MiniBatch::new(MiniBatchId(0), 0, work)
    };
    assert_eq!(batch.spill_position(), 0, "there are no other files to fetch");
    let mut job = with_plan(policy(), vec![batch]);
    assert_eq!(granted(&report_state(&mut job, A, idle(0))), [(A, 0, 1)]);
    assert_eq!(granted(&unfetched(&mut job, A, &[(0, false)], 2)), []);
    let outputs = report_state(&mut job, B, idle(0));
    assert_eq!((granted(&outputs), given_up(&outputs)), (vec![(B, 0, 1)], Some(vec![])));
    assert_eq!(granted(&report_state(&mut job, A, idle(1))), []);
    let outputs = unfetched(&mut job, B, &[(0, false)], 3);
    assert_eq!((granted(&outputs), given_up(&outputs)), (vec![(A, 0, 1)], Some(vec![0])));
}

/// A node cannot keep a mini-batch from ending by saying that nothing is missing, or what it was not asked for.
#[test]
fn a_node_that_lies_does_not_hold_up_the_job() {
    for objects in [&[][..], &[(0, true), (99, true)]] {
        let mut job = on_two_nodes(RetryPolicy { max_try: 1, ..tolerant() }, 1);
        for round in 0..u64::from(RetryPolicy::MAX_NODE_LOSSES) {
            assert_eq!(granted(&report_state(&mut job, A, idle(round))), [(A, 0, 1)]);
            let failure = committed_failure(&unfetched(&mut job, A, objects, 2));
            let is_last = round + 1 == u64::from(RetryPolicy::MAX_NODE_LOSSES);
            assert_eq!(failure.is_some(), is_last, "round {round}: {failure:?}");
        }
    }
}

/// The first attempt at a mini-batch with one object.
fn assignment(id: u64) -> Assignment {
    let mini_batch = MiniBatch::new(MiniBatchId(id), 0, MiniBatchWork::Files(["a", "b"].into()));
    let known = ManifestObject::from(FileVersion { length: 1, seconds: 1, nanos: 1 });
    let objects = vec![GrantedObject { file: 0, known }];
    Assignment { mini_batch, attempt: 1, is_last: false, objects }
}

/// A node whose only worker waits for the objects of two mini-batches.
fn waiting() -> NodeMachine {
    let mut node = NodeMachine::new(policy().node_policy(), 0);
    node.obey(Order::Want(1), secs(1));
    node.handle(NodeMessage::Spawned(W0, 1), secs(1));
    node.handle(NodeMessage::Ready(W0, CallStats::default()), secs(1));
    let grant = Grant { assignment: assignment(0), failed_on: None };
    node.obey(Order::Grant(vec![grant]), secs(1));
    node.obey(Order::GrantAhead(vec![assignment(1)]), secs(1));
    node
}

fn news(outputs: &[NodeOutput]) -> Vec<NodeNews> {
    let pick = |output: &NodeOutput| match output {
        NodeOutput::Report(news) => Some(news.clone()),
        NodeOutput::Do(_) => None,
    };
    outputs.iter().filter_map(pick).collect()
}

fn fetched(id: u64) -> NodeMessage {
    NodeMessage::Fetched(W0, MiniBatchId(id), 1)
}

#[test]
fn loading_begins_when_the_objects_are_there() {
    let mut node = waiting();
    assert_eq!(node.next_deadline(), None, "a slow store is not the worker's fault");
    assert!(news(&node.handle(NodeMessage::Tick, secs(9999))).is_empty());
    node.handle(fetched(0), secs(10_000));
    assert_eq!(node.next_deadline(), Some(secs(10_000) + policy().load_timeout));
    node.handle(NodeMessage::Started(W0, MiniBatchId(0)), secs(10_001));
    let MachineMessage::Finished(worker, done) = report(0, 1, 2, segment()) else { unreachable!() };
    node.handle(NodeMessage::Finished(worker, done), secs(10_002));
    assert_eq!(node.next_deadline(), None, "the next one waits");
}

/// A worker that dies has not begun what it does not have.
#[test]
fn waiting_attempts_of_a_dead_worker_go_back() {
    let mut node = waiting();
    let exit = WorkerExit { signal: Some(9), ..WorkerExit::default() };
    let reported = news(&node.handle(NodeMessage::Exited(W0, exit), secs(2)));
    let returned = vec![(MiniBatchId(0), 1), (MiniBatchId(1), 1)];
    assert_eq!(reported[1..], [NodeNews::Returned(returned)]);
}

/// To end an attempt whose worker does not have it, no worker is killed.
#[test]
fn a_waiting_attempt_is_withdrawn() {
    let mut node = waiting();
    let cancel = Order::Cancel { id: MiniBatchId(0), attempt: 1 };
    let outputs = node.obey(cancel, secs(2));
    let is_withdrawn = |output: &NodeOutput| {
        matches!(output, NodeOutput::Do(NodeAction::Withdraw(W0, MiniBatchId(0), 1)))
    };
    assert!(outputs.len() == 1 && outputs.iter().any(is_withdrawn), "{outputs:?}");
    // The next one cannot be fetched.
    let gone =
        UnfetchedObject { file: 0, reason: "no".to_owned(), is_final: true, is_other: false };
    let message = NodeMessage::Unfetched(W0, MiniBatchId(1), 1, vec![gone.clone()]);
    let expected = NodeNews::Unfetched { id: MiniBatchId(1), attempt: 1, objects: vec![gone] };
    assert_eq!(news(&node.handle(message.clone(), secs(3))), [expected]);
    assert_eq!((node.standing().idle, node.standing().loading), (1, 0));
    assert!(news(&node.handle(message, secs(3))).is_empty(), "it is gone");
}
