//! `logs/sys/node/<node>/`: `_main.txt` has the starts and ends of worker processes, and `processNNN.txt` has
//! the mini-batches that a worker picked and finished.

use super::lines::{LineLevel, LineLog};
use super::per_worker::PerWorker;
use super::phrases::{first_line, node_of, seconds, worker_id};
use super::reporters::Reporter;
use super::times::{TimeWriter, span_millis};
use crate::event::{Event, EventKind};
use crate::model::{AttemptReport, JobDir, NodeId};
use jiff::Timestamp;
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::io;

/// The address of a node, as the logs show it. Events do not contain the addresses of machines.
fn address(node: NodeId) -> &'static str {
    if node == NodeId::ONLY { "127.0.0.1" } else { "unknown" }
}

/// Writes `_main.txt` of each node that has workers, and of node 0.
pub(super) struct NodeMain {
    dir: JobDir,
    pid: u32,
    logs: BTreeMap<NodeId, NodeLog>,
}

struct NodeLog {
    lines: LineLog,
    /// Workers that ended too early and have not been replaced yet.
    lost: VecDeque<String>,
}

impl NodeMain {
    /// `pid` is the process ID of the leader, which writes the lines.
    pub(super) fn new(dir: &JobDir, pid: u32) -> Self {
        Self { dir: dir.clone(), pid, logs: BTreeMap::new() }
    }

    /// The log of this node, created if there is none.
    fn log_of(&mut self, node: NodeId) -> &mut NodeLog {
        let new = || NodeLog {
            lines: LineLog::new(self.dir.node_main(node), self.pid, "agent_manager"),
            lost: VecDeque::new(),
        };
        self.logs.entry(node).or_insert_with(new)
    }

    /// Adds a line about this worker to the log of its node. A new log begins with the id of the run.
    fn log(
        &mut self,
        event: &Event,
        worker: &str,
        level: LineLevel,
        text: fmt::Arguments<'_>,
    ) -> io::Result<()> {
        let node = node_of(worker);
        let is_new = !self.logs.contains_key(&node);
        let NodeLog { lines, .. } = self.log_of(node);
        let began = match is_new {
            true => {
                let text = format_args!("run {}: node {node} takes part", event.run);
                lines.log(event.at, LineLevel::Info, text)
            }
            false => Ok(()),
        };
        // If the disk is full, both lines wait.
        began.and(lines.log(event.at, level, text))
    }

    fn log_exit(
        &mut self,
        event: &Event,
        worker: &str,
        how: &str,
        is_expected: bool,
    ) -> io::Result<()> {
        let level = if is_expected { LineLevel::Info } else { LineLevel::Warning };
        let how = match how.strip_prefix("exited with ") {
            Some(code) if !is_killed_by_leader(how, is_expected) => format!("exits with {code}"),
            _ => describe_exit(how, is_expected),
        };
        let logged = self.log(event, worker, level, format_args!("{worker} {how}"));
        if !is_expected {
            self.log_of(node_of(worker)).lost.push_back(worker.to_owned());
        }
        logged
    }

    fn log_start(
        &mut self,
        event: &Event,
        worker: &str,
        pid: u32,
        gpu: Option<u32>,
    ) -> io::Result<()> {
        let gpu = gpu.map_or(String::new(), |index| format!(", GPU {index}"));
        let text = format_args!("{worker} starts, pid {pid}{gpu}");
        self.log(event, worker, LineLevel::Info, text)?;
        match self.log_of(node_of(worker)).lost.pop_front() {
            Some(lost) => {
                let text = format_args!("{lost} is replaced by {worker}");
                self.log(event, worker, LineLevel::Info, text)
            }
            None => Ok(()),
        }
    }
}

impl Reporter for NodeMain {
    fn on_event(&mut self, event: &Event) -> io::Result<()> {
        match &event.kind {
            EventKind::JobStarted { workers, .. } => {
                let text = format_args!("run {}: {workers} workers wanted", event.run);
                self.log_of(NodeId::ONLY).lines.log(event.at, LineLevel::Info, text)
            }
            EventKind::WorkerStarted { worker, pid, gpu_index } => {
                self.log_start(event, worker, *pid, *gpu_index)
            }
            EventKind::WorkerReady { worker, init_seconds, .. } => {
                let took = seconds(*init_seconds);
                let text = format_args!("{worker} is ready, init took {took}");
                self.log(event, worker, LineLevel::Info, text)
            }
            EventKind::InitFailed { worker, failure } => {
                let kind = failure.kind;
                let why = first_line(&failure.message);
                let text = format_args!("{worker} could not start; {kind}: {why}");
                self.log(event, worker, LineLevel::Warning, text)
            }
            EventKind::WorkerExited { worker, how, expected } => {
                self.log_exit(event, worker, how, *expected)
            }
            EventKind::JobFinished { .. } => {
                self.logs.values_mut().try_for_each(|log| log.lines.flush())
            }
            _ => Ok(()),
        }
    }

