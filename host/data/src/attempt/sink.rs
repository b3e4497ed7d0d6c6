//! Takes what a call of `run` returns and judges it.

use super::loaded::LoadedMiniBatch;
use super::report::{MAX_REASON_BYTES, cut};
use super::tally::AttemptTally;
use crate::model::{AttemptReport, FailedItem, Failure, FailureKind, ItemCounts, with_errno_names};
use crate::output::{MiniBatchData, ResultSink, RowWriter};

/// The results of one call, row by row.
pub struct RowSink<'a> {
    rows: &'a mut RowWriter,
    failed: Vec<(usize, String)>,
    /// How many outcomes `run` returned; `None` if the results have another form.
    outcomes: Option<u64>,
    /// Whether there must be as many rows as items.
    strict: bool,
}

impl<'a> RowSink<'a> {
    /// A sink for the results of one call. Empties `rows`. If `strict` is true, an attempt fails unless it
    /// returns as many rows as it has items.
    pub fn new(rows: &'a mut RowWriter, strict: bool) -> Self {
        rows.clear();
        Self { rows, failed: Vec::new(), outcomes: None, strict }
    }

    /// Records the input that the rows are joined with. Does nothing if the job does not join rows.
    pub fn join(&mut self, loaded: &LoadedMiniBatch<'_>) -> Result<(), Failure> {
        match loaded.data {
            MiniBatchData::Table(pieces) => self.rows.join_table(pieces)?,
            MiniBatchData::Files(paths) => self.rows.join_files(paths),
            MiniBatchData::Void => {}
        }
        Ok(())
    }

    /// The tally of a call that returned. Fails if the results are invalid.
    pub fn into_tally(self, loaded: LoadedMiniBatch<'_>) -> Result<AttemptTally, Failure> {
        if let Some(failure) = self.rows.problem() {
            return Err(failure);
        }
        let items = loaded.items;
        let returned = self.rows.rows();
        if let Some(outcomes) = self.outcomes
            && outcomes != items
        {
            let outcome = if outcomes == 1 { "outcome" } else { "outcomes" };
            let item = if items == 1 { "item" } else { "items" };
            let message = format!(
                "run returned {outcomes} {outcome} for {items} {item}: return one outcome for each \
                 item, in the order of the mini-batch"
            );
            return Err(Failure::new(FailureKind::BadResults, message));
        }
        let is_void = matches!(loaded.data, MiniBatchData::Void);
        // Outcomes already say what happened to each item.
        if self.strict && self.outcomes.is_none() && !is_void && returned != items {
            return Err(wrong_row_count(returned, items));
        }
        self.rows.seal()?;
        let failed_items = failed_items(&self.failed, &loaded);
        let mut tally = AttemptTally::of_rejected(loaded);
        tally.items += ItemCounts::from_returned(items, returned);
        tally.failed_items.extend(failed_items);
        tally.failed_items.truncate(AttemptReport::MAX_FAILED_ITEMS);
        tally.is_short = returned < items;
        tally.surplus_rows = if is_void { 0 } else { returned.saturating_sub(items) };
        tally.null_numbers = self.rows.lost();
        tally.header = self.rows.take_header();
        Ok(tally)
    }
}

/// The failure if the number of rows must equal the number of items and does not.
fn wrong_row_count(rows: u64, items: u64) -> Failure {
    let row = if rows == 1 { "row" } else { "rows" };
    let item = if items == 1 { "item" } else { "items" };
    let message = format!(
        "run returned {rows} {row} for {items} {item}, and strict_cardinality asks for one row for \
         each item: return one for each, or set strict_cardinality to false"
    );
    Failure::new(FailureKind::ShortResults, message)
}

/// Returns the items that the guest reported as failed. Each item has a name; a row of a table also
/// has its line number or row number.
fn failed_items(failed: &[(usize, String)], loaded: &LoadedMiniBatch<'_>) -> Vec<FailedItem> {
    let indices: Vec<usize> = failed.iter().map(|(index, _)| *index).collect();
    let lines = loaded.lines.as_ref().filter(|_| !failed.is_empty());
    let lines = lines.map(|lines| lines.locate(&indices)).unwrap_or_default();
    let mut lines = lines.into_iter();
    let is_table = matches!(loaded.data, MiniBatchData::Table(_));
    let item = |(index, reason): &(usize, String)| {
        let file_and_line = lines.next();
        let (item, line) =
            file_and_line.unwrap_or_else(|| (loaded.item_name(*index).to_owned(), None));
        let row = (is_table && line.is_none()).then(|| loaded.row_number(*index));
        FailedItem { item, line, row, reason: reason.clone(), kind: FailureKind::ScriptError }
    };
    failed.iter().map(item).collect()
}

