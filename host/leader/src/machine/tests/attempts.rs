//! Rules W2, W3 and W6 in docs/parallel-run-step.md: attempts and their retries.

use super::*;
use crate::model::{
    Backend, BackendsUsed, InferenceStats, JobStatus, Source, TableSlice, UnknownKeys,
};

/// W3.
#[test]
fn a_failed_attempt_is_tried_again_and_the_job_completes() {
    let mut machine = running(policy(), 1);
    let actions = machine.handle(report(0, 1, 0, trap()), secs(1));
    assert_eq!(assigned(&actions), [(0, 2)]);
    let actions = machine.handle(report(0, 2, 2, segment()), secs(2));
    // No work is left for the worker, so it ends while its rows are being written.
    let both = matches!(actions.as_slice(), [MachineAction::Commit(_), MachineAction::Shutdown(_)]);
    assert!(both, "{actions:#?}");
    assert!(machine.job().awaits_commits_only());
    assert!(
        machine
            .handle(committed(0), secs(3))
            .iter()
            .all(|a| !matches!(a, MachineAction::Finish(_)))
    );
    let actions = machine.handle(exit(Some(0), None), secs(4));
    assert_eq!(result(&actions).status, JobStatus::Completed);
    assert_eq!(result(&actions).rows, 2);
}

/// The results of a worker that has ended are rejected. Another worker runs the mini-batch again.
#[test]
fn a_rejected_mini_batch_of_an_ended_worker_runs_again() {
    let mut machine = running(policy(), 1);
    machine.handle(report(0, 1, 2, segment()), secs(1));
    machine.handle(exit(Some(0), None), secs(2));
    let refused = Failure::new(FailureKind::BadOutput, "a file of that name is there");
    let actions = machine.handle(MachineMessage::Rejected(MiniBatchId(0), refused), secs(3));
    assert_eq!(spawned(&actions), [(1, None)]);
    assert_eq!(assigned(&machine.handle(ready(1), secs(4))), [(0, 2)]);
    let second_report = match report(0, 2, 2, segment()) {
        MachineMessage::Finished(_, report) => MachineMessage::Finished(WorkerId(1), report),
        other => other,
    };
    machine.handle(second_report, secs(5));
    machine.handle(committed(0), secs(6));
    let actions = machine.handle(exit_of(1, Some(0), None), secs(7));
    assert_eq!(result(&actions).status, JobStatus::Completed);
}

/// An input that cannot be decoded is not retried, because a retry would read the same bytes. The failure
/// names the file and the row.
#[test]
fn undecodable_input_is_not_retried() {
    let mut machine = new(RetryPolicy { max_try: 3, ..policy() });
    let file = "a.parquet".to_owned();
    let slice = TableSlice { file, part: 1, skip: 0, first_row: 40, rows: 2, bytes: 16 };
    let batch = MiniBatch::new(MiniBatchId(0), 0, MiniBatchWork::Table(slice));
    machine.handle(MachineMessage::Planned(vec![batch]), secs(0));
    machine.handle(ready(0), secs(1));
    let broken = Err(Failure::new(FailureKind::BadInput, "cannot be decoded"));
    let actions = machine.handle(report(0, 1, 0, broken), secs(2));
    assert!(
        actions.iter().any(|action| matches!(action, MachineAction::Commit(_))),
        "{actions:#?}"
    );
    let items = actions.iter().find_map(|action| match action {
        MachineAction::Emit(EventKind::AttemptFinished { report, will_retry: false, .. }) => {
            Some(report.failed_items.clone())
        }
        _ => None,
    });
    let items = items.expect("the end of the attempt");
    assert_eq!((items[0].item.as_str(), items[0].row, items.len()), ("/a.parquet", Some(41), 1));
}

