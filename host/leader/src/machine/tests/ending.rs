//! How a job ends.

use super::*;
use crate::model::{EndedBy, JobStatus};

#[test]
fn the_first_reason_for_the_end_is_kept() {
    let mut machine = running(policy(), 1);
    machine.handle(MachineMessage::CommitFailed("no space left".into()), secs(1));
    machine.handle(MachineMessage::CommitFailed("broke down".into()), secs(1));
    assert_eq!(result(&machine.handle(exit(None, Some(9)), secs(2))).reason, "no space left");
}

/// A report was on its way when the committer failed. The job does not wait until it is committed.
#[test]
fn results_after_a_failed_commit_do_not_delay_the_end() {
    let mut machine = running(policy(), 1);
    machine.handle(MachineMessage::Started(W0, MiniBatchId(0)), secs(1));
    machine.handle(MachineMessage::CommitFailed("no space left".into()), secs(1));
    let actions = machine.handle(report(0, 1, 2, segment()), secs(2));
    let commits = |action: &MachineAction| matches!(action, MachineAction::Commit(_));
    assert!(!actions.iter().any(commits), "{actions:#?}");
    let ended = machine.handle(exit(None, Some(9)), secs(2));
    assert_eq!(result(&ended).reason, "no space left");
}

#[test]
fn an_unkillable_process_does_not_delay_the_end() {
    let mut machine = running(RetryPolicy { max_try: 1, ..policy() }, 1);
    machine.handle(MachineMessage::Started(W0, MiniBatchId(0)), secs(0));
    machine.handle(MachineMessage::Tick, secs(60));
    machine.handle(MachineMessage::Committed(vec![MiniBatchId(0)]), secs(60));
    assert_eq!(machine.next_deadline(), Some(secs(90)));
    assert_eq!(result(&machine.handle(MachineMessage::Tick, secs(90))).status, JobStatus::Failed);
}

#[test]
fn a_cancelled_job_keeps_its_running_mini_batch() {
    let mut machine = running(policy(), 8);
    machine.handle(MachineMessage::Started(W0, MiniBatchId(0)), secs(1));
    let cancel = MachineMessage::Cancel { reason: "interrupted".into(), at_once: false };
    let actions = machine.handle(cancel, secs(2));
    assert!(matches!(actions.as_slice(), [MachineAction::Emit(EventKind::WindingDown { .. })]));
    let actions = machine.handle(report(0, 1, 2, segment()), secs(3));
    // The worker has a second mini-batch that must not run, so it is killed instead of asked to end.
    assert!(
        matches!(actions.as_slice(), [MachineAction::Kill(W0), MachineAction::Commit(_)]),
        "{actions:#?}"
    );
    machine.handle(MachineMessage::Committed(vec![MiniBatchId(0)]), secs(3));
    let actions = machine.handle(exit(None, Some(9)), secs(3));
    assert_eq!(result(&actions).status, JobStatus::Cancelled);
    assert_eq!(result(&actions).succeeded_mini_batches, 1);
}

/// Rule W10 in docs/parallel-run-step.md: no item succeeded, because there were no items. A job that does not
/// write rows completes.
#[test]
fn an_empty_plan_has_nothing_to_write() {
    let ended = |output_action| {
        let mut machine = new(RetryPolicy { output_action, ..tolerant() });
        let actions = machine.handle(MachineMessage::PlanFinished, secs(0));
        result(&actions).ended_by
    };
    assert_eq!(ended(OutputAction::AppendRow), Some(EndedBy::NothingSucceeded));
    assert_eq!(ended(OutputAction::SummaryOnly), None);
}

/// W9: every end of a job has a name that programs can read.
#[test]
fn each_way_to_end_has_a_name() {
    let ended_by = |message: MachineMessage| {
        let mut machine = running(policy(), 1);
        machine.handle(message, secs(1));
        let actions = machine.handle(exit(None, Some(9)), secs(2));
        result(&actions).ended_by
    };
    let cancel = MachineMessage::Cancel { reason: "interrupted".into(), at_once: true };
    assert_eq!(ended_by(cancel), Some(EndedBy::Cancelled));
    assert_eq!(ended_by(MachineMessage::PlanFailed("no such folder".into())), Some(EndedBy::Plan));
    assert_eq!(ended_by(MachineMessage::CommitFailed("disk full".into())), Some(EndedBy::Commit));

    let mut machine = new(policy());
    machine.handle(MachineMessage::Planned(batches(1)), secs(0));
    let actions =
        machine.handle(MachineMessage::SpawnFailed(W0, "no processes left".into()), secs(0));
    assert_eq!(result(&actions).ended_by, Some(EndedBy::Spawn));
    assert_eq!(
        result(&actions).reason,
        "the worker process process000 cannot be started: no processes left"
    );
    assert!(!result(&actions).never_began(), "nothing is wrong with the inputs");
}

