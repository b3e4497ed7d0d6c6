//! `process_summary.csv` and `node_summary.csv`: the attempts of `processed_mini-batches.csv`, summed up for
//! each worker process and for each node. They show a worker that does less than the others, or takes longer
//! for each mini-batch.

use super::log_file::RenewedFile;
use super::per_worker::PerWorker;
use super::phrases::{csv_field, node_of, push_inference_columns};
use super::reporters::Reporter;
use crate::event::{Event, EventKind};
use crate::model::{
    AttemptReport, InferenceStats, ItemCounts, JobDir, MiniBatchId, NodeId, to_f64,
};
use jiff::Timestamp;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::io;
use std::time::{Duration, Instant};

const PROCESS_HEADER: &str = "Process,Node Id,PID,GPU Index,Process Start Time,Process End Time,\
    Init Seconds,Attempts,Succeeded Attempts,Failed Attempts,Retried Attempts,Total,Succeeded,\
    Failed,Elapsed Seconds,Process Seconds,Run Method Seconds,Mean Elapsed Seconds,\
    Max Elapsed Seconds,Slowest Mini-batch Id,Inference Calls,Inference Seconds,\
    Inference Bytes In,Inference Bytes Out,Device,Backend";
const NODE_HEADER: &str = "Node Id,Run Start Time,Processes,Attempts,Succeeded Attempts,Failed Attempts,\
    Retried Attempts,Total,Succeeded,Failed,Elapsed Seconds,Process Seconds,Run Method Seconds,\
    Mean Elapsed Seconds,Max Elapsed Seconds,Slowest Mini-batch Id,Inference Calls,\
    Inference Seconds,Inference Bytes In,Inference Bytes Out,Device,Backend";

const WRITE_EVERY: Duration = Duration::from_secs(5);

/// The sums over attempts.
#[derive(Default)]
struct Sums {
    attempts: u64,
    succeeded: u64,
    retried: u64,
    items: ItemCounts,
    elapsed: f64,
    process: f64,
    run: f64,
    slowest: f64,
    slowest_id: Option<MiniBatchId>,
    inference: InferenceStats,
}

impl Sums {
    fn add(&mut self, report: &AttemptReport) {
        self.attempts += 1;
        self.succeeded += u64::from(report.outcome.is_ok());
        self.retried += u64::from(report.attempt > 1);
        self.items += report.items;
        self.elapsed += report.elapsed_seconds;
        self.process += report.process_seconds;
        self.run += report.run.seconds;
        self.inference += report.inference;
        if self.slowest_id.is_none() || report.elapsed_seconds > self.slowest {
            self.slowest = report.elapsed_seconds;
            self.slowest_id = Some(report.id);
        }
    }

    /// Appends the column `Attempts` and all columns after it, each after a comma, and then the line end.
    fn push_columns(&self, line: &mut String) {
        let ItemCounts { total, succeeded, failed } = self.items;
        let good = self.succeeded;
        let bad = self.attempts - good;
        let mean = if self.attempts == 0 { 0.0 } else { self.elapsed / to_f64(self.attempts) };
        // Writing to a string cannot fail.
        let _ = write!(
            line,
            ",{},{good},{bad},{},{total},{succeeded},{failed},{:.6},{:.6},{:.6},{mean:.6},{:.6},",
            self.attempts, self.retried, self.elapsed, self.process, self.run, self.slowest
        );
        if let Some(id) = self.slowest_id {
            let _ = write!(line, "{id}");
        }
        push_inference_columns(line, &self.inference);
        line.push('\n');
    }
}

/// The values of a worker process.
#[derive(Default)]
struct WorkerSummary {
    pid: u32,
    gpu: Option<u32>,
    started: Option<Timestamp>,
    ended: Option<Timestamp>,
    init: Option<f64>,
    sums: Sums,
}

impl WorkerSummary {
    fn row(&self, name: &str, line: &mut String) {
        csv_field(line, name);
        let _ = write!(line, ",{},{},", node_of(name), self.pid);
        if let Some(gpu) = self.gpu {
            let _ = write!(line, "{gpu}");
        }
        for time in [self.started, self.ended] {
            line.push(',');
            if let Some(time) = time {
                let _ = write!(line, "{time:.6}");
            }
        }
        line.push(',');
        if let Some(init) = self.init {
            let _ = write!(line, "{init:.6}");
        }
        self.sums.push_columns(line);
    }
}

