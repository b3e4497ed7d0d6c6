//! `logs/failed_items.csv`: every item that failed for good. The items of a mini-batch whose names
//! are unknown share a row, so that no item is lost silently.

use super::budget::ReportBudget;
use super::log_file::LogFile;
use super::phrases::{count, counted, csv_field, csv_number, path_of};
use super::reporters::Reporter;
use crate::event::{Event, EventKind};
use crate::model::{AttemptReport, FailedItem, FailureKind, JobDir, printable};
use std::io;

const HEADER: &str = "mini_batch,item,file,line,row,attempt,worker,reason,kind";

/// If a whole mini-batch fails, its first row in the file has the full reason. In each further row, the
/// reason is cut to this many bytes.
const MAX_REPEATED_BYTES: usize = 300;

/// Writes `logs/failed_items.csv`. Without failed items, there is no file.
pub(super) struct FailedItems {
    file: LogFile,
    line: String,
    /// The number of rows that are not in the file because the budget was used up.
    left_out: u64,
}

impl FailedItems {
    pub(super) fn new(dir: &JobDir, budget: &ReportBudget) -> Self {
        let file = LogFile::new(dir.failed_items(), HEADER).with_budget(budget);
        Self { file, line: String::new(), left_out: 0 }
    }

    /// Adds a row. `item` is what failed. The triple is the file of the item, and its line or row
    /// there.
    fn row(
        &mut self,
        report: &AttemptReport,
        worker: &str,
        item: &str,
        (file, line_number, row): (&str, Option<u64>, Option<u64>),
        (reason, kind): (&str, FailureKind),
    ) -> io::Result<()> {
        let line = &mut self.line;
        line.clear();
        csv_number(line, report.id);
        for text in [item, file] {
            line.push(',');
            csv_field(line, text);
        }
        for number in [line_number, row] {
            line.push(',');
            if let Some(number) = number {
                csv_number(line, number);
            }
        }
        line.push(',');
        csv_number(line, report.attempt);
        for text in [worker, &printable(reason)] {
            line.push(',');
            csv_field(line, text);
        }
        line.push(',');
        csv_number(line, kind);
        line.push('\n');
        self.left_out += u64::from(!self.file.write_within(line.as_bytes())?);
        Ok(())
    }

    /// Adds a last row with the number of missing rows.
    fn finish(&mut self) -> io::Result<()> {
        if self.left_out > 0 {
            let rows = counted(self.left_out, "more row");
            let last = format!(
                ",,,,,,,\"{rows} of failed items left out, because limits.reports was reached; each failed item \
                 is counted in the result\",\n"
            );
            self.file.write(last.as_bytes())?;
        }
        self.file.flush()
    }

    /// Adds a row for each failed item that is named, and one row for all failed items that are not named.
    fn add_attempt(
        &mut self,
        report: &AttemptReport,
        worker: &str,
        location: &str,
    ) -> io::Result<()> {
        let failed = counted(report.items.failed, "item");
        let whole_reason = report.outcome.as_ref().err();
        let whole_reason = whole_reason
            .map(|failure| format!("the whole mini-batch ({failed}): {}", failure.message));
        let is_slice = |item: &FailedItem| item.line.or(item.row).is_some();
        let has_slices = whole_reason.is_some() && report.failed_items.iter().any(is_slice);
        for (index, FailedItem { item, line, row, reason, kind }) in
            report.failed_items.iter().enumerate()
        {
            // Give the reason of the whole mini-batch in full only once: it may be long, and there may be
            // many files.
            let reason = match &whole_reason {
                // The item has its own reason.
                Some(_) if !reason.is_empty() => reason,
                Some(whole_reason) if index > 0 => {
                    &whole_reason[..whole_reason.floor_char_boundary(MAX_REPEATED_BYTES)]
                }
                Some(whole_reason) => whole_reason,
                None => reason,
            };
            let name: &str = match (line, row) {
                _ if has_slices && report.failed_items.len() == 1 => location,
                (Some(line), _) => &format!("{item}, line {line}"),
                (None, Some(row)) => &format!("{item}, row {row}"),
                (None, None) => item,
            };
            self.row(report, worker, name, (item, *line, *row), (reason, *kind))?;
        }
        // If the whole mini-batch failed, an entry with a line or a row number stands for all rows
        // of the mini-batch in that file. All items are then named.
        let are_all_named =
            has_slices && report.failed_items.len() < AttemptReport::MAX_FAILED_ITEMS;
        let unnamed = report.items.failed.saturating_sub(report.failed_items.len() as u64);
        let unnamed = if are_all_named { 0 } else { unnamed };
        if let Some((reason, kind)) = unnamed_row(report, unnamed, whole_reason.as_deref()) {
            let place = (path_of(location), None, None);
            self.row(report, worker, location, place, (&reason, kind))?;
        }
        Ok(())
    }
}

