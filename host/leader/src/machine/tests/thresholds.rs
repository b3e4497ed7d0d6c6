//! Rules C9 to C12, W4 and W10 in docs/parallel-run-step.md: how many failures are tolerated.

use super::*;
use crate::model::{EndedBy, FailedItem, JobStatus};

/// C9.
#[test]
fn error_threshold_counts_items_and_is_named() {
    let mut machine =
        running(RetryPolicy { error_threshold: ErrorThreshold::AtMost(1), ..policy() }, 2);
    machine.handle(report(0, 1, 1, segment()), secs(1));
    machine.handle(MachineMessage::Committed(vec![MiniBatchId(0)]), secs(1));
    machine.handle(report(1, 1, 1, segment()), secs(2));
    let actions = machine.handle(MachineMessage::Committed(vec![MiniBatchId(1)]), secs(2));
    assert!(actions.iter().any(|action| matches!(action, MachineAction::Kill(W0))));
    let actions = machine.handle(exit(None, Some(9)), secs(3));
    let result = result(&actions);
    assert_eq!(result.status, JobStatus::Failed);
    insta::assert_snapshot!(
        result.reason,
        @"2 items failed, more than error_threshold allows (1); to continue despite failures, set error_threshold to the number to tolerate, or to -1"
    );
    assert_eq!(result.succeeded_mini_batches, 2);
}

/// If the reader rejected the item, the failure is reported as bad input, because the script is not to blame.
#[test]
fn an_unreadable_item_is_reported_as_bad_input() {
    for kind in [FailureKind::BadInput, FailureKind::ScriptError] {
        let mut machine = running(policy(), 1);
        let MachineMessage::Finished(_, mut report) = report(0, 1, 1, segment()) else { panic!() };
        report.failed_items = vec![FailedItem {
            item: "/inputs/rows/a.csv".into(),
            line: Some(7),
            reason: "5 fields, 4 expected".into(),
            kind,
            ..FailedItem::sample()
        }];
        machine.handle(MachineMessage::Finished(W0, report), secs(1));
        machine.handle(committed(0), secs(1));
        let actions = machine.handle(exit(None, Some(9)), secs(2));
        let first = result(&actions).first_failure.clone().expect("a failure");
        assert_eq!(first.failure.kind, kind);
    }
}

/// W10.
#[test]
fn no_success_at_all_fails_an_append_row_job() {
    let policy = RetryPolicy { max_try: 1, error_threshold: ErrorThreshold::Ignore, ..policy() };
    for (action, status) in [
        (OutputAction::AppendRow, JobStatus::Failed),
        (OutputAction::SummaryOnly, JobStatus::Completed),
    ] {
        let mut machine = running(RetryPolicy { output_action: action, ..policy.clone() }, 1);
        machine.handle(report(0, 1, 0, trap()), secs(1));
        machine.handle(MachineMessage::Committed(vec![MiniBatchId(0)]), secs(1));
        let actions = machine.handle(exit(Some(0), None), secs(2));
        assert_eq!(result(&actions).status, status);
    }
}

/// The result of a job with one worker. `returned` has one entry for each mini-batch: the number of items for
/// which it returns rows, or `None` if it fails for good.
fn run(policy: RetryPolicy, returned: &[Option<u64>]) -> JobResult {
    let mut machine = running(policy, returned.len() as u64);
    let mut done = None;
    let mut take = |actions: Vec<MachineAction>| {
        if let Some(MachineAction::Finish(result)) = actions.last() {
            done = Some(result.as_ref().clone());
        }
        actions
            .iter()
            .any(|action| matches!(action, MachineAction::Kill(_) | MachineAction::Shutdown(_)))
    };
    for (id, returned) in (0..).zip(returned) {
        let outcome = if returned.is_some() { segment() } else { trap() };
        let ends = take(machine.handle(report(id, 1, returned.unwrap_or(0), outcome), secs(1)));
        if take(machine.handle(committed(id), secs(1))) || ends {
            take(machine.handle(exit(Some(0), None), secs(2)));
            break;
        }
    }
    done.expect("an end")
}

/// C10, W4: mini-batches that failed for good and those that returned too few rows count together. The job
/// ends only above the limit.
#[test]
fn allowed_failed_count_is_enforced() {
    let policy = RetryPolicy { allowed_failed_count: ErrorThreshold::AtMost(2), ..tolerant() };
    let result = run(policy.clone(), &[None, Some(1), Some(2), Some(2)]);
    assert_eq!((result.status, result.ended_by), (JobStatus::Completed, None));
    assert_eq!((result.failed_mini_batches, result.short_mini_batches), (1, 1));
    assert_eq!(result.succeeded_mini_batches, 3, "the rows of short ones are kept");

    let result = run(policy, &[None, Some(1), Some(0), Some(2)]);
    assert_eq!(result.ended_by, Some(EndedBy::AllowedFailedCount));
    insta::assert_snapshot!(
        result.reason,
        @"3 mini-batches failed (2 by returning fewer rows than items), more than allowed_failed_count allows (2); to continue despite failures, set allowed_failed_count to the number to tolerate, or to -1"
    );
    let first = result.first_failure.expect("a failure");
    assert_eq!(first.mini_batch, Some(MiniBatchId(0)));
}

