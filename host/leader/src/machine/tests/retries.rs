//! Rules W3 and W9 in docs/parallel-run-step.md: when the next attempt begins, and how soon a job ends if it
//! tolerates no failure.

use super::*;
use std::collections::{BTreeMap, VecDeque};

/// Each attempt fails with a different message.
fn failed(worker: u32, id: u64, attempt: u32, kind: FailureKind) -> MachineMessage {
    failed_with(worker, id, attempt, Failure::new(kind, format!("no {attempt}")))
}

fn failed_with(worker: u32, id: u64, attempt: u32, failure: Failure) -> MachineMessage {
    let MachineMessage::Finished(_, report) = report(id, attempt, 0, Err(failure)) else {
        panic!()
    };
    MachineMessage::Finished(WorkerId(worker), report)
}

fn done(worker: u32, id: u64) -> MachineMessage {
    let MachineMessage::Finished(_, report) = report(id, 1, 2, segment()) else { panic!() };
    MachineMessage::Finished(WorkerId(worker), report)
}

/// What each worker receives, as `WORKER: MINI-BATCH.ATTEMPT`. A `!` marks an attempt that comes before the
/// worker's queue. Also names the workers that may continue.
fn given(actions: &[MachineAction]) -> Vec<String> {
    let show = |action: &MachineAction| match action {
        MachineAction::Assign(worker, a) => {
            Some(format!("{}: {}.{}", worker.0, a.mini_batch.id, a.attempt))
        }
        MachineAction::AssignFirst(worker, a) => {
            Some(format!("{}: !{}.{}", worker.0, a.mini_batch.id, a.attempt))
        }
        MachineAction::GoOn(worker) => Some(format!("{}: continues", worker.0)),
        _ => None,
    };
    actions.iter().filter_map(show).collect()
}

/// Simulates workers that take a second for each mini-batch. Mini-batch 30 always fails; with `breaks`, its
/// failure also breaks the instance. All workers except worker 0 need the additional time `later` for their
/// first mini-batch. Returns how many calls of `run` begin after the first failure.
fn calls_after_the_first_failure(workers: u32, later: Duration, breaks: bool) -> usize {
    let policy = RetryPolicy { workers, max_try: 3, ..policy() };
    let mut machine = new(policy);
    machine.handle(MachineMessage::Planned(batches(200)), secs(0));
    let mut queues: BTreeMap<u32, VecDeque<(u64, u32)>> = BTreeMap::new();
    // When each worker will end its current call.
    let mut call_ends: BTreeMap<u32, Duration> = BTreeMap::new();
    let mut calls = None;
    let mut now = secs(0);
    let mut messages: Vec<MachineMessage> = (0..workers).map(ready).collect();
    messages.insert(0, MachineMessage::PlanFinished);
    loop {
        for message in std::mem::take(&mut messages) {
            for action in machine.handle(message, now) {
                match action {
                    MachineAction::Assign(worker, a) => {
                        queues
                            .entry(worker.0)
                            .or_default()
                            .push_back((a.mini_batch.id.0, a.attempt));
                    }
                    MachineAction::AssignFirst(worker, a) => {
                        queues
                            .entry(worker.0)
                            .or_default()
                            .push_front((a.mini_batch.id.0, a.attempt));
                    }
                    MachineAction::Commit(settled) => messages.push(committed(settled.report.id.0)),
                    MachineAction::Emit(EventKind::WindingDown { .. }) => {
                        return calls.expect("failures");
                    }
                    _ => {}
                }
            }
        }
        if !messages.is_empty() {
            continue;
        }
        for worker in 0..workers {
            let Some(&(id, _)) = queues.get(&worker).and_then(VecDeque::front) else { continue };
            if call_ends.contains_key(&worker) {
                continue;
            }
            if let Some(calls) = &mut calls {
                *calls += 1;
            }
            let is_first = now.is_zero() && worker > 0;
            call_ends.insert(worker, now + secs(1) + if is_first { later } else { Duration::ZERO });
            messages.push(started(worker, id));
        }
        if !messages.is_empty() {
            continue;
        }
        let (&worker, &at) = call_ends.iter().min_by_key(|(_, at)| **at).expect("a busy worker");
        (now, _) = (at, call_ends.remove(&worker));
        let (id, attempt) =
            queues.get_mut(&worker).and_then(VecDeque::pop_front).expect("its work");
        if id != 30 {
            messages.push(done(worker, id));
            continue;
        }
        calls.get_or_insert(0_usize);
        messages.push(failed(worker, id, attempt, FailureKind::Trap));
        if breaks {
            messages.push(MachineMessage::Restarting(WorkerId(worker)));
            messages.push(ready(worker));
        }
    }
}

