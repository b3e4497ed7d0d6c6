//! Rules G1 and G2 in docs/parallel-run-step.md: which worker has which GPU.

use super::*;

fn four_workers(gpus: u32) -> (LocalMachine, Vec<(u32, Option<u32>)>) {
    let mut machine = new(RetryPolicy { workers: 4, gpus: (0..gpus).collect(), ..policy() });
    let first = spawned(&machine.handle(MachineMessage::Planned(batches(99)), secs(0)));
    (machine, first)
}

/// G1, G2: the documented example: 2 GPUs and 4 workers. Worker 0 stops, and worker 4 takes GPU 0.
#[test]
fn g2_a_new_worker_takes_the_freed_gpu_index() {
    let (mut machine, first) = four_workers(2);
    assert_eq!(first, [(0, Some(0)), (1, Some(1)), (2, None), (3, None)]);
    let actions = machine.handle(exit(Some(1), None), secs(1));
    assert_eq!(spawned(&actions), [(4, Some(0))]);
    // A worker without a GPU is replaced by one without a GPU.
    let actions = machine.handle(exit_of(3, Some(1), None), secs(2));
    assert_eq!(spawned(&actions), [(5, None)]);
}

/// G1: a killed worker keeps its GPU until its process is gone. Before that, no other worker is started for
/// this GPU.
#[test]
fn g1_a_lease_ends_with_the_process() {
    let (mut machine, _) = four_workers(2);
    for worker in 0..4 {
        machine.handle(ready(worker), secs(0));
    }
    machine.handle(started(0, 0), secs(0));
    let actions = machine.handle(MachineMessage::Tick, secs(60));
    assert_eq!((killed(&actions), spawned(&actions)), (vec![0], vec![]));
    let actions = machine.handle(exit(None, Some(9)), secs(61));
    assert_eq!(spawned(&actions), [(4, Some(0))]);
    // A worker without a GPU is replaced at once.
    machine.handle(started(2, 4), secs(61));
    let actions = machine.handle(MachineMessage::Tick, secs(121));
    assert_eq!((killed(&actions), spawned(&actions)), (vec![2], vec![(5, None)]));
}

/// G1: a process that cannot be killed keeps its GPU, and the user is notified.
#[test]
fn g1_a_lost_gpu_is_reported_and_returns_on_exit() {
    let mut machine = new(RetryPolicy { gpus: vec![0], ..policy() });
    machine.handle(MachineMessage::Planned(batches(9)), secs(0));
    machine.handle(ready(0), secs(0));
    machine.handle(started(0, 0), secs(0));
    machine.handle(MachineMessage::Tick, secs(60));
    let actions = machine.handle(MachineMessage::Tick, secs(90));
    assert_eq!(spawned(&actions), [(1, None)]);
    assert_eq!(
        notices(&actions),
        [
            "process000 was killed and does not end; the job continues without it",
            "process001 starts without a GPU: GPU 0 is not free, as process000 was killed but \
             does not end"
        ]
    );
    machine.handle(exit(None, Some(9)), secs(100));
    assert_eq!(spawned(&machine.handle(exit_of(1, Some(1), None), secs(101))), [(2, Some(0))]);
}

/// A job whose only worker ended at second 1, and whose GPU is still in use.
fn waiting_for_gpu(gpus: &[u32]) -> (LocalMachine, Vec<MachineAction>) {
    let mut machine = new(RetryPolicy { gpus: gpus.to_vec(), ..policy() });
    machine.handle(MachineMessage::Planned(batches(9)), secs(0));
    machine.handle(ready(0), secs(0));
    let MachineMessage::Exited(worker, exit) = exit(None, Some(9)) else { unreachable!() };
    let holds = WorkerExit { holds_gpu: true, ..exit };
    let actions = machine.handle(MachineMessage::Exited(worker, holds), secs(1));
    (machine, actions)
}

/// G1: while a GPU's memory is in use, no worker gets the GPU, and the job waits for it.
#[test]
fn g1_a_lease_ends_when_the_gpu_is_free() {
    let (mut machine, actions) = waiting_for_gpu(&[0]);
    assert_eq!(spawned(&actions), []);
    let actions = machine.handle(MachineMessage::GpuFree(WorkerId(0)), secs(3));
    assert_eq!(notices(&actions), ["GPU 0, which process000 had, is free again"]);
    assert_eq!(spawned(&actions), [(1, Some(0))]);
    // If another GPU is free, the job does not wait.
    let (_, actions) = waiting_for_gpu(&[0, 1]);
    assert_eq!(spawned(&actions), [(1, Some(1))]);
}

/// G1: after a minute, the job continues without a GPU whose memory is still in use.
#[test]
fn g1_waiting_for_a_busy_gpu_has_a_limit() {
    let (mut machine, _) = waiting_for_gpu(&[0]);
    assert_eq!(machine.next_deadline(), Some(secs(61)));
    assert_eq!(spawned(&machine.handle(MachineMessage::Tick, secs(60))), []);
    let actions = machine.handle(MachineMessage::Tick, secs(61));
    assert_eq!(spawned(&actions), [(1, None)]);
    assert_eq!(
        notices(&actions),
        ["process001 starts without a GPU: GPU 0 is not free, as process000 has ended, but \
             its GPU memory is still in use"]
    );
    let actions = machine.handle(exit_of(1, Some(1), None), secs(62));
    assert_eq!((spawned(&actions), notices(&actions).len()), (vec![(2, None)], 0), "reported once");
    machine.handle(MachineMessage::GpuFree(WorkerId(0)), secs(63));
    assert_eq!(spawned(&machine.handle(exit_of(2, Some(1), None), secs(64))), [(3, Some(0))]);
}

/// G2: without GPUs, no worker has one. The index is reported when a worker starts.
#[test]
fn g2_the_gpu_index_is_reported() {
    let (_, first) = four_workers(0);
    assert!(first.iter().all(|(_, gpu)| gpu.is_none()));
    let (mut machine, _) = four_workers(2);
    for (worker, gpu) in [(1, Some(1)), (2, None)] {
        let actions = machine.handle(MachineMessage::Spawned(WorkerId(worker), 17), secs(0));
        assert!(
            matches!(&actions[..], [MachineAction::Emit(EventKind::WorkerStarted { gpu_index, .. })] if *gpu_index == gpu),
            "{actions:#?}"
        );
    }
}

/// G1: other jobs may have the GPUs with lower indices.
#[test]
fn g1_a_job_has_the_gpus_that_it_took() {
    let mut machine = new(RetryPolicy { workers: 3, gpus: vec![5, 2], ..policy() });
    let first = spawned(&machine.handle(MachineMessage::Planned(batches(99)), secs(0)));
    assert_eq!(first, [(0, Some(2)), (1, Some(5)), (2, None)]);
    let actions = machine.handle(exit_of(1, Some(1), None), secs(1));
    assert_eq!(spawned(&actions), [(3, Some(5))]);
}

/// A process that could not be started holds no GPU.
#[test]
fn a_failed_start_gives_its_gpu_back() {
    let (mut machine, _) = four_workers(2);
    machine.handle(MachineMessage::SpawnFailed(WorkerId(1), "no room".into()), secs(0));
    let actions = machine.handle(MachineMessage::Tick, secs(10));
    assert_eq!(spawned(&actions), [(4, Some(1))]);
}