/// A mini-batch is committed once, and late results are counted.
#[test]
fn late_results_are_discarded_and_counted() {
    let mut machine = running(RetryPolicy { max_try: 3, ..policy() }, 1);
    let finished = |worker, attempt| match report(0, attempt, 2, segment()) {
        MachineMessage::Finished(_, report) => MachineMessage::Finished(WorkerId(worker), report),
        other => other,
    };
    machine.handle(started(0, 0), secs(0));
    machine.handle(MachineMessage::Tick, secs(60));
    machine.handle(exit(None, Some(9)), secs(61));
    // Worker 0 is gone, so its message is ignored.
    assert!(machine.handle(finished(0, 1), secs(61)).is_empty());
    machine.handle(ready(1), secs(62));
    machine.handle(started(1, 0), secs(62));
    machine.handle(MachineMessage::Tick, secs(122));
    let actions = machine.handle(ready(2), secs(123));
    assert_eq!(assigned(&actions), [(0, 3)]);
    // The second attempt's result arrives while the third attempt is running. A worker can report only on its
    // own attempt.
    assert!(machine.handle(finished(1, 3), secs(124)).is_empty());
    let actions = machine.handle(finished(1, 2), secs(124));
    assert!(matches!(&actions[..], [MachineAction::Emit(EventKind::AttemptDiscarded { .. })]));
    let actions = machine.handle(finished(2, 3), secs(125));
    let [MachineAction::Commit(settled), MachineAction::Shutdown(WorkerId(2))] = &actions[..]
    else {
        panic!("{actions:#?}")
    };
    assert_eq!(settled.report.attempt, 3);
    machine.handle(committed(0), secs(126));
    machine.handle(exit_of(1, None, Some(9)), secs(127));
    let actions = machine.handle(exit_of(2, Some(0), None), secs(127));
    let result = result(&actions);
    assert_eq!((result.late_attempts, result.succeeded_mini_batches, result.rows), (1, 1, 2));
}

/// M7: mini-batches run while later ones are still being planned.
#[test]
fn work_begins_before_the_plan_is_finished() {
    let mut machine = new(policy());
    let actions = machine.handle(MachineMessage::Planned(batches(1)), secs(0));
    assert_eq!(spawned(&actions), [(0, None)]);
    assert_eq!(assigned(&machine.handle(ready(0), secs(1))), [(0, 1)]);
    machine.handle(report(0, 1, 2, segment()), secs(2));
    let actions = machine.handle(committed(0), secs(2));
    assert!(
        !actions.iter().any(|action| matches!(action, MachineAction::Shutdown(_))),
        "more may come"
    );
    let second = batches(2).pop().expect("a mini-batch");
    assert_eq!(assigned(&machine.handle(MachineMessage::Planned(vec![second]), secs(3))), [(1, 1)]);
}

#[test]
fn a_dead_worker_fails_one_mini_batch_and_returns_others() {
    let mut machine = running(RetryPolicy { workers: 1, ..policy() }, 8);
    machine.handle(MachineMessage::Started(W0, MiniBatchId(0)), secs(1));
    let actions = machine.handle(exit(None, Some(9)), secs(2));
    assert_eq!(attempt_failure_kind(&actions), Some(FailureKind::OutOfMemory));
    let returned = |action: &MachineAction| matches!(action, MachineAction::Emit(EventKind::MiniBatchReturned { id }) if id.0 == 1);
    assert!(actions.iter().any(returned), "{actions:#?}");
    let actions = machine.handle(MachineMessage::Ready(WorkerId(1), CallStats::default()), secs(3));
    let expected = [(0, 2), (1, 1)];
    assert_eq!(
        assigned(&actions),
        expected,
        "the returned one comes after the retry, as attempt 1"
    );
}

/// W6: a kill is not reported as "out of memory" if lack of memory cannot be the reason.
#[test]
fn an_external_kill_is_not_reported_as_out_of_memory() {
    let mut machine = running(RetryPolicy { workers: 1, ..policy() }, 1);
    machine.handle(MachineMessage::Started(W0, MiniBatchId(0)), secs(1));
    let note = String::new();
    let failure = None;
    let exit = WorkerExit {
        signal: Some(9),
        note,
        failure,
        not_for_memory: true,
        ..WorkerExit::default()
    };
    let actions = machine.handle(MachineMessage::Exited(W0, exit), secs(2));
    assert_eq!(attempt_failure_kind(&actions), Some(FailureKind::WorkerDied));
    assert!(
        attempt_failure(&actions).unwrap().message.contains("exited with returncode -9 inside run")
    );
}

/// W6: if a limit ended the worker, the failure of the mini-batch names the limit.
#[test]
fn a_worker_killed_by_a_limit_reports_the_limit() {
    let mut machine = running(RetryPolicy { workers: 1, ..policy() }, 1);
    machine.handle(MachineMessage::Started(W0, MiniBatchId(0)), secs(1));
    let failure = Some(Failure::new(FailureKind::OutOfMemory, "too much"));
    let note = "its last words".to_owned();
    let exit = WorkerExit { signal: Some(9), note, failure, ..WorkerExit::default() };
    let actions = machine.handle(MachineMessage::Exited(W0, exit), secs(2));
    let reported = attempt_failure(&actions).expect("it was in run");
    assert_eq!(
        (reported.message.as_str(), reported.detail.as_str()),
        ("too much", "its last words")
    );
}

