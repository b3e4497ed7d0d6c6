//! `logs/job_progress_overview.txt`, the state of the job for readers without a terminal; a file of
//! the same name with a stamp, which has this state minute by minute; and `logs/readme.txt`, which
//! explains the log tree.

use super::counters::{JobCounters, Speed};
use super::log_file::{self, LogFile};
use super::phrases::{count, counted, hour_stamp, rate, seconds};
use super::report_paths::ReportPaths;
use super::reporters::Reporter;
use super::result::result_text;
use crate::event::{Event, EventKind};
use jiff::Timestamp;
use std::io;
use std::time::{Duration, Instant};

const WRITE_EVERY: Duration = Duration::from_secs(5);
const HISTORY_EVERY: Duration = Duration::from_secs(60);
/// The time after which the history continues in a new file.
const NEW_FILE_EVERY: Duration = Duration::from_secs(24 * 3600);

const README: &str = include_str!("readme.txt");

/// Writes the overview, its history and the readme.
pub(super) struct Overview {
    paths: ReportPaths,
    counters: JobCounters,
    speed: Speed,
    started: Instant,
    written: Instant,
    last_kept: Instant,
    /// When the current history file was begun, and the file; `None` before the start and after the end of
    /// the job.
    history: Option<(Instant, LogFile)>,
}

impl Overview {
    pub(super) fn new(paths: ReportPaths) -> Self {
        let now = Instant::now();
        Self {
            paths,
            counters: JobCounters::default(),
            speed: Speed::default(),
            started: now,
            written: now,
            last_kept: now,
            history: None,
        }
    }

    fn begin_history(&mut self, at: Timestamp) {
        let path = self.paths.job_dir.overview_since(&hour_stamp(at));
        self.history = Some((Instant::now(), LogFile::new(path, "")));
    }

    /// Rewrites the overview. With `in_history`, also adds the text to the history.
    fn write(&mut self, at: Timestamp, end: &str, in_history: bool) -> io::Result<()> {
        self.written = Instant::now();
        self.speed.sample(self.started.elapsed().as_secs_f64(), &self.counters);
        let text = self.text(at, end);
        log_file::replace(&self.paths.job_dir.overview(), &text)?;
        if !in_history {
            return Ok(());
        }
        self.last_kept = Instant::now();
        if self.history.as_ref().is_some_and(|(begun, _)| begun.elapsed() >= NEW_FILE_EVERY) {
            self.begin_history(at);
        }
        let Some((_, file)) = &mut self.history else { return Ok(()) };
        file.write(text.as_bytes())?;
        file.write(b"\n")?;
        file.flush()
    }

    fn text(&self, at: Timestamp, end: &str) -> String {
        let Self { paths, counters, speed, .. } = self;
        let more = if counters.planning_finished { "" } else { ", planning continues" };
        let waiting = match counters.waiting() {
            0 => String::new(),
            waiting => format!(", {} of them to be tried again", count(waiting)),
        };
        let late = match counters.late {
            0 => String::new(),
            late => {
                format!("\n  too late      {} (the rows do not count)", counted(late, "attempt"))
            }
        };
        let left = match counters.seconds_left(speed) {
            Some(left) if left > 0.0 => format!(", {} left", seconds(left)),
            _ => String::new(),
        };
        let rows = match (paths.drops_rows, paths.made_at_end) {
            (true, _) => "counted and dropped",
            (false, true) => "kept; the output is made at the end",
            (false, false) => "in the output file",
        };
        format!(
            "job {}, as of {at:.0}\n  \
             scheduled     {}{more}\n  \
             processed     {}\n  \
             succeeded     {}\n  \
             failed        {}{waiting}{late}\n  \
             items         {}, of which {} failed\n  \
             rows          {} {rows}\n  \
             speed         {} items/s{left}\n  \
             workers       {} alive\n{end}",
            paths.job,
            counted(counters.planned, "mini-batch"),
            count(counters.done),
            count(counters.succeeded()),
            count(counters.failed_now()),
            count(counters.items.total),
            count(counters.failed_items_now()),
            count(counters.rows),
            rate(speed.items),
            count(counters.workers),
        )
    }
}

