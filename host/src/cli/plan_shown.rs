//! The output of `sandmill plan`: a summary, then the first and the last mini-batches, or all of them.

use crate::model::{MiniBatch, MiniBatchWork, Source, TableInput, count, counted, on_one_line};
use anyhow::bail;
use std::collections::VecDeque;
use std::io::{self, Write};

/// How many mini-batches are shown from the beginning, and from the end.
const ROWS_AT_EACH_END: usize = 10;

/// The totals of a plan, and some of its mini-batches. Columns have a fixed width, so that rows can be
/// printed while the plan is being made.
pub(super) struct PlanTable<'a, W> {
    pub(super) out: W,
    pub(super) sources: &'a [Source],
    /// The width of the column of input names.
    input_width: usize,
    pub(super) mini_batches: u64,
    items: u64,
    /// The size of the inputs; `None` if it is unknown without reading files.
    bytes: Option<u64>,
    /// Whether each mini-batch is printed when it arrives.
    prints_immediately: bool,
    /// Whether all mini-batches are kept.
    keeps_all: bool,
    first: Vec<PlanRow>,
    last: VecDeque<PlanRow>,
    /// With `--write-schema`: the inputs whose inferred columns `plan` prints instead of this table.
    pub(super) schema_of: Option<&'a [TableInput]>,
}

/// A mini-batch.
struct PlanRow {
    id: u64,
    input: String,
    items: u64,
    location: String,
}

impl<'a, W: Write> PlanTable<'a, W> {
    pub(super) fn new(out: W, sources: &'a [Source], (all, as_json): (bool, bool)) -> Self {
        let names = sources.iter().map(|source| source.dataset.chars().count());
        let input_width = names.max().unwrap_or(0).max("input".len());
        Self {
            out,
            sources,
            input_width,
            mini_batches: 0,
            items: 0,
            bytes: Some(0),
            prints_immediately: all && !as_json,
            keeps_all: all,
            first: Vec::new(),
            last: VecDeque::new(),
            schema_of: None,
        }
    }

    fn header(&mut self) -> io::Result<()> {
        let width = self.input_width;
        writeln!(self.out, "mini-batch  {:width$}  {:>9}  where", "input", "items")
    }

    /// Adds the next mini-batch.
    pub(super) fn row(&mut self, batch: &MiniBatch) -> anyhow::Result<()> {
        let input = match (&batch.work, self.sources.get(batch.source as usize)) {
            (MiniBatchWork::Void, _) => "-".to_owned(),
            (_, Some(source)) => source.dataset.clone(),
            (_, None) => bail!("the planner names an input that does not exist"),
        };
        let items = batch.planned_items();
        self.mini_batches += 1;
        self.items += items;
        self.bytes =
            self.bytes.zip(bytes(batch, self.sources)).map(|(sum, it)| sum.saturating_add(it));
        let location = match batch.partition.is_empty() {
            true => location(&batch.work),
            false => format!("{}: {}", batch.keys(), location(&batch.work)),
        };
        let row =
            PlanRow { id: batch.id.0, input, items, location: on_one_line(&location).into_owned() };
        if self.prints_immediately {
            if self.mini_batches == 1 {
                self.header()?;
            }
            self.line(&row)?;
        } else if self.keeps_all || self.first.len() < ROWS_AT_EACH_END {
            self.first.push(row);
        } else {
            if self.last.len() == ROWS_AT_EACH_END {
                self.last.pop_front();
            }
            self.last.push_back(row);
        }
        Ok(())
    }

    fn line(&mut self, row: &PlanRow) -> io::Result<()> {
        let PlanRow { id, input, items, location } = row;
        let width = self.input_width;
        writeln!(self.out, "{id:>10}  {input:width$}  {items:>9}  {location}")
    }

    /// `1,646 mini-batches, 600,000 items, 16.1 MiB`.
    pub(super) fn summary(&self) -> String {
        let mut text = counted(self.mini_batches, "mini-batch");
        text.push_str(&format!(", {}", counted(self.items, "item")));
        if let Some(bytes) = self.bytes.filter(|&bytes| bytes > 0) {
            text.push_str(&format!(", {}", size(bytes)));
        }
        text
    }