/// The worker's other mini-batches are returned intact, and the next worker gets the GPU when it is free.
#[test]
fn a_worker_whose_gpu_was_full_is_replaced() {
    let mut machine = running(RetryPolicy { gpus: vec![0], ..policy() }, 8);
    machine.handle(started(0, 0), secs(1));
    let full = Failure::new(FailureKind::DeviceOutOfMemory, "the memory of gpu 0 is full");
    let actions = machine.handle(report(0, 1, 0, Err(full)), secs(2));
    assert_eq!((killed(&actions), spawned(&actions)), (vec![0], vec![]));
    assert_eq!(attempt_failure_kind(&actions), Some(FailureKind::DeviceOutOfMemory));
    assert!(
        actions.iter().any(|action| {
            matches!(
                action,
                MachineAction::Emit(EventKind::MiniBatchReturned { id: MiniBatchId(1) })
            )
        }),
        "{actions:#?}"
    );
    // It ends by itself, as expected.
    let actions = machine.handle(exit(Some(0), None), secs(3));
    assert!(attempt_failure(&actions).is_none() && notices(&actions).is_empty(), "{actions:#?}");
    assert_eq!(spawned(&actions), [(1, Some(0))]);
}

/// The standard library aborts after a failed allocation. A process may also abort for other reasons.
#[test]
fn a_failed_allocation_is_reported_as_out_of_memory() {
    let failure = |note: &str| {
        let mut machine = running(policy(), 1);
        machine.handle(started(0, 0), secs(1));
        let note = note.to_owned();
        let failure = None;
        let exit =
            WorkerExit { signal: Some(libc::SIGABRT), note, failure, ..WorkerExit::default() };
        attempt_failure(&machine.handle(MachineMessage::Exited(W0, exit), secs(2))).unwrap()
    };
    let reported = failure("memory allocation of 8388608 bytes failed\n");
    assert_eq!(reported.kind, FailureKind::OutOfMemory);
    insta::assert_snapshot!(reported.message, @"the worker process exited with returncode -6 inside run; it reached its memory limit. Either a mini-batch is too large, or a model needs more memory than the size of its file: make mini_batch_size smaller, or raise limits.memory or limits.tensors, from which the limit is computed");
    assert_eq!(failure("stack overflow").kind, FailureKind::WorkerDied);
}

/// If mini-batches are tiny, workers get many at a time, so that the leader is not woken for each one.
#[test]
fn workers_with_tiny_mini_batches_get_longer_queues() {
    let given = |seconds: f64, count: u64| {
        let mut machine = running(policy(), count);
        assert!(!machine.may_pause(), "one ahead, of unknown length");
        machine.handle(started(0, 0), secs(1));
        let MachineMessage::Finished(_, mut first) = report(0, 1, 2, segment()) else { panic!() };
        first.elapsed_seconds = seconds;
        let actions = machine.handle(MachineMessage::Finished(W0, first), secs(1));
        (assigned(&actions).len(), machine.may_pause())
    };
    // The worker already holds a mini-batch, and gets another one for the one that it finished. Two are
    // enough for the leader to pause.
    assert_eq!(given(1.0, 100), (1, true));
    assert_eq!(given(0.004, 100), (2, true));
    assert_eq!(given(0.0019, 100), (4, true));
    assert_eq!(given(0.0002, 100), (40, true));
    assert_eq!(
        given(0.000_000_1, 300),
        (QueuePolicy::SAME_MACHINE.most as usize, false),
        "it may run out"
    );
    assert_eq!(given(0.0002, 8), (3, false), "the rest is kept for idle workers");
    let enough = (1..).find(|count| !running(policy(), *count).wants_plan());
    assert_eq!(enough, Some(64 + u64::from(QueuePolicy::SAME_MACHINE.most) + 2), "two are held");
    for nonsense in [f64::NAN, f64::INFINITY, -1.0, 1e300] {
        assert_eq!(given(nonsense, 100).0, 1, "{nonsense}");
    }
}

