//! `logs/sys/metrics/<stamp>/progress.csv`: the progress of the job in numbers, for plots.

use super::counters::{JobCounters, Speed};
use super::log_file::LogFile;
use super::phrases::stamp;
use super::reporters::Reporter;
use crate::event::{Event, EventKind};
use crate::model::JobDir;
use jiff::Timestamp;
use std::fmt::Write;
use std::io;
use std::time::{Duration, Instant};

const HEADER: &str = "Datetime,Total Tasks,Scheduled Tasks,Completed Tasks,Failed Tasks,\
    Elapsed Time,Estimated Remaining Time";

const UNKNOWN: &str = "N/A";

/// Writes `progress.csv`. Each run of a job has its own file. Times are in seconds.
pub(super) struct ProgressFile {
    dir: JobDir,
    /// `None` before the start and after the end.
    file: Option<LogFile>,
    counters: JobCounters,
    speed: Speed,
    began: Timestamp,
    started: Instant,
    written: Instant,
}

impl ProgressFile {
    pub(super) fn new(dir: &JobDir) -> Self {
        Self {
            dir: dir.clone(),
            file: None,
            counters: JobCounters::default(),
            speed: Speed::default(),
            began: Timestamp::UNIX_EPOCH,
            started: Instant::now(),
            written: Instant::now(),
        }
    }

    fn write(&mut self, at: Timestamp) -> io::Result<()> {
        let Some(file) = &mut self.file else { return Ok(()) };
        self.written = Instant::now();
        let elapsed = at.duration_since(self.began).as_secs_f64().max(0.0);
        self.speed.sample(elapsed, &self.counters);
        let counters = &self.counters;
        let mut line = format!("{at:.3},");
        // Writing to a string cannot fail.
        let _ = match counters.planning_finished {
            true => write!(line, "{}", counters.planned),
            false => write!(line, "{UNKNOWN}"),
        };
        let succeeded = counters.succeeded();
        let failed = counters.failed_now();
        let _ = write!(line, ",{},{succeeded},{failed},{elapsed:.3},", counters.planned);
        let _ = match counters.seconds_left(&self.speed) {
            Some(left) => writeln!(line, "{left:.1}"),
            None => writeln!(line, "{UNKNOWN}"),
        };
        file.write(line.as_bytes())
    }

    /// The time between two rows: short at first, so that a short job has a curve too, then longer.
    fn pause(&self) -> Duration {
        Duration::from_secs(if self.started.elapsed().as_secs() < 60 { 1 } else { 10 })
    }
}

impl Reporter for ProgressFile {
    fn on_event(&mut self, event: &Event) -> io::Result<()> {
        self.counters.update(&event.kind);
        match &event.kind {
            EventKind::JobStarted { .. } => {
                self.began = event.at;
                self.file = Some(LogFile::new(self.dir.progress(&stamp(event.at)), HEADER));
                self.write(event.at)
            }
            EventKind::JobFinished { .. } => {
                self.write(event.at)?;
                self.file.take().map_or(Ok(()), |mut file| file.flush())
            }
            _ => Ok(()),
        }
    }

    fn on_tick(&mut self) -> io::Result<()> {
        if self.file.is_some() && self.written.elapsed() >= self.pause() {
            self.write(Timestamp::now())?;
        }
        self.file.as_mut().map_or(Ok(()), LogFile::tick)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples;

    /// Rules F8 and C10 in docs/parallel-run-step.md: the file has these columns, and N/A for unknown values.
    /// A mini-batch counts as failed while it waits for a retry.
    #[test]
    fn a_line_now_and_then() {
        let folder = tempfile::tempdir().unwrap();
        let dir = JobDir::new(folder.path());
        let mut progress = ProgressFile::new(&dir);
        let begin: Timestamp = "2026-11-21T10:00:00Z".parse().unwrap();
        for (second, mut event) in (0..).zip(samples::job()) {
            event.at = begin + jiff::SignedDuration::from_secs(second);
            progress.on_event(&event).unwrap();
            if second % 4 == 3 {
                progress.write(event.at).unwrap();
            }
        }
        let text = std::fs::read_to_string(dir.progress("20261121100000")).unwrap();
        insta::assert_snapshot!(text, @"
        Datetime,Total Tasks,Scheduled Tasks,Completed Tasks,Failed Tasks,Elapsed Time,Estimated Remaining Time
        2026-11-21T10:00:00.000Z,N/A,0,0,0,0.000,N/A
        2026-11-21T10:00:03.000Z,N/A,0,0,0,3.000,N/A
        2026-11-21T10:00:07.000Z,N/A,3,1,0,7.000,N/A
        2026-11-21T10:00:11.000Z,180,180,2,1,11.000,979.0
        2026-11-21T10:00:15.000Z,180,180,2,1,15.000,1335.0
        2026-11-21T10:00:18.000Z,180,180,2,1,18.000,1062.0
        ");
    }
}