/// The reason and the kind in the row for the `unnamed` items; `None` if all items are named. `whole_reason`:
/// why the whole mini-batch failed.
fn unnamed_row(
    report: &AttemptReport,
    unnamed: u64,
    whole_reason: Option<&str>,
) -> Option<(String, FailureKind)> {
    let named = &report.failed_items;
    if let Err(failure) = &report.outcome {
        let reason = whole_reason.unwrap_or_default();
        if named.is_empty() {
            return Some((reason.to_owned(), failure.kind));
        }
        let end = reason.floor_char_boundary(MAX_REPEATED_BYTES);
        let reason = format!("{} of {}", counted(unnamed, "more item"), &reason[..end]);
        return (unnamed > 0).then_some((reason, failure.kind));
    }
    if unnamed == 0 {
        return None;
    }
    match named.last() {
        Some(last) if named.len() >= AttemptReport::MAX_FAILED_ITEMS => {
            let first = count(named.len() as u64);
            let items = counted(unnamed, "more item");
            let reason =
                format!("{items} of this mini-batch failed; only the first {first} are named");
            Some((reason, last.kind))
        }
        _ => {
            let items = counted(unnamed, "item");
            let reason = format!(
                "run returned fewer rows than items, so that {items} of this mini-batch failed; it is \
                 not known which"
            );
            Some((reason, FailureKind::ShortResults))
        }
    }
}