/// If the disk is full, the mini-batch does not count as failed. The job ends even if it tolerates failures:
/// otherwise, workers would be restarted in a loop without space for their rows.
#[test]
fn a_full_disk_ends_the_job_and_fails_no_item() {
    let full = || Failure::new(FailureKind::NoSpace, "no room; free some space there");
    let tolerant = RetryPolicy { error_threshold: ErrorThreshold::Ignore, ..policy() };
    let mut starting = new(tolerant.clone());
    starting.handle(MachineMessage::Planned(batches(1)), secs(0));
    let cases = [
        (running(tolerant, 1), report(0, 1, 0, Err(full()))),
        (starting, MachineMessage::InitFailed(W0, full())),
    ];
    for (mut machine, message) in cases {
        let actions = machine.handle(message, secs(1));
        assert!(
            !actions.iter().any(|action| matches!(action, MachineAction::Commit(_))),
            "{actions:#?}"
        );
        let actions = machine.handle(exit(None, Some(9)), secs(2));
        let result = result(&actions);
        assert_eq!(result.ended_by, Some(EndedBy::Commit));
        assert_eq!(result.reason, "no room; free some space there");
        assert_eq!((result.failed_mini_batches, result.items.failed), (0, 0));
    }
}

/// If there is no room for an object, pending commits still complete, and count.
#[test]
fn a_full_disk_loses_no_pending_commits() {
    let mut machine = running(policy(), 8);
    machine.handle(report(0, 1, 2, segment()), secs(1));
    let full = "no room; free some space there";
    let actions = machine.handle(MachineMessage::NoSpace(full.to_owned()), secs(2));
    assert!(
        matches!(actions.as_slice(), [MachineAction::Emit(_), MachineAction::Kill(W0)]),
        "{actions:#?}"
    );
    machine.handle(committed(0), secs(2));
    let actions = machine.handle(exit(None, Some(9)), secs(3));
    let result = result(&actions);
    assert_eq!((result.ended_by, result.reason.as_str()), (Some(EndedBy::Commit), full));
    assert_eq!((result.succeeded_mini_batches, result.items.succeeded), (1, 2));
}

/// As long as other workers run, a lack of room for one more process does not fail the job.
#[test]
fn a_failed_worker_start_is_retried_later() {
    let mut machine = new(RetryPolicy { workers: 2, ..policy() });
    machine.handle(MachineMessage::Planned(batches(9)), secs(0));
    machine.handle(MachineMessage::Spawned(W0, 17), secs(0));
    let full = || MachineMessage::SpawnFailed(WorkerId(1), "no processes left".into());
    let actions = machine.handle(full(), secs(0));
    insta::assert_snapshot!(
        notices(&actions).concat(),
        @"the worker process process001 cannot be started: no processes left; the other workers continue, and Sandmill tries again every 10 s"
    );
    assert!(spawned(&actions).is_empty());
    assert_eq!(machine.next_deadline(), Some(secs(10)));
    assert!(spawned(&machine.handle(ready(0), secs(9))).is_empty());
    assert_eq!(spawned(&machine.handle(MachineMessage::Tick, secs(10))), [(2, None)]);
}

/// What a worker loses when it uses too much memory depends on what it is doing.
#[test]
fn a_worker_that_uses_too_much_memory_is_killed() {
    let overrun = |worker| {
        let failure = Failure::new(FailureKind::OutOfMemory, "it held 9 GiB of 4 GiB");
        MachineMessage::Overrun(WorkerId(worker), failure)
    };
    // Inside `run`: its attempt has failed, and its next mini-batch is returned intact.
    let mut machine = running(policy(), 8);
    machine.handle(started(0, 0), secs(1));
    let actions = machine.handle(overrun(0), secs(2));
    assert_eq!(killed(&actions), [0]);
    assert_eq!(attempt_failure_kind(&actions), Some(FailureKind::OutOfMemory));
    assert!(machine.handle(overrun(0), secs(2)).is_empty(), "killed only once");

    // Inside `init`: this counts as a failure of `init`.
    let actions = machine.handle(overrun(1), secs(3));
    assert_eq!(killed(&actions), [1]);
    let is_init_failure = |action: &MachineAction| matches!(action, MachineAction::Emit(EventKind::InitFailed { failure, .. }) if failure.kind == FailureKind::OutOfMemory);
    assert!(actions.iter().any(is_init_failure), "{actions:#?}");
    assert_eq!(spawned(&actions), [(2, None)]);

    // Idle: the worker is killed, with a notice.
    let mut machine = new(RetryPolicy { workers: 2, ..policy() });
    machine.handle(MachineMessage::Planned(batches(2)), secs(0));
    machine.handle(ready(0), secs(0));
    machine.handle(ready(1), secs(0));
    machine.handle(report(0, 1, 2, segment()), secs(1));
    let actions = machine.handle(overrun(0), secs(2));
    assert_eq!((killed(&actions), attempt_failure_kind(&actions)), (vec![0], None));
    assert_eq!(
        notices(&actions),
        ["process000 was killed while it had no mini-batch: it held 9 GiB of 4 GiB"]
    );
}

/// The job ends even if the committer no longer responds.
#[test]
fn a_hanging_committer_does_not_block_the_end() {
    let mut machine = running(RetryPolicy { progress_timeout: secs(700), ..policy() }, 1);
    machine.handle(report(0, 1, 2, segment()), secs(1));
    let cancel = MachineMessage::Cancel { reason: "interrupted".into(), at_once: true };
    machine.handle(cancel, secs(2));
    machine.handle(exit(None, Some(9)), secs(3));
    assert_eq!(machine.next_deadline(), Some(secs(702)));
    let actions = machine.handle(MachineMessage::Tick, secs(702));
    assert_eq!(
        notices(&actions),
        ["1 finished mini-batches could not be written within 700 s (progress_update_timeout); a \
          resumed job runs them again"]
    );
    assert_eq!(result(&actions).ended_by, Some(EndedBy::Cancelled));
}