#[test]
fn an_impossible_report_kills_the_worker() {
    let mut machine = running(policy(), 1);
    let MachineMessage::Finished(_, mut lie) = report(0, 1, 2, segment()) else { panic!() };
    lie.items.total = u64::MAX;
    let actions = machine.handle(MachineMessage::Finished(W0, lie), secs(1));
    assert!(matches!(actions[0], MachineAction::Kill(W0)), "{actions:#?}");
    assert_eq!(attempt_failure_kind(&actions), Some(FailureKind::WorkerDied));
}

/// The log tree shows each attempt from its beginning.
#[test]
fn the_start_of_an_attempt_is_reported_once() {
    let mut machine = running(policy(), 1);
    let starts = |actions: &[MachineAction]| {
        let is = |action: &&MachineAction| matches!(action, MachineAction::Emit(EventKind::AttemptStarted { id, attempt: 1, .. }) if id.0 == 0);
        actions.iter().filter(is).count()
    };
    assert_eq!(starts(&machine.handle(started(0, 1), secs(1))), 0, "it does not hold that one");
    assert_eq!(starts(&machine.handle(started(0, 0), secs(1))), 1);
    assert_eq!(starts(&machine.handle(started(0, 0), secs(1))), 0);
}

/// A compromised worker cannot delay the job by claiming repeatedly that its instance broke.
#[test]
fn a_worker_may_restart_once_after_each_attempt() {
    let mut machine = running(policy(), 8);
    machine.handle(MachineMessage::Restarting(W0), secs(1));
    assert_eq!(machine.next_deadline(), Some(secs(600)), "it loads all the same");
    machine.handle(report(0, 1, 2, segment()), secs(2));
    machine.handle(MachineMessage::Restarting(W0), secs(2));
    machine.handle(ready(0), secs(3));
    assert_eq!(machine.next_deadline(), Some(secs(603)));
    machine.handle(MachineMessage::Restarting(W0), secs(4));
    machine.handle(ready(0), secs(5));
    assert_eq!(machine.next_deadline(), Some(secs(603)));
}

/// C17: exactly `run_max_try` attempts. The last one reports that there will be no retry.
#[test]
fn run_max_try_is_the_exact_number_of_attempts() {
    let mut machine = running(RetryPolicy { max_try: 3, ..tolerant() }, 1);
    for attempt in 1..=3 {
        let failure = Failure::new(FailureKind::ScriptError, "no");
        let actions = machine.handle(report(0, attempt, 0, Err(failure)), secs(1));
        let expected: &[(u64, u32)] = if attempt < 3 { &[(0, attempt + 1)] } else { &[] };
        assert_eq!(assigned(&actions), expected);
        let will_retry = actions.iter().find_map(|action| match action {
            MachineAction::Emit(EventKind::AttemptFinished { will_retry, .. }) => Some(*will_retry),
            _ => None,
        });
        assert_eq!(will_retry, Some(attempt < 3));
    }
}

/// A compromised worker must not keep the leader busy.
#[test]
fn a_worker_that_sends_unexpected_messages_is_killed() {
    let strays: [&dyn Fn() -> MachineMessage; 4] =
        [&|| ready(0), &|| started(0, 77), &|| MachineMessage::Restarting(W0), &|| {
            report(77, 1, 2, segment())
        }];
    for stray in strays {
        let mut machine = running(policy(), 2);
        for _ in 0..NodePolicy::STRAYS {
            assert!(killed(&machine.handle(stray(), secs(1))).is_empty());
        }
        let actions = machine.handle(stray(), secs(1));
        assert_eq!(killed(&actions), [0]);
        assert_eq!(attempt_failure_kind(&actions), Some(FailureKind::WorkerDied));
        assert_eq!(spawned(&actions), [(1, None)], "another one replaces it");
        assert_eq!(machine.handle(stray(), secs(1)).len(), 0, "its later messages are ignored");
    }
    // Inside `init`, this costs no mini-batch.
    let mut machine = new(policy());
    machine.handle(MachineMessage::Planned(batches(1)), secs(0));
    let actions: Vec<_> =
        (0..=NodePolicy::STRAYS).flat_map(|_| machine.handle(started(0, 0), secs(1))).collect();
    assert_eq!((killed(&actions), attempt_failure_kind(&actions)), (vec![0], None));
}