impl Reporter for FailedItems {
    fn on_event(&mut self, event: &Event) -> io::Result<()> {
        match &event.kind {
            EventKind::AttemptFinished { worker, report, location, will_retry: false, .. }
                if report.items.failed > 0 || report.outcome.is_err() =>
            {
                self.add_attempt(report, worker, location)
            }
            EventKind::JobFinished { .. } => self.finish(),
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
    use crate::model::{Failure, FailureKind};
    use crate::samples;

    #[test]
    fn lists_items_and_whole_mini_batches_once() {
        let folder = tempfile::tempdir().unwrap();
        let dir = JobDir::new(folder.path());
        let mut list = FailedItems::new(&dir, &ReportBudget::default());
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
        mini_batch,item,file,line,row,attempt,worker,reason,kind
        1,/inputs/images/img_0007.png,/inputs/images/img_0007.png,,,1,process001,not a PNG file,script_error
        7,/inputs/images/img_0070.png and 9 more,/inputs/images/img_0070.png,,,1,process001,"run returned fewer rows than items, so that 2 items of this mini-batch failed; it is not known which",short_results
        2,/inputs/images/img_0020.png and 9 more,/inputs/images/img_0020.png,,,2,process001,"the whole mini-batch (10 items): panicked at src/lib.rs:12:9: no digit, ""5"" expected",trap
        "#);
    }

    fn bad_record() -> FailedItem {
        FailedItem {
            item: "/inputs/iris/a.csv".to_owned(),
            kind: FailureKind::BadInput,
            ..FailedItem::sample()
        }
    }

    /// In the file, a row that the reader rejected has its line number, and a row that `run` reported as
    /// failed has its row number.
    #[test]
    fn failed_rows_have_their_line_or_row() {
        let folder = tempfile::tempdir().unwrap();
        let dir = JobDir::new(folder.path());
        let mut list = FailedItems::new(&dir, &ReportBudget::default());
        let item = |line, row, reason: &str| FailedItem {
            line,
            row,
            reason: reason.to_owned(),
            ..bad_record()
        };
        let items = vec![
            item(Some(7), None, "5 fields, 4 expected"),
            item(None, Some(3), "no such species"),
            // Spreadsheet programs must not read it as a formula.
            item(None, Some(4), "=HYPERLINK(\"http://x\")"),
            item(None, Some(5), "-5"),
        ];
        list.on_event(&samples::event(0, samples::succeeded(4, 2, items))).unwrap();
        list.file.flush().unwrap();
        let text = std::fs::read_to_string(dir.failed_items()).unwrap();
        insta::assert_snapshot!(text, @r#"
        mini_batch,item,file,line,row,attempt,worker,reason,kind
        4,"/inputs/iris/a.csv, line 7",/inputs/iris/a.csv,7,,2,process001,"5 fields, 4 expected",bad_input
        4,"/inputs/iris/a.csv, row 3",/inputs/iris/a.csv,,3,2,process001,no such species,bad_input
        4,"/inputs/iris/a.csv, row 4",/inputs/iris/a.csv,,4,2,process001,"'=HYPERLINK(""http://x"")",bad_input
        4,"/inputs/iris/a.csv, row 5",/inputs/iris/a.csv,,5,2,process001,-5,bad_input
        "#);
    }

    /// If a mini-batch of files failed as a whole, each file that is named has a line of the CSV. All other
    /// files share a line.
    #[test]
    fn files_of_a_whole_mini_batch_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let dir = JobDir::new(folder.path());
        let mut list = FailedItems::new(&dir, &ReportBudget::default());
        let failed = samples::job().into_iter().find_map(|event| match event.kind {
            kind @ EventKind::AttemptFinished { will_retry: false, .. } => match &kind {
                EventKind::AttemptFinished { report, .. } if report.outcome.is_err() => Some(kind),
                _ => None,
            },
            _ => None,
        });
        let mut failed = failed.unwrap();
        if let EventKind::AttemptFinished { report, .. } = &mut failed {
            let item = |name: &str| FailedItem {
                item: format!("/inputs/images/{name}.png"),
                kind: FailureKind::Trap,
                ..FailedItem::sample()
            };
            report.failed_items = vec![item("a"), item("b")];
        }
        list.on_event(&samples::event(0, failed)).unwrap();
        list.file.flush().unwrap();
        let text = std::fs::read_to_string(dir.failed_items()).unwrap();
        insta::assert_snapshot!(text, @r#"
        mini_batch,item,file,line,row,attempt,worker,reason,kind
        2,/inputs/images/a.png,/inputs/images/a.png,,,2,process001,"the whole mini-batch (10 items): panicked at src/lib.rs:12:9: no digit, ""5"" expected",trap
        2,/inputs/images/b.png,/inputs/images/b.png,,,2,process001,"the whole mini-batch (10 items): panicked at src/lib.rs:12:9: no digit, ""5"" expected",trap
        2,/inputs/images/img_0020.png and 9 more,/inputs/images/img_0020.png,,,2,process001,"8 more items of the whole mini-batch (10 items): panicked at src/lib.rs:12:9: no digit, ""5"" expected",trap
        "#);
    }

    /// If a mini-batch of a table failed as a whole, one line of the CSV says where its rows begin. If its
    /// rows come from several files, there is a line for each file.
    #[test]
    fn rows_of_a_whole_mini_batch_have_their_place() {
        let folder = tempfile::tempdir().unwrap();
        let dir = JobDir::new(folder.path());
        let mut list = FailedItems::new(&dir, &ReportBudget::default());
        let item = |name: &str, line, row| FailedItem {
            item: format!("/inputs/sales/{name}"),
            line,
            row,
            kind: FailureKind::BadInput,
            ..FailedItem::sample()
        };
        let bad = || Failure::new(FailureKind::BadInput, "it cannot be decoded");
        let one = vec![item("a.parquet", None, Some(41))];
        let two = vec![item("a.csv", Some(2), None), item("b.csv", Some(7), None)];
        for (id, place, items) in [
            (1, "/inputs/sales/a.parquet, 10 rows from row 41", one),
            (2, "/inputs/sales with store=4: 10 records", two),
        ] {
            let mut failed = samples::failed(id, 1, bad(), false);
            if let EventKind::AttemptFinished { report, location, .. } = &mut failed {
                report.failed_items = items;
                *location = place.to_owned();
            }
            list.on_event(&samples::event(id, failed)).unwrap();
        }
        list.file.flush().unwrap();
        let text = std::fs::read_to_string(dir.failed_items()).unwrap();
        insta::assert_snapshot!(text, @r#"
        mini_batch,item,file,line,row,attempt,worker,reason,kind
        1,"/inputs/sales/a.parquet, 10 rows from row 41",/inputs/sales/a.parquet,,41,1,process001,the whole mini-batch (10 items): it cannot be decoded,bad_input
        2,"/inputs/sales/a.csv, line 2",/inputs/sales/a.csv,2,,1,process001,the whole mini-batch (10 items): it cannot be decoded,bad_input
        2,"/inputs/sales/b.csv, line 7",/inputs/sales/b.csv,7,,1,process001,the whole mini-batch (10 items): it cannot be decoded,bad_input
        "#);
    }

    /// If there are more records than a report can name, the reason does not blame `run`.
    #[test]
    fn unnamed_items_are_counted() {
        let item =
            FailedItem { line: Some(7), reason: "5 fields, 4 expected".to_owned(), ..bad_record() };
        let EventKind::AttemptFinished { mut report, .. } = samples::succeeded(4, 1, Vec::new())
        else {
            panic!("an attempt");
        };
        report.failed_items = vec![item; AttemptReport::MAX_FAILED_ITEMS];
        let (reason, kind) = unnamed_row(&report, 5, None).unwrap();
        assert_eq!(kind, FailureKind::BadInput);
        insta::assert_snapshot!(reason, @"5 more items of this mini-batch failed; only the first 1,000 are named");
    }

    #[test]
    fn there_is_no_file_without_failures() {
        let folder = tempfile::tempdir().unwrap();
        let dir = JobDir::new(folder.path());
        let mut list = FailedItems::new(&dir, &ReportBudget::default());
        list.on_event(&samples::event(0, samples::succeeded(0, 1, Vec::new()))).unwrap();
        let result = samples::result(crate::model::JobStatus::Completed);
        list.on_event(&samples::event(1, EventKind::JobFinished { result })).unwrap();
        assert!(!dir.failed_items().exists());
    }
}
