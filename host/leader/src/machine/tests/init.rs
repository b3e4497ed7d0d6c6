//! Rules I1 to I3 in docs/parallel-run-step.md: failures of `init`, with one node.

use super::*;
use crate::model::{EndedBy, JobStatus};

#[test]
fn init_failures_in_a_row_end_the_job() {
    let mut machine = new(policy());
    machine.handle(MachineMessage::Planned(batches(1)), secs(0));
    for worker in 0..3 {
        let failure = Failure::new(FailureKind::ScriptError, "no weights");
        let actions =
            machine.handle(MachineMessage::InitFailed(WorkerId(worker), failure), secs(1));
        let spawns = actions.iter().any(|action| matches!(action, MachineAction::Spawn(..)));
        assert_eq!(spawns, worker < 2, "3 x process_count_per_node");
        let exit = WorkerExit { code: Some(3), ..WorkerExit::default() };
        let actions = machine.handle(MachineMessage::Exited(WorkerId(worker), exit), secs(1));
        if worker == 2 {
            let result = result(&actions);
            assert_eq!(result.status, JobStatus::Failed);
            assert_eq!(
                result.reason,
                "init failed 3 times in a row, on every worker that was started: no weights"
            );
            let first = result.first_failure.as_ref().expect("a first cause");
            assert_eq!(first.worker.as_deref(), Some("process000"));
        }
    }
}

#[test]
fn a_job_whose_workers_all_hang_in_init_fails() {
    let mut machine = new(policy());
    machine.handle(MachineMessage::Planned(batches(1)), secs(5));
    assert_eq!(machine.next_deadline(), Some(secs(5 + 3 * 60 + 30)));
    let actions = machine.handle(MachineMessage::Tick, secs(215));
    assert!(actions.iter().any(|action| matches!(action, MachineAction::Kill(W0))));
    let actions = machine.handle(exit(None, Some(9)), secs(216));
    assert!(result(&actions).reason.starts_with("no progress"));
}

fn two_workers() -> LocalMachine {
    let mut machine = new(RetryPolicy { workers: 2, ..policy() });
    machine.handle(MachineMessage::Planned(batches(9)), secs(0));
    machine
}

/// I1: the job ends at exactly 3 x process_count_per_node failures, and no more workers than that are
/// started.
#[test]
fn i1_ends_at_three_times_the_count() {
    for workers in 1..=5 {
        let mut machine = new(RetryPolicy { workers, ..policy() });
        let mut started =
            spawned(&machine.handle(MachineMessage::Planned(batches(9)), secs(0))).len();
        for worker in 0..3 * workers {
            let actions = fail_init(&mut machine, worker, secs(1));
            let is_last = worker + 1 == 3 * workers;
            assert_eq!(winding_down(&actions).is_empty(), !is_last, "failure {}", worker + 1);
            started += spawned(&actions).len();
        }
        assert_eq!(started, 3 * workers as usize);
    }
}

/// I1: no further worker is started if failures of all workers inside `init` would reach the limit.
/// Workers are started again when `init` succeeds.
#[test]
fn i1_continues_when_the_last_worker_succeeds() {
    let mut machine = two_workers();
    for worker in 0..5 {
        fail_init(&mut machine, worker, secs(1));
    }
    assert_eq!(spawned(&machine.handle(ready(5), secs(2))), [(6, None)]);
}

/// I1: only consecutive failures count. One successful `init` resets the count.
#[test]
fn i1_counts_from_the_last_good_init() {
    let mut machine = two_workers();
    for worker in 0..5 {
        fail_init(&mut machine, worker, secs(1));
    }
    machine.handle(ready(5), secs(1));
    machine.handle(exit_of(5, None, Some(11)), secs(1));
    // Workers 6 and 7 are running now, and each that fails is replaced.
    for worker in 6..12 {
        let actions = fail_init(&mut machine, worker, secs(2));
        assert_eq!(winding_down(&actions).is_empty(), worker < 11, "failure {}", worker - 5);
    }
}

/// I1: no new workers are started, but the worker that runs continues. The job fails when this worker dies.
#[test]
fn i1_keeps_working_workers_running() {
    let mut machine = two_workers();
    machine.handle(ready(0), secs(1));
    for worker in 1..7 {
        let actions = fail_init(&mut machine, worker, secs(2));
        assert_eq!(winding_down(&actions), "");
        assert_eq!(spawned(&actions).len(), usize::from(worker < 6));
        if worker == 6 {
            assert_eq!(
                notices(&actions),
                [
                    "init failed 6 times in a row: no new workers are started, and the job continues \
                  with the workers that it has"
                ]
            );
        }
    }
    assert_eq!(assigned(&machine.handle(report(0, 1, 2, segment()), secs(3))).len(), 1);
    machine.handle(committed(0), secs(3));
    let actions = machine.handle(exit(None, Some(11)), secs(4));
    let result = result(&actions);
    assert_eq!(result.ended_by, Some(EndedBy::InitFailures));
    let first = result.first_failure.as_ref().expect("a failure");
    assert_eq!(first.failure.message, "no weights", "not the death of the good worker");
}

/// I2: an old job does not end at 2 x count failures, but at one failure more.
#[test]
fn i2_ends_an_old_job_above_two_times_the_count() {
    for (last, ends) in [(119, false), (120, false), (121, true)] {
        let mut machine = two_workers();
        for worker in 0..3 {
            fail_init(&mut machine, worker, secs(1));
        }
        // The fourth failure: exactly 2 x 2.
        assert_eq!(winding_down(&fail_init(&mut machine, 3, secs(last))), "");
        // The fifth failure is one more.
        let reason = winding_down(&fail_init(&mut machine, 4, secs(last)));
        assert_eq!(reason.is_empty(), !ends, "at {last} s");
    }
}

