//! `logs/failed_items.csv`: every item that failed for good, as far as it is known which.

use super::log_file::LogFile;
use super::reporters::Reporter;
use super::words::{counted, csv_field, csv_number};
use crate::event::{Event, EventKind};
use crate::model::{AttemptReport, JobDir};
use std::io;

const HEADER: &str = "item,line,attempt,mini_batch,reason";

/// Writes the list. The file is there only if something failed.
pub(super) struct FailedItems {
    file: LogFile,
    line: String,
}

impl FailedItems {
    pub(super) fn new(dir: &JobDir) -> Self {
        Self { file: LogFile::new(dir.failed_items(), HEADER), line: String::new() }
    }

    fn row(
        &mut self,
        report: &AttemptReport,
        item: &str,
        line_number: Option<u64>,
        reason: &str,
    ) -> io::Result<()> {
        let line = &mut self.line;
        line.clear();
        csv_field(line, item);
        line.push(',');
        if let Some(number) = line_number {
            csv_number(line, number);
        }
        line.push(',');
        csv_number(line, report.attempt);
        line.push(',');
        csv_number(line, report.id);
        line.push(',');
        csv_field(line, reason);
        line.push('\n');
        self.file.write(line.as_bytes())
    }

    fn attempt(&mut self, report: &AttemptReport, location: &str) -> io::Result<()> {
        for item in &report.failed_items {
            self.row(report, &item.item, item.line, &item.reason)?;
        }
        let unnamed = report.items.failed.saturating_sub(report.failed_items.len() as u64);
        let items = counted(unnamed, "item");
        match &report.outcome {
            Err(failure) => {
                let reason = format!("the whole mini-batch ({items}): {}", failure.message);
                self.row(report, location, None, &reason)
            }
            Ok(_) if unnamed > 0 => {
                let reason = format!(
                    "run returned fewer rows than items, so that {items} of this mini-batch failed; \
                     which, is not known"
                );
                self.row(report, location, None, &reason)
            }
            Ok(_) => Ok(()),
        }
    }
}

impl Reporter for FailedItems {
    fn on_event(&mut self, event: &Event) -> io::Result<()> {
        match &event.kind {
            EventKind::AttemptFinished { report, location, will_retry: false, .. }
                if report.items.failed > 0 || report.outcome.is_err() =>
            {
                self.attempt(report, location)
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
    fn lists_items_and_whole_mini_batches_once() {
        let folder = tempfile::tempdir().unwrap();
        let dir = JobDir::new(folder.path());
        let mut list = FailedItems::new(&dir);
        let mut events = samples::job();
        let mut unnamed = samples::succeeded(7, 1, Vec::new());
        if let EventKind::AttemptFinished { report, .. } = &mut unnamed {
            report.items = crate::model::ItemCounts::from_returned(10, 8);
        }
        events.insert(9, samples::event(9, unnamed));
        for event in events {
            list.on_event(&event).unwrap();
        }
        let text = std::fs::read_to_string(dir.failed_items()).unwrap();
        insta::assert_snapshot!(text, @r#"
        item,line,attempt,mini_batch,reason
        /inputs/images/img_0007.png,,1,1,not a PNG file
        /inputs/images/img_0070.png and 9 more,,1,7,"run returned fewer rows than items, so that 2 items of this mini-batch failed; which, is not known"
        /inputs/images/img_0020.png and 9 more,,2,2,"the whole mini-batch (10 items): panicked at src/lib.rs:12:9: no digit, ""5"" expected"
        "#);
    }

    #[test]
    fn no_failure_no_file() {
        let folder = tempfile::tempdir().unwrap();
        let dir = JobDir::new(folder.path());
        let mut list = FailedItems::new(&dir);
        list.on_event(&samples::event(0, samples::succeeded(0, 1, Vec::new()))).unwrap();
        let result = samples::result(crate::model::JobStatus::Completed);
        list.on_event(&samples::event(1, EventKind::JobFinished { result })).unwrap();
        assert!(!dir.failed_items().exists());
    }
}
