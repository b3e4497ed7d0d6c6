//! Collects the results of an entry script that is run on trial.

use crate::model::{Failure, FailureKind, counted};
use crate::sandbox::ResultSink;
use std::fmt::Write as _;
use std::path::Path;

/// The number of rows that are shown.
const SHOWN: usize = 20;
/// The number of bytes of a row, or of a reason, that are shown.
pub(super) const SHOWN_BYTES: usize = 1000;

/// The first results that `run` returned, and their counts.
#[derive(Default)]
pub(super) struct Returned {
    lines: String,
    rows: usize,
    failed: usize,
    table: Option<usize>,
}

impl Returned {
    pub(super) fn describe(&self, text: &mut String) {
        if let Some(bytes) = self.table {
            let _ = writeln!(text, "returned a table (Arrow IPC) of {bytes} bytes");
            return;
        }
        let rows = counted(self.rows as u64, "row");
        let failed = counted(self.failed as u64, "failed item");
        let _ = writeln!(text, "returned {rows} and {failed}");
        text.push_str(&self.lines);
        let more = (self.rows + self.failed).saturating_sub(SHOWN);
        if more > 0 {
            let _ = writeln!(text, "  and {more} more");
        }
    }

    fn line(&mut self, line: &str) {
        if self.rows + self.failed < SHOWN {
            let shown = &line[..line.floor_char_boundary(SHOWN_BYTES)];
            let cut = if shown.len() < line.len() { " (cut)" } else { "" };
            let _ = writeln!(self.lines, "  {}{cut}", shown.escape_debug());
        }
    }
}

impl ResultSink for Returned {
    fn row(&mut self, row: &str) {
        self.line(row);
        self.rows += 1;
    }

    fn failed(&mut self, index: usize, reason: &str) {
        self.line(&format!("item {index} failed: {reason}"));
        self.failed += 1;
    }

    fn table(&mut self, ipc: &[u8]) -> Result<(), Failure> {
        self.table = Some(ipc.len());
        Ok(())
    }
}

/// The first row that `run` returned, or the path of the file with its table, if the caller wants a table.
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
