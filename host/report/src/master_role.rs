//! `logs/sys/master_role.<stamp>.txt`: what the leader did, in order. Each run of a job has its own file.

use super::counters::{JobCounters, Speed};
use super::lines::{LineLevel, LineLog};
use super::phrases::{count, counted, first_line, seconds, stamp, status_phrase};
use super::reporters::Reporter;
use crate::event::{Event, EventKind, Resumed};
use crate::model::{AttemptReport, JobDir, JobResult, JobStatus};
use jiff::Timestamp;
use std::io;
use std::time::{Duration, Instant};

const MONITOR_EVERY: Duration = Duration::from_secs(10);

/// Writes `logs/sys/master_role.<stamp>.txt`.
pub(super) struct MasterRole {
    dir: JobDir,
    pid: u32,
    /// `None` before the job has started.
    log: Option<LineLog>,
    began: Timestamp,
    started: Instant,
    last_monitored: Instant,
    counters: JobCounters,
    speed: Speed,
    /// Whether a mini-batch has been scheduled already.
    has_scheduled: bool,
    /// Whether the job has ended.
    is_finished: bool,
}

impl MasterRole {
    /// `pid` is the leader's process id.
    pub(super) fn new(dir: &JobDir, pid: u32) -> Self {
        Self {
            dir: dir.clone(),
            pid,
            log: None,
            began: Timestamp::UNIX_EPOCH,
            started: Instant::now(),
            last_monitored: Instant::now(),
            counters: JobCounters::default(),
            speed: Speed::default(),
            has_scheduled: false,
            is_finished: false,
        }
    }

    fn begin(&mut self, event: &Event) -> io::Result<()> {
        let EventKind::JobStarted { job, tenant, workers, resumed } = &event.kind else {
            return Ok(());
        };
        self.began = event.at;
        let path = self.dir.master_role(&stamp(event.at));
        let log = self.log.insert(LineLog::new(path, self.pid, "leader"));
        let workers = counted((*workers).into(), "worker");
        let run = &event.run;
        let text = format_args!("job {job} of tenant {tenant} starts, run {run}; {workers} wanted");
        log.log(event.at, LineLevel::Info, text)?;
        let Some(Resumed { succeeded, failed, items, rows }) = resumed else { return Ok(()) };
        let text = format_args!(
            "resumed from an earlier run: {} succeeded and {} failed, with {} and {}",
            counted(*succeeded, "mini-batch"),
            count(*failed),
            counted(items.total, "item"),
            counted(*rows, "row"),
        );
        log.log(event.at, LineLevel::Info, text)
    }

    fn log_planned(
        &mut self,
        at: Timestamp,
        mini_batches: u64,
        items: u64,
        is_finished: bool,
    ) -> io::Result<()> {
        let Some(log) = &mut self.log else { return Ok(()) };
        if mini_batches > 0 && !self.has_scheduled {
            self.has_scheduled = true;
            let after = seconds(at.duration_since(self.began).as_secs_f64());
            let text = format_args!("FIRST_TASK_SCHEDULED after {after}");
            log.log(at, LineLevel::Info, text)?;
        }
        if is_finished {
            let mini_batches = counted(mini_batches, "mini-batch");
            let items = counted(items, "item");
            let text = format_args!("ALL_TASKS_SCHEDULED: {mini_batches} with {items}");
            log.log(at, LineLevel::Info, text)?;
        }
        Ok(())
    }

    fn log_failure(
        &mut self,
        at: Timestamp,
        worker: &str,
        report: &AttemptReport,
        will_retry: bool,
    ) -> io::Result<()> {
        let (Err(failure), Some(log)) = (&report.outcome, &mut self.log) else { return Ok(()) };
        let id = report.id;
        let attempt = report.attempt;
        let kind = failure.kind;
        let next = if will_retry { "it will be tried again" } else { "it is not tried again" };
        let why = first_line(&failure.message);
        let text = format_args!(
            "mini-batch {id} failed in attempt {attempt} on {worker}, {next}; {kind}: {why}"
        );
        log.log(at, LineLevel::Warning, text)
    }

    fn note(&mut self, at: Timestamp, level: LineLevel, text: &str) -> io::Result<()> {
        self.log.as_mut().map_or(Ok(()), |log| log.log(at, level, format_args!("{text}")))
    }

