//! A job on several nodes, without the nodes' state machines. The tests check the orders to nodes, and what
//! follows from their reports.

use super::super::job::{JobAction, JobMachine, JobMessage, JobOutput};
use super::*;
use crate::model::{AttemptUsage, EndedBy, NodeId};
use crate::protocol::{
    Assignment, ContinuedAttempt, GrowingQueues, NodeNews, Order, WorkersEnd, WorkersStanding,
};
use sandmill_node::machine::{NodeAction, NodeMachine, NodeMessage, NodeOutput};

pub(super) const A: NodeId = NodeId(0);
pub(super) const B: NodeId = NodeId(1);
/// The most workers of each node.
pub(super) const WORKERS: u32 = 1;

/// A job with nodes A and B, whose plan is complete.
pub(super) fn on_two_nodes(policy: RetryPolicy, count: u64) -> JobMachine {
    with_plan(policy, batches(count))
}

/// As [`on_two_nodes`], with these mini-batches.
pub(super) fn with_plan(policy: RetryPolicy, batches: Vec<MiniBatch>) -> JobMachine {
    let restored = Restored::default();
    let policy = RetryPolicy { node_count: Some(2), ..policy };
    let mut job = JobMachine::new(policy, Vec::new(), Timestamp::UNIX_EPOCH, restored);
    send(&mut job, JobMessage::NodeJoined(A, WORKERS), 0);
    send(&mut job, JobMessage::NodeJoined(B, WORKERS), 0);
    send(&mut job, JobMessage::Planned(batches), 0);
    send(&mut job, JobMessage::PlanFinished, 0);
    job
}

pub(super) fn send(job: &mut JobMachine, message: JobMessage, second: u64) -> Vec<JobOutput> {
    let mut outputs = job.handle(message, secs(second));
    outputs.extend(job.decide());
    outputs
}

pub(super) fn report_state(
    job: &mut JobMachine,
    node: NodeId,
    standing: WorkersStanding,
) -> Vec<JobOutput> {
    send(job, JobMessage::Node(node, NodeNews::Standing(standing)), 1)
}

/// A node with one idle worker, after this many grants.
pub(super) fn idle(grants: u64) -> WorkersStanding {
    WorkersStanding { idle: 1, has_good: true, grants, ..WorkersStanding::default() }
}

/// For each granted attempt: the node, the mini-batch and the attempt's number.
pub(super) fn granted(outputs: &[JobOutput]) -> Vec<(NodeId, u64, u32)> {
    let grants = outputs.iter().filter_map(|output| match output {
        JobOutput::Order(node, Order::Grant(grants)) => Some((node, grants)),
        _ => None,
    });
    let each = grants.flat_map(|(node, grants)| {
        grants
            .iter()
            .map(|grant| (*node, grant.assignment.mini_batch.id.0, grant.assignment.attempt))
    });
    each.collect()
}

pub(super) fn start(job: &mut JobMachine, node: NodeId, id: u64) {
    let news = NodeNews::Started { worker: WorkerId(node.0), id: MiniBatchId(id), attempt: 1 };
    send(job, JobMessage::Node(node, news), 1);
}

/// The message of the failure that is committed.
pub(super) fn committed_failure(outputs: &[JobOutput]) -> Option<String> {
    outputs.iter().find_map(|output| match output {
        JobOutput::Do(JobAction::Commit(settled)) => {
            settled.report.outcome.as_ref().err().map(|failure| failure.message.clone())
        }
        _ => None,
    })
}

fn ended_by(outputs: &[JobOutput]) -> Option<EndedBy> {
    outputs.iter().find_map(|output| match output {
        JobOutput::Do(JobAction::Finish(result)) => result.ended_by,
        _ => None,
    })
}

pub(super) fn finished(message: MachineMessage) -> NodeNews {
    let MachineMessage::Finished(worker, report) = message else { unreachable!() };
    let usage = AttemptUsage { wall_us: 1_000_000, cpu_us: 1, ..AttemptUsage::default() };
    NodeNews::Finished { worker, age: secs(1), has_run: true, usage, report }
}