    /// Prints the rows that were not printed when they arrived.
    pub(super) fn finish(&mut self) -> io::Result<()> {
        let first = std::mem::take(&mut self.first);
        let last = std::mem::take(&mut self.last);
        if !first.is_empty() {
            self.header()?;
        }
        first.iter().try_for_each(|row| self.line(row))?;
        let left_out = self.mini_batches - (first.len() + last.len()) as u64;
        if left_out > 0 && !self.prints_immediately {
            writeln!(self.out, "       ...  {} more; --all shows all of them", count(left_out))?;
        }
        last.iter().try_for_each(|row| self.line(row))?;
        self.out.flush()
    }

    /// The totals and the shown mini-batches as JSON.
    pub(super) fn json(&self) -> serde_json::Value {
        let row = |row: &PlanRow| {
            let PlanRow { id, input, items, location } = row;
            serde_json::json!({"id": id, "input": input, "items": items, "where": location})
        };
        let shown: Vec<_> = self.first.iter().chain(&self.last).map(row).collect();
        serde_json::json!({
            "mini_batches": self.mini_batches,
            "items": self.items,
            "bytes": self.bytes,
            "shown": shown,
        })
    }
}

/// The bytes that a mini-batch reads. `None` if the size is unknown: files may not be on this machine yet.
fn bytes(batch: &MiniBatch, sources: &[Source]) -> Option<u64> {
    match &batch.work {
        MiniBatchWork::Text(slice) => Some(slice.length),
        MiniBatchWork::TextGroup(slices) => {
            Some(slices.iter().map(|(_, slice)| slice.length).sum())
        }
        MiniBatchWork::Rows(rows) => Some(rows.text.length),
        MiniBatchWork::Table(slice) => Some(slice.bytes),
        MiniBatchWork::TableGroup(slices) => {
            Some(slices.iter().fold(0, |sum, (_, slice)| sum.saturating_add(slice.bytes)))
        }
        MiniBatchWork::Files(_) | MiniBatchWork::FileGroup(_) => batch
            .files()
            .map(|(source, file)| {
                let path = sources.get(source as usize)?.root.join(file);
                std::fs::metadata(path).ok().map(|found| found.len())
            })
            .try_fold(0_u64, |sum, length| Some(sum.saturating_add(length?))),
        MiniBatchWork::Unreadable(_) | MiniBatchWork::Void => Some(0),
    }
}

/// `16.1 MiB`.
fn size(bytes: u64) -> String {
    let units = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    if bytes < 1024 {
        return counted(bytes, "byte");
    }
    let mut number = crate::model::to_f64(bytes) / 1024.0;
    let mut unit = 0;
    while number >= 1023.95 && unit + 1 < units.len() {
        number /= 1024.0;
        unit += 1;
    }
    format!("{number:.1} {}", units[unit])
}

/// Where the data of a mini-batch is, in words.
fn location(work: &MiniBatchWork) -> String {
    match work {
        MiniBatchWork::Files(files) => range_text(files.first(), files.last()),
        MiniBatchWork::FileGroup(parts) => {
            let mut files = parts.iter().flat_map(|(_, files)| files.iter());
            range_text(files.next(), files.next_back())
        }
        MiniBatchWork::Text(slice) => {
            format!("{}, from line {}, {} bytes", slice.file, slice.first_line, slice.length)
        }
        MiniBatchWork::TextGroup(slices) => {
            let bytes: u64 = slices.iter().map(|(_, slice)| slice.length).sum();
            let mut files = slices.iter().map(|(_, slice)| slice.file.as_str());
            format!("{}, {bytes} bytes", range_text(files.next(), files.next_back()))
        }
        MiniBatchWork::Rows(rows) => format!("rows of one group, {} bytes", rows.text.length),
        MiniBatchWork::Table(slice) => {
            format!("{}, from row {}, about {} bytes", slice.file, slice.first_row + 1, slice.bytes)
        }
        MiniBatchWork::TableGroup(slices) => {
            let bytes = slices.iter().fold(0_u64, |sum, (_, it)| sum.saturating_add(it.bytes));
            let mut files = slices.iter().map(|(_, slice)| slice.file.as_str());
            format!("{}, about {bytes} bytes", range_text(files.next(), files.next_back()))
        }
        MiniBatchWork::Unreadable(bad) => bad.reason.clone(),
        MiniBatchWork::Void => "-".to_owned(),
    }
}