    fn log_end(&mut self, at: Timestamp, result: &JobResult) -> io::Result<()> {
        self.is_finished = true;
        let level = match result.status {
            JobStatus::Completed => LineLevel::Info,
            JobStatus::Cancelled => LineLevel::Warning,
            JobStatus::Failed => LineLevel::Error,
        };
        let reason = first_line(&result.reason);
        let reason = if reason.is_empty() { reason } else { format!(": {reason}") };
        self.note(at, level, &format!("the job {}{reason}", status_phrase(result.status)))?;
        let text = format!(
            "{} planned, {} succeeded, {} of them with fewer rows than items, {} failed; {}, {} \
             failed; {}; {}",
            counted(result.mini_batches, "mini-batch"),
            count(result.succeeded_mini_batches),
            count(result.short_mini_batches),
            count(result.failed_mini_batches),
            counted(result.items.total, "item"),
            count(result.items.failed),
            counted(result.rows, "row"),
            seconds(result.seconds),
        );
        self.note(at, LineLevel::Info, &text)?;
        self.log.as_mut().map_or(Ok(()), LineLog::flush)
    }

    /// Logs the current state.
    fn monitor(&mut self, at: Timestamp) -> io::Result<()> {
        self.last_monitored = Instant::now();
        self.speed.sample(self.started.elapsed().as_secs_f64(), &self.counters);
        let line = self.counters.line(&self.speed);
        let workers = counted(self.counters.workers, "worker");
        let waiting = counted(self.counters.waiting(), "mini-batch");
        let text = format!("monitoring: {line}; {workers} alive, {waiting} to be tried again");
        self.note(at, LineLevel::Info, &text)
    }
}

impl Reporter for MasterRole {
    fn on_event(&mut self, event: &Event) -> io::Result<()> {
        self.counters.update(&event.kind);
        let at = event.at;
        match &event.kind {
            EventKind::JobStarted { .. } => self.begin(event),
            EventKind::InForce { message }
            | EventKind::Columns { message }
            | EventKind::Notice { message } => self.note(at, LineLevel::Info, message),
            EventKind::Planned { mini_batches, items, finished, .. } => {
                self.log_planned(at, *mini_batches, *items, *finished)
            }
            EventKind::InitFailed { worker, failure } => {
                let why = first_line(&failure.message);
                self.note(at, LineLevel::Warning, &format!("init failed in {worker}: {why}"))
            }
            EventKind::WorkerExited { worker, how, expected: false } => {
                self.note(at, LineLevel::Warning, &format!("{worker} {how}"))
            }
            EventKind::AttemptFinished { worker, report, will_retry, .. } => {
                self.log_failure(at, worker, report, *will_retry)
            }
            EventKind::AttemptDiscarded { worker, id, attempt, succeeded } => {
                let how = if *succeeded { "a success" } else { "a failure" };
                let text = format!(
                    "mini-batch {id}, attempt {attempt}: {worker} reported {how} after Sandmill had stopped \
                     waiting for it; it does not count"
                );
                self.note(at, LineLevel::Warning, &text)
            }
            EventKind::TwinGranted {
                id,
                attempt,
                node,
                first_node,
                seconds: taken,
                median_seconds,
            } => {
                let text = format!(
                    "mini-batch {id}, attempt {attempt}: node {first_node} has needed {} so far, and most \
                     mini-batches need {}; node {node} makes a second attempt (a twin)",
                    seconds(*taken),
                    seconds(*median_seconds)
                );
                self.note(at, LineLevel::Info, &text)
            }
            EventKind::MixedBackends { node, backends } => {
                let text = format!(
                    "node {node} computes models by {backends}, and not as other nodes; the job allows it \
                     (allow_mixed_backends)"
                );
                self.note(at, LineLevel::Warning, &text)
            }
            EventKind::AttemptCancelled { worker, id, attempt, by } => {
                let text = format!(
                    "mini-batch {id}, attempt {attempt}: {worker} is ended, because {by} has succeeded"
                );
                self.note(at, LineLevel::Info, &text)
            }
            EventKind::MiniBatchReturned { id } => {
                let text = "goes back to the queue: its worker died before it began";
                self.note(at, LineLevel::Info, &format!("mini-batch {id} {text}"))
            }
            EventKind::WindingDown { reason } => {
                self.note(at, LineLevel::Warning, &format!("no new mini-batches: {reason}"))
            }
            EventKind::JobFinished { result } => self.log_end(at, result),
            _ => Ok(()),
        }
    }

