//! A job's state machine connected to a node by direct calls (`ConnectedJob`).

use super::super::connected_job::{ConnectedJob, ConnectedOutcome, OrderTarget};
use super::super::job::{JobAction, JobMachine, JobMessage};
use super::*;
use crate::model::{EndedBy, NodeId};
use crate::protocol::{NodeNews, NodeReport, NodeReports, Order, WorkersEnd, WorkersStanding};

/// A node that cannot start any worker.
#[derive(Debug, Default)]
struct NodeWithoutWorkers {
    standing: WorkersStanding,
    deadline: Option<Duration>,
    ended: Vec<WorkersEnd>,
}

impl OrderTarget for NodeWithoutWorkers {
    fn first_nodes(&self) -> Vec<(NodeId, u32)> {
        vec![(NodeId::ONLY, 2)]
    }

    fn obey(&mut self, _: NodeId, order: Order) -> Vec<NodeReport> {
        match order {
            Order::Want(_) => {
                let worker = W0;
                let reason = "no memory".to_owned();
                vec![NodeReport::News(NodeNews::SpawnFailed { worker, reason, is_alone: true })]
            }
            Order::End(end) => {
                self.ended.push(end);
                self.standing.is_ending = true;
                Vec::new()
            }
            _ => Vec::new(),
        }
    }

    fn tick(&mut self) -> Vec<NodeReports> {
        Vec::new()
    }

    fn standing(&self, _: NodeId) -> Option<WorkersStanding> {
        Some(self.standing)
    }

    fn next_deadline(&self) -> Option<Duration> {
        self.deadline
    }
}

fn joined(node: NodeWithoutWorkers) -> ConnectedJob<NodeWithoutWorkers> {
    let restored = Restored::default();
    ConnectedJob::new(JobMachine::new(policy(), Vec::new(), Timestamp::UNIX_EPOCH, restored), node)
}

/// The node's answer may lead to another order. The answer to that order is newer than the rest of the first
/// answer.
#[test]
fn a_job_whose_only_worker_cannot_be_started_ends_at_once() {
    let mut job = joined(NodeWithoutWorkers::default());
    let mut ended_by = None;
    job.send(JobMessage::Planned(batches(1)), secs(0), &mut |outcome| {
        if let ConnectedOutcome::Do(JobAction::Finish(result)) = outcome {
            ended_by = result.ended_by;
        }
    });
    assert_eq!(ended_by, Some(EndedBy::Spawn));
    assert_eq!(job.node.ended, [WorkersEnd::AtOnce]);
    assert_eq!(job.next_deadline(), None);
}

/// A job winds down, and a killed worker does not end. The job's state machine has no deadline then, but the
/// node has.
#[test]
fn the_deadline_of_a_node_counts_while_its_job_ends() {
    let standing = WorkersStanding { doomed: 1, ..WorkersStanding::default() };
    let mut job =
        joined(NodeWithoutWorkers { standing, deadline: Some(secs(31)), ended: Vec::new() });
    job.receive(NodeReports::of_only_node(vec![NodeReport::Changed]), secs(1), &mut |_| {});
    let cancel = JobMessage::Cancel { reason: "asked".to_owned(), at_once: true };
    job.send(cancel, secs(1), &mut |_| {});
    assert_eq!(job.next_deadline(), Some(secs(31)));
}

/// A message that is not for the state machine leads to no decision.
#[test]
fn messages_for_other_parts_cause_no_decision() {
    let mut job = joined(NodeWithoutWorkers::default());
    job.send(JobMessage::PlanFinished, secs(0), &mut |_| {});
    let mut passed_on = 0;
    job.receive(NodeReports::of_only_node(vec![NodeReport::GpuUse(3)]), secs(1), &mut |outcome| {
        passed_on +=
            usize::from(matches!(outcome, ConnectedOutcome::Reported(NodeReport::GpuUse(3))));
    });
    assert_eq!(passed_on, 1);
}
