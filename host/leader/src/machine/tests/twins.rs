//! Twins: second attempts at slow mini-batches near the end of a job on several nodes.

use super::super::job::{JobAction, JobMachine, JobMessage, JobOutput};
use super::nodes::{A, B, committed_failure, finished, granted, idle, on_two_nodes, send};
use super::*;
use crate::model::{AttemptUsage, NodeId};
use crate::protocol::{NodeNews, Order, WorkersStanding};

/// A node whose only worker is inside `run`, after this many grants.
fn running(grants: u64) -> WorkersStanding {
    WorkersStanding { running: 1, has_good: true, grants, ..WorkersStanding::default() }
}

fn report_state(
    job: &mut JobMachine,
    node: NodeId,
    standing: WorkersStanding,
    second: u64,
) -> Vec<JobOutput> {
    send(job, JobMessage::Node(node, NodeNews::Standing(standing)), second)
}

/// The only worker of a node enters `run`.
fn start(job: &mut JobMachine, node: NodeId, (id, attempt): (u64, u32), second: u64) {
    let news = NodeNews::Started { worker: WorkerId(node.0), id: MiniBatchId(id), attempt };
    send(job, JobMessage::Node(node, news), second);
}

fn has_finished(
    job: &mut JobMachine,
    node: NodeId,
    (id, attempt): (u64, u32),
    outcome: Result<Segment, Failure>,
    second: u64,
) -> Vec<JobOutput> {
    let rows = if outcome.is_ok() { 2 } else { 0 };
    let NodeNews::Finished { has_run, usage, report, .. } =
        finished(report(id, attempt, rows, outcome))
    else {
        unreachable!()
    };
    let worker = WorkerId(node.0);
    let news = NodeNews::Finished { worker, age: secs(2), has_run, usage, report };
    send(job, JobMessage::Node(node, news), second)
}

/// The attempts that are cancelled: the node, the mini-batch and the attempt's number.
fn cancelled(outputs: &[JobOutput]) -> Vec<(NodeId, u64, u32)> {
    let pick = |output: &JobOutput| match output {
        JobOutput::Order(node, Order::Cancel { id, attempt }) => Some((*node, id.0, *attempt)),
        _ => None,
    };
    outputs.iter().filter_map(pick).collect()
}

/// The workers whose successes are committed.
fn committed_successes(outputs: &[JobOutput]) -> Vec<WorkerId> {
    let pick = |output: &JobOutput| match output {
        JobOutput::Do(JobAction::Commit(settled)) if settled.report.outcome.is_ok() => {
            Some(settled.worker)
        }
        _ => None,
    };
    outputs.iter().filter_map(pick).collect()
}

fn events(outputs: &[JobOutput]) -> Vec<EventKind> {
    let pick = |output: &JobOutput| match output {
        JobOutput::Do(JobAction::Emit(kind)) => Some(kind.clone()),
        _ => None,
    };
    outputs.iter().filter_map(pick).collect()
}

/// A job whose mini-batches 1 and 2 took 2 s each on node B, which now is idle. Mini-batch 0 has been running on node
/// A since second 1.
fn with_one_slow(policy: RetryPolicy) -> JobMachine {
    let mut job = on_two_nodes(policy, 3);
    assert_eq!(granted(&report_state(&mut job, A, idle(0), 1)), [(A, 0, 1)]);
    report_state(&mut job, A, running(1), 1);
    start(&mut job, A, (0, 1), 1);
    for id in [1, 2] {
        assert_eq!(granted(&report_state(&mut job, B, idle(id - 1), 1)), [(B, id, 1)]);
        start(&mut job, B, (id, 1), 1);
        has_finished(&mut job, B, (id, 1), segment(), 1);
        send(&mut job, JobMessage::Committed(vec![MiniBatchId(id)]), 1);
    }
    assert_eq!(granted(&report_state(&mut job, B, idle(2), 1)), []);
    job
}

/// The same job, after node B has begun the twin of mini-batch 0.
fn with_twins(policy: RetryPolicy) -> JobMachine {
    let mut job = with_one_slow(policy);
    assert_eq!(granted(&send(&mut job, JobMessage::Tick, 7)), [(B, 0, 1)]);
    report_state(&mut job, B, running(3), 7);
    start(&mut job, B, (0, 1), 7);
    job
}

