//! `processed_mini-batches.csv`: one row for each attempt, with the columns that users of
//! ParallelRunStep know (prs-semantics 1.10), and the node beside the process.

use super::log_file::LogFile;
use super::reporters::Reporter;
use super::words::{csv_field, csv_number};
use crate::event::{Event, EventKind};
use crate::model::{AttemptReport, JobDir, NODE_ID};
use jiff::Timestamp;
use serde::Serialize;
use std::fmt::Write;
use std::io;

const HEADER: &str = "Mini-batch Id,Picked Count,Process,Node Id,Process Start Time,Total,\
    Succeeded,Failed,Elapsed Seconds,Process Seconds,Run Method Seconds,Status,Error Category,\
    Error Message,Mini-batch Detail";

/// The last column.
#[derive(Serialize)]
struct Detail<'a> {
    location: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    rows: Option<u64>,
    /// Fuel that `run` used, if the job measures it.
    #[serde(skip_serializing_if = "Option::is_none")]
    fuel: Option<u64>,
}

/// Writes the report.
pub(super) struct MiniBatches {
    file: LogFile,
    line: String,
}

impl MiniBatches {
    pub(super) fn new(dir: &JobDir) -> Self {
        Self { file: LogFile::new(dir.mini_batch_report(), HEADER), line: String::new() }
    }

    fn row(
        &mut self,
        worker: &str,
        report: &AttemptReport,
        location: &str,
        started: Timestamp,
    ) -> io::Result<()> {
        let line = &mut self.line;
        line.clear();
        csv_number(line, report.id);
        line.push(',');
        csv_number(line, report.attempt);
        line.push(',');
        csv_field(line, worker);
        // Writing to a string cannot fail.
        let _ = write!(line, ",{NODE_ID},{started:.6}");
        for number in [report.items.total, report.items.succeeded, report.items.failed] {
            line.push(',');
            csv_number(line, number);
        }
        for seconds in [report.elapsed_seconds, report.process_seconds, report.run.seconds] {
            let _ = write!(line, ",{seconds:.6}");
        }
        let rows = match &report.outcome {
            Ok(segment) => {
                line.push_str(",RUN_DONE,,,");
                Some(segment.rows)
            }
            Err(failure) => {
                let _ = write!(line, ",{},{},", failure.kind.status_word(), failure.kind);
                csv_field(line, &failure.message);
                line.push(',');
                None
            }
        };
        let detail = Detail { location, rows, fuel: report.run.fuel };
        csv_field(line, &serde_json::to_string(&detail)?);
        line.push('\n');
        self.file.write(line.as_bytes())
    }
}

impl Reporter for MiniBatches {
    fn on_event(&mut self, event: &Event) -> io::Result<()> {
        match &event.kind {
            EventKind::JobStarted { .. } => self.file.open().map(|_| ()),
            EventKind::AttemptFinished { worker, report, location, started, .. } => {
                self.row(worker, report, location, *started)
            }
            EventKind::JobFinished { .. } => self.file.flush(),
            _ => Ok(()),
        }
    }

    fn on_tick(&mut self) -> io::Result<()> {
        self.file.tick()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::samples;

    #[test]
    fn one_row_for_each_attempt() {
        let folder = tempfile::tempdir().unwrap();
        let dir = JobDir::new(folder.path());
        let mut report = MiniBatches::new(&dir);
        for event in samples::job() {
            report.on_event(&event).unwrap();
        }
        let text = std::fs::read_to_string(dir.mini_batch_report()).unwrap();
        insta::assert_snapshot!(text, @r#"
        Mini-batch Id,Picked Count,Process,Node Id,Process Start Time,Total,Succeeded,Failed,Elapsed Seconds,Process Seconds,Run Method Seconds,Status,Error Category,Error Message,Mini-batch Detail
        0,1,process001,0,2026-11-21T10:00:00.500000Z,10,10,0,0.250000,0.200000,0.125000,RUN_DONE,,,"{""location"":""/inputs/images/img_0000.png and 9 more"",""rows"":10}"
        1,1,process001,0,2026-11-21T10:00:00.500000Z,10,9,1,0.250000,0.200000,0.125000,RUN_DONE,,,"{""location"":""/inputs/images/img_0010.png and 9 more"",""rows"":9}"
        2,1,process001,0,2026-11-21T10:00:00.500000Z,10,0,10,0.500000,0.250000,0.500000,RUN_EXCEPTION,trap,"panicked at src/lib.rs:12:9: no digit, ""5"" expected","{""location"":""/inputs/images/img_0020.png and 9 more"",""fuel"":1000}"
        2,2,process001,0,2026-11-21T10:00:00.500000Z,10,0,10,0.500000,0.250000,0.500000,RUN_EXCEPTION,trap,"panicked at src/lib.rs:12:9: no digit, ""5"" expected","{""location"":""/inputs/images/img_0020.png and 9 more"",""fuel"":1000}"
        "#);
    }

    #[test]
    fn a_row_is_cheap() {
        let folder = tempfile::tempdir().unwrap();
        let mut report = MiniBatches::new(&JobDir::new(folder.path()));
        let event = samples::event(0, samples::succeeded(1, 1, Vec::new()));
        let began = std::time::Instant::now();
        for _ in 0..10_000 {
            report.on_event(&event).unwrap();
        }
        // Generous, for unoptimised builds and busy machines: a flush for each row would be over.
        let each = began.elapsed() / 10_000;
        assert!(each < std::time::Duration::from_micros(100), "{each:?} a row");
    }
}
