//! A machine that other jobs also use.

use super::*;
use crate::files::{FileVersion, ManifestObject};
use crate::protocol::{Assignment, Grant, GrantedObject, NodeNews, Order};
use sandmill_node::machine::{NodeAction, NodeMachine, NodeMessage, NodeOutput};
use std::ops::Range;

fn no_room(worker: u32) -> MachineMessage {
    MachineMessage::NoRoom(WorkerId(worker))
}

/// Waiting for other jobs does not count as a lack of progress, however long it takes. A
/// cancellation ends the wait.
#[test]
fn a_job_waits_for_its_turn() {
    let policy = RetryPolicy { workers: 2, progress_timeout: secs(25), ..policy() };
    let mut machine = new(policy);
    let actions = machine.handle(MachineMessage::Planned(batches(9)), secs(0));
    assert_eq!(spawned(&actions), [(0, None), (1, None)]);
    let actions = machine.handle(no_room(0), secs(0));
    insta::assert_snapshot!(notices(&actions).concat(), @"the job waits for its turn: other jobs use all that this machine gives to jobs (machine, in the operator's policy)");
    assert!(machine.handle(no_room(1), secs(0)).is_empty(), "reported once");
    for second in 1..100 {
        let actions = machine.handle(MachineMessage::Tick, secs(second));
        assert_eq!(spawned(&actions), [(0, None), (1, None)], "the numbers are used again");
        assert!(machine.handle(no_room(0), secs(second)).is_empty());
        assert!(machine.handle(no_room(1), secs(second)).is_empty());
        assert_eq!(machine.next_deadline(), Some(secs(second) + NodePolicy::ROOM_PAUSE));
    }
    let actions = machine.handle(MachineMessage::Tick, secs(100));
    assert_eq!(spawned(&actions), [(0, None), (1, None)]);
    let actions = machine.handle(MachineMessage::Spawned(W0, 17), secs(100));
    insta::assert_snapshot!(notices(&actions).concat(), @"the job continues: after 100 s, the machine has room for it");
    let actions = machine.handle(no_room(1), secs(100));
    insta::assert_snapshot!(notices(&actions).concat(), @"fewer than 2 workers run: other jobs use the rest of what this machine gives to jobs (machine, in the operator's policy); more workers are started when there is room");
    let cancel = MachineMessage::Cancel { reason: "interrupted".into(), at_once: false };
    assert_eq!(killed(&machine.handle(cancel, secs(101))), [0]);

    let mut machine = new(RetryPolicy { workers: 1, ..super::policy() });
    machine.handle(MachineMessage::Planned(batches(9)), secs(0));
    machine.handle(no_room(0), secs(0));
    let cancel = MachineMessage::Cancel { reason: "interrupted".into(), at_once: false };
    let actions = machine.handle(cancel, secs(1));
    assert_eq!(result(&actions).status, crate::model::JobStatus::Cancelled);
}

/// A killed worker counts against the machine's limits until it is gone. Waiting for its end is not reported
/// as waiting for other jobs.
#[test]
fn an_ended_workers_place_is_refilled_at_once() {
    let mut machine = running(policy(), 8);
    machine.handle(started(0, 0), secs(1));
    let failure = Failure::new(FailureKind::OutOfMemory, "too much");
    let actions = machine.handle(MachineMessage::Overrun(W0, failure), secs(2));
    assert_eq!(spawned(&actions), [(1, None)]);
    assert!(machine.handle(no_room(1), secs(2)).is_empty(), "nothing to report");
    let actions = machine.handle(exit(None, Some(9)), secs(2));
    assert_eq!(spawned(&actions), [(1, None)]);
    assert!(notices(&machine.handle(MachineMessage::Spawned(WorkerId(1), 18), secs(2))).is_empty());
}