#[test]
fn attempts_of_a_lost_node_go_to_another_node() {
    let mut job = on_two_nodes(policy(), 1);
    assert_eq!(granted(&report_state(&mut job, A, idle(0))), [(A, 0, 1)]);
    start(&mut job, A, 0);
    assert_eq!(granted(&report_state(&mut job, B, idle(0))), []);
    assert_eq!(granted(&send(&mut job, JobMessage::NodeLost(A), 2)), [(B, 0, 1)]);
    // Later messages of the lost node are ignored.
    let news = finished(report(0, 1, 2, segment()));
    assert!(send(&mut job, JobMessage::Node(A, news), 3).is_empty());
}

/// A hostile node reports that other workers begin the same attempt, and then what does not fit in the time.
#[test]
fn a_node_cannot_make_receipts_without_end() {
    let mut job = on_two_nodes(policy(), 1);
    assert_eq!(granted(&report_state(&mut job, A, idle(0))), [(A, 0, 1)]);
    let mut receipts = 0;
    for worker in [1, 2].into_iter().cycle().take(20) {
        let id = MiniBatchId(0);
        let news = NodeNews::Started { worker: WorkerId(worker), id, attempt: 1 };
        let outputs = send(&mut job, JobMessage::Node(A, news), 2);
        let is_receipt =
            |output: &&JobOutput| matches!(output, JobOutput::Do(JobAction::Receipt(_)));
        receipts += outputs.iter().filter(is_receipt).count();
    }
    assert_eq!(receipts, 1);
    let mut news = finished(report(0, 1, 2, segment()));
    if let NodeNews::Finished { age, usage, .. } = &mut news {
        *age = secs(1000);
        usage.wall_us = u64::MAX;
    }
    let outputs = send(&mut job, JobMessage::Node(A, news), 5);
    let wall = outputs.iter().find_map(|output| match output {
        JobOutput::Do(JobAction::Commit(settled)) => Some(settled.receipt.as_ref()?.usage.wall_us),
        _ => None,
    });
    // It was granted at second 1. A second is allowed for differences between the clocks.
    assert_eq!(wall, Some(5_000_000));
}

/// A node that does not answer gets the same request only once in a while, however much other nodes report.
#[test]
fn a_silent_node_is_not_flooded_with_requests() {
    let wants = |outputs: &[JobOutput]| {
        let is_want = |output: &&JobOutput| matches!(output, JobOutput::Order(B, Order::Want(_)));
        outputs.iter().filter(is_want).count()
    };
    let mut job = on_two_nodes(policy(), 9);
    let report = |job: &mut JobMachine, second| {
        send(job, JobMessage::Node(A, NodeNews::Standing(idle(0))), second)
    };
    let sent: usize = (0..100).map(|_| wants(&report(&mut job, 1))).sum();
    assert_eq!(sent, 1);
    assert_eq!(wants(&report(&mut job, 2)), 1, "the request is repeated later");
    // If the node answers that its worker has ended, the request is sent at once.
    let ended = NodeNews::Standing(WorkersStanding::default());
    assert_eq!(wants(&send(&mut job, JobMessage::Node(B, ended), 2)), 1);
}

/// A node on another machine answers late, so each order fills its queues.
#[test]
fn one_order_fills_the_queues_of_a_node() {
    let granted_ahead = |count: u64, queues: GrowingQueues| {
        let mut job = on_two_nodes(policy(), count);
        let standing =
            WorkersStanding { running: 2, ahead: Some(queues), ..WorkersStanding::default() };
        let outputs = report_state(&mut job, A, standing);
        let orders = outputs.iter().filter_map(|output| match output {
            JobOutput::Order(A, Order::GrantAhead(assignments)) => Some(assignments.len()),
            _ => None,
        });
        orders.collect::<Vec<usize>>()
    };
    let queues = GrowingQueues { depth: 1, takers: 2, room: 30 };
    assert_eq!(granted_ahead(1000, queues), [30]);
    assert_eq!(granted_ahead(1000, GrowingQueues { room: 3, ..queues }), [3]);
    // The job has two workers. With `depth` attempts in each queue, more than twice as many must be waiting.
    assert_eq!(granted_ahead(12, queues), [6], "the rest is kept for other workers");
    assert_eq!(granted_ahead(2, queues), [0; 0]);
}