/// The values of a node.
#[derive(Default)]
struct NodeSummary {
    /// The number of worker processes that were started.
    processes: u64,
    sums: Sums,
}

/// Writes both files. Rows of processes that ended are settled. Each write replaces the rows of live
/// processes and of the nodes.
pub(super) struct Summaries {
    process_file: RenewedFile,
    node_file: RenewedFile,
    /// The rows of ended workers that could not be written yet.
    unwritten: String,
    processes: PerWorker<WorkerSummary>,
    began: Timestamp,
    /// The nodes that had a worker in this run.
    nodes: BTreeMap<NodeId, NodeSummary>,
    dirty: bool,
    written: Instant,
}

impl Summaries {
    pub(super) fn new(dir: &JobDir) -> Self {
        Self {
            process_file: RenewedFile::new(dir.process_summary(), PROCESS_HEADER),
            node_file: RenewedFile::new(dir.node_summary(), NODE_HEADER),
            unwritten: String::new(),
            processes: PerWorker::new(),
            began: Timestamp::UNIX_EPOCH,
            nodes: BTreeMap::new(),
            dirty: false,
            written: Instant::now(),
        }
    }

    fn write(&mut self, all: bool) -> io::Result<()> {
        self.dirty = false;
        self.written = Instant::now();
        let mut settled = std::mem::take(&mut self.unwritten);
        let mut unsettled = String::new();
        for (name, process) in self.processes.take_ended(all) {
            process.row(&name, &mut settled);
        }
        for (name, process) in self.processes.sorted() {
            process.row(name, &mut unsettled);
        }
        if let Err(error) = self.process_file.write(&settled, &unsettled) {
            self.unwritten = settled;
            return Err(error);
        }
        self.node_file.write("", &self.node_rows())
    }

    /// A row for each node of this run. If there has been no worker, the row of node 0.
    fn node_rows(&self) -> String {
        let none = NodeSummary::default();
        let only = self.nodes.is_empty().then_some((&NodeId::ONLY, &none));
        let mut rows = String::new();
        for (id, node) in self.nodes.iter().chain(only) {
            let _ = write!(rows, "{id},{:.6},{}", self.began, node.processes);
            node.sums.push_columns(&mut rows);
        }
        rows
    }

    fn process(&mut self, worker: &str) -> &mut WorkerSummary {
        self.processes.get_or_insert(worker, WorkerSummary::default)
    }

    fn node(&mut self, worker: &str) -> &mut NodeSummary {
        self.nodes.entry(node_of(worker)).or_default()
    }
}

impl Reporter for Summaries {
    fn on_event(&mut self, event: &Event) -> io::Result<()> {
        match &event.kind {
            EventKind::JobStarted { .. } => self.began = event.at,
            EventKind::WorkerStarted { worker, pid, gpu_index } => {
                let process = self.process(worker);
                (process.pid, process.gpu) = (*pid, *gpu_index);
                process.started = Some(event.at);
                self.node(worker).processes += 1;
            }
            EventKind::WorkerReady { worker, init_seconds, .. } => {
                self.process(worker).init = Some(*init_seconds);
            }
            EventKind::AttemptFinished { worker, report, .. } => {
                self.process(worker).sums.add(report);
                self.node(worker).sums.add(report);
            }
            EventKind::WorkerExited { worker, .. } => {
                self.process(worker).ended = Some(event.at);
                self.processes.mark_ended(worker);
            }
            EventKind::JobFinished { .. } => return self.write(true),
            _ => return Ok(()),
        }
        self.dirty = true;
        Ok(())
    }