    fn on_tick(&mut self) -> io::Result<()> {
        if !self.is_finished && self.last_monitored.elapsed() >= MONITOR_EVERY {
            self.monitor(Timestamp::now())?;
        }
        self.log.as_mut().map_or(Ok(()), LineLog::tick)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples;

    fn written(dir: &JobDir, stamp: &str) -> String {
        std::fs::read_to_string(dir.master_role(stamp)).unwrap()
    }

    /// Rules W14 and F5 in docs/parallel-run-step.md: the file says what the leader did, in ParallelRunStep's
    /// words for scheduling.
    #[test]
    fn logs_what_the_leader_did() {
        let folder = tempfile::tempdir().unwrap();
        let dir = JobDir::new(folder.path());
        let mut role = MasterRole::new(&dir, 7);
        let in_force = "time-outs: run_invocation_timeout 60 s".to_owned();
        let mut events = samples::job();
        events.insert(1, samples::event(1, EventKind::InForce { message: in_force }));
        for event in events {
            role.on_event(&event).unwrap();
        }
        insta::assert_snapshot!(written(&dir, "20261121100000"), @r#"
        2026-11-21 10:00:00,000|INFO|7|leader|job digits of tenant default starts, run 20261121T100000Z-0000abcd; 2 workers wanted
        2026-11-21 10:00:00,000|INFO|7|leader|time-outs: run_invocation_timeout 60 s
        2026-11-21 10:00:00,000|INFO|7|leader|node_count: 4 runs on one node
        2026-11-21 10:00:00,000|INFO|7|leader|FIRST_TASK_SCHEDULED after 0.00 s
        2026-11-21 10:00:00,000|INFO|7|leader|ALL_TASKS_SCHEDULED: 180 mini-batches with 1,797 items
        2026-11-21 10:00:00,000|WARNING|7|leader|mini-batch 2 failed in attempt 1 on process001, it will be tried again; trap: panicked at src/lib.rs:12:9: no digit, "5" expected
        2026-11-21 10:00:00,000|WARNING|7|leader|process000 exited with returncode -9
        2026-11-21 10:00:00,000|INFO|7|leader|mini-batch 3 goes back to the queue: its worker died before it began
        2026-11-21 10:00:00,000|WARNING|7|leader|mini-batch 2 failed in attempt 2 on process001, it is not tried again; trap: panicked at src/lib.rs:12:9: no digit, "5" expected
        2026-11-21 10:00:00,000|WARNING|7|leader|no new mini-batches: 10 items failed
        2026-11-21 10:00:00,000|ERROR|7|leader|the job failed: 10 items failed, more than error_threshold allows (0)
        2026-11-21 10:00:00,000|INFO|7|leader|180 mini-batches planned, 2 succeeded, 0 of them with fewer rows than items, 1 failed; 30 items, 10 failed; 20 rows; 3.2 s
        "#);
    }

    #[test]
    fn logs_the_state_regularly() {
        let folder = tempfile::tempdir().unwrap();
        let dir = JobDir::new(folder.path());
        let mut role = MasterRole::new(&dir, 7);
        for event in samples::job().into_iter().take(12) {
            role.on_event(&event).unwrap();
        }
        role.started = Instant::now();
        role.monitor("2026-11-21T10:00:10Z".parse().unwrap()).unwrap();
        role.log.as_mut().unwrap().flush().unwrap();
        let text = written(&dir, "20261121100000");
        let line = text.lines().last().unwrap();
        assert!(line.starts_with("2026-11-21 10:00:10,000|INFO|7|leader|monitoring: 2/"), "{line}");
        assert!(line.ends_with("; 2 workers alive, 1 mini-batch to be tried again"), "{line}");
    }

    /// W15, M9: a run that resumes the job has its own file.
    #[test]
    fn each_run_has_its_own_file() {
        let folder = tempfile::tempdir().unwrap();
        let dir = JobDir::new(folder.path());
        for events in [samples::job(), samples::job_again()] {
            let mut role = MasterRole::new(&dir, 7);
            for event in events {
                role.on_event(&event).unwrap();
            }
        }
        insta::assert_snapshot!(written(&dir, "20261121120000"), @"
        2026-11-21 12:00:00,000|INFO|7|leader|job digits of tenant default starts, run 20261121T100000Z-0000abcd; 1 worker wanted
        2026-11-21 12:00:00,000|INFO|7|leader|resumed from an earlier run: 49 mini-batches succeeded and 1 failed, with 500 items and 490 rows
        2026-11-21 12:00:00,000|INFO|7|leader|FIRST_TASK_SCHEDULED after 0.00 s
        2026-11-21 12:00:00,000|INFO|7|leader|ALL_TASKS_SCHEDULED: 52 mini-batches with 520 items
        2026-11-21 12:00:00,000|INFO|7|leader|the job completed
        2026-11-21 12:00:00,000|INFO|7|leader|52 mini-batches planned, 51 succeeded, 3 of them with fewer rows than items, 1 failed; 520 items, 10 failed; 510 rows; 3.2 s
        ");
        assert!(written(&dir, "20261121100000").ends_with("20 rows; 3.2 s\n"));
    }
}