/// I2: a job with too many failures ends as soon as it is old, without another failure.
#[test]
fn i2_ends_a_job_when_it_becomes_old() {
    let mut machine = two_workers();
    for worker in 0..5 {
        fail_init(&mut machine, worker, secs(1));
    }
    let due = machine.next_deadline().expect("a deadline");
    assert_eq!(due, secs(120) + Duration::from_millis(1));
    assert_eq!(winding_down(&machine.handle(MachineMessage::Tick, secs(120))), "");
    assert!(
        winding_down(&machine.handle(MachineMessage::Tick, due)).starts_with("init failed 5 times")
    );
}

/// I2: the rule requires that all workers fail, and one works here.
#[test]
fn i2_needs_all_workers_to_fail() {
    let mut machine = two_workers();
    machine.handle(ready(0), secs(1));
    for worker in 1..6 {
        assert_eq!(winding_down(&fail_init(&mut machine, worker, secs(121))), "");
    }
}

/// I3: the job is stuck only once the last worker has been inside `init` for too long.
#[test]
fn i3_needs_all_workers_to_be_stuck() {
    let mut machine = two_workers();
    machine.handle(exit_of(1, Some(1), None), secs(5));
    // Worker 0 has been inside since 0 s, and worker 2 since 5 s.
    assert_eq!(machine.next_deadline(), Some(secs(5 + 210)));
    assert_eq!(winding_down(&machine.handle(MachineMessage::Tick, secs(214))), "");
    let actions = machine.handle(MachineMessage::Tick, secs(215));
    insta::assert_snapshot!(
        winding_down(&actions),
        @"no progress: every worker has been inside init for more than 210 s (3 x run_invocation_timeout + 30 s); see what init waits for, do less in it, or raise run_invocation_timeout"
    );
    machine.handle(exit_of(0, None, Some(9)), secs(216));
    let actions = machine.handle(exit_of(2, None, Some(9)), secs(216));
    assert_eq!(result(&actions).ended_by, Some(EndedBy::StuckInInit));
    assert!(result(&actions).first_failure.is_some());
    // A worker that is past `init` keeps the job going.
    let mut machine = two_workers();
    machine.handle(ready(0), secs(0));
    assert_eq!(winding_down(&machine.handle(MachineMessage::Tick, secs(210))), "");
}

/// I1, I3: a time-out inside `init` is a failure of `init`. A kill by another process is one too. The worker
/// is replaced.
#[test]
fn a_time_out_or_kill_in_init_counts() {
    let init_failure = |actions: &[MachineAction]| {
        actions.iter().find_map(|action| match action {
            MachineAction::Emit(EventKind::InitFailed { failure, .. }) => Some(failure.kind),
            _ => None,
        })
    };
    let mut machine = two_workers();
    machine.handle(ready(0), secs(0));
    assert!(machine.next_deadline() <= Some(secs(210)));
    let actions = machine.handle(MachineMessage::Tick, secs(210));
    assert_eq!(killed(&actions), [1]);
    assert_eq!(init_failure(&actions), Some(FailureKind::Timeout));
    assert_eq!(spawned(&actions), [(2, None)]);
    let actions = machine.handle(exit_of(2, None, Some(9)), secs(211));
    assert_eq!(init_failure(&actions), Some(FailureKind::OutOfMemory));
    // Two failures have counted. After four more, no new workers are started.
    for worker in 3..7 {
        let actions = fail_init(&mut machine, worker, secs(212));
        assert_eq!(notices(&actions).len(), usize::from(worker == 6));
    }
}

/// After a trap, the new instance fails in `init` while another worker works. No attempt is lost.
#[test]
fn a_restart_that_fails_in_init_costs_no_attempt() {
    for dies in [false, true] {
        let mut machine = new(RetryPolicy { workers: 2, ..policy() });
        machine.handle(MachineMessage::Planned(batches(9)), secs(0));
        machine.handle(ready(0), secs(0));
        machine.handle(ready(1), secs(0));
        machine.handle(report(0, 1, 0, trap()), secs(1));
        machine.handle(MachineMessage::Restarting(W0), secs(1));
        assert_eq!(machine.next_deadline(), Some(secs(1 + 210)), "the time of init counts");
        let actions = if dies {
            machine.handle(exit(None, Some(11)), secs(2))
        } else {
            machine.handle(MachineMessage::Tick, secs(211))
        };
        assert_eq!(attempt_failure_kind(&actions), None, "{actions:#?}");
        assert_eq!(assigned(&machine.handle(ready(2), secs(212)))[0], (0, 2), "not the third");
    }
}

/// The syscall filter of the sandbox kills a process that makes a syscall that no entry script needs.
#[test]
fn a_forbidden_syscall_is_reported_as_such() {
    let mut machine = two_workers();
    let actions = machine.handle(exit_of(1, None, Some(31)), secs(1));
    let failure = actions.iter().find_map(|action| match action {
        MachineAction::Emit(EventKind::InitFailed { failure, .. }) => Some(failure),
        _ => None,
    });
    let failure = failure.unwrap();
    assert_eq!(failure.kind, FailureKind::Forbidden);
    assert!(failure.message.contains("the system-call filter ended it"), "{failure}");
}
