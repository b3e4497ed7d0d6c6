//! `logs/job_progress_overview.txt`, how the job stands, for whoever has no terminal; and
//! `logs/readme.txt`, which explains the log tree.

use super::counters::{Counters, Speed};
use super::log_file;
use super::reporters::Reporter;
use super::words::counted;
use crate::event::{Event, EventKind};
use crate::model::JobDir;
use jiff::Timestamp;
use std::io;
use std::time::{Duration, Instant};

const WRITE_EVERY: Duration = Duration::from_secs(5);

const README: &str = include_str!("readme.txt");

/// Writes both files.
pub(super) struct Overview {
    dir: JobDir,
    job: String,
    counters: Counters,
    speed: Speed,
    started: Instant,
    written: Instant,
}

impl Overview {
    pub(super) fn new(dir: &JobDir) -> Self {
        Self {
            dir: dir.clone(),
            job: String::new(),
            counters: Counters::default(),
            speed: Speed::default(),
            started: Instant::now(),
            written: Instant::now(),
        }
    }

    fn write(&mut self, end: &str) -> io::Result<()> {
        self.written = Instant::now();
        self.speed.sample(self.started.elapsed().as_secs_f64(), &self.counters);
        let text = format!(
            "job {}, as of {:.0}\n{}\n{} alive\n{end}",
            self.job,
            Timestamp::now(),
            self.counters.line(&self.speed),
            counted(self.counters.workers, "worker"),
        );
        log_file::replace(&self.dir.logs().join("job_progress_overview.txt"), &text)
    }
}

impl Reporter for Overview {
    fn on_event(&mut self, event: &Event) -> io::Result<()> {
        self.counters.update(&event.kind);
        match &event.kind {
            EventKind::JobStarted { job, .. } => {
                self.job.clone_from(job);
                log_file::replace(&self.dir.logs().join("readme.txt"), README)
            }
            EventKind::JobFinished { result } => {
                self.write(&format!("{}; see logs/job_result.txt\n", result.status))
            }
            _ => Ok(()),
        }
    }

    fn on_tick(&mut self) -> io::Result<()> {
        if self.written.elapsed() >= WRITE_EVERY { self.write("") } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::samples;

    #[test]
    fn tells_how_the_job_stands() {
        let folder = tempfile::tempdir().unwrap();
        let dir = JobDir::new(folder.path());
        let mut overview = Overview::new(&dir);
        for event in samples::job() {
            overview.on_event(&event).unwrap();
        }
        let text = std::fs::read_to_string(dir.logs().join("job_progress_overview.txt")).unwrap();
        insta::with_settings!({filters => vec![
            (r"as of \S+", "as of TIME"), (r"[\d,.]+/s", "N/s"), (r"s, \S+ \S+ left", "s, N left"),
        ]}, {
            insta::assert_snapshot!(text, @r"
            job digits, as of TIME
            3/180 mini-batches, 30 items, 11 failed, N/s, N left
            1 worker alive
            failed; see logs/job_result.txt
            ");
        });
        assert!(dir.logs().join("readme.txt").exists());
    }

    #[test]
    fn the_readme_names_the_files_that_are_written() {
        let dir = JobDir::new("");
        for path in [dir.result_file(), dir.failed_items(), dir.events(), dir.mini_batch_report()] {
            let name = path.strip_prefix("logs").unwrap().display().to_string();
            assert!(README.contains(&name), "{name}");
        }
    }
}