#[test]
fn a_mini_batch_that_loses_several_nodes_fails() {
    let mut job = on_two_nodes(RetryPolicy { max_try: 9, ..tolerant() }, 1);
    for loss in 1..=RetryPolicy::MAX_NODE_LOSSES {
        let node = NodeId(loss + 1);
        send(&mut job, JobMessage::NodeJoined(node, WORKERS), 1);
        assert_eq!(granted(&report_state(&mut job, node, idle(0))), [(node, 0, 1)]);
        start(&mut job, node, 0);
        let outputs = send(&mut job, JobMessage::NodeLost(node), 2);
        let reported = (loss == RetryPolicy::MAX_NODE_LOSSES)
            .then(|| "5 nodes were lost while they ran it".to_owned());
        assert_eq!(committed_failure(&outputs), reported, "after {loss}");
    }
}

/// A mini-batch that never began cannot be the reason for a node's loss.
#[test]
fn an_unstarted_mini_batch_is_not_blamed_for_lost_nodes() {
    let mut job = on_two_nodes(tolerant(), 1);
    for node in (2..20).map(NodeId) {
        send(&mut job, JobMessage::NodeJoined(node, WORKERS), 1);
        assert_eq!(granted(&report_state(&mut job, node, idle(0))), [(node, 0, 1)]);
        assert_eq!(committed_failure(&send(&mut job, JobMessage::NodeLost(node), 2)), None);
    }
}

/// A node gets no grant while its answer to the last grant is pending: its worker may already have a
/// mini-batch.
#[test]
fn an_outdated_node_state_leads_to_no_grant() {
    let mut job = on_two_nodes(policy(), 9);
    assert_eq!(granted(&report_state(&mut job, A, idle(0))), [(A, 0, 1)]);
    assert_eq!(granted(&report_state(&mut job, A, idle(0))), []);
    assert_eq!(granted(&report_state(&mut job, A, idle(1))), [(A, 1, 1)]);
}

#[test]
fn a_retry_goes_to_another_node() {
    let mut job =
        on_two_nodes(RetryPolicy { error_threshold: ErrorThreshold::Ignore, ..policy() }, 1);
    assert_eq!(granted(&report_state(&mut job, A, idle(0))), [(A, 0, 1)]);
    report_state(
        &mut job,
        A,
        WorkersStanding {
            loading: 1,
            idle: 1,
            has_good: true,
            grants: 1,
            ..WorkersStanding::default()
        },
    );
    report_state(&mut job, B, idle(0));
    start(&mut job, A, 0);
    let news = finished(report(0, 1, 0, trap()));
    assert_eq!(granted(&send(&mut job, JobMessage::Node(A, news), 3)), [(B, 0, 2)]);
}

fn hopeless() -> WorkersStanding {
    WorkersStanding { init_failures: 3, ..WorkersStanding::default() }
}

fn notices_of(outputs: &[JobOutput]) -> Vec<String> {
    let pick = |output: &JobOutput| match output {
        JobOutput::Do(JobAction::Emit(EventKind::Notice { message })) => Some(message.clone()),
        _ => None,
    };
    outputs.iter().filter_map(pick).collect()
}

pub(super) fn is_end(output: &JobOutput) -> bool {
    matches!(output, JobOutput::Order(_, Order::End(WorkersEnd::AtOnce)))
}

/// Rule I1 in docs/parallel-run-step.md: a node on which `init` keeps failing starts no more workers. If this is
/// true of all nodes, the job waits 30 s for another node, and then ends.
#[test]
fn i1_holds_for_each_node() {
    let mut job = on_two_nodes(policy(), 9);
    let outputs = report_state(&mut job, A, hopeless());
    let wants: Vec<_> = outputs
        .iter()
        .filter_map(|output| match output {
            JobOutput::Order(node, Order::Want(workers)) => Some((*node, *workers)),
            _ => None,
        })
        .collect();
    assert_eq!(wants, [(B, 1)]);
    assert_eq!(notices_of(&outputs), [""; 0]);
    let outputs = report_state(&mut job, B, hopeless());
    assert!(!outputs.iter().any(is_end));
    insta::assert_snapshot!(notices_of(&outputs).join("\n"), @"init failed 6 times in a row, on every worker that was started: . The job fails if no other node joins within 30 s");
    assert_eq!(job.next_deadline(), Some(secs(31)));
    // Only a tick shows that no other message is waiting.
    let notice = JobMessage::Notice("time passes".to_owned());
    assert!(!send(&mut job, notice, 32).iter().any(is_end));
    let outputs = send(&mut job, JobMessage::Tick, 32);
    assert_eq!(outputs.iter().filter(|output| is_end(output)).count(), 2);
    let ended = WorkersStanding { is_ending: true, ..hopeless() };
    assert_eq!(ended_by(&report_state(&mut job, A, ended)), None, "B has not ended");
    assert_eq!(ended_by(&report_state(&mut job, B, ended)), Some(EndedBy::InitFailures));
}

