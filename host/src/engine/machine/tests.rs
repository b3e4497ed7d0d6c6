//! The rules one by one, by hand.

use super::{Action, Machine, Message, Policy};
use crate::event::EventKind;
use crate::model::{
    AttemptReport, CallStats, ErrorThreshold, Failure, FailureKind, ItemCounts, JobResult,
    JobStatus, MiniBatch, MiniBatchId, OutputAction, Segment, Work, WorkerId,
};
use crate::pool::WorkerExit;
use jiff::Timestamp;
use std::time::Duration;

const W0: WorkerId = WorkerId(0);

fn policy() -> Policy {
    Policy {
        allowed_failed_count: ErrorThreshold::Ignore,
        allowed_failed_percent: crate::model::AllowedPercent::ALL,
        first_task_timeout: Duration::from_secs(600),
        progress_timeout: Duration::from_secs(86_400),
        gpus: 0,
        workers: 1,
        max_try: 2,
        error_threshold: ErrorThreshold::AtMost(0),
        run_timeout: Duration::from_secs(60),
        load_timeout: Duration::from_secs(600),
        output_action: OutputAction::AppendRow,
    }
}

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn batches(count: u64) -> Vec<MiniBatch> {
    let batch = |id| MiniBatch::new(MiniBatchId(id), 0, Work::Files(vec!["a".into(), "b".into()]));
    (0..count).map(batch).collect()
}

/// A machine whose plan is told and whose first worker is ready.
fn running(policy: Policy, count: u64) -> Machine {
    let mut machine =
        Machine::new(policy, Vec::new(), Timestamp::UNIX_EPOCH, crate::model::Restored::default());
    machine.handle(Message::Planned(batches(count)), secs(0));
    machine.handle(Message::PlanFinished, secs(0));
    machine.handle(Message::Ready(W0, CallStats::default()), secs(0));
    machine
}

fn report(id: u64, attempt: u32, succeeded: u64, outcome: Result<Segment, Failure>) -> Message {
    Message::Finished(
        W0,
        Box::new(AttemptReport {
            header: None,
            id: MiniBatchId(id),
            attempt,
            items: ItemCounts::from_returned(2, succeeded),
            outcome,
            failed_items: Vec::new(),
            surplus_rows: 0,
            has_files: false,
            elapsed_seconds: 0.0,
            process_seconds: 0.0,
            run: CallStats::default(),
        }),
    )
}

fn segment() -> Result<Segment, Failure> {
    Ok(Segment { offset: 0, length: 4, checksum: 0, rows: 2 })
}

fn trap() -> Result<Segment, Failure> {
    Err(Failure::new(FailureKind::Trap, "wasm trap"))
}

fn exit(code: Option<i32>, signal: Option<i32>) -> Message {
    Message::Exited(W0, WorkerExit { code, signal, note: String::new() })
}

fn assigned(actions: &[Action]) -> Vec<(u64, u32)> {
    let pick = |action: &Action| match action {
        Action::Assign(_, a) => Some((a.mini_batch.id.0, a.attempt)),
        _ => None,
    };
    actions.iter().filter_map(pick).collect()
}

fn result(actions: &[Action]) -> &JobResult {
    match actions.last() {
        Some(Action::Finish(result)) => result,
        _ => panic!("no end in {actions:#?}"),
    }
}

fn lost(actions: &[Action]) -> Option<FailureKind> {
    actions.iter().find_map(|action| match action {
        Action::Emit(EventKind::AttemptFinished { report, .. }) => {
            report.outcome.as_ref().err().map(|failure| failure.kind)
        }
        _ => None,
    })
}

#[test]
fn a_failed_attempt_is_tried_again_and_the_job_completes() {
    let mut machine = running(policy(), 1);
    let actions = machine.handle(report(0, 1, 0, trap()), secs(1));
    assert_eq!(assigned(&actions), [(0, 2)]);
    let actions = machine.handle(report(0, 2, 2, segment()), secs(2));
    assert!(matches!(actions.as_slice(), [Action::Commit(_)]), "{actions:#?}");
    assert!(machine.awaits_commits_only());
    let actions = machine.handle(Message::Committed(vec![MiniBatchId(0)]), secs(3));
    assert!(actions.iter().any(|action| matches!(action, Action::Shutdown(_))));
    let actions = machine.handle(exit(Some(0), None), secs(4));
    assert_eq!(result(&actions).status, JobStatus::Completed);
    assert_eq!(result(&actions).rows, 2);
}