    fn on_tick(&mut self) -> io::Result<()> {
        self.logs.values_mut().try_for_each(|log| log.lines.tick())
    }
}

/// Whether the leader killed the worker (rule W6 in docs/parallel-run-step.md). In that case, the logs say so
/// in words and do not print `returncode -9`: users search for this code, and it must mean that something
/// else killed the worker.
fn is_killed_by_leader(how: &str, expected: bool) -> bool {
    expected && how.contains("returncode -")
}

/// How a worker ended: as the system says, or that the leader ended the worker.
fn describe_exit(how: &str, expected: bool) -> String {
    if is_killed_by_leader(how, expected) {
        "was ended by the leader".to_owned()
    } else {
        how.to_owned()
    }
}

/// Writes the files `processNNN.txt`.
pub(super) struct WorkerLogs {
    dir: JobDir,
    /// `None` for a name that is not a worker's.
    logs: PerWorker<Option<WorkerLog>>,
}

struct WorkerLog {
    lines: LineLog,
    pid: u32,
    text: String,
    times: TimeWriter,
}

impl WorkerLogs {
    pub(super) fn new(dir: &JobDir) -> Self {
        Self { dir: dir.clone(), logs: PerWorker::new() }
    }

    /// The log of this worker, created if there is none; `None` for a name that is not a worker's.
    fn log_of(&mut self, worker: &str, pid: u32) -> Option<&mut WorkerLog> {
        let dir = &self.dir;
        let make = || {
            let path = dir.worker_log(worker_id(worker)?);
            let lines = LineLog::new(path, pid, worker);
            Some(WorkerLog { lines, pid, text: String::new(), times: TimeWriter::iso() })
        };
        self.logs.get_or_insert(worker, make).as_mut()
    }

    fn note(
        &mut self,
        at: Timestamp,
        worker: &str,
        level: LineLevel,
        text: &str,
    ) -> io::Result<()> {
        self.log_of(worker, 0)
            .map_or(Ok(()), |log| log.lines.log(at, level, format_args!("{text}")))
    }

    fn log_finished(
        &mut self,
        at: Timestamp,
        worker: &str,
        report: &AttemptReport,
        location: &str,
        started: Timestamp,
    ) -> io::Result<()> {
        let Some(WorkerLog { lines, pid, text: times_text, times }) = self.log_of(worker, 0) else {
            return Ok(());
        };
        let (status, level) = match &report.outcome {
            Ok(_) => ("RUN_DONE", LineLevel::Info),
            Err(failure) => (failure.kind.status_word(), LineLevel::Warning),
        };
        let AttemptReport { id, attempt, items, .. } = report;
        times_text.clear();
        times.micros(times_text, started);
        for (name, seconds) in [
            ("duration", report.elapsed_seconds),
            ("process time", report.process_seconds),
            ("run time", report.run.seconds),
        ] {
            times_text.push_str(", ");
            times_text.push_str(name);
            times_text.push(' ');
            span_millis(times_text, seconds);
            times_text.push_str(" s");
        }
        let ip = address(node_of(worker));
        let text = format_args!(
            "finished mini-batch {id}, attempt {attempt}: {status}, IP {ip}, PID {pid}, \
             items total {}, succeeded {}, failed {}, start {times_text}, {location}",
            items.total, items.succeeded, items.failed,
        );
        lines.log(at, level, text)
    }
}

impl Reporter for WorkerLogs {
    fn on_event(&mut self, event: &Event) -> io::Result<()> {
        let at = event.at;
        match &event.kind {
            EventKind::WorkerStarted { worker, pid, .. } => {
                let Some(log) = self.log_of(worker, *pid) else { return Ok(()) };
                let ip = address(node_of(worker));
                let text = format_args!("{worker} starts, IP {ip}, PID {pid}");
                log.lines.log(at, LineLevel::Info, text)
            }
            EventKind::WorkerReady { worker, init_seconds, init_fuel, .. } => {
                let fuel = init_fuel.map(|fuel| format!(", {fuel} fuel")).unwrap_or_default();
                let text = format!("init done in {}{fuel}", seconds(*init_seconds));
                self.note(at, worker, LineLevel::Info, &text)
            }
            EventKind::InitFailed { worker, failure } => {
                let text = format!("init failed: {}", first_line(&failure.message));
                self.note(at, worker, LineLevel::Error, &text)
            }
            EventKind::AttemptStarted { worker, id, attempt } => {
                let Some(log) = self.log_of(worker, 0) else { return Ok(()) };
                let text = format_args!("picked mini-batch {id}, attempt {attempt}");
                log.lines.log(at, LineLevel::Info, text)
            }
            EventKind::AttemptFinished { worker, report, location, started, .. } => {
                self.log_finished(at, worker, report, location, *started)
            }
            EventKind::AttemptCancelled { worker, id, attempt, by } => {
                let text = format!(
                    "mini-batch {id}, attempt {attempt}: ended, because {by} has succeeded"
                );
                self.note(at, worker, LineLevel::Info, &text)
            }
            EventKind::WorkerExited { worker, how, expected } => {
                let level = if *expected { LineLevel::Info } else { LineLevel::Error };
                self.note(at, worker, level, &describe_exit(how, *expected))?;
                self.logs.mark_ended(worker);
                Ok(())
            }
            EventKind::JobFinished { .. } => {
                let mut logs = self.logs.take_ended(true).into_iter().filter_map(|(_, log)| log);
                logs.try_for_each(|mut log| log.lines.flush())
            }
            _ => Ok(()),
        }
    }

