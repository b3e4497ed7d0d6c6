//! A machine that other jobs also use.

use super::*;

fn no_room(worker: u32) -> MachineMessage {
    MachineMessage::NoRoom(WorkerId(worker))
}

/// Waiting for other jobs does not count as a lack of progress, however long it takes. A
/// cancellation ends the wait.
#[test]
fn a_job_waits_for_its_turn() {
    let policy = RetryPolicy { workers: 2, progress_timeout: secs(25), ..policy() };
    let mut machine = new(policy);
    let actions = machine.handle(MachineMessage::Planned(batches(9)), secs(0));
    assert_eq!(spawned(&actions), [(0, None), (1, None)]);
    let actions = machine.handle(no_room(0), secs(0));
    insta::assert_snapshot!(notices(&actions).concat(), @"the job waits for its turn: other jobs use all that this machine gives to jobs (machine, in the operator's policy)");
    assert!(machine.handle(no_room(1), secs(0)).is_empty(), "reported once");
    for second in 1..100 {
        let actions = machine.handle(MachineMessage::Tick, secs(second));
        assert_eq!(spawned(&actions), [(0, None), (1, None)], "the numbers are used again");
        assert!(machine.handle(no_room(0), secs(second)).is_empty());
        assert!(machine.handle(no_room(1), secs(second)).is_empty());
        assert_eq!(machine.next_deadline(), Some(secs(second) + NodePolicy::ROOM_PAUSE));
    }
    let actions = machine.handle(MachineMessage::Tick, secs(100));
    assert_eq!(spawned(&actions), [(0, None), (1, None)]);
    let actions = machine.handle(MachineMessage::Spawned(W0, 17), secs(100));
    insta::assert_snapshot!(notices(&actions).concat(), @"the job continues: after 100 s, the machine has room for it");
    let actions = machine.handle(no_room(1), secs(100));
    insta::assert_snapshot!(notices(&actions).concat(), @"fewer than 2 workers run: other jobs use the rest of what this machine gives to jobs (machine, in the operator's policy); more workers are started when there is room");
    let cancel = MachineMessage::Cancel { reason: "interrupted".into(), at_once: false };
    assert_eq!(killed(&machine.handle(cancel, secs(101))), [0]);

    let mut machine = new(RetryPolicy { workers: 1, ..super::policy() });
    machine.handle(MachineMessage::Planned(batches(9)), secs(0));
    machine.handle(no_room(0), secs(0));
    let cancel = MachineMessage::Cancel { reason: "interrupted".into(), at_once: false };
    let actions = machine.handle(cancel, secs(1));
    assert_eq!(result(&actions).status, crate::model::JobStatus::Cancelled);
}

/// A killed worker counts against the machine's limits until it is gone. Waiting for its end is not reported
/// as waiting for other jobs.
#[test]
fn an_ended_workers_place_is_refilled_at_once() {
    let mut machine = running(policy(), 8);
    machine.handle(started(0, 0), secs(1));
    let failure = Failure::new(FailureKind::OutOfMemory, "too much");
    let actions = machine.handle(MachineMessage::Overrun(W0, failure), secs(2));
    assert_eq!(spawned(&actions), [(1, None)]);
    assert!(machine.handle(no_room(1), secs(2)).is_empty(), "nothing to report");
    let actions = machine.handle(exit(None, Some(9)), secs(2));
    assert_eq!(spawned(&actions), [(1, None)]);
    assert!(notices(&machine.handle(MachineMessage::Spawned(WorkerId(1), 18), secs(2))).is_empty());
}