impl ResultSink for RowSink<'_> {
    fn row(&mut self, row: &str) {
        self.rows.row(row);
    }

    fn outcomes(&mut self, count: usize) {
        self.outcomes = Some(count as u64);
        self.rows.outcomes();
    }

    fn failed(&mut self, index: usize, reason: &str) {
        self.rows.failed(index);
        if self.failed.len() < AttemptReport::MAX_FAILED_ITEMS {
            let reason = with_errno_names(reason);
            self.failed.push((index, cut(&reason, MAX_REASON_BYTES)));
        }
    }

    fn table(&mut self, ipc: &[u8]) -> Result<(), Failure> {
        self.rows.table(ipc)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{OutputFormat, OutputKind};
    use arrow::array::{Int64Array, RecordBatch};
    use arrow::ipc::writer::StreamWriter;
    use std::sync::Arc;

    fn loaded(paths: &[String]) -> LoadedMiniBatch<'_> {
        LoadedMiniBatch {
            data: MiniBatchData::Files(paths),
            dataset: "d",
            items: paths.len() as u64,
            unknown_keys: None,
            rejected_count: 0,
            rejected: Vec::new(),
            table_file: String::new(),
            lines: None,
            file_rows: Vec::new(),
        }
    }

    fn tally(
        loaded: LoadedMiniBatch<'_>,
        fill: impl FnOnce(&mut RowSink<'_>),
    ) -> Result<AttemptTally, Failure> {
        judged(loaded, false, fill)
    }

    fn judged(
        loaded: LoadedMiniBatch<'_>,
        strict: bool,
        fill: impl FnOnce(&mut RowSink<'_>),
    ) -> Result<AttemptTally, Failure> {
        let mut rows = RowWriter::new(1000, true, &OutputFormat::default());
        let mut sink = RowSink::new(&mut rows, strict);
        fill(&mut sink);
        sink.into_tally(loaded)
    }

    /// Rules E8 and W4 in docs/parallel-run-step.md.
    #[test]
    fn strict_cardinality_requires_a_row_for_each_item() {
        let paths = ["/a", "/b", "/c"].map(str::to_owned);
        for count in [0, 1, 4] {
            let error = judged(loaded(&paths), true, |sink| (0..count).for_each(|_| sink.row("x")))
                .unwrap_err();
            assert_eq!(error.kind, FailureKind::ShortResults);
            let counts = format!("run returned {count} row");
            assert!(error.message.starts_with(&counts), "{error}");
            assert!(error.message.contains("for 3 items, and strict_cardinality"), "{error}");
        }
        assert!(judged(loaded(&paths), true, |sink| (0..3).for_each(|_| sink.row("x"))).is_ok());
        let outcomes = judged(loaded(&paths), true, |sink| {
            sink.outcomes(3);
            (0..3).for_each(|index| sink.failed(index, "blurred"));
        });
        assert_eq!(outcomes.unwrap().items.failed, 3, "the outcomes give the reasons");
        let void = LoadedMiniBatch { data: MiniBatchData::Void, ..loaded(&[]) };
        assert!(judged(void, true, |sink| sink.row("x")).is_ok());
        let void = LoadedMiniBatch { data: MiniBatchData::Void, ..loaded(&[]) };
        assert!(judged(void, true, |_| ()).is_ok());
    }

    #[test]
    fn rows_and_outcomes_are_counted() {
        let paths = ["/a", "/b", "/c"].map(str::to_owned);
        let counts = |total, succeeded| ItemCounts { total, succeeded, failed: total - succeeded };
        let missing = tally(loaded(&paths), |sink| sink.row("x")).unwrap();
        assert_eq!((missing.items, missing.surplus_rows), (counts(3, 1), 0));
        assert!(missing.is_short);
        let surplus = tally(loaded(&paths), |sink| (0..5).for_each(|_| sink.row("x"))).unwrap();
        assert_eq!((surplus.items, surplus.surplus_rows), (counts(3, 3), 2));
        let mixed = tally(loaded(&paths), |sink| {
            sink.row("x");
            sink.outcomes(paths.len());
            sink.failed(1, "blurred");
            sink.row("y");
        })
        .unwrap();
        assert_eq!(mixed.items, counts(3, 2));
        let kind = FailureKind::ScriptError;
        let failed = FailedItem {
            item: "/b".into(),
            reason: "blurred".into(),
            kind,
            ..FailedItem::sample()
        };
        assert_eq!(mixed.failed_items, [failed]);
    }

    /// Rule A9: rows of text have no header, and a failed attempt reports none.
    #[test]
    fn a_header_comes_with_the_tally() {
        let batch = RecordBatch::try_from_iter([("a b", Arc::new(Int64Array::from(vec![7])) as _)]);
        let batch = batch.unwrap();
        let mut ipc = Vec::new();
        let mut writer = StreamWriter::try_new(&mut ipc, &batch.schema()).unwrap();
        writer.write(&batch).unwrap();
        writer.finish().unwrap();
        let mut rows = RowWriter::new(1000, true, &OutputFormat::default_for(OutputKind::Csv));
        let paths = ["/a".to_owned()];
        let mut sink = RowSink::new(&mut rows, false);
        sink.table(&ipc).unwrap();
        assert_eq!(sink.into_tally(loaded(&paths)).unwrap().header, Some("a b".into()));
        let mut sink = RowSink::new(&mut rows, false);
        sink.row("7");
        assert_eq!(sink.into_tally(loaded(&paths)).unwrap().header, None);
    }

    #[test]
    fn outcomes_must_match_the_items() {
        let paths = ["/a", "/b", "/c"].map(str::to_owned);
        let error = tally(loaded(&paths), |sink| {
            sink.outcomes(1);
            sink.failed(0, "x");
        })
        .unwrap_err();
        assert_eq!(error.kind, FailureKind::BadResults);
        insta::assert_snapshot!(error, @"run returned 1 outcome for 3 items: return one outcome for each item, in the order of the mini-batch");
        assert!(tally(loaded(&paths), |sink| sink.row("a\nb")).is_err());
        assert!(tally(loaded(&paths), |sink| assert!(sink.table(b"x").is_err())).is_ok());
    }

    #[test]
    fn rejected_records_are_failed_items() {
        let record = FailedItem {
            item: "/t.csv".into(),
            line: Some(7),
            reason: "no number".into(),
            kind: FailureKind::BadInput,
            ..FailedItem::sample()
        };
        let table = || LoadedMiniBatch {
            data: MiniBatchData::Table(&[]),
            items: 2,
            rejected_count: 3,
            rejected: vec![record.clone()],
            table_file: "/t.csv".to_owned(),
            ..loaded(&[])
        };
        let tally = tally(table(), |sink| {
            sink.failed(0, "odd");
            sink.row("x");
        })
        .unwrap();
        assert_eq!(tally.items, ItemCounts { total: 5, succeeded: 1, failed: 4 });
        assert!(tally.is_short, "one of the two items of the call has no row");
        let complete = self::tally(table(), |sink| (0..2).for_each(|_| sink.row("x"))).unwrap();
        assert_eq!(complete.items, ItemCounts { total: 5, succeeded: 2, failed: 3 });
        assert!(!complete.is_short, "rule W4: rejected records are not passed to the call");
        assert_eq!(tally.failed_items[0], record);
        let odd = &tally.failed_items[1];
        assert_eq!((odd.item.as_str(), odd.line, odd.row), ("/t.csv", None, Some(1)));
    }

    #[test]
    fn void_mini_batches_have_no_items_and_no_surplus() {
        let void = LoadedMiniBatch { data: MiniBatchData::Void, ..loaded(&[]) };
        let tally = tally(void, |sink| sink.row("x")).unwrap();
        assert_eq!((tally.items, tally.surplus_rows), (ItemCounts::default(), 0));
    }
}