/// W3, W9: one of 200 mini-batches always fails, and `error_threshold` is 0. The job ends within five calls
/// of `run`, and not at the end of the input.
#[test]
fn a_hopeless_item_soon_ends_an_intolerant_job() {
    for thousandths in [0, 1, 100, 500, 900, 999] {
        for breaks in [false, true] {
            let later = Duration::from_millis(thousandths);
            let calls = calls_after_the_first_failure(2, later, breaks);
            assert!(calls <= 5, "{calls} calls, {later:?} later");
        }
    }
    // Each of the other workers begins at most one call during each of the two retries.
    let calls = calls_after_the_first_failure(8, Duration::from_millis(300), false);
    assert!(calls <= 2 + 2 * 8, "{calls} calls");
}

/// W3: the retry comes before the mini-batches in the worker's queue, which wait for the leader's decision.
#[test]
fn a_retry_comes_before_a_workers_queued_mini_batches() {
    let mut machine = running(RetryPolicy { max_try: 3, ..policy() }, 9);
    machine.handle(started(0, 0), secs(0));
    assert_eq!(given(&machine.handle(failed(0, 0, 1, FailureKind::Trap), secs(1))), ["0: !0.2"]);
    assert_eq!(given(&machine.handle(failed(0, 0, 2, FailureKind::Trap), secs(2))), ["0: !0.3"]);
    // After the last attempt, the worker does not wait, and the job ends.
    let actions = machine.handle(failed(0, 0, 3, FailureKind::Trap), secs(3));
    assert!(given(&actions).is_empty() && !winding_down(&actions).is_empty(), "{actions:#?}");
    // An input that cannot be decoded is not retried.
    let mut machine = running(RetryPolicy { max_try: 3, ..tolerant() }, 9);
    machine.handle(started(0, 0), secs(0));
    let actions = machine.handle(failed(0, 0, 1, FailureKind::BadInput), secs(1));
    assert_eq!(given(&actions), ["0: 2.1"]);
}

/// Lets attempt after attempt fail, each with the next of these failures. Returns the message of
/// the last failure, and whether a retry was granted.
fn reported_failure(failures: &[Failure]) -> (String, bool) {
    let mut machine = running(RetryPolicy { max_try: 9, ..tolerant() }, 1);
    machine.handle(started(0, 0), secs(0));
    let mut last = Vec::new();
    for (attempt, failure) in (1..).zip(failures) {
        last = machine.handle(failed_with(0, 0, attempt, failure.clone()), secs(1));
    }
    let reported = last.iter().find_map(|action| match action {
        MachineAction::Emit(EventKind::AttemptFinished { report, will_retry, .. }) => {
            Some((report.outcome.clone().unwrap_err().message, *will_retry))
        }
        _ => None,
    });
    let (message, will_retry) = reported.expect("each attempt is reported");
    let retry = format!("0: !0.{}", failures.len() + 1);
    assert_eq!(given(&last).contains(&retry), will_retry);
    let committed = last.iter().any(|action| matches!(action, MachineAction::Commit(_)));
    assert_eq!(committed, !will_retry, "the mini-batch ends if it is not tried again");
    (message, will_retry)
}