/// Rule I1: a node that joins in time continues the job. If `init` fails there, too, the job waits again.
#[test]
fn i1_another_node_may_save_the_job() {
    let mut job = on_two_nodes(RetryPolicy { progress_timeout: secs(20), ..policy() }, 9);
    report_state(&mut job, A, hopeless());
    report_state(&mut job, B, hopeless());
    let c = NodeId(2);
    // The wait is not a lack of progress.
    assert!(!send(&mut job, JobMessage::Tick, 25).iter().any(is_end));
    send(&mut job, JobMessage::NodeJoined(c, WORKERS), 30);
    assert!(!send(&mut job, JobMessage::Tick, 40).iter().any(is_end));
    let news = JobMessage::Node(c, NodeNews::Standing(hopeless()));
    assert_eq!(notices_of(&send(&mut job, news, 45)).len(), 1);
    assert!(!send(&mut job, JobMessage::Tick, 74).iter().any(is_end));
    assert!(send(&mut job, JobMessage::Tick, 75).iter().any(is_end));
}

/// Rule I2 counts the smaller number of the nodes that the job asks for and the nodes that ever joined, and the
/// failures of lost nodes.
#[test]
fn i2_counts_the_nodes_that_ever_joined() {
    let failed = |init_failures| WorkersStanding { init_failures, ..WorkersStanding::default() };
    // Each of two nodes may fail 2 times.
    let mut job = on_two_nodes(policy(), 9);
    report_state(&mut job, A, failed(2));
    report_state(&mut job, B, failed(2));
    assert!(!send(&mut job, JobMessage::Tick, 121).iter().any(is_end));
    // A third node does not raise the limit, because the job asks for two.
    send(&mut job, JobMessage::NodeLost(A), 122);
    send(&mut job, JobMessage::NodeJoined(NodeId(2), WORKERS), 122);
    let news = JobMessage::Node(NodeId(2), NodeNews::Standing(failed(1)));
    assert!(send(&mut job, news, 123).iter().any(is_end));
    // Failures before the last success do not count.
    let mut job = on_two_nodes(policy(), 9);
    report_state(&mut job, A, failed(2));
    send(&mut job, JobMessage::NodeLost(A), 2);
    let ready = NodeNews::Ready { worker: WorkerId(1), start: secs(1), init: CallStats::default() };
    send(&mut job, JobMessage::Node(B, ready), 3);
    report_state(&mut job, B, failed(2));
    assert!(!send(&mut job, JobMessage::Tick, 121).iter().any(is_end));
}

/// Rule I3: a worker that stays inside `init` is late once another worker, on any node, is past `init`.
#[test]
fn i3_a_node_learns_that_others_are_past_init() {
    let mut job = on_two_nodes(policy(), 9);
    let outputs = report_state(&mut job, A, idle(0));
    let notifies = |node, is_past| move |output: &JobOutput| matches!(output, JobOutput::Order(to, Order::PastInitElsewhere(past)) if *to == node && *past == is_past);
    assert!(outputs.iter().any(notifies(B, true)) && !outputs.iter().any(notifies(A, true)));
    let outputs = report_state(
        &mut job,
        A,
        WorkersStanding { starting: 1, grants: 1, ..WorkersStanding::default() },
    );
    assert!(outputs.iter().any(notifies(B, false)));
}

/// If all workers of a job are gone, exactly one node starts a worker to call `shutdown`.
#[test]
fn one_node_starts_the_worker_for_shutdown() {
    let mut job = on_two_nodes(policy(), 1);
    report_state(&mut job, A, idle(0));
    start(&mut job, A, 0);
    let news = finished(report(0, 1, 2, segment()));
    send(&mut job, JobMessage::Node(A, news), 2);
    report_state(&mut job, A, WorkersStanding { grants: 1, ..WorkersStanding::default() });
    let outputs = send(&mut job, JobMessage::Committed(vec![MiniBatchId(0)]), 3);
    let wants =
        outputs.iter().filter(|output| matches!(output, JobOutput::Order(_, Order::Want(1))));
    assert_eq!(wants.count(), 1, "{outputs:#?}");
}