#[test]
fn a_slow_mini_batch_gets_a_twin_on_another_node() {
    let mut job = with_one_slow(policy());
    // The next look is due in half a second.
    assert_eq!(job.next_deadline(), Some(secs(1) + RetryPolicy::TWIN_INTERVAL));
    assert_eq!(
        granted(&send(&mut job, JobMessage::Tick, 6)),
        [],
        "after 5 s, 2.5 times the median"
    );
    let outputs = send(&mut job, JobMessage::Tick, 7);
    assert_eq!(granted(&outputs), [(B, 0, 1)]);
    let granted_twin = EventKind::TwinGranted {
        id: MiniBatchId(0),
        attempt: 1,
        node: 1,
        first_node: 0,
        seconds: 6.0,
        median_seconds: 2.0,
    };
    assert!(events(&outputs).contains(&granted_twin), "{outputs:?}");
    // There is one twin, even if another node is idle.
    report_state(&mut job, B, running(3), 7);
    let c = NodeId(2);
    send(&mut job, JobMessage::NodeJoined(c, 1), 8);
    report_state(&mut job, c, idle(0), 8);
    assert_eq!(granted(&send(&mut job, JobMessage::Tick, 60)), []);
}

/// Messages that arrived while the leader was paused come before its decision.
#[test]
fn a_leader_that_wakes_grants_no_twin_before_a_tick() {
    let mut job = with_one_slow(policy());
    let notice = JobMessage::Notice("time passes".to_owned());
    assert_eq!(granted(&send(&mut job, notice, 100)), []);
    has_finished(&mut job, A, (0, 1), segment(), 100);
    assert_eq!(granted(&send(&mut job, JobMessage::Tick, 100)), []);
}

/// The first success counts, whichever attempt it is. The other attempt is ended, and what it still reports does not
/// count.
#[test]
fn the_first_success_ends_the_twin() {
    for (fast, slow) in [(A, B), (B, A)] {
        let mut job = with_twins(policy());
        let outputs = has_finished(&mut job, fast, (0, 1), segment(), 9);
        assert_eq!(committed_successes(&outputs), [WorkerId(fast.0)]);
        assert_eq!(cancelled(&outputs), [(slow, 0, 1)]);
        let ended = EventKind::AttemptCancelled {
            worker: WorkerId(slow.0).to_string(),
            id: MiniBatchId(0),
            attempt: 1,
            by: WorkerId(fast.0).to_string(),
        };
        assert!(events(&outputs).contains(&ended), "{outputs:?}");
        // Its report crossed the order.
        let outputs = has_finished(&mut job, slow, (0, 1), segment(), 10);
        assert!(committed_successes(&outputs).is_empty() && events(&outputs).is_empty());
        // All mini-batches are done.
        let outputs = send(&mut job, JobMessage::Committed(vec![MiniBatchId(0)]), 11);
        let ends =
            outputs.iter().filter(|output| matches!(output, JobOutput::Order(_, Order::End(_))));
        assert_eq!(ends.count(), 2, "{outputs:?}");
    }
}

/// While a twin continues, a failure of the other attempt does not count.
#[test]
fn a_failure_does_not_count_while_the_twin_continues() {
    for (first, second) in [(A, B), (B, A)] {
        // This job tolerates no failure.
        let mut job = with_twins(RetryPolicy { max_try: 1, ..policy() });
        let outputs = has_finished(&mut job, first, (0, 1), trap(), 9);
        assert_eq!(committed_failure(&outputs), None);
        assert!(granted(&outputs).is_empty() && cancelled(&outputs).is_empty());
        let outputs = has_finished(&mut job, second, (0, 1), segment(), 10);
        assert_eq!(committed_successes(&outputs), [WorkerId(second.0)]);
        assert_eq!(cancelled(&outputs), []);
        let outputs = send(&mut job, JobMessage::Committed(vec![MiniBatchId(0)]), 11);
        assert!(!events(&outputs).iter().any(|kind| matches!(kind, EventKind::WindingDown { .. })));
    }
}