/// W3: a panic that occurs twice in the same way will occur again, so the remaining tries are skipped.
#[test]
fn two_identical_traps_end_the_retries() {
    let trap =
        |message: &str, stack: &str| Failure::new(FailureKind::Trap, message).with_detail(stack);
    let a = || trap("panicked at src/lib.rs:1:1: a", "run");
    let message = "panicked at src/lib.rs:1:1: a (not tried again, because attempt 2 failed in exactly the same way)";
    assert_eq!(reported_failure(&[trap("b", ""), a(), a()]), (message.to_owned(), false));
    // If the message or the stack differs, or another failure comes in between, the repetition may be chance.
    assert!(reported_failure(&[a()]).1);
    assert!(reported_failure(&[a(), trap("panicked at src/lib.rs:1:1: b", "run"), a()]).1);
    assert!(reported_failure(&[a(), trap("panicked at src/lib.rs:1:1: a", "elsewhere")]).1);
    assert!(reported_failure(&[a(), Failure::new(FailureKind::ScriptError, "busy"), a()]).1);
}

/// W3, C17: an error that the entry script returned gets all its tries, even if it is the same each time.
#[test]
fn identical_errors_use_all_tries() {
    use FailureKind::{BadOutput, BadResults, ScriptError, ShortResults};
    for kind in [ScriptError, BadOutput, BadResults, ShortResults] {
        let same = vec![Failure::new(kind, "no"); 8];
        assert_eq!(reported_failure(&same), ("no".to_owned(), true), "{kind:?}");
    }
}

/// After the last try, the message does not mention skipped tries.
#[test]
fn a_trap_on_the_last_try_is_reported_unchanged() {
    let mut machine = running(RetryPolicy { max_try: 2, ..tolerant() }, 1);
    let trap = || Failure::new(FailureKind::Trap, "no");
    machine.handle(failed_with(0, 0, 1, trap()), secs(1));
    let actions = machine.handle(failed_with(0, 0, 2, trap()), secs(2));
    let settled = actions.iter().find_map(|action| match action {
        MachineAction::Commit(settled) => Some(settled.report.outcome.clone().unwrap_err().message),
        _ => None,
    });
    assert_eq!(settled.as_deref(), Some("no"));
}

/// W3: a retry goes to another worker if one is free.
#[test]
fn a_retry_goes_to_another_free_worker() {
    for failing in [0, 1] {
        let mut machine = new(RetryPolicy { workers: 2, ..policy() });
        machine.handle(MachineMessage::Planned(batches(2)), secs(0));
        machine.handle(ready(0), secs(0));
        machine.handle(ready(1), secs(0));
        let other = 1 - failing;
        machine.handle(done(other, other.into()), secs(1));
        let actions =
            machine.handle(failed(failing, failing.into(), 1, FailureKind::Trap), secs(2));
        assert_eq!(
            given(&actions),
            [format!("{other}: {failing}.2"), format!("{failing}: continues")]
        );
    }
}

/// W3: a retry does not wait for the slow `init` of a new instance if another worker is free earlier.
#[test]
fn a_retry_does_not_wait_for_a_slow_init() {
    let mut machine = new(RetryPolicy { workers: 2, ..policy() });
    machine.handle(MachineMessage::Planned(batches(9)), secs(0));
    machine.handle(ready(0), secs(5));
    machine.handle(ready(1), secs(5));
    machine.handle(started(0, 0), secs(5));
    machine.handle(started(1, 2), secs(5));
    let actions = machine.handle(failed(0, 0, 1, FailureKind::Trap), secs(6));
    assert_eq!(given(&actions), ["0: continues"]);
    machine.handle(MachineMessage::Restarting(W0), secs(6));
    assert!(given(&machine.handle(done(1, 2), secs(6))).is_empty(), "it has one ahead");
    machine.handle(started(1, 3), secs(6));
    assert_eq!(given(&machine.handle(done(1, 3), secs(7)))[0], "1: 0.2");
    // After an error, the instance is intact.
    let mut machine = running(RetryPolicy { max_try: 3, ..policy() }, 9);
    machine.handle(started(0, 0), secs(5));
    let actions = machine.handle(failed(0, 0, 1, FailureKind::ScriptError), secs(6));
    assert_eq!(given(&actions), ["0: !0.2"]);
}

