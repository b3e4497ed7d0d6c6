//! Rules C16 and A1 to A3 in docs/parallel-run-step.md: time-outs.

use super::*;
use crate::model::EndedBy;

/// W2, C16.
#[test]
fn a_time_out_starts_with_run_and_kills_the_worker() {
    let mut machine = running(policy(), 1);
    assert_eq!(machine.next_deadline(), Some(secs(600)));
    machine.handle(MachineMessage::Started(W0, MiniBatchId(0)), secs(10));
    assert_eq!(machine.next_deadline(), Some(secs(70)));
    assert!(machine.handle(MachineMessage::Tick, secs(69)).is_empty());
    let actions = machine.handle(MachineMessage::Tick, secs(70));
    assert!(matches!(actions[0], MachineAction::Kill(W0)));
    assert_eq!(attempt_failure_kind(&actions), Some(FailureKind::Timeout));
    assert!(actions.iter().any(|action| matches!(action, MachineAction::Spawn(WorkerId(1), _))));
    // A result that the killed worker reports afterwards is too late, and is counted once.
    let actions = machine.handle(report(0, 1, 2, segment()), secs(70));
    let late = |worker: &str, attempt| EventKind::AttemptDiscarded {
        worker: worker.into(),
        id: MiniBatchId(0),
        attempt,
        succeeded: true,
    };
    assert!(matches!(&actions[..], [MachineAction::Emit(kind)] if *kind == late("process000", 1)));
    assert!(machine.handle(report(0, 1, 2, segment()), secs(70)).is_empty());
}

/// C16, T6: the message names the setting, its value, and what to change.
#[test]
fn a_run_time_out_message_gives_advice() {
    let mut machine = running(tolerant(), 1);
    machine.handle(started(0, 0), secs(0));
    let actions = machine.handle(MachineMessage::Tick, secs(60));
    let failure = attempt_failure(&actions).expect("a failed attempt");
    assert_eq!(failure.kind.status_word(), "RUN_TIMEOUT");
    insta::assert_snapshot!(
        failure,
        @"run took longer than run_invocation_timeout (60 s); the worker was killed. Raise the time-out, or make mini-batches smaller (mini_batch_size)"
    );
}