/// A worker that the job has beyond its share finishes what it has, and ends.
#[test]
fn a_worker_beyond_the_share_ends_after_its_mini_batches() {
    let (mut node, [first, second]) = two_workers();
    let outputs = node.obey(Order::GrantAhead(assignments(0..4)), secs(1));
    let held =
        |worker: WorkerId| outputs.iter().filter(|output| is_assigned(output, worker)).count();
    assert_eq!((held(first), held(second)), (2, 2));
    node.handle(NodeMessage::Started(first, MiniBatchId(0)), secs(1));
    node.handle(NodeMessage::Started(second, MiniBatchId(1)), secs(1));
    assert!(node.handle(NodeMessage::BeyondShare(1), secs(2)).is_empty());
    assert_eq!(node.standing().running, 2);
    assert!(node.handle(NodeMessage::BeyondShare(1), secs(3)).is_empty(), "it leaves already");
    // It gets nothing more.
    let outputs = node.obey(Order::GrantAhead(assignments(4..5)), secs(3));
    assert!(is_assigned(&outputs[0], first), "{outputs:?}");
    let is_end = |output: &NodeOutput| matches!(output, NodeOutput::Do(NodeAction::Shutdown(worker)) if *worker == second);
    for (id, is_last) in [(1, false), (3, true)] {
        let outputs = node.handle(NodeMessage::Finished(second, finished(id)), secs(4));
        assert!(matches!(&outputs[0], NodeOutput::Report(NodeNews::Finished { .. })));
        assert_eq!(outputs.iter().any(is_end), is_last, "{outputs:?}");
        node.handle(NodeMessage::Started(second, MiniBatchId(3)), secs(4));
    }
    for id in [0, 2, 4] {
        let outputs = node.handle(NodeMessage::Finished(first, finished(id)), secs(4));
        assert_eq!(outputs.len(), 1, "the other one goes on: {outputs:?}");
        node.handle(NodeMessage::Started(first, MiniBatchId(id + 2)), secs(4));
    }
}

/// What a worker has not received yet goes back to the leader.
#[test]
fn a_worker_beyond_the_share_does_not_wait_for_objects() {
    let (mut node, [first, second]) = two_workers();
    node.obey(Order::GrantAhead(assignments(0..2)), secs(1));
    node.handle(NodeMessage::Started(first, MiniBatchId(0)), secs(1));
    node.handle(NodeMessage::Started(second, MiniBatchId(1)), secs(1));
    let known = ManifestObject::from(FileVersion { length: 1, seconds: 1, nanos: 1 });
    let mut ahead = assignments(2..4);
    ahead.iter_mut().for_each(|one| one.objects.push(GrantedObject { file: 0, known }));
    node.obey(Order::GrantAhead(ahead), secs(1));
    let outputs = node.handle(NodeMessage::BeyondShare(1), secs(2));
    assert_eq!(returned(&outputs), [3]);
    let withdrawn = |output: &NodeOutput| matches!(output, NodeOutput::Do(NodeAction::Withdraw(worker, MiniBatchId(3), 1)) if *worker == second);
    assert!(outputs.iter().any(withdrawn), "{outputs:?}");
}

/// Workers without a mini-batch end first, in an orderly way.
#[test]
fn an_idle_worker_beyond_the_share_ends_first() {
    let (mut node, [first, second]) = two_workers();
    node.obey(Order::Grant(grants(assignments(0..1))), secs(1));
    node.handle(NodeMessage::Started(first, MiniBatchId(0)), secs(1));
    let outputs = node.handle(NodeMessage::BeyondShare(1), secs(2));
    let ends = |output: &NodeOutput| matches!(output, NodeOutput::Do(NodeAction::Shutdown(worker)) if *worker == second);
    assert!(outputs.iter().any(ends), "{outputs:?}");
    // The job has no share at all for now. Its last worker finishes what it has.
    assert!(node.handle(NodeMessage::BeyondShare(2), secs(3)).is_empty());
    let outputs = node.handle(NodeMessage::Finished(first, finished(0)), secs(4));
    let ends = |output: &NodeOutput| matches!(output, NodeOutput::Do(NodeAction::Shutdown(worker)) if *worker == first);
    assert!(outputs.iter().any(ends), "{outputs:?}");
}

