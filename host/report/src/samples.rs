//! A recorded job for the tests of reporters.

use super::report_paths::ReportPaths;
use crate::event::{Event, EventKind, Resumed};
use crate::model::{
    AttemptReport, Backend, BackendsUsed, CallStats, Device, FailedItem, Failure, FailureKind,
    FirstFailure, InferenceStats, ItemCounts, JobDir, JobResult, JobStatus, MiniBatchId, Segment,
};
use std::path::Path;

/// The paths of a job in this folder.
pub(super) fn paths(root: &Path) -> ReportPaths {
    let job_dir = JobDir::new(root);
    let output = job_dir.default_output().join("parallel_run_step.txt");
    ReportPaths::new("digits".to_owned(), job_dir, output, root.to_owned())
}

pub(super) fn event(seq: u64, kind: EventKind) -> Event {
    let at = "2026-11-21T10:00:00Z".parse().expect("a time");
    Event { version: Event::VERSION, run: "20261121T100000Z-0000abcd".to_owned(), seq, at, kind }
}

pub(super) fn succeeded(id: u64, attempt: u32, failed_items: Vec<FailedItem>) -> EventKind {
    let failed = failed_items.len() as u64;
    let report = AttemptReport {
        id: MiniBatchId(id),
        attempt,
        items: ItemCounts { total: 10, succeeded: 10 - failed, failed },
        outcome: Ok(Segment { length: 90, checksum: 7, rows: 10 - failed, ..Segment::sample() }),
        failed_items,
        is_short: failed > 0,
        elapsed_seconds: 0.25,
        process_seconds: 0.2,
        bytes_read: None,
        run: CallStats { seconds: 0.125, fuel: None },
        ..AttemptReport::sample()
    };
    attempt_finished(report, false)
}

pub(super) fn failed(id: u64, attempt: u32, failure: Failure, will_retry: bool) -> EventKind {
    let report = AttemptReport {
        id: MiniBatchId(id),
        attempt,
        items: ItemCounts::from_returned(10, 0),
        outcome: Err(failure),
        elapsed_seconds: 0.5,
        process_seconds: 0.25,
        bytes_read: None,
        run: CallStats { seconds: 0.5, fuel: Some(1000) },
        ..AttemptReport::sample()
    };
    attempt_finished(report, will_retry)
}

fn attempt_finished(report: AttemptReport, will_retry: bool) -> EventKind {
    EventKind::AttemptFinished {
        worker: "process001".to_owned(),
        location: format!("/inputs/images/img_{:04}.png and 9 more", report.id.0 * 10),
        report: Box::new(report),
        started: "2026-11-21T10:00:00.5Z".parse().expect("a time"),
        will_retry,
    }
}

pub(super) fn trap() -> Failure {
    Failure::new(FailureKind::Trap, "panicked at src/lib.rs:12:9: no digit, \"5\" expected")
        .with_detail("wasm backtrace:\n  0: digits::run")
}

pub(super) fn broken_item() -> FailedItem {
    FailedItem {
        item: "/inputs/images/img_0007.png".to_owned(),
        reason: "not a PNG file".to_owned(),
        ..FailedItem::sample()
    }
}

pub(super) fn result(status: JobStatus) -> Box<JobResult> {
    let mut result = Box::new(JobResult {
        status,
        mini_batches: 180,
        succeeded_mini_batches: 180,
        items: ItemCounts { total: 1797, succeeded: 1797, failed: 0 },
        rows: 1797,
        seconds: 3.21,
        ..JobResult::sample()
    });
    if status == JobStatus::Failed {
        result.reason = "10 items failed, more than error_threshold allows (0)".to_owned();
        result.first_failure = Some(FirstFailure {
            mini_batch: Some(MiniBatchId(2)),
            worker: Some("process001".to_owned()),
            item: None,
            failure: trap(),
        });
        result.succeeded_mini_batches = 2;
        result.failed_mini_batches = 1;
        result.items = ItemCounts { total: 30, succeeded: 20, failed: 10 };
        result.rows = 20;
    }
    result
}

/// The first event of a run that resumes a job.
pub(super) fn resumed() -> EventKind {
    let resumed = Resumed {
        succeeded: 49,
        failed: 1,
        items: ItemCounts { total: 500, succeeded: 490, failed: 10 },
        rows: 490,
    };
    started(1, Some(resumed))
}

fn started(workers: u32, resumed: Option<Resumed>) -> EventKind {
    EventKind::JobStarted { job: "digits".into(), tenant: "default".into(), workers, resumed }
}

pub(super) fn picked(id: u64, attempt: u32) -> EventKind {
    EventKind::AttemptStarted { worker: "process001".into(), id: MiniBatchId(id), attempt }
}

/// A short job: a mini-batch with a failed item, a mini-batch that fails twice, a worker that is killed and
/// replaced, and the end.
pub(super) fn job() -> Vec<Event> {
    let kinds = vec![
        started(2, None),
        EventKind::Notice { message: "node_count: 4 runs on one node".into() },
        EventKind::WorkerStarted { worker: "process000".into(), pid: 41, gpu_index: None },
        EventKind::WorkerStarted { worker: "process001".into(), pid: 42, gpu_index: None },
        EventKind::WorkerReady {
            worker: "process001".into(),
            start_seconds: 0.02,
            init_seconds: 0.01,
            init_fuel: Some(500),
        },
        EventKind::Planned { mini_batches: 3, items: 30, finished: false, share: None },
        picked(0, 1),
        succeeded(0, 1, Vec::new()),
        succeeded(1, 1, vec![broken_item()]),
        EventKind::Planned { mini_batches: 180, items: 1797, finished: true, share: None },
        picked(2, 1),
        failed(2, 1, trap(), true),
        EventKind::WorkerExited {
            worker: "process000".into(),
            how: "exited with returncode -9".into(),
            expected: false,
        },
        EventKind::WorkerStarted { worker: "process002".into(), pid: 43, gpu_index: Some(0) },
        EventKind::MiniBatchReturned { id: MiniBatchId(3) },
        picked(2, 2),
        failed(2, 2, trap(), false),
        EventKind::WindingDown { reason: "10 items failed".into() },
        EventKind::JobFinished { result: result(JobStatus::Failed) },
    ];
    kinds.into_iter().zip(0..).map(|(kind, seq)| event(seq, kind)).collect()
}