/// A node that has no room at the moment is skipped.
#[test]
fn a_node_without_room_is_skipped() {
    let mut job = on_two_nodes(policy(), 1);
    let pausing = WorkersStanding { is_pausing: true, ..WorkersStanding::default() };
    let outputs = report_state(&mut job, A, pausing);
    let wants = |outputs: &[JobOutput]| -> Vec<(NodeId, u32)> {
        let pick = |output: &JobOutput| match output {
            JobOutput::Order(node, Order::Want(workers)) => Some((*node, *workers)),
            _ => None,
        };
        outputs.iter().filter_map(pick).collect()
    };
    assert_eq!(wants(&outputs), [(B, 1)]);
    // B has one worker, which is enough.
    let starting = WorkersStanding { starting: 1, ..WorkersStanding::default() };
    assert_eq!(wants(&report_state(&mut job, B, starting)), []);
    assert_eq!(wants(&report_state(&mut job, A, WorkersStanding::default())), []);
}

/// The files that `shutdown` makes are made again on another node.
#[test]
fn a_node_lost_during_shutdown_is_replaced() {
    let mut job = on_two_nodes(policy(), 1);
    report_state(&mut job, A, idle(0));
    start(&mut job, A, 0);
    let news = finished(report(0, 1, 2, segment()));
    send(&mut job, JobMessage::Node(A, news), 2);
    report_state(&mut job, A, idle(1));
    send(&mut job, JobMessage::Node(A, NodeNews::Closing), 2);
    report_state(
        &mut job,
        A,
        WorkersStanding { closing: 1, grants: 1, ..WorkersStanding::default() },
    );
    send(&mut job, JobMessage::NodeLost(A), 3);
    let outputs = send(&mut job, JobMessage::Committed(vec![MiniBatchId(0)]), 3);
    let is_want = |output: &JobOutput| matches!(output, JobOutput::Order(B, Order::Want(1)));
    assert!(outputs.iter().any(is_want), "{outputs:#?}");
}

/// If the only worker that runs `shutdown` is lost with its node, a worker of another node runs it: the files that
/// `init` and `shutdown` make must not be missing.
#[test]
fn a_shutdown_that_is_lost_is_repeated() {
    let policy = RetryPolicy { output_action: OutputAction::SummaryOnly, ..policy() };
    let mut job = on_two_nodes(policy, 1);
    report_state(&mut job, A, idle(0));
    start(&mut job, A, 0);
    let news = finished(report(0, 1, 2, segment()));
    send(&mut job, JobMessage::Node(A, news), 2);
    report_state(&mut job, A, idle(1));
    let outputs = send(&mut job, JobMessage::Committed(vec![MiniBatchId(0)]), 3);
    let ends =
        |output: &JobOutput| matches!(output, JobOutput::Order(_, Order::End(WorkersEnd::Done)));
    assert_eq!(outputs.iter().filter(|output| ends(output)).count(), 2);
    // A has not yet said that its worker shuts down.
    let ended = WorkersStanding { is_ending: true, ..WorkersStanding::default() };
    report_state(&mut job, B, ended);
    let outputs = send(&mut job, JobMessage::NodeLost(A), 4);
    assert!(!job.is_finished(), "{outputs:?}");
    // B has ended its workers. A node that joins gets the work.
    let c = NodeId(2);
    let outputs = send(&mut job, JobMessage::NodeJoined(c, WORKERS), 5);
    let wants =
        |output: &JobOutput| matches!(output, JobOutput::Order(node, Order::Want(1)) if *node == c);
    assert!(outputs.iter().any(wants), "{outputs:?}");
    let outputs = report_state(&mut job, c, idle(0));
    assert!(outputs.iter().any(ends), "{outputs:?}");
    send(&mut job, JobMessage::Node(c, NodeNews::Closing), 6);
    report_state(&mut job, c, WorkersStanding { closing: 1, ..ended });
    send(&mut job, JobMessage::ShutDown, 7);
    // The loss of a node whose worker has run `shutdown` changes nothing.
    let outputs = send(&mut job, JobMessage::NodeLost(c), 8);
    assert!(job.is_finished(), "{outputs:?}");
}