/// Otherwise, two jobs whose `init` takes long could take a slot from each other for ever.
#[test]
fn a_worker_beyond_the_share_first_finishes_init_and_a_mini_batch() {
    let policy = RetryPolicy { workers: 1, ..policy() };
    let mut node = NodeMachine::new(policy.node_policy(), 0);
    node.obey(Order::Want(1), secs(0));
    node.handle(NodeMessage::Spawned(W0, 1), secs(0));
    assert!(node.handle(NodeMessage::BeyondShare(1), secs(100)).is_empty());
    node.handle(NodeMessage::Ready(W0, CallStats::default()), secs(200));
    assert!(node.handle(NodeMessage::BeyondShare(1), secs(200)).is_empty());
    node.obey(Order::Grant(grants(assignments(0..1))), secs(200));
    node.handle(NodeMessage::Started(W0, MiniBatchId(0)), secs(200));
    assert!(node.handle(NodeMessage::BeyondShare(1), secs(201)).is_empty());
    let outputs = node.handle(NodeMessage::Finished(W0, finished(0)), secs(202));
    let is_end = |output: &NodeOutput| matches!(output, NodeOutput::Do(NodeAction::Shutdown(W0)));
    assert!(outputs.iter().any(is_end), "{outputs:?}");
}

/// The other job ends before the worker has finished its mini-batch.
#[test]
fn a_worker_goes_on_if_its_place_is_the_jobs_again() {
    let (mut node, [first, second]) = two_workers();
    node.obey(Order::Grant(grants(assignments(0..2))), secs(1));
    node.handle(NodeMessage::Started(first, MiniBatchId(0)), secs(1));
    node.handle(NodeMessage::Started(second, MiniBatchId(1)), secs(1));
    assert!(node.handle(NodeMessage::BeyondShare(2), secs(2)).is_empty());
    assert!(node.handle(NodeMessage::BeyondShare(0), secs(3)).is_empty());
    for (worker, id) in [(first, 0), (second, 1)] {
        let outputs = node.handle(NodeMessage::Finished(worker, finished(id)), secs(4));
        assert_eq!(outputs.len(), 1, "{outputs:?}");
    }
    assert_eq!(node.standing().idle, 2);
}

fn two_workers() -> (NodeMachine, [WorkerId; 2]) {
    let policy = RetryPolicy { workers: 2, ..policy() };
    let mut node = NodeMachine::new(policy.node_policy(), 0);
    node.obey(Order::Want(2), secs(0));
    let workers = [W0, WorkerId(1)];
    for worker in workers {
        node.handle(NodeMessage::Spawned(worker, 1), secs(0));
        node.handle(NodeMessage::Ready(worker, CallStats::default()), secs(0));
    }
    (node, workers)
}

fn assignments(ids: Range<u64>) -> Vec<Assignment> {
    ids.map(|id| {
        let work = MiniBatchWork::Files(["a", "b"].into());
        let mini_batch = MiniBatch::new(MiniBatchId(id), 0, work);
        Assignment { mini_batch, attempt: 1, is_last: false, objects: Vec::new() }
    })
    .collect()
}

fn grants(assignments: Vec<Assignment>) -> Vec<Grant> {
    assignments.into_iter().map(|assignment| Grant { assignment, failed_on: None }).collect()
}

fn finished(id: u64) -> Box<AttemptReport> {
    let MachineMessage::Finished(_, report) = report(id, 1, 2, segment()) else { unreachable!() };
    report
}

fn is_assigned(output: &NodeOutput, to: WorkerId) -> bool {
    matches!(output, NodeOutput::Do(NodeAction::Assign(worker, _)) if *worker == to)
}

/// The mini-batches that go back to the leader.
fn returned(outputs: &[NodeOutput]) -> Vec<u64> {
    let ids = outputs.iter().filter_map(|output| match output {
        NodeOutput::Report(NodeNews::Returned(returned)) => Some(returned),
        _ => None,
    });
    ids.flatten().map(|(id, _)| id.0).collect()
}