#[test]
fn the_threshold_counts_items_and_names_itself() {
    let mut machine = running(Policy { error_threshold: ErrorThreshold::AtMost(1), ..policy() }, 2);
    machine.handle(report(0, 1, 1, segment()), secs(1));
    machine.handle(Message::Committed(vec![MiniBatchId(0)]), secs(1));
    machine.handle(report(1, 1, 1, segment()), secs(2));
    let actions = machine.handle(Message::Committed(vec![MiniBatchId(1)]), secs(2));
    assert!(actions.iter().any(|action| matches!(action, Action::Kill(W0))));
    let actions = machine.handle(exit(None, Some(9)), secs(3));
    let result = result(&actions);
    assert_eq!(result.status, JobStatus::Failed);
    insta::assert_snapshot!(
        result.reason,
        @"2 items failed, more than error_threshold allows (1); to go on in spite of failures set error_threshold to the number you can bear, or to -1"
    );
    assert_eq!(result.succeeded_mini_batches, 2);
}

#[test]
fn a_time_out_counts_from_the_call_of_run_and_kills() {
    let mut machine = running(policy(), 1);
    assert_eq!(machine.next_deadline(), Some(secs(600)));
    machine.handle(Message::Started(W0, MiniBatchId(0)), secs(10));
    assert_eq!(machine.next_deadline(), Some(secs(70)));
    assert!(machine.handle(Message::Tick, secs(69)).is_empty());
    let actions = machine.handle(Message::Tick, secs(70));
    assert!(matches!(actions[0], Action::Kill(W0)));
    assert_eq!(lost(&actions), Some(FailureKind::Timeout));
    assert!(actions.iter().any(|action| matches!(action, Action::Spawn(WorkerId(1), _))));
    // What the killed worker still says is too late.
    assert!(machine.handle(report(0, 1, 2, segment()), secs(70)).is_empty());
}

#[test]
fn a_dead_worker_loses_the_first_mini_batch_and_returns_the_next() {
    let mut machine = running(Policy { workers: 1, ..policy() }, 8);
    machine.handle(Message::Started(W0, MiniBatchId(0)), secs(1));
    let actions = machine.handle(exit(None, Some(9)), secs(2));
    assert_eq!(lost(&actions), Some(FailureKind::OutOfMemory));
    let returned = |action: &Action| matches!(action, Action::Emit(EventKind::MiniBatchReturned { id }) if id.0 == 1);
    assert!(actions.iter().any(returned), "{actions:#?}");
    let actions = machine.handle(Message::Ready(WorkerId(1), CallStats::default()), secs(3));
    assert_eq!(assigned(&actions)[0], (1, 1), "the returned one comes first, as attempt 1");
}

#[test]
fn a_new_instance_that_hangs_or_dies_in_init_costs_no_attempt() {
    for dies in [false, true] {
        let mut machine = running(policy(), 8);
        machine.handle(report(0, 1, 0, trap()), secs(1));
        machine.handle(Message::Restarting(W0), secs(1));
        assert_eq!(machine.next_deadline(), Some(secs(1 + 210)), "the time of init counts");
        let actions = if dies {
            machine.handle(exit(None, Some(11)), secs(2))
        } else {
            machine.handle(Message::Tick, secs(211))
        };
        assert_eq!(lost(&actions), None, "{actions:#?}");
        let ready = Message::Ready(WorkerId(1), CallStats::default());
        assert_eq!(assigned(&machine.handle(ready, secs(212)))[0], (1, 1));
    }
}

#[test]
fn a_report_that_cannot_be_costs_the_worker() {
    let mut machine = running(policy(), 1);
    let Message::Finished(_, mut lie) = report(0, 1, 2, segment()) else { panic!() };
    lie.items.total = u64::MAX;
    let actions = machine.handle(Message::Finished(W0, lie), secs(1));
    assert!(matches!(actions[0], Action::Kill(W0)), "{actions:#?}");
    assert_eq!(lost(&actions), Some(FailureKind::WorkerDied));
}

#[test]
fn a_process_that_cannot_be_killed_does_not_hold_up_the_end() {
    let mut machine = running(Policy { max_try: 1, ..policy() }, 1);
    machine.handle(Message::Started(W0, MiniBatchId(0)), secs(0));
    machine.handle(Message::Tick, secs(60));
    machine.handle(Message::Committed(vec![MiniBatchId(0)]), secs(60));
    assert_eq!(machine.next_deadline(), Some(secs(90)));
    assert_eq!(result(&machine.handle(Message::Tick, secs(90))).status, JobStatus::Failed);
}