/// The same job, resumed two hours later: it completes.
pub(super) fn job_again() -> Vec<Event> {
    let mut result = result(JobStatus::Completed);
    result.restored_mini_batches = 50;
    result.items = ItemCounts { total: 520, succeeded: 510, failed: 10 };
    (result.mini_batches, result.succeeded_mini_batches, result.failed_mini_batches) = (52, 51, 1);
    (result.rows, result.short_mini_batches) = (510, 3);
    let kinds = vec![
        resumed(),
        EventKind::WorkerStarted { worker: "process003".into(), pid: 44, gpu_index: None },
        EventKind::Planned { mini_batches: 52, items: 520, finished: true, share: None },
        on_worker(succeeded(50, 1, Vec::new()), "process003"),
        on_worker(succeeded(51, 1, Vec::new()), "process003"),
        EventKind::WorkerExited {
            worker: "process003".into(),
            how: "exited with returncode 0".into(),
            expected: true,
        },
        EventKind::JobFinished { result },
    ];
    let at = "2026-11-21T12:00:00Z".parse().expect("a time");
    kinds.into_iter().zip(0..).map(|(kind, seq)| Event { at, ..event(seq, kind) }).collect()
}

/// A job on two nodes: each node loses a worker, and one of the workers is replaced. The mini-batch of
/// node 0 succeeds, and both attempts on node 1 fail.
pub(super) fn job_on_two_nodes() -> Vec<Event> {
    let worker_started = |worker: &str, pid| EventKind::WorkerStarted {
        worker: worker.into(),
        pid,
        gpu_index: None,
    };
    let killed = |worker: &str| EventKind::WorkerExited {
        worker: worker.into(),
        how: "exited with returncode -9".into(),
        expected: false,
    };
    let fault = Failure::new(FailureKind::HostFault, "cannot write rows: disk full");
    let kinds = vec![
        started(1, None),
        worker_started("process000", 41),
        worker_started("process100000", 42),
        on_worker(succeeded(0, 1, Vec::new()), "process000"),
        on_worker(failed(1, 1, trap(), true), "process100000"),
        on_worker(failed(1, 2, fault, false), "process100000"),
        killed("process000"),
        killed("process100000"),
        worker_started("process100001", 43),
        EventKind::JobFinished { result: result(JobStatus::Failed) },
    ];
    kinds.into_iter().zip(0..).map(|(kind, seq)| event(seq, kind)).collect()
}

/// A job on two nodes, in which a mini-batch of node 0 is slow, and its twin on node 1 succeeds.
pub(super) fn job_with_twins() -> Vec<Event> {
    let id = MiniBatchId(0);
    let worker_started = |worker: &str, pid| EventKind::WorkerStarted {
        worker: worker.into(),
        pid,
        gpu_index: None,
    };
    let picked_by =
        |worker: &str| EventKind::AttemptStarted { worker: worker.into(), id, attempt: 1 };
    let twin = EventKind::TwinGranted {
        id,
        attempt: 1,
        node: 1,
        first_node: 0,
        seconds: 31.0,
        median_seconds: 10.1,
    };
    let cancelled = EventKind::AttemptCancelled {
        worker: "process000".into(),
        id,
        attempt: 1,
        by: "process100000".into(),
    };
    let killed = EventKind::WorkerExited {
        worker: "process000".into(),
        how: "exited with returncode -9".into(),
        expected: true,
    };
    let kinds = vec![
        started(1, None),
        worker_started("process000", 41),
        worker_started("process100000", 42),
        picked_by("process000"),
        twin,
        picked_by("process100000"),
        cancelled,
        killed,
        on_worker(succeeded(0, 1, Vec::new()), "process100000"),
        EventKind::JobFinished { result: result(JobStatus::Completed) },
    ];
    kinds.into_iter().zip(0..).map(|(kind, seq)| event(seq, kind)).collect()
}

/// The inference of an attempt whose models fell back to the CPU.
pub(super) fn inference() -> InferenceStats {
    InferenceStats {
        calls: 3,
        seconds: 0.0625,
        bytes_in: 7680,
        bytes_out: 1200,
        device: Some(Device::Cpu),
        fell_back: true,
        backends: BackendsUsed::default().and(Backend::Tract),
    }
}

/// The same attempt, with inference.
pub(super) fn with_inference(mut kind: EventKind, stats: InferenceStats) -> EventKind {
    if let EventKind::AttemptFinished { report, .. } = &mut kind {
        report.inference = stats;
    }
    kind
}

/// The same attempt on another worker.
pub(super) fn on_worker(mut kind: EventKind, name: &str) -> EventKind {
    if let EventKind::AttemptFinished { worker, .. } = &mut kind {
        *worker = name.to_owned();
    }
    kind
}