/// A node that ends its workers gets no orders to start some.
#[test]
fn a_node_that_drains_is_left_alone() {
    let mut job = on_two_nodes(policy(), 9);
    let ended = WorkersStanding { is_ending: true, ..WorkersStanding::default() };
    let outputs = report_state(&mut job, A, ended);
    let wants = |output: &JobOutput| matches!(output, JobOutput::Order(A, Order::Want(_)));
    assert!(!outputs.iter().any(wants), "{outputs:?}");
}

/// A node offers attempts of an earlier leader. Those beyond the plan that both leaders have may be others.
#[test]
fn only_attempts_of_the_known_plan_are_taken_over() {
    let mut job = on_two_nodes(policy(), 3);
    job.know_plan_until(2);
    let attempts = (0..3).map(|id| ContinuedAttempt {
        id: MiniBatchId(id),
        attempt: 1,
        runs_on: None,
        age: Duration::ZERO,
    });
    let news = NodeNews::Continues(attempts.collect());
    let outputs = send(&mut job, JobMessage::Node(A, news), 1);
    let declined = outputs.iter().filter_map(|output| match output {
        JobOutput::Order(A, Order::Cancel { id, .. }) => Some(id.0),
        _ => None,
    });
    assert_eq!(declined.collect::<Vec<_>>(), [2]);
}

/// Two nodes offer different tries of a mini-batch that is not planned yet. Once it is planned, the earlier try is ended.
#[test]
fn of_two_tries_that_wait_for_the_plan_the_later_is_kept() {
    for tries in [[1, 2], [2, 1]] {
        let mut job =
            JobMachine::new(policy(), Vec::new(), Timestamp::UNIX_EPOCH, Restored::default());
        for (node, attempt) in [A, B].into_iter().zip(tries) {
            send(&mut job, JobMessage::NodeJoined(node, WORKERS), 0);
            let id = MiniBatchId(0);
            let age = Duration::ZERO;
            let offer = ContinuedAttempt { id, attempt, runs_on: None, age };
            let news = NodeNews::Continues(vec![offer]);
            let outputs = send(&mut job, JobMessage::Node(node, news), 0);
            assert!(!outputs.iter().any(is_cancel), "{outputs:?}");
        }
        let outputs = send(&mut job, JobMessage::Planned(batches(1)), 1);
        let earlier = if tries == [1, 2] { A } else { B };
        let cancelled: Vec<_> = outputs.into_iter().filter(is_cancel).collect();
        let cancel = Order::Cancel { id: MiniBatchId(0), attempt: 1 };
        assert!(
            matches!(&cancelled[..], [JobOutput::Order(node, order)] if *node == earlier && *order == cancel),
            "{cancelled:?}"
        );
    }
}

fn is_cancel(output: &JobOutput) -> bool {
    matches!(output, JobOutput::Order(_, Order::Cancel { .. }))
}

/// The leader's grants arrive when the worker has already finished what it had. It gets them all the same.
#[test]
fn an_offer_holds_until_the_grants_arrive() {
    let assignment = |id| {
        let mini_batch =
            MiniBatch::new(MiniBatchId(id), 0, MiniBatchWork::Files(["a", "b"].into()));
        Assignment { mini_batch, attempt: 1, is_last: false, objects: Vec::new() }
    };
    let mut node = NodeMachine::new(policy().node_policy(), 0);
    node.obey(Order::Want(1), secs(1));
    node.handle(NodeMessage::Spawned(W0, 1), secs(1));
    node.handle(NodeMessage::Ready(W0, CallStats::default()), secs(1));
    let outputs = node.obey(Order::GrantAhead((0..3).map(assignment).collect()), secs(1));
    let assigned = |output: &NodeOutput| match output {
        NodeOutput::Do(NodeAction::Assign(W0, assignment)) => Some(assignment.mini_batch.id.0),
        _ => None,
    };
    assert_eq!(outputs.iter().filter_map(assigned).collect::<Vec<_>>(), [0, 1, 2]);
    assert_eq!(outputs.len(), 3, "{outputs:?}");
    // A worker that is slow now still takes what it was offered for, but not more than its queue holds.
    let outputs = node.obey(Order::GrantAhead((3..80).map(assignment).collect()), secs(2));
    assert_eq!(outputs.iter().filter_map(assigned).count(), 61);
    let returned = |output: &NodeOutput| match output {
        NodeOutput::Report(NodeNews::Returned(returned)) => returned.len(),
        _ => 0,
    };
    assert_eq!(outputs.iter().map(returned).sum::<usize>(), 16, "{outputs:?}");
}