/// C10: a mini-batch that may still succeed does not end the job.
#[test]
fn a_failure_that_is_retried_does_not_count() {
    let policy = RetryPolicy {
        allowed_failed_count: ErrorThreshold::AtMost(0),
        error_threshold: ErrorThreshold::AtMost(0),
        ..policy()
    };
    let mut machine = running(policy, 1);
    assert_eq!(winding_down(&machine.handle(report(0, 1, 0, trap()), secs(1))), "");
    let actions = machine.handle(report(0, 2, 0, trap()), secs(2));
    // C12: both thresholds are exceeded, and the first is named.
    assert!(winding_down(&actions).contains("error_threshold"));
}

/// C11: the percentage is first checked when the plan is complete.
#[test]
fn allowed_failed_percent_is_enforced_after_the_plan() {
    let percent = |text: &str| text.parse::<AllowedPercent>().expect("a percentage");
    let policy = RetryPolicy { allowed_failed_percent: percent("25"), ..tolerant() };
    let mut machine = new(policy.clone());
    machine.handle(MachineMessage::Planned(batches(4)), secs(0));
    machine.handle(ready(0), secs(0));
    machine.handle(report(0, 1, 0, trap()), secs(1));
    let actions = machine.handle(report(1, 1, 0, trap()), secs(1));
    assert_eq!(winding_down(&actions), "");
    let actions = machine.handle(MachineMessage::PlanFinished, secs(2));
    insta::assert_snapshot!(
        winding_down(&actions),
        @"2 of 4 mini-batches failed, a larger share than allowed_failed_percent allows (25 %); to continue despite failures, set allowed_failed_percent to the share to tolerate, or to 100"
    );
    // A quarter does not exceed the limit of a quarter. W4: short mini-batches count as failed, too.
    let result = run(policy.clone(), &[None, Some(2), Some(2), Some(2)]);
    assert_eq!(result.ended_by, None);
    let result = run(policy.clone(), &[None, Some(2), Some(2), Some(1)]);
    assert_eq!(result.ended_by, Some(EndedBy::AllowedFailedPercent));
    let none = RetryPolicy { allowed_failed_percent: percent("0"), ..policy };
    assert_eq!(run(none, &[Some(2), Some(2)]).ended_by, None);
}

/// C12: each threshold alone ends the job, whatever the others tolerate, and the result names it.
#[test]
fn any_one_threshold_ends_the_job_and_is_named() {
    let percent = |text: &str| text.parse::<AllowedPercent>().expect("a percentage");
    let roomy = RetryPolicy {
        error_threshold: ErrorThreshold::AtMost(100),
        allowed_failed_count: ErrorThreshold::AtMost(50),
        allowed_failed_percent: percent("99"),
        ..tolerant()
    };
    // One of four mini-batches fails for good, and one is short. Three of the eight items fail.
    let returned = [None, Some(1), Some(2), Some(2)];
    assert_eq!(run(roomy.clone(), &returned).ended_by, None);
    for (policy, ended_by, name) in [
        (
            RetryPolicy { error_threshold: ErrorThreshold::AtMost(2), ..roomy.clone() },
            EndedBy::ErrorThreshold,
            "error_threshold",
        ),
        (
            RetryPolicy { allowed_failed_count: ErrorThreshold::AtMost(1), ..roomy.clone() },
            EndedBy::AllowedFailedCount,
            "allowed_failed_count",
        ),
        (
            RetryPolicy { allowed_failed_percent: percent("49.9"), ..roomy },
            EndedBy::AllowedFailedPercent,
            "allowed_failed_percent",
        ),
    ] {
        let result = run(policy, &returned);
        assert_eq!((result.status, result.ended_by), (JobStatus::Failed, Some(ended_by)));
        assert!(result.reason.contains(name), "{}", result.reason);
    }
}

/// E9: if `run` returns nothing, every item fails. `error_threshold: -1` tolerates that, and W10 applies if
/// no item succeeded.
#[test]
fn some_empty_returns_are_tolerated_but_not_all() {
    let result = run(tolerant(), &[Some(0), Some(2)]);
    assert_eq!((result.status, result.items.failed), (JobStatus::Completed, 2));
    let result = run(tolerant(), &[Some(0), Some(0)]);
    assert_eq!(result.ended_by, Some(EndedBy::NothingSucceeded));
    assert_eq!(result.reason, "no item succeeded, so there is nothing to write");
}

/// C26, W10: void mini-batches have no items, and are never short.
#[test]
fn void_mini_batches_are_not_short() {
    for (outcome, ended_by) in [(segment(), None), (trap(), Some(EndedBy::NothingSucceeded))] {
        let policy = RetryPolicy { allowed_failed_percent: AllowedPercent::ALL, ..tolerant() };
        let mut machine = new(policy);
        let void = MiniBatch::new(MiniBatchId(0), 0, MiniBatchWork::Void);
        machine.handle(MachineMessage::Planned(vec![void]), secs(0));
        machine.handle(MachineMessage::PlanFinished, secs(0));
        machine.handle(ready(0), secs(0));
        let MachineMessage::Finished(_, mut report) = report(0, 1, 0, outcome) else { panic!() };
        (report.items, report.is_short) = (ItemCounts::default(), false);
        machine.handle(MachineMessage::Finished(W0, report), secs(1));
        machine.handle(committed(0), secs(1));
        let actions = machine.handle(exit(Some(0), None), secs(2));
        assert_eq!(result(&actions).short_mini_batches, 0);
        assert_eq!(result(&actions).ended_by, ended_by);
    }
}