/// After two retries, a first attempt is next.
#[test]
fn retries_leave_turns_for_first_attempts() {
    let mut machine = running(RetryPolicy { max_try: 100, ..tolerant() }, 9);
    machine.handle(started(0, 0), secs(0));
    let mut turns = Vec::new();
    let mut queue: VecDeque<(u64, u32)> = [(0, 1), (1, 1)].into();
    for _ in 0..9 {
        let (id, attempt) = queue.pop_front().expect("work");
        let message = if id == 0 { failed(0, id, attempt, FailureKind::Trap) } else { done(0, id) };
        for action in machine.handle(message, secs(1)) {
            match action {
                MachineAction::Assign(_, a) => queue.push_back((a.mini_batch.id.0, a.attempt)),
                MachineAction::AssignFirst(_, a) => {
                    queue.push_front((a.mini_batch.id.0, a.attempt));
                }
                _ => {}
            }
        }
        let (id, _) = *queue.front().expect("work");
        machine.handle(started(0, id), secs(1));
        turns.push(id);
    }
    assert_eq!(turns, [0, 0, 1, 0, 0, 2, 0, 0, 3]);
}

/// A mini-batch that could not be read is retried after a moment, or once enough other attempts have begun.
#[test]
fn a_retry_after_a_read_failure_is_delayed() {
    let mut machine = running(RetryPolicy { max_try: 3, ..policy() }, 1);
    let actions = machine.handle(failed(0, 0, 1, FailureKind::LoadFailed), secs(1));
    assert_eq!(given(&actions), ["0: continues"]);
    let due = secs(1) + RetryPolicy::retry_pause(1);
    assert_eq!(machine.next_deadline(), Some(due));
    assert_eq!(given(&machine.handle(MachineMessage::Tick, due)), ["0: 0.2"]);
    let actions = machine.handle(failed(0, 0, 2, FailureKind::LoadFailed), due);
    assert_eq!(given(&actions), ["0: continues"]);
    assert_eq!(machine.next_deadline(), Some(due + RetryPolicy::retry_pause(2)));
    assert!(RetryPolicy::retry_pause(2) > RetryPolicy::retry_pause(1));
    // If there is other work, the retry comes after one other mini-batch.
    let mut machine = running(RetryPolicy { max_try: 3, ..policy() }, 9);
    let actions = machine.handle(failed(0, 0, 1, FailureKind::LoadFailed), secs(1));
    assert_eq!(given(&actions), ["0: continues"]);
    machine.handle(started(0, 1), secs(1));
    assert_eq!(given(&machine.handle(done(0, 1), secs(1)))[0], "0: 0.2");
}

/// C9: no attempt begins while pending commits may exceed the threshold of failed items.
#[test]
fn nothing_begins_while_pending_commits_may_end_the_job() {
    let mut machine = running(policy(), 9);
    let actions = machine.handle(report(0, 1, 1, segment()), secs(1));
    assert!(given(&actions).is_empty() && machine.wants_commits(), "{actions:#?}");
    assert!(winding_down(&machine.handle(committed(0), secs(1))).contains("error_threshold"));
    // If the result is rejected instead, it is retried.
    let mut machine = running(policy(), 9);
    machine.handle(report(0, 1, 1, segment()), secs(1));
    let refused = Failure::new(FailureKind::BadOutput, "a link");
    machine.handle(MachineMessage::Rejected(MiniBatchId(0), refused), secs(1));
    assert!(!machine.wants_commits());
}

/// C11: if no mini-batch may fail, the first failure ends the job, however much is still to be planned.
#[test]
fn the_first_failure_exceeds_an_allowed_share_of_zero() {
    let percent = |text: &str| text.parse::<AllowedPercent>().expect("a percentage");
    let ends = |text| {
        let mut machine = new(RetryPolicy { allowed_failed_percent: percent(text), ..tolerant() });
        machine.handle(MachineMessage::Planned(batches(4)), secs(0));
        machine.handle(ready(0), secs(0));
        winding_down(&machine.handle(report(0, 1, 0, trap()), secs(1)))
    };
    insta::assert_snapshot!(ends("0"), @"1 of 4 mini-batches so far failed, a larger share than allowed_failed_percent allows (0 %); to continue despite failures, set allowed_failed_percent to the share to tolerate, or to 100");
    assert_eq!(ends("0.5"), "");
}
