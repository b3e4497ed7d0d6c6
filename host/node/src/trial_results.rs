//! Collects the results of an entry script that is run on trial.

use crate::model::{Failure, FailureKind, counted};
use crate::sandbox::ResultSink;
use std::fmt::Write as _;
use std::path::Path;

/// At most this many rows and failed items are shown.
const SHOWN_LINES: usize = 20;
/// At most this many bytes of a row, or of a failed item's reason, are shown.
pub(super) const SHOWN_BYTES: usize = 1000;

/// The first results that `run` returned, and the counts of all results.
#[derive(Default)]
pub(super) struct Returned {
    /// The rows and failed items that are shown.
    lines: String,
    rows: usize,
    failed: usize,
    /// The number of the first row with a line break. `None` if there is no such row.
    broken_row: Option<usize>,
    /// The bytes of the returned table. `None` if no table was returned.
    table: Option<usize>,
}

impl Returned {
    /// Appends a description of the results to the text.
    pub(super) fn describe(&self, text: &mut String) {
        if let Some(bytes) = self.table {
            let _ = writeln!(text, "returned a table (Arrow IPC) of {bytes} bytes");
            return;
        }
        let rows = counted(self.rows as u64, "row");
        let failed = counted(self.failed as u64, "failed item");
        let _ = writeln!(text, "returned {rows} and {failed}");
        text.push_str(&self.lines);
        let more = (self.rows + self.failed).saturating_sub(SHOWN_LINES);
        if more > 0 {
            let _ = writeln!(text, "  and {more} more");
        }
        if let Some(number) = self.broken_row {
            let _ = writeln!(
                text,
                "row {number} (counted from 0) holds a line break; a job accepts it only if its output is Parquet or Arrow"
            );
        }
    }

    fn add_line(&mut self, line: &str) {
        if self.rows + self.failed < SHOWN_LINES {
            let shown = &line[..line.floor_char_boundary(SHOWN_BYTES)];
            let cut = if shown.len() < line.len() { " (cut)" } else { "" };
            let _ = writeln!(self.lines, "  {}{cut}", shown.escape_debug());
        }
    }
}

impl ResultSink for Returned {
    fn row(&mut self, row: &str) {
        let line = row.strip_suffix('\n').unwrap_or(row);
        let line = line.strip_suffix('\r').unwrap_or(line);
        if line.contains(['\r', '\n']) {
            self.broken_row.get_or_insert(self.rows);
        }
        self.add_line(row);
        self.rows += 1;
    }

    fn failed(&mut self, index: usize, reason: &str) {
        self.add_line(&format!("item {index} failed: {reason}"));
        self.failed += 1;
    }

    fn table(&mut self, ipc: &[u8]) -> Result<(), Failure> {
        self.table = Some(ipc.len());
        Ok(())
    }
}

/// The first row that `run` returned. If the caller wants a table: the path of the file with the table.
pub(super) struct FirstResult<'a> {
    pub(super) row: Option<String>,
    pub(super) table: Option<&'a Path>,
}

impl ResultSink for FirstResult<'_> {
    fn row(&mut self, row: &str) {
        self.row.get_or_insert_with(|| row.to_owned());
    }

    fn failed(&mut self, _: usize, _: &str) {}

    fn table(&mut self, ipc: &[u8]) -> Result<(), Failure> {
        let Some(path) = self.table else { return Ok(()) };
        std::fs::write(path, ipc).map_err(|error| {
            Failure::new(
                FailureKind::HostFault,
                format!("{} cannot be written: {error}", path.display()),
            )
        })?;
        self.row = Some(path.display().to_string());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_with_a_line_break_is_noted() {
        let mut returned = Returned::default();
        ["whole\r\n", "two\nlines", "three\rlines"].iter().for_each(|row| returned.row(row));
        let mut text = String::new();
        returned.describe(&mut text);
        insta::assert_snapshot!(text, @r"
        returned 3 rows and 0 failed items
          whole\r\n
          two\nlines
          three\rlines
        row 1 (counted from 0) holds a line break; a job accepts it only if its output is Parquet or Arrow
        ");
    }
}