    fn on_tick(&mut self) -> io::Result<()> {
        self.logs.values_mut().flatten().try_for_each(|log| log.lines.tick())?;
        let mut ended = self.logs.take_ended(false).into_iter().filter_map(|(_, log)| log);
        ended.try_for_each(|mut log| log.lines.flush())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::WorkerId;
    use crate::samples;

    /// W5, W6, G1, F10: the log has workers, their GPUs, their replacements, and their exits in the
    /// words of ParallelRunStep.
    #[test]
    fn worker_starts_exits_and_replacements_are_logged() {
        let folder = tempfile::tempdir().unwrap();
        let dir = JobDir::new(folder.path());
        let mut main = NodeMain::new(&dir, 7);
        for event in samples::job() {
            main.on_event(&event).unwrap();
        }
        let text = std::fs::read_to_string(dir.node_main(NodeId::ONLY)).unwrap();
        insta::assert_snapshot!(text, @"
        2026-11-21 10:00:00,000|INFO|7|agent_manager|run 20261121T100000Z-0000abcd: 2 workers wanted
        2026-11-21 10:00:00,000|INFO|7|agent_manager|process000 starts, pid 41
        2026-11-21 10:00:00,000|INFO|7|agent_manager|process001 starts, pid 42
        2026-11-21 10:00:00,000|INFO|7|agent_manager|process001 is ready, init took 0.01 s
        2026-11-21 10:00:00,000|WARNING|7|agent_manager|process000 exits with returncode -9
        2026-11-21 10:00:00,000|INFO|7|agent_manager|process002 starts, pid 43, GPU 0
        2026-11-21 10:00:00,000|INFO|7|agent_manager|process000 is replaced by process002
        ");
        assert!(text.contains("process000 exits with returncode -9"));
    }

    /// F9: for each mini-batch picked and finished: IP, PID, items, start, duration and times.
    #[test]
    fn a_workers_mini_batches_are_logged() {
        let folder = tempfile::tempdir().unwrap();
        let dir = JobDir::new(folder.path());
        let mut logs = WorkerLogs::new(&dir);
        for event in samples::job() {
            logs.on_event(&event).unwrap();
        }
        let text = std::fs::read_to_string(dir.worker_log(WorkerId(1))).unwrap();
        insta::assert_snapshot!(text, @"
        2026-11-21 10:00:00,000|INFO|42|process001|process001 starts, IP 127.0.0.1, PID 42
        2026-11-21 10:00:00,000|INFO|42|process001|init done in 0.01 s, 500 fuel
        2026-11-21 10:00:00,000|INFO|42|process001|picked mini-batch 0, attempt 1
        2026-11-21 10:00:00,000|INFO|42|process001|finished mini-batch 0, attempt 1: RUN_DONE, IP 127.0.0.1, PID 42, items total 10, succeeded 10, failed 0, start 2026-11-21T10:00:00.500000Z, duration 0.250 s, process time 0.200 s, run time 0.125 s, /inputs/images/img_0000.png and 9 more
        2026-11-21 10:00:00,000|INFO|42|process001|finished mini-batch 1, attempt 1: RUN_DONE, IP 127.0.0.1, PID 42, items total 10, succeeded 9, failed 1, start 2026-11-21T10:00:00.500000Z, duration 0.250 s, process time 0.200 s, run time 0.125 s, /inputs/images/img_0010.png and 9 more
        2026-11-21 10:00:00,000|INFO|42|process001|picked mini-batch 2, attempt 1
        2026-11-21 10:00:00,000|WARNING|42|process001|finished mini-batch 2, attempt 1: RUN_EXCEPTION, IP 127.0.0.1, PID 42, items total 10, succeeded 0, failed 10, start 2026-11-21T10:00:00.500000Z, duration 0.500 s, process time 0.250 s, run time 0.500 s, /inputs/images/img_0020.png and 9 more
        2026-11-21 10:00:00,000|INFO|42|process001|picked mini-batch 2, attempt 2
        2026-11-21 10:00:00,000|WARNING|42|process001|finished mini-batch 2, attempt 2: RUN_EXCEPTION, IP 127.0.0.1, PID 42, items total 10, succeeded 0, failed 10, start 2026-11-21T10:00:00.500000Z, duration 0.500 s, process time 0.250 s, run time 0.500 s, /inputs/images/img_0020.png and 9 more
        ");
    }
}
