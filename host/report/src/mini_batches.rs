//! `processed_mini-batches.csv`: one row for each attempt. It has the columns that users of
//! ParallelRunStep know (docs/parallel-run-step.md, Columns), and a column for the node.

use super::budget::ReportBudget;
use super::log_file::LogFile;
use super::phrases::{csv_field, node_of, path_of, push_inference_columns};
use super::reporters::Reporter;
use super::times::{TimeWriter, number, span_micros};
use crate::event::{Event, EventKind};
use crate::model::{AttemptReport, JobDir, MiniBatchId, printable_json};
use jiff::Timestamp;
use serde::Serialize;
use std::fmt::Write;
use std::io;

const HEADER: &str = "Mini-batch Id,Picked Count,Process,Node Id,Process Start Time,Total,\
    Succeeded,Failed,Elapsed Seconds,Process Seconds,Run Method Seconds,Status,Error Category,\
    Error Message,Mini-batch Detail,Inference Calls,Inference Seconds,Inference Bytes In,\
    Inference Bytes Out,Device,Backend";

/// The contents of the column `Mini-batch Detail`, as JSON. The first six members are the ones that users of
/// ParallelRunStep know (rule M6 in docs/parallel-run-step.md).
#[derive(Serialize)]
struct Detail<'a> {
    id: MiniBatchId,
    dequeue_count: u32,
    /// What the mini-batch consists of, in words.
    minibatch: &'a str,
    /// Where the mini-batch begins.
    location: &'a str,
    /// The number of items of the mini-batch.
    partition_size: u64,
    task_type: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    rows: Option<u64>,
    /// The fuel that `run` used, if the job measures it.
    #[serde(skip_serializing_if = "Option::is_none")]
    fuel: Option<u64>,
    /// Whether there will be another attempt. `None` if the attempt succeeded.
    #[serde(skip_serializing_if = "Option::is_none")]
    will_retry: Option<bool>,
}

/// Writes `processed_mini-batches.csv`.
pub(super) struct MiniBatches {
    file: LogFile,
    line: String,
    detail: Vec<u8>,
    times: TimeWriter,
}

impl MiniBatches {
    pub(super) fn new(dir: &JobDir, budget: &ReportBudget) -> Self {
        Self {
            file: LogFile::new(dir.mini_batch_report(), HEADER).with_budget(budget),
            line: String::new(),
            detail: Vec::new(),
            times: TimeWriter::iso(),
        }
    }

    /// Writes the row of an attempt.
    fn row(
        &mut self,
        worker: &str,
        report: &AttemptReport,
        location: &str,
        started: Timestamp,
        will_retry: bool,
    ) -> io::Result<()> {
        let line = &mut self.line;
        line.clear();
        number(line, report.id.0);
        line.push(',');
        number(line, report.attempt.into());
        line.push(',');
        csv_field(line, worker);
        line.push(',');
        number(line, node_of(worker).0.into());
        line.push(',');
        self.times.micros(line, started);
        for count in [report.items.total, report.items.succeeded, report.items.failed] {
            line.push(',');
            number(line, count);
        }
        for seconds in [report.elapsed_seconds, report.process_seconds, report.run.seconds] {
            line.push(',');
            span_micros(line, seconds);
        }
        let rows = match &report.outcome {
            Ok(segment) => {
                line.push_str(",RUN_DONE,");
                // A mini-batch that succeeded has the first of its failed items in the error columns.
                if let Some(first) = report.failed_items.first() {
                    let _ = write!(line, "{}", first.kind);
                    line.push(',');
                    csv_field(line, &first.reason);
                } else {
                    line.push(',');
                }
                line.push(',');
                Some(segment.rows)
            }
            Err(failure) => {
                // Writing to a string cannot fail.
                let _ = write!(line, ",{},{},", failure.kind.status_word(), failure.kind);
                csv_field(line, &failure.message);
                line.push(',');
                None
            }
        };
        let detail = Detail {
            id: report.id,
            dequeue_count: report.attempt,
            minibatch: location,
            location: path_of(location),
            partition_size: report.items.total,
            task_type: "run",
            rows,
            fuel: report.run.fuel,
            will_retry: report.outcome.is_err().then_some(will_retry),
        };
        self.detail.clear();
        serde_json::to_writer(&mut self.detail, &detail)?;
        csv_field(line, &printable_json(&String::from_utf8_lossy(&self.detail)));
        push_inference_columns(line, &report.inference);
        line.push('\n');
        self.file.write_within(line.as_bytes()).map(drop)
    }
}

