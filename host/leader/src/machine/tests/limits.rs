//! Limits on what one job may cost the leader: mini-batches, texts about failures, time.

use super::*;
use crate::model::EndedBy;

fn limited(limits: JobLimits) -> RetryPolicy {
    RetryPolicy { limits, ..tolerant() }
}

#[test]
fn a_job_with_too_many_mini_batches_fails() {
    let limits = JobLimits { mini_batches: 3, ..JobLimits::default() };
    let mut machine = new(limited(limits));
    assert!(winding_down(&machine.handle(MachineMessage::Planned(batches(3)), secs(0))).is_empty());
    let more = vec![MiniBatch::new(MiniBatchId(3), 0, MiniBatchWork::Void)];
    let actions = machine.handle(MachineMessage::Planned(more), secs(0));
    insta::assert_snapshot!(winding_down(&actions), @"the job has more than 3 mini-batches, which limits.mini_batches does not allow: make mini-batches larger (mini_batch_size), or raise limits.mini_batches if the operator's policy allows it");
    let actions = machine.handle(MachineMessage::Exited(W0, ended()), secs(1));
    assert_eq!(result(&actions).ended_by, Some(EndedBy::MiniBatchLimit));
}

#[test]
fn the_time_limit_does_not_count_waiting() {
    let limits = JobLimits { job_time: Some(secs(50)), ..JobLimits::default() };
    let mut machine = new(limited(limits));
    machine.handle(MachineMessage::Planned(batches(3)), secs(0));
    machine.handle(MachineMessage::NoRoom(W0), secs(1));
    assert!(winding_down(&machine.handle(MachineMessage::Tick, secs(200))).is_empty(), "it waits");
    machine.handle(MachineMessage::Spawned(W0, 7), secs(201));
    machine.handle(ready(0), secs(201));
    machine.handle(started(0, 0), secs(201));
    assert_eq!(machine.next_deadline(), Some(secs(250)));
    let actions = machine.handle(MachineMessage::Tick, secs(250));
    insta::assert_snapshot!(winding_down(&actions), @"the job has lasted for 50 s, as long as limits.job_time allows; committed results are kept, and a resumed job continues from there");
    assert_eq!(killed(&actions), [0]);
    let actions = machine.handle(MachineMessage::Exited(W0, ended()), secs(251));
    assert_eq!(result(&actions).ended_by, Some(EndedBy::JobTime));
}

/// The first failures are reported in full, and all are counted.
#[test]
fn later_failures_are_shortened() {
    let limits = JobLimits { failures: 2, ..JobLimits::default() };
    let mut machine = running(limited(limits), 4);
    let mut reported = Vec::new();
    for id in 0..4 {
        machine.handle(started(0, id), secs(0));
        let failure = Failure::new(FailureKind::Trap, "x".repeat(1000)).with_detail("stack");
        let actions = machine.handle(report(id, 1, 0, Err(failure)), secs(0));
        let kept = actions.iter().find_map(|action| match action {
            MachineAction::Commit(settled) => settled.report.outcome.as_ref().err(),
            _ => None,
        });
        let kept = kept.map(|failure| (failure.message.len(), failure.detail.len()));
        assert_eq!(kept, Some((1000, 5)), "the journal has the whole text");
        let failure = attempt_failure(&actions).expect("a failure");
        reported.push((
            failure.message.chars().count(),
            failure.detail.len(),
            notices(&actions).len(),
        ));
        machine.handle(committed(id), secs(0));
    }
    assert_eq!(reported, [(1000, 5, 0), (1000, 5, 0), (201, 0, 1), (201, 0, 0)]);
    assert_eq!(machine.job().items.failed, 8);
}

/// An expected exit.
fn ended() -> WorkerExit {
    let MachineMessage::Exited(_, exit) = exit(None, Some(9)) else { panic!("no exit") };
    exit
}