/// If both attempts fail, this is one try, with the last failure. A success that comes later changes nothing.
#[test]
fn two_failures_are_one_try() {
    let mut job = with_twins(RetryPolicy { max_try: 2, ..tolerant() });
    has_finished(&mut job, B, (0, 1), trap(), 9);
    // After a failure, the mini-batch gets no other twin in the same try.
    report_state(&mut job, B, idle(3), 9);
    assert_eq!(granted(&send(&mut job, JobMessage::Tick, 100)), []);
    let died = Err(Failure::new(FailureKind::WorkerDied, "the worker died"));
    assert_eq!(granted(&has_finished(&mut job, A, (0, 1), died.clone(), 101)), [(B, 0, 2)]);
    // The second try gets a twin, too, and fails twice.
    report_state(&mut job, B, running(4), 101);
    start(&mut job, B, (0, 2), 101);
    report_state(&mut job, A, idle(1), 101);
    assert_eq!(granted(&send(&mut job, JobMessage::Tick, 108)), [(A, 0, 2)]);
    assert_eq!(committed_failure(&has_finished(&mut job, A, (0, 2), trap(), 109)), None);
    let outputs = has_finished(&mut job, B, (0, 2), died, 110);
    assert_eq!(committed_failure(&outputs).as_deref(), Some("the worker died"));
    assert!(committed_successes(&has_finished(&mut job, A, (0, 2), segment(), 111)).is_empty());
}

/// A mini-batch is granted again only when both nodes are lost, or have returned it.
#[test]
fn a_lost_node_changes_nothing_while_the_twin_continues() {
    let c = NodeId(2);
    for (first, second) in [(A, B), (B, A)] {
        let mut job = with_twins(policy());
        send(&mut job, JobMessage::NodeJoined(c, 1), 8);
        assert_eq!(granted(&send(&mut job, JobMessage::NodeLost(first), 9)), []);
        // The attempt that is left gets another twin.
        report_state(&mut job, c, idle(0), 9);
        assert_eq!(granted(&send(&mut job, JobMessage::Tick, 60)), [(c, 0, 1)]);
        send(&mut job, JobMessage::NodeLost(second), 61);
        let returned = NodeNews::Returned(vec![(MiniBatchId(0), 1)]);
        let outputs = send(&mut job, JobMessage::Node(c, returned), 62);
        let has_returned =
            |kind: &EventKind| matches!(kind, EventKind::MiniBatchReturned { id } if id.0 == 0);
        assert!(events(&outputs).iter().any(has_returned), "{outputs:?}");
        assert_eq!(granted(&report_state(&mut job, c, idle(1), 62)), [(c, 0, 1)]);
    }
}

/// What a node reports about a cancelled attempt is not about its next attempt at the same mini-batch.
#[test]
fn messages_about_a_cancelled_attempt_are_ignored() {
    let mut job = with_twins(RetryPolicy { max_try: 3, ..policy() });
    has_finished(&mut job, A, (0, 1), segment(), 9);
    report_state(&mut job, B, idle(3), 9);
    let failure = Failure::new(FailureKind::BadOutput, "a link");
    let outputs = send(&mut job, JobMessage::Rejected(MiniBatchId(0), failure.clone()), 10);
    assert_eq!(granted(&outputs), [(B, 0, 2)]);
    let id = MiniBatchId(0);
    let lost = NodeNews::Lost {
        worker: WorkerId(1),
        id,
        attempt: 1,
        age: secs(1),
        run: None,
        process_seconds: 0.0,
        usage: AttemptUsage::default(),
        failure,
    };
    let started = NodeNews::Started { worker: WorkerId(1), id, attempt: 1 };
    for news in [started, NodeNews::Returned(vec![(id, 1)]), lost] {
        assert!(send(&mut job, JobMessage::Node(B, news), 11).is_empty());
    }
    assert!(has_finished(&mut job, B, (0, 1), segment(), 11).is_empty());
    assert_eq!(
        committed_successes(&has_finished(&mut job, B, (0, 2), segment(), 12)),
        [WorkerId(1)]
    );
}