impl Reporter for Overview {
    fn on_event(&mut self, event: &Event) -> io::Result<()> {
        self.counters.update(&event.kind);
        match &event.kind {
            EventKind::JobStarted { .. } => {
                self.begin_history(event.at);
                log_file::replace(&self.paths.job_dir.log_readme(), README)?;
                self.write(event.at, "", true)
            }
            EventKind::JobFinished { result } => {
                let end = result_text(result, &self.paths);
                self.write(event.at, &end, true)?;
                self.history = None;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn on_tick(&mut self) -> io::Result<()> {
        if self.history.is_none() || self.written.elapsed() < WRITE_EVERY {
            return Ok(());
        }
        self.write(Timestamp::now(), "", self.last_kept.elapsed() >= HISTORY_EVERY)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{JobDir, NodeId, WorkerId};
    use crate::samples;

    fn redacted(text: &str) -> String {
        let speed = regex::Regex::new(r"speed .*").unwrap();
        let folder = regex::Regex::new(r"explain .*").unwrap();
        let text = speed.replace_all(text, "speed         [SPEED]");
        folder.replace_all(&text, "explain [JOB]").into_owned()
    }

    /// Rule F1 in docs/parallel-run-step.md: the overview has the scheduled and processed counts, the final
    /// result and, after a failure, the file to read first.
    #[test]
    fn shows_the_state_of_the_job() {
        let folder = tempfile::tempdir().unwrap();
        let paths = samples::paths(folder.path());
        let dir = paths.job_dir.clone();
        let read = |path| redacted(&std::fs::read_to_string(path).unwrap());
        let mut overview = Overview::new(paths);
        for event in samples::job() {
            if matches!(event.kind, EventKind::WorkerExited { .. }) {
                overview.write(event.at, "", false).unwrap();
                insta::assert_snapshot!(read(dir.overview()), @"
                job digits, as of 2026-11-21T10:00:00Z
                  scheduled     180 mini-batches
                  processed     2
                  succeeded     2
                  failed        1, 1 of them to be tried again
                  items         20, of which 11 failed
                  rows          19 in the output file
                  speed         [SPEED]
                  workers       2 alive
                ");
            }
            overview.on_event(&event).unwrap();
        }
        insta::assert_snapshot!(read(dir.overview()), @r#"
        job digits, as of 2026-11-21T10:00:00Z
          scheduled     180 mini-batches
          processed     3
          succeeded     2
          failed        1
          items         30, of which 10 failed
          rows          20 in the output file
          speed         [SPEED]
          workers       2 alive
        Job digits failed after 3.2 s: 10 items failed, more than error_threshold allows (0)
          first cause   panicked at src/lib.rs:12:9: no digit, "5" expected
          where         mini-batch 2, process001
          mini-batches  3 of 180, of which 1 failed
          items         30, of which 10 failed (see logs/failed_items.csv)
          kept          20 rows, in output/parallel_run_step.txt
          read next     logs/user/error/0/process001.txt
          next command  sandmill explain [JOB]
        "#);
        insta::assert_snapshot!(read(dir.overview_since("2026112110")), @r#"
        job digits, as of 2026-11-21T10:00:00Z
          scheduled     0 mini-batches, planning continues
          processed     0
          succeeded     0
          failed        0
          items         0, of which 0 failed
          rows          0 in the output file
          speed         [SPEED]
          workers       0 alive

        job digits, as of 2026-11-21T10:00:00Z
          scheduled     180 mini-batches
          processed     3
          succeeded     2
          failed        1
          items         30, of which 10 failed
          rows          20 in the output file
          speed         [SPEED]
          workers       2 alive
        Job digits failed after 3.2 s: 10 items failed, more than error_threshold allows (0)
          first cause   panicked at src/lib.rs:12:9: no digit, "5" expected
          where         mini-batch 2, process001
          mini-batches  3 of 180, of which 1 failed
          items         30, of which 10 failed (see logs/failed_items.csv)
          kept          20 rows, in output/parallel_run_step.txt
          read next     logs/user/error/0/process001.txt
          next command  sandmill explain [JOB]
        "#);
        overview.written = Instant::now().checked_sub(WRITE_EVERY).unwrap();
        std::fs::remove_file(dir.overview()).unwrap();
        overview.on_tick().unwrap();
        assert!(!dir.overview().exists(), "nothing is written after the end");
    }

    /// Until the output exists, the text does not name it.
    #[test]
    fn rows_of_an_output_that_is_made_at_the_end_are_kept() {
        let paths = ReportPaths { made_at_end: true, ..samples::paths("/job".as_ref()) };
        let text = Overview::new(paths).text(Timestamp::UNIX_EPOCH, "");
        assert!(text.contains("  rows          0 kept; the output is made at the end\n"), "{text}");
    }

    /// F1: the history continues in a new file each day and whenever the job is resumed. Nothing is
    /// overwritten.
    #[test]
    fn the_history_continues_in_new_files() {
        let folder = tempfile::tempdir().unwrap();
        let paths = samples::paths(folder.path());
        let dir = paths.job_dir.clone();
        let mut overview = Overview::new(paths);
        for event in samples::job_again() {
            overview.on_event(&event).unwrap();
        }
        assert_eq!(
            std::fs::read_to_string(dir.overview_since("2026112112"))
                .unwrap()
                .matches("job digits")
                .count(),
            2
        );
        overview.begin_history("2026-11-21T12:30:00Z".parse().unwrap());
        let a_day = Duration::from_secs(24 * 3600);
        overview.history.as_mut().unwrap().0 = Instant::now().checked_sub(a_day).unwrap();
        overview.write("2026-11-22T12:30:00Z".parse().unwrap(), "", true).unwrap();
        assert!(dir.overview_since("2026112212").exists());
        assert!(dir.overview_since("2026112112").exists());
    }

    /// F4: the readme explains the tree.
    #[test]
    fn the_readme_names_the_files_that_are_written() {
        let dir = JobDir::new("");
        let worker = WorkerId(0);
        let stamp = "<yyyymmddhhmmss>";
        for path in [
            dir.result_file(),
            dir.job_errors(),
            dir.overview(),
            dir.overview_since("<yyyymmddhh>"),
            dir.log_readme(),
            dir.failed_items(),
            dir.user_errors(),
            dir.worker_errors(worker),
            dir.script_stdout(worker),
            dir.script_stderr(worker),
            dir.script_log(worker),
            dir.script_log_dir(NodeId::ONLY),
            dir.master_role(stamp),
            dir.mini_batch_report(),
            dir.process_summary(),
            dir.node_summary(),
            dir.progress(stamp),
            dir.metrics(),
            dir.node_main(NodeId::ONLY),
            dir.worker_log(worker),
            dir.worker_stderr(worker),
            dir.worker_system_errors(worker),
            dir.leader_errors(),
            dir.events(),
        ] {
            let name = path.strip_prefix("logs").unwrap().display().to_string();
            let name = name.replace("process000", "processNNN");
            let named = |line: &str| line.split_whitespace().next() == Some(name.as_str());
            assert!(README.lines().any(|line| named(line.trim_end_matches('/')) || line.trim().starts_with(&name)), "{name}");
        }
    }
}
