//! Tests of each rule of docs/parallel-run-step.md (C9, W3 and so on), with one node except in `nodes`, `twins` and `fetches`. This
//! file has the common helpers.

mod attempts;
mod cancel;
mod ending;
mod fetches;
mod full_disks;
mod init;
mod joined;
mod leases;
mod limits;
mod nodes;
mod restored;
mod retries;
mod room;
mod thresholds;
mod time_outs;
mod twins;

use super::{LocalMachine, MachineAction, MachineMessage, RetryPolicy};
use crate::event::EventKind;
use crate::model::WorkerExit;
use crate::model::{
    AllowedPercent, AttemptReport, CallStats, ErrorThreshold, Failure, FailureKind, ItemCounts,
    JobLimits, JobResult, MiniBatch, MiniBatchId, MiniBatchWork, OutputAction, Restored, Segment,
    WorkerId,
};
use crate::protocol::{NodePolicy, QueuePolicy};
use jiff::Timestamp;
use std::time::Duration;

const W0: WorkerId = WorkerId(0);

pub(super) fn policy() -> RetryPolicy {
    RetryPolicy {
        workers: 1,
        node_count: None,
        max_try: 2,
        error_threshold: ErrorThreshold::AtMost(0),
        allowed_failed_count: ErrorThreshold::Ignore,
        allowed_failed_percent: AllowedPercent::ALL,
        run_timeout: secs(60),
        load_timeout: secs(600),
        first_task_timeout: secs(600),
        progress_timeout: secs(86_400),
        gpus: Vec::new(),
        output_action: OutputAction::AppendRow,
        limits: JobLimits::default(),
    }
}

/// A policy that tolerates every failure, and tries each mini-batch once.
fn tolerant() -> RetryPolicy {
    RetryPolicy { error_threshold: ErrorThreshold::Ignore, max_try: 1, ..policy() }
}

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// This many mini-batches of two items each.
fn batches(count: u64) -> Vec<MiniBatch> {
    let batch = |id| MiniBatch::new(MiniBatchId(id), 0, MiniBatchWork::Files(["a", "b"].into()));
    (0..count).map(batch).collect()
}

fn new(policy: RetryPolicy) -> LocalMachine {
    LocalMachine::new(policy, Vec::new(), Timestamp::UNIX_EPOCH, Restored::default())
}

/// A job whose plan is complete and whose first worker is ready.
fn running(policy: RetryPolicy, count: u64) -> LocalMachine {
    let mut machine = new(policy);
    machine.handle(MachineMessage::Planned(batches(count)), secs(0));
    machine.handle(MachineMessage::PlanFinished, secs(0));
    machine.handle(ready(0), secs(0));
    machine
}

fn ready(worker: u32) -> MachineMessage {
    MachineMessage::Ready(WorkerId(worker), CallStats::default())
}

fn started(worker: u32, id: u64) -> MachineMessage {
    MachineMessage::Started(WorkerId(worker), MiniBatchId(id))
}

fn committed(id: u64) -> MachineMessage {
    MachineMessage::Committed(vec![MiniBatchId(id)])
}

fn report(
    id: u64,
    attempt: u32,
    succeeded: u64,
    outcome: Result<Segment, Failure>,
) -> MachineMessage {
    MachineMessage::Finished(
        W0,
        Box::new(AttemptReport {
            id: MiniBatchId(id),
            attempt,
            items: ItemCounts::from_returned(2, succeeded),
            is_short: succeeded < 2 && outcome.is_ok(),
            outcome,
            elapsed_seconds: 1.0,
            ..AttemptReport::sample()
        }),
    )
}

fn segment() -> Result<Segment, Failure> {
    Ok(Segment { length: 4, rows: 2, ..Segment::sample() })
}

fn trap() -> Result<Segment, Failure> {
    Err(Failure::new(FailureKind::Trap, "wasm trap"))
}

fn init_failed(worker: u32) -> MachineMessage {
    let failure = Failure::new(FailureKind::ScriptError, "no weights");
    MachineMessage::InitFailed(WorkerId(worker), failure)
}

fn exit(code: Option<i32>, signal: Option<i32>) -> MachineMessage {
    exit_of(0, code, signal)
}

fn exit_of(worker: u32, code: Option<i32>, signal: Option<i32>) -> MachineMessage {
    MachineMessage::Exited(WorkerId(worker), WorkerExit { code, signal, ..WorkerExit::default() })
}

/// Makes a worker's `init` fail, and the worker exit. Returns the actions after the failure.
fn fail_init(machine: &mut LocalMachine, worker: u32, at: Duration) -> Vec<MachineAction> {
    let actions = machine.handle(init_failed(worker), at);
    machine.handle(exit_of(worker, Some(3), None), at);
    actions
}

/// The mini-batches and attempt numbers that were assigned to workers.
fn assigned(actions: &[MachineAction]) -> Vec<(u64, u32)> {
    let pick = |action: &MachineAction| match action {
        MachineAction::Assign(_, a) | MachineAction::AssignFirst(_, a) => {
            Some((a.mini_batch.id.0, a.attempt))
        }
        _ => None,
    };
    actions.iter().filter_map(pick).collect()
}

/// The workers that were started, and their GPUs.
fn spawned(actions: &[MachineAction]) -> Vec<(u32, Option<u32>)> {
    let pick = |action: &MachineAction| match action {
        MachineAction::Spawn(worker, gpu) => Some((worker.0, *gpu)),
        _ => None,
    };
    actions.iter().filter_map(pick).collect()
}

fn killed(actions: &[MachineAction]) -> Vec<u32> {
    let pick = |action: &MachineAction| match action {
        MachineAction::Kill(worker) => Some(worker.0),
        _ => None,
    };
    actions.iter().filter_map(pick).collect()
}

fn notices(actions: &[MachineAction]) -> Vec<String> {
    let pick = |action: &MachineAction| match action {
        MachineAction::Emit(EventKind::Notice { message }) => Some(message.clone()),
        _ => None,
    };
    actions.iter().filter_map(pick).collect()
}

fn result(actions: &[MachineAction]) -> &JobResult {
    match actions.last() {
        Some(MachineAction::Finish(result)) => result,
        _ => panic!("no end in {actions:#?}"),
    }
}

/// Why the job begins to wind down. Empty if it does not.
fn winding_down(actions: &[MachineAction]) -> String {
    let reason = actions.iter().find_map(|action| match action {
        MachineAction::Emit(EventKind::WindingDown { reason }) => Some(reason.clone()),
        _ => None,
    });
    reason.unwrap_or_default()
}

/// The failure of the attempt that ended.
fn attempt_failure(actions: &[MachineAction]) -> Option<Failure> {
    actions.iter().find_map(|action| match action {
        MachineAction::Emit(EventKind::AttemptFinished { report, .. }) => {
            report.outcome.as_ref().err().cloned()
        }
        _ => None,
    })
}

fn attempt_failure_kind(actions: &[MachineAction]) -> Option<FailureKind> {
    attempt_failure(actions).map(|failure| failure.kind)
}