impl Reporter for MiniBatches {
    fn on_event(&mut self, event: &Event) -> io::Result<()> {
        match &event.kind {
            EventKind::JobStarted { .. } => self.file.open(),
            EventKind::AttemptFinished { worker, report, location, started, will_retry } => {
                self.row(worker, report, location, *started, *will_retry)
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
    use crate::model::{Device, Failure, FailureKind, InferenceStats};
    use crate::samples;

    /// Rules M6, F6 and K1: the table has all columns, and the column for details has the known members.
    #[test]
    fn one_row_for_each_attempt() {
        let folder = tempfile::tempdir().unwrap();
        let dir = JobDir::new(folder.path());
        let mut report = MiniBatches::new(&dir, &ReportBudget::default());
        for event in samples::job() {
            report.on_event(&event).unwrap();
        }
        let text = std::fs::read_to_string(dir.mini_batch_report()).unwrap();
        insta::assert_snapshot!(text, @r#"
        Mini-batch Id,Picked Count,Process,Node Id,Process Start Time,Total,Succeeded,Failed,Elapsed Seconds,Process Seconds,Run Method Seconds,Status,Error Category,Error Message,Mini-batch Detail,Inference Calls,Inference Seconds,Inference Bytes In,Inference Bytes Out,Device,Backend
        0,1,process001,0,2026-11-21T10:00:00.500000Z,10,10,0,0.250000,0.200000,0.125000,RUN_DONE,,,"{""id"":0,""dequeue_count"":1,""minibatch"":""/inputs/images/img_0000.png and 9 more"",""location"":""/inputs/images/img_0000.png"",""partition_size"":10,""task_type"":""run"",""rows"":10}",0,0.000000,0,0,,
        1,1,process001,0,2026-11-21T10:00:00.500000Z,10,9,1,0.250000,0.200000,0.125000,RUN_DONE,script_error,not a PNG file,"{""id"":1,""dequeue_count"":1,""minibatch"":""/inputs/images/img_0010.png and 9 more"",""location"":""/inputs/images/img_0010.png"",""partition_size"":10,""task_type"":""run"",""rows"":9}",0,0.000000,0,0,,
        2,1,process001,0,2026-11-21T10:00:00.500000Z,10,0,10,0.500000,0.250000,0.500000,RUN_EXCEPTION,trap,"panicked at src/lib.rs:12:9: no digit, ""5"" expected","{""id"":2,""dequeue_count"":1,""minibatch"":""/inputs/images/img_0020.png and 9 more"",""location"":""/inputs/images/img_0020.png"",""partition_size"":10,""task_type"":""run"",""fuel"":1000,""will_retry"":true}",0,0.000000,0,0,,
        2,2,process001,0,2026-11-21T10:00:00.500000Z,10,0,10,0.500000,0.250000,0.500000,RUN_EXCEPTION,trap,"panicked at src/lib.rs:12:9: no digit, ""5"" expected","{""id"":2,""dequeue_count"":2,""minibatch"":""/inputs/images/img_0020.png and 9 more"",""location"":""/inputs/images/img_0020.png"",""partition_size"":10,""task_type"":""run"",""fuel"":1000,""will_retry"":false}",0,0.000000,0,0,,
        "#);
    }

    /// Inference has its own columns at the end, so the older columns keep their positions.
    #[test]
    fn inference_comes_last() {
        let folder = tempfile::tempdir().unwrap();
        let dir = JobDir::new(folder.path());
        let mut report = MiniBatches::new(&dir, &ReportBudget::default());
        let on_gpu = InferenceStats {
            device: Some(Device::Gpu(1)),
            fell_back: false,
            ..samples::inference()
        };
        for stats in [InferenceStats::default(), samples::inference(), on_gpu] {
            let kind = samples::with_inference(samples::succeeded(0, 1, Vec::new()), stats);
            report.on_event(&samples::event(0, kind)).unwrap();
        }
        report.file.flush().unwrap();
        let text = std::fs::read_to_string(dir.mini_batch_report()).unwrap();
        let last = |row: &str| row.rsplitn(7, ',').take(6).map(str::to_owned).collect::<Vec<_>>();
        let rows: Vec<String> = text
            .lines()
            .map(|row| last(row).into_iter().rev().collect::<Vec<_>>().join(","))
            .collect();
        insta::assert_snapshot!(rows.join("\n"), @"
        Inference Calls,Inference Seconds,Inference Bytes In,Inference Bytes Out,Device,Backend
        0,0.000000,0,0,,
        3,0.062500,7680,1200,cpu (fell back),tract
        3,0.062500,7680,1200,gpu 1,tract
        ");
    }

    /// W13: the words for the status. A mini-batch succeeded if any row with its id says RUN_DONE.
    #[test]
    fn status_words_and_the_final_view() {
        let folder = tempfile::tempdir().unwrap();
        let dir = JobDir::new(folder.path());
        let mut report = MiniBatches::new(&dir, &ReportBudget::default());
        let kinds = [
            samples::failed(1, 1, Failure::new(FailureKind::Timeout, "60 s"), true),
            samples::failed(1, 2, Failure::new(FailureKind::LoadFailed, "gone"), true),
            samples::succeeded(1, 3, Vec::new()),
            samples::failed(2, 1, samples::trap(), false),
        ];
        for kind in kinds {
            report.on_event(&samples::event(0, kind)).unwrap();
        }
        report.file.flush().unwrap();
        let text = std::fs::read_to_string(dir.mini_batch_report()).unwrap();
        let status = |row: &str| {
            let cells: Vec<&str> = row.split(',').collect();
            format!("{} {} {}", cells[0], cells[1], cells[11])
        };
        let rows: Vec<String> = text.lines().skip(1).map(status).collect();
        assert_eq!(
            rows,
            ["1 1 RUN_TIMEOUT", "1 2 LOAD_EXCEPTION", "1 3 RUN_DONE", "2 1 RUN_EXCEPTION"]
        );
        let succeeded =
            |id: &str| rows.iter().any(|row| row.starts_with(id) && row.ends_with(" RUN_DONE"));
        assert!(succeeded("1 ") && !succeeded("2 "));
    }

    /// W15: a run that resumes the job adds rows, but no second header.
    #[test]
    fn the_next_run_appends_rows() {
        let folder = tempfile::tempdir().unwrap();
        let dir = JobDir::new(folder.path());
        for events in [samples::job(), samples::job_again()] {
            let mut report = MiniBatches::new(&dir, &ReportBudget::default());
            for event in events {
                report.on_event(&event).unwrap();
            }
        }
        let text = std::fs::read_to_string(dir.mini_batch_report()).unwrap();
        assert_eq!((text.lines().count(), text.matches("Mini-batch Id").count()), (1 + 4 + 2, 1));
    }

    #[test]
    fn a_row_is_cheap() {
        let folder = tempfile::tempdir().unwrap();
        let mut report = MiniBatches::new(&JobDir::new(folder.path()), &ReportBudget::default());
        let event = samples::event(0, samples::succeeded(1, 1, Vec::new()));
        let began = std::time::Instant::now();
        for _ in 0..10_000 {
            report.on_event(&event).unwrap();
        }
        // The limit is generous, for unoptimized builds and busy machines, but a flush for each row
        // would exceed it.
        let each = began.elapsed() / 10_000;
        assert!(each < std::time::Duration::from_micros(100), "{each:?} a row");
    }
}
