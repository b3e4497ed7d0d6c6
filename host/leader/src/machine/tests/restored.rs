//! Rule W15 in docs/parallel-run-step.md: a job that resumes.

use super::*;
use crate::model::{EndedBy, JobStatus};

fn resumed(
    policy: RetryPolicy,
    restored: Restored,
    planned: u64,
) -> (LocalMachine, Vec<MachineAction>) {
    let mut machine = LocalMachine::new(policy, Vec::new(), Timestamp::UNIX_EPOCH, restored);
    let mut actions = machine.handle(MachineMessage::Planned(batches(planned)), secs(0));
    actions.extend(machine.handle(MachineMessage::PlanFinished, secs(0)));
    (machine, actions)
}

/// Mini-batches 0 to 2 are done: one of them is short, and one has failed.
fn restored() -> Restored {
    let mut restored = Restored {
        succeeded: 2,
        failed: 1,
        short: 1,
        items: ItemCounts { total: 6, succeeded: 3, failed: 3 },
        rows: 3,
        next_worker: 7,
        ..Restored::default()
    };
    (0..3).for_each(|id| restored.finished.insert(MiniBatchId(id)));
    restored
}

#[test]
fn finished_mini_batches_count_and_are_not_repeated() {
    let (mut machine, actions) = resumed(tolerant(), restored(), 4);
    assert_eq!(spawned(&actions), [(7, None)], "worker numbers continue, and one worker is enough");
    assert_eq!(assigned(&machine.handle(ready(7), secs(1))), [(3, 1)]);
    let MachineMessage::Finished(_, report) = report(3, 1, 2, segment()) else { panic!() };
    machine.handle(MachineMessage::Finished(WorkerId(7), report), secs(2));
    machine.handle(committed(3), secs(2));
    let actions = machine.handle(exit_of(7, Some(0), None), secs(3));
    let result = result(&actions);
    assert_eq!(result.status, JobStatus::Completed);
    assert_eq!((result.mini_batches, result.restored_mini_batches), (4, 3));
    assert_eq!((result.succeeded_mini_batches, result.failed_mini_batches), (3, 1));
    assert_eq!((result.short_mini_batches, result.rows), (1, 5));
    assert_eq!(result.items, ItemCounts { total: 8, succeeded: 5, failed: 3 });
}

#[test]
fn a_finished_job_completes_without_a_worker() {
    let after_shutdown = Restored { has_shut_down: true, ..restored() };
    let (_, actions) = resumed(tolerant(), after_shutdown, 3);
    assert_eq!(result(&actions).status, JobStatus::Completed);
    assert!(spawned(&actions).is_empty());
}

/// If no worker ended normally before, one worker is started to make the files of `init` and `shutdown`.
#[test]
fn a_worker_is_started_to_run_a_missing_shutdown() {
    let (mut machine, actions) = resumed(RetryPolicy { workers: 4, ..tolerant() }, restored(), 3);
    assert_eq!(spawned(&actions), [(7, None)]);
    let actions = machine.handle(ready(7), secs(1));
    assert!(matches!(actions.last(), Some(MachineAction::Shutdown(WorkerId(7)))), "{actions:#?}");
    let actions = machine.handle(exit_of(7, Some(0), None), secs(2));
    assert_eq!(result(&actions).status, JobStatus::Completed);
    // The usual rules apply to its `init`.
    let (mut machine, _) = resumed(tolerant(), restored(), 3);
    let mut actions = Vec::new();
    for worker in 7.. {
        actions = machine.handle(init_failed(worker), secs(1));
        actions.extend(machine.handle(exit_of(worker, Some(3), None), secs(1)));
        if matches!(actions.last(), Some(MachineAction::Finish(_))) {
            break;
        }
        assert_eq!(spawned(&actions), [(worker + 1, None)]);
    }
    assert_eq!(result(&actions).ended_by, Some(EndedBy::InitFailures));
}

/// A worker is also started to run `shutdown` if the last worker was killed in this run.
#[test]
fn a_worker_killed_at_the_end_is_replaced_for_shutdown() {
    let mut machine = running(tolerant(), 2);
    machine.handle(started(0, 0), secs(0));
    machine.handle(report(0, 1, 2, segment()), secs(1));
    machine.handle(committed(0), secs(1));
    machine.handle(started(0, 1), secs(1));
    machine.handle(exit(None, Some(9)), secs(2));
    let actions = machine.handle(committed(1), secs(2));
    assert_eq!(spawned(&actions), [(1, None)]);
    let actions = machine.handle(ready(1), secs(3));
    assert!(matches!(actions.last(), Some(MachineAction::Shutdown(WorkerId(1)))), "{actions:#?}");
}

/// W10 across both runs.
#[test]
fn a_job_whose_every_item_failed_before_fails_again() {
    let mut restored = restored();
    restored.items = ItemCounts { total: 6, succeeded: 0, failed: 6 };
    let (_, actions) = resumed(tolerant(), restored, 3);
    assert_eq!(result(&actions).ended_by, Some(EndedBy::NothingSucceeded));
    assert!(!result(&actions).never_began(), "its directory must stay");
}

/// C9 to C11 and W4 across both runs: the job ends only above the limit.
#[test]
fn thresholds_hold_over_both_runs() {
    let at_most = ErrorThreshold::AtMost;
    let percent = |text: &str| text.parse::<AllowedPercent>().expect("a percentage");
    let counts = |count| RetryPolicy { allowed_failed_count: at_most(count), ..tolerant() };
    let items = |count| RetryPolicy { error_threshold: at_most(count), ..tolerant() };
    let share = |text| RetryPolicy { allowed_failed_percent: percent(text), ..tolerant() };
    for (policy, ended_by) in [
        (counts(2), None),
        (counts(1), Some(EndedBy::AllowedFailedCount)),
        (items(3), None),
        (items(2), Some(EndedBy::ErrorThreshold)),
        (share("50"), None),
        (share("49.9"), Some(EndedBy::AllowedFailedPercent)),
    ] {
        let (mut machine, mut actions) = resumed(policy, restored(), 4);
        if ended_by.is_none() {
            assert_eq!(winding_down(&actions), "");
            continue;
        }
        assert!(winding_down(&actions).ends_with("earlier runs of this job also counts"));
        if !matches!(actions.last(), Some(MachineAction::Finish(_))) {
            actions = machine.handle(exit_of(7, None, Some(9)), secs(1));
        }
        assert_eq!(result(&actions).ended_by, ended_by);
        assert!(!result(&actions).never_began());
    }
}

/// A job keeps its directory even if its inputs are gone when it resumes.
#[test]
fn a_failed_plan_on_resume_keeps_the_job_directory() {
    let mut machine = LocalMachine::new(policy(), Vec::new(), Timestamp::UNIX_EPOCH, restored());
    let actions = machine.handle(MachineMessage::PlanFailed("gone".into()), secs(0));
    assert!(!result(&actions).never_began());
}