/// The first and the last of some names.
fn range_text(first: Option<&str>, last: Option<&str>) -> String {
    match (first, last) {
        (None, _) => "-".to_owned(),
        (Some(first), Some(last)) if first != last => format!("{first} .. {last}"),
        (Some(only), _) => only.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{MiniBatchId, TextSlice};

    fn source(dataset: &str) -> Source {
        Source::new(dataset, "/data".into())
    }

    fn batch(id: u64, source: u32, work: MiniBatchWork) -> MiniBatch {
        MiniBatch::new(MiniBatchId(id), source, work)
    }

    #[test]
    fn a_table_of_mini_batches() {
        let sources = [source("images"), source("night_shift")];
        let mut out = Vec::new();
        let mut table = PlanTable::new(&mut out, &sources, (true, false));
        let files = |names: &[&str]| MiniBatchWork::Files(names.iter().collect());
        let slice = TextSlice {
            file: "a.csv".into(),
            offset: 10,
            length: 1_048_500,
            first_line: 2,
            rows: 9000,
            ..TextSlice::sample()
        };
        table.row(&batch(0, 0, files(&["a/0.png", "a/1.png", "a/2.png"]))).unwrap();
        table.row(&batch(1, 1, files(&["evil\u{1b}[2J.png"]))).unwrap();
        table.row(&batch(2, 1, MiniBatchWork::Text(slice))).unwrap();
        table.row(&batch(3, 0, MiniBatchWork::Void)).unwrap();
        assert_eq!((table.mini_batches, table.items), (4, 9004));
        assert!(table.row(&batch(4, 2, files(&["a"]))).is_err());
        insta::assert_snapshot!(String::from_utf8(out).unwrap(), @r"
        mini-batch  input            items  where
                 0  images               3  a/0.png .. a/2.png
                 1  night_shift          1  evil\u{1b}[2J.png
                 2  night_shift       9000  a.csv, from line 2, 1048500 bytes
                 3  -                    0  -
        ");
    }

    #[test]
    fn the_ends_of_a_long_plan_are_shown() {
        let sources = [source("images")];
        let mut out = Vec::new();
        let mut table = PlanTable::new(&mut out, &sources, (false, false));
        for id in 0..1024 {
            let file = format!("{id}.csv");
            let slice = TextSlice { file, length: 40_000, rows: 7, ..TextSlice::sample() };
            table.row(&batch(id, 0, MiniBatchWork::Text(slice))).unwrap();
        }
        let summary = table.summary();
        assert_eq!(table.json()["shown"].as_array().unwrap().len(), 20);
        table.finish().unwrap();
        assert_eq!(summary, "1,024 mini-batches, 7,168 items, 39.1 MiB");
        let text = String::from_utf8(out).unwrap();
        let lines: Vec<_> = text.lines().skip(9).take(5).collect();
        insta::assert_snapshot!(lines.join("\n"), @"
           8  images          7  8.csv, from line 1, 40000 bytes
           9  images          7  9.csv, from line 1, 40000 bytes
         ...  1,004 more; --all shows all of them
        1014  images          7  1014.csv, from line 1, 40000 bytes
        1015  images          7  1015.csv, from line 1, 40000 bytes
        ");
        assert_eq!(text.lines().count(), 22);
    }

    #[test]
    fn sizes_are_rounded() {
        assert_eq!(
            [0, 1, 1023, 1024, 1_048_575, 5 << 30].map(size),
            ["0 bytes", "1 byte", "1,023 bytes", "1.0 KiB", "1.0 MiB", "5.0 GiB"]
        );
    }
}