/// A mini-batch in the queue of a worker that hangs gets a twin, although it has not begun. But it may wait for a while.
#[test]
fn a_mini_batch_that_does_not_begin_gets_a_twin() {
    let mut job = on_two_nodes(policy(), 3);
    assert_eq!(granted(&report_state(&mut job, A, idle(0), 1)), [(A, 0, 1)]);
    for id in [1, 2] {
        assert_eq!(granted(&report_state(&mut job, B, idle(id - 1), 1)), [(B, id, 1)]);
        has_finished(&mut job, B, (id, 1), segment(), 1);
        send(&mut job, JobMessage::Committed(vec![MiniBatchId(id)]), 1);
    }
    report_state(&mut job, B, idle(2), 1);
    assert_eq!(granted(&send(&mut job, JobMessage::Tick, 7)), []);
    assert_eq!(granted(&send(&mut job, JobMessage::Tick, 13)), [(B, 0, 1)]);
    // The worker that has not begun is named nowhere, but its attempt is ended.
    let outputs = has_finished(&mut job, B, (0, 1), segment(), 14);
    assert_eq!(cancelled(&outputs), [(A, 0, 1)]);
    assert!(
        !events(&outputs).iter().any(|kind| matches!(kind, EventKind::AttemptCancelled { .. }))
    );
}

/// Until as many mini-batches have succeeded as are running, it is unknown how long they take.
#[test]
fn few_successes_show_nothing() {
    let mut job = on_two_nodes(RetryPolicy { workers: 2, ..policy() }, 4);
    let two = |idle, running| WorkersStanding { idle, running, ..WorkersStanding::default() };
    let grants = granted(&report_state(&mut job, A, two(2, 0), 0));
    assert_eq!(grants, [(A, 0, 1), (A, 1, 1)]);
    report_state(&mut job, A, WorkersStanding { grants: 1, ..two(0, 2) }, 0);
    let grants = granted(&report_state(&mut job, B, two(2, 0), 0));
    assert_eq!(grants, [(B, 2, 1), (B, 3, 1)]);
    has_finished(&mut job, B, (2, 1), segment(), 2);
    report_state(&mut job, B, WorkersStanding { grants: 1, ..two(1, 1) }, 2);
    assert_eq!(granted(&send(&mut job, JobMessage::Tick, 50)), []);
    has_finished(&mut job, B, (3, 1), segment(), 51);
    report_state(&mut job, B, WorkersStanding { grants: 1, ..two(2, 0) }, 51);
    // The mini-batch that was granted first comes first.
    assert_eq!(granted(&send(&mut job, JobMessage::Tick, 52)), [(B, 0, 1), (B, 1, 1)]);
}

/// A node without workers starts one for the twin. An idle worker of the first attempt's node is not used.
#[test]
fn a_worker_is_started_for_a_twin() {
    let mut job = with_one_slow(policy());
    report_state(&mut job, A, WorkersStanding { idle: 1, ..running(1) }, 2);
    report_state(&mut job, B, WorkersStanding { grants: 2, ..WorkersStanding::default() }, 2);
    let outputs = send(&mut job, JobMessage::Tick, 7);
    let wants: Vec<_> = outputs
        .iter()
        .filter_map(|output| match output {
            JobOutput::Order(node, Order::Want(workers)) => Some((*node, *workers)),
            _ => None,
        })
        .collect();
    assert_eq!((wants, granted(&outputs)), (vec![(B, 1)], vec![]));
    // One is enough.
    let starting = WorkersStanding { starting: 1, grants: 2, ..WorkersStanding::default() };
    let outputs = report_state(&mut job, B, starting, 7);
    assert!(!outputs.iter().any(|output| matches!(output, JobOutput::Order(_, Order::Want(_)))));
    assert_eq!(granted(&report_state(&mut job, B, idle(2), 8)), [(B, 0, 1)]);
}

/// A job on one node makes no twins: there is no other node.
#[test]
fn one_node_makes_no_twin() {
    let mut job = with_one_slow(policy());
    send(&mut job, JobMessage::NodeLost(B), 2);
    report_state(&mut job, A, WorkersStanding { idle: 1, ..running(1) }, 2);
    assert_eq!(granted(&send(&mut job, JobMessage::Tick, 100)), []);
}

/// A job that ends grants nothing, and keeps what running attempts still give.
#[test]
fn a_cancelled_job_makes_no_twin() {
    let cancel = || JobMessage::Cancel { reason: "asked".to_owned(), at_once: false };
    let mut job = with_one_slow(policy());
    send(&mut job, cancel(), 6);
    assert_eq!(granted(&send(&mut job, JobMessage::Tick, 8)), []);
    let mut job = with_twins(policy());
    send(&mut job, cancel(), 9);
    has_finished(&mut job, B, (0, 1), trap(), 10);
    let outputs = has_finished(&mut job, A, (0, 1), segment(), 11);
    assert_eq!(committed_successes(&outputs), [WorkerId(0)]);
}