    fn on_tick(&mut self) -> io::Result<()> {
        let is_due = self.dirty && self.written.elapsed() >= WRITE_EVERY;
        if is_due { self.write(false) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Device;
    use crate::samples;

    fn read(dir: &JobDir) -> (String, String) {
        let text = |path| std::fs::read_to_string(path).unwrap();
        (text(dir.process_summary()), text(dir.node_summary()))
    }

    /// Rule F7 in docs/parallel-run-step.md: both files have the same data, for each process and for each
    /// node, also for a resumed job.
    #[test]
    fn adds_up_for_each_process_and_node() {
        let folder = tempfile::tempdir().unwrap();
        let dir = JobDir::new(folder.path());
        for events in [samples::job(), samples::job_again()] {
            let mut summaries = Summaries::new(&dir);
            for event in events {
                summaries.on_event(&event).unwrap();
            }
        }
        let (processes, node) = read(&dir);
        insta::assert_snapshot!(processes, @"
        Process,Node Id,PID,GPU Index,Process Start Time,Process End Time,Init Seconds,Attempts,Succeeded Attempts,Failed Attempts,Retried Attempts,Total,Succeeded,Failed,Elapsed Seconds,Process Seconds,Run Method Seconds,Mean Elapsed Seconds,Max Elapsed Seconds,Slowest Mini-batch Id,Inference Calls,Inference Seconds,Inference Bytes In,Inference Bytes Out,Device,Backend
        process000,0,41,,2026-11-21T10:00:00.000000Z,2026-11-21T10:00:00.000000Z,,0,0,0,0,0,0,0,0.000000,0.000000,0.000000,0.000000,0.000000,,0,0.000000,0,0,,
        process001,0,42,,2026-11-21T10:00:00.000000Z,,0.010000,4,2,2,1,40,19,21,1.500000,0.900000,1.250000,0.375000,0.500000,2,0,0.000000,0,0,,
        process002,0,43,0,2026-11-21T10:00:00.000000Z,,,0,0,0,0,0,0,0,0.000000,0.000000,0.000000,0.000000,0.000000,,0,0.000000,0,0,,
        process003,0,44,,2026-11-21T12:00:00.000000Z,2026-11-21T12:00:00.000000Z,,2,2,0,0,20,20,0,0.500000,0.400000,0.250000,0.250000,0.250000,50,0,0.000000,0,0,,
        ");
        insta::assert_snapshot!(node, @"
        Node Id,Run Start Time,Processes,Attempts,Succeeded Attempts,Failed Attempts,Retried Attempts,Total,Succeeded,Failed,Elapsed Seconds,Process Seconds,Run Method Seconds,Mean Elapsed Seconds,Max Elapsed Seconds,Slowest Mini-batch Id,Inference Calls,Inference Seconds,Inference Bytes In,Inference Bytes Out,Device,Backend
        0,2026-11-21T10:00:00.000000Z,3,4,2,2,1,40,19,21,1.500000,0.900000,1.250000,0.375000,0.500000,2,0,0.000000,0,0,,
        0,2026-11-21T12:00:00.000000Z,1,2,2,0,0,20,20,0,0.500000,0.400000,0.250000,0.250000,0.250000,50,0,0.000000,0,0,,
        ");
    }

    /// Inference is summed up; the GPU is named if any attempt ran there.
    #[test]
    fn inference_is_added_up() {
        let folder = tempfile::tempdir().unwrap();
        let dir = JobDir::new(folder.path());
        let mut summaries = Summaries::new(&dir);
        let on_gpu = InferenceStats {
            device: Some(Device::Gpu(1)),
            fell_back: false,
            ..samples::inference()
        };
        let with = |stats| samples::with_inference(samples::succeeded(0, 1, Vec::new()), stats);
        for kind in [with(samples::inference()), samples::on_worker(with(on_gpu), "process002")] {
            summaries.on_event(&samples::event(0, kind)).unwrap();
        }
        summaries.write(false).unwrap();
        let (processes, node) = read(&dir);
        let ends = |text: &str, end: &str| text.lines().any(|row| row.ends_with(end));
        assert!(ends(&processes, ",3,0.062500,7680,1200,cpu (fell back),tract"), "{processes}");
        assert!(ends(&processes, ",3,0.062500,7680,1200,gpu 1,tract"), "{processes}");
        assert!(ends(&node, ",6,0.125000,15360,2400,gpu 1 and cpu (fell back),tract"), "{node}");
    }

    /// Rows are rewritten in place while the job runs.
    #[test]
    fn shows_a_running_job() {
        let folder = tempfile::tempdir().unwrap();
        let dir = JobDir::new(folder.path());
        let mut summaries = Summaries::new(&dir);
        for event in samples::job().into_iter().take(9) {
            summaries.on_event(&event).unwrap();
            summaries.write(false).unwrap();
        }
        let (processes, node) = read(&dir);
        assert_eq!((processes.lines().count(), node.lines().count()), (1 + 2, 1 + 1));
        assert!(node.contains(",2,2,2,0,0,20,19,1,0.500000,"), "{node}");
    }
}