/// An attempt's report with inference. With `fell_back`, a model fell back to the CPU.
fn inferring(id: u64, calls: u64, seconds: f64, fell_back: bool) -> MachineMessage {
    let MachineMessage::Finished(worker, mut report) = report(id, 1, 2, segment()) else {
        panic!("a report");
    };
    let device = Some(crate::model::Device::Cpu);
    let backends = BackendsUsed::default().and(Backend::Tract);
    report.inference = InferenceStats {
        calls,
        seconds,
        bytes_in: 8,
        device,
        fell_back,
        backends,
        ..InferenceStats::default()
    };
    MachineMessage::Finished(worker, report)
}

/// The result has the totals of inference in all attempts. A fallback to the CPU is reported once.
#[test]
fn inference_is_counted_and_a_fallback_is_reported() {
    let mut machine = running(policy(), 3);
    let mut reported = Vec::new();
    for id in 0..3 {
        machine.handle(started(0, id), secs(1));
        machine.handle(inferring(id, 2, 0.5, id > 0), secs(2));
        let actions = machine.handle(committed(id), secs(2));
        reported.push(notices(&actions));
    }
    assert_eq!((reported[0].len(), reported[2].len()), (0, 0), "{reported:?}");
    assert!(reported[1][0].contains("fallback: cpu"), "{reported:?}");
    let actions = machine.handle(exit(Some(0), None), secs(3));
    let sum = result(&actions).inference;
    assert_eq!((sum.calls, sum.seconds, sum.bytes_in, sum.fell_back), (6, 1.5, 24, true));
    assert_eq!(sum.backends.to_string(), "tract");
}

/// A compromised worker cannot falsify the totals.
#[test]
fn impossible_inference_statistics_kill_the_worker() {
    for message in [inferring(0, 1 << 60, 0.5, false), inferring(0, 1, f64::NAN, false)] {
        let mut machine = running(policy(), 1);
        machine.handle(started(0, 0), secs(1));
        assert_eq!(killed(&machine.handle(message, secs(2))), [0]);
    }
}

fn keys(records: u64, name: &str, line: u64) -> UnknownKeys {
    let item = "/inputs/d/a.jsonl".to_owned();
    UnknownKeys { records, names: vec![name.to_owned()], item, line }
}

/// The first unknown key of each input is reported at once, and the number of records at the end. Failed
/// attempts do not count.
#[test]
fn unknown_keys_are_reported_and_counted() {
    let retrying = RetryPolicy { error_threshold: ErrorThreshold::Ignore, ..policy() };
    let sources = vec![Source::new("d", "/data".into())];
    let mut machine =
        LocalMachine::new(retrying, sources, Timestamp::UNIX_EPOCH, Restored::default());
    machine.handle(MachineMessage::Planned(batches(4)), secs(0));
    machine.handle(MachineMessage::PlanFinished, secs(0));
    machine.handle(ready(0), secs(0));
    let mut reported = Vec::new();
    for (id, attempt, outcome, records, name) in [
        (0, 1, segment(), 0, ""),
        (1, 1, segment(), 2, "b"),
        (2, 1, trap(), 2, "c"),
        // A retry comes before a first attempt.
        (2, 2, segment(), 2, "b"),
        (3, 1, segment(), 1, "d"),
    ] {
        let keys = keys(records, name, 10 + id);
        let MachineMessage::Finished(_, mut report) = report(id, attempt, 2, outcome) else {
            panic!()
        };
        report.unknown_keys = (records > 0).then_some(keys);
        reported.extend(notices(&machine.handle(MachineMessage::Finished(W0, report), secs(1))));
        reported.extend(notices(&machine.handle(committed(id), secs(1))));
    }
    reported.extend(notices(&machine.handle(exit(Some(0), None), secs(2))));
    insta::assert_snapshot!(reported.join("\n"), @"
    input d: records have keys that match none of its columns and are left out of the table: 'b', first in /inputs/d/a.jsonl, line 11; the columns were inferred from earlier rows. Set schema_inference to full, or name all columns in schema (json takes any value)
    input d: 5 records had keys that match none of its columns: 'b', 'd'
    ");
    // A worker that reports more records than the mini-batch has items is lying.
    let mut machine = running(tolerant(), 1);
    let MachineMessage::Finished(_, mut lie) = report(0, 1, 2, segment()) else { panic!() };
    lie.unknown_keys = Some(keys(3, "b", 1));
    assert_eq!(killed(&machine.handle(MachineMessage::Finished(W0, lie), secs(1))), [0]);
}