/// The message of a time-out names the model, but only if inference is still running.
#[test]
fn a_time_out_names_the_model_that_computed() {
    let mut machine = running(tolerant(), 1);
    machine.handle(started(0, 0), secs(0));
    let activity = "computing with the model \"digits\" for the last 59.9 s";
    machine.handle(MachineMessage::Inferring(W0, activity.to_owned()), secs(59));
    assert!(machine.handle(MachineMessage::Tick, secs(59)).is_empty());
    assert_eq!(machine.inside_guests(secs(60)).collect::<Vec<_>>(), [(W0, secs(60))]);
    machine.handle(MachineMessage::Inferring(W0, activity.to_owned()), secs(60));
    let failure =
        attempt_failure(&machine.handle(MachineMessage::Tick, secs(60))).expect("a failed attempt");
    insta::assert_snapshot!(failure, @r#"run took longer than run_invocation_timeout (60 s), and was computing with the model "digits" for the last 59.9 s; the worker was killed. Raise the time-out, or make mini-batches smaller (mini_batch_size)"#);
    let mut machine = running(tolerant(), 1);
    machine.handle(started(0, 0), secs(0));
    machine.handle(MachineMessage::Inferring(W0, activity.to_owned()), secs(59));
    machine.handle(MachineMessage::Tick, secs(59));
    let failure =
        attempt_failure(&machine.handle(MachineMessage::Tick, secs(60))).expect("a failed attempt");
    assert!(!failure.message.contains("computing"), "{failure}");
}

/// A1, W13: the time for loading is separate from the time of `run`.
#[test]
fn a_time_out_of_loading_has_its_own_status_word() {
    let mut machine = running(tolerant(), 1);
    assert!(machine.handle(MachineMessage::Tick, secs(599)).is_empty());
    let actions = machine.handle(MachineMessage::Tick, secs(600));
    assert_eq!(killed(&actions), [0]);
    let failure = attempt_failure(&actions).expect("a failed attempt");
    assert_eq!(failure.kind.status_word(), "LOAD_TIMEOUT");
    insta::assert_snapshot!(
        failure,
        @"loading the mini-batch took longer than task_overhead_timeout (600 s); the worker was killed. Raise the time-out, or make mini-batches smaller (mini_batch_size)"
    );
}

/// A worker whose `shutdown` hangs is killed with a notice, and the job still completes.
#[test]
fn a_time_out_of_shutdown_kills_and_the_job_completes() {
    let mut machine = running(policy(), 1);
    machine.handle(report(0, 1, 2, segment()), secs(1));
    machine.handle(committed(0), secs(2));
    assert_eq!(machine.next_deadline(), Some(secs(61)));
    let actions = machine.handle(MachineMessage::Tick, secs(61));
    assert_eq!(killed(&actions), [0]);
    assert_eq!(
        notices(&actions),
        [
            "process000: shutdown took longer than run_invocation_timeout (60 s); the worker was killed"
        ]
    );
    assert_eq!(result(&machine.handle(exit(None, Some(9)), secs(63))).ended_by, None);
}

/// A3: the job fails if there is no first mini-batch within a set time from the job's start.
#[test]
fn a_job_without_a_first_mini_batch_fails_in_time() {
    let mut machine = new(RetryPolicy { first_task_timeout: secs(5), ..policy() });
    assert_eq!(machine.next_deadline(), Some(secs(5)));
    machine.handle(MachineMessage::Notice("a file is empty".into()), secs(4));
    let actions = machine.handle(MachineMessage::Tick, secs(5));
    let result = result(&actions);
    assert_eq!(result.ended_by, Some(EndedBy::FirstTaskTimeout));
    insta::assert_snapshot!(
        result.reason,
        @"no mini-batch existed 5 s after the job's start, longer than first_task_creation_timeout allows (5 s): the inputs take too long to list or to read. Raise first_task_creation_timeout, or make the inputs faster to list: fewer files in a folder, a list of files, or faster storage"
    );
    // One mini-batch is enough.
    let mut machine = new(RetryPolicy { first_task_timeout: secs(5), ..policy() });
    machine.handle(MachineMessage::Planned(batches(1)), secs(4));
    assert!(machine.handle(MachineMessage::Tick, secs(5)).is_empty());
}

/// A2, T7: any progress postpones the end. A planner that hangs makes no progress.
#[test]
fn a_job_without_progress_fails() {
    let mut machine =
        new(RetryPolicy { progress_timeout: secs(50), run_timeout: secs(100), ..policy() });
    machine.handle(MachineMessage::Planned(batches(4)), secs(10));
    for (message, at) in [
        (ready(0), 50),
        (started(0, 0), 90),
        (report(0, 1, 2, segment()), 130),
        (committed(0), 170),
    ] {
        assert_eq!(machine.next_deadline().map(|due| due > secs(at)), Some(true));
        machine.handle(message, secs(at));
        assert_eq!(machine.next_deadline(), Some(secs(at + 50)));
    }
    machine.handle(MachineMessage::Planned(Vec::new()), secs(200));
    machine.handle(MachineMessage::Notice("still here".into()), secs(210));
    assert!(machine.handle(MachineMessage::Tick, secs(219)).is_empty());
    let actions = machine.handle(MachineMessage::Tick, secs(221));
    insta::assert_snapshot!(
        winding_down(&actions),
        @"no progress for 51 s, longer than progress_update_timeout allows (50 s); at that time 1 worker was loading a mini-batch, the inputs were still being cut into mini-batches. See logs/sys/error, then a profile (profiling_module); raise progress_update_timeout if the job was only slow"
    );
    let actions = machine.handle(exit(None, Some(9)), secs(222));
    assert_eq!(result(&actions).ended_by, Some(EndedBy::ProgressTimeout));
}

/// If several deadlines pass at the same moment, all are handled.
#[test]
fn simultaneous_deadlines_are_all_handled() {
    let mut machine = new(RetryPolicy { workers: 2, run_timeout: secs(10), ..policy() });
    machine.handle(MachineMessage::Planned(batches(9)), secs(0));
    machine.handle(ready(0), secs(20));
    machine.handle(started(0, 0), secs(20));
    assert_eq!(killed(&machine.handle(MachineMessage::Tick, secs(30))), [0]);
    // The leader was held up. Worker 0 should have been gone at 60 s. Worker 1, and the worker that replaced
    // worker 0, have exceeded the time for `init`.
    let actions = machine.handle(MachineMessage::Tick, secs(90));
    assert!(winding_down(&actions).contains("inside init"), "{actions:#?}");
    assert!(machine.next_deadline() > Some(secs(90)));
}

/// A2: a disk that does not respond ends the job, and until then workers get no further mini-batches.
#[test]
fn a_silent_disk_stops_grants_and_ends_the_job() {
    let count = RetryPolicy::UNWRITTEN as u64 + 10;
    let policy = RetryPolicy { progress_timeout: secs(900), load_timeout: secs(9000), ..policy() };
    let mut machine = running(policy, count);
    let mut last = Vec::new();
    for id in 0..RetryPolicy::UNWRITTEN as u64 {
        last = machine.handle(report(id, 1, 2, segment()), secs(1));
    }
    assert_eq!(assigned(&last), []);
    // The worker already holds a mini-batch that was granted before the disk became too slow.
    assert_eq!(assigned(&machine.handle(report(4096, 1, 2, segment()), secs(1))), []);
    let actions =
        machine.handle(MachineMessage::Committed((0..3).map(MiniBatchId).collect()), secs(2));
    assert_eq!(assigned(&actions), [(4097, 1), (4098, 1)]);
    let actions = machine.handle(MachineMessage::Tick, secs(902));
    assert!(notices(&actions).iter().any(|text| text.contains("could not be written")));
    let actions = machine.handle(exit(None, Some(9)), secs(903));
    assert_eq!(result(&actions).ended_by, Some(EndedBy::ProgressTimeout));
}