#[test]
fn what_ended_a_job_stays_the_reason_when_committing_fails_too() {
    let mut machine = running(policy(), 1);
    machine.handle(Message::CommitFailed("no space left".into()), secs(1));
    machine.handle(Message::CommitFailed("broke down".into()), secs(1));
    assert_eq!(result(&machine.handle(exit(None, Some(9)), secs(2))).reason, "no space left");
}

#[test]
fn init_failures_in_a_row_end_the_job() {
    let mut machine = Machine::new(
        policy(),
        Vec::new(),
        Timestamp::UNIX_EPOCH,
        crate::model::Restored::default(),
    );
    machine.handle(Message::Planned(batches(1)), secs(0));
    for worker in 0..3 {
        let failure = Failure::new(FailureKind::ScriptError, "no weights");
        let actions = machine.handle(Message::InitFailed(WorkerId(worker), failure), secs(1));
        let spawns = actions.iter().any(|action| matches!(action, Action::Spawn(..)));
        assert_eq!(spawns, worker < 2, "3 x process_count_per_node");
        let exit = WorkerExit { code: Some(3), signal: None, note: String::new() };
        let actions = machine.handle(Message::Exited(WorkerId(worker), exit), secs(1));
        if worker == 2 {
            let result = result(&actions);
            assert_eq!(result.status, JobStatus::Failed);
            assert_eq!(
                result.reason,
                "init failed 3 times in a row, on every worker that was started: no weights"
            );
        }
    }
}

#[test]
fn a_job_whose_workers_all_hang_in_init_fails() {
    let mut machine = Machine::new(
        policy(),
        Vec::new(),
        Timestamp::UNIX_EPOCH,
        crate::model::Restored::default(),
    );
    machine.handle(Message::Planned(batches(1)), secs(5));
    assert_eq!(machine.next_deadline(), Some(secs(5 + 3 * 60 + 30)));
    let actions = machine.handle(Message::Tick, secs(215));
    assert!(actions.iter().any(|action| matches!(action, Action::Kill(W0))));
    let actions = machine.handle(exit(None, Some(9)), secs(216));
    assert!(result(&actions).reason.starts_with("no progress"));
}

#[test]
fn no_success_at_all_fails_an_append_row_job() {
    let policy = Policy { max_try: 1, error_threshold: ErrorThreshold::Ignore, ..policy() };
    for (action, status) in [
        (OutputAction::AppendRow, JobStatus::Failed),
        (OutputAction::SummaryOnly, JobStatus::Completed),
    ] {
        let mut machine = running(Policy { output_action: action, ..policy.clone() }, 1);
        machine.handle(report(0, 1, 0, trap()), secs(1));
        machine.handle(Message::Committed(vec![MiniBatchId(0)]), secs(1));
        let actions = machine.handle(exit(Some(0), None), secs(2));
        assert_eq!(result(&actions).status, status);
    }
}

#[test]
fn a_cancelled_job_lets_the_running_mini_batch_end_and_keeps_it() {
    let mut machine = running(policy(), 8);
    machine.handle(Message::Started(W0, MiniBatchId(0)), secs(1));
    let cancel = Message::Cancel { reason: "interrupted".into(), at_once: false };
    let actions = machine.handle(cancel, secs(2));
    assert!(matches!(actions.as_slice(), [Action::Emit(EventKind::WindingDown { .. })]));
    let actions = machine.handle(report(0, 1, 2, segment()), secs(3));
    // It holds a second one that must not run: killed, not asked to end.
    assert!(matches!(actions.as_slice(), [Action::Commit(_), Action::Kill(W0)]), "{actions:#?}");
    machine.handle(Message::Committed(vec![MiniBatchId(0)]), secs(3));
    let actions = machine.handle(exit(None, Some(9)), secs(3));
    assert_eq!(result(&actions).status, JobStatus::Cancelled);
    assert_eq!(result(&actions).succeeded_mini_batches, 1);
}

#[test]
fn an_empty_plan_completes() {
    let mut machine = Machine::new(
        policy(),
        Vec::new(),
        Timestamp::UNIX_EPOCH,
        crate::model::Restored::default(),
    );
    let actions = machine.handle(Message::PlanFinished, secs(0));
    assert_eq!(result(&actions).status, JobStatus::Completed);
}
