//! On which line of its file a row of a table stands.

use super::misfit::reason;
use super::records::Records;
use super::scan::{count_lines, is_terminator};
use crate::model::TableFormat;

/// The text that a table was read from, to find its rows in. Looking costs about as much as reading
/// did, so it is done only for what failed.
#[derive(Clone, Copy, Debug)]
pub struct RowLines<'a> {
    pub(super) text: &'a [u8],
    pub(super) format: &'a TableFormat,
    pub(super) first_line: u64,
    /// Whether every record of the text became a row.
    pub(super) all_fit: bool,
}

impl RowLines<'_> {
    /// The lines on which rows begin, counted from 1. `rows` are counted from 0 and rise. Rows that
    /// the table has not are left out.
    pub fn of(&self, rows: &[usize]) -> Vec<u64> {
        let mut found = Vec::with_capacity(rows.len());
        let mut wanted = rows.iter().copied().peekable();
        let (mut row, mut counted, mut line) = (0, 0, self.first_line);
        let mut records = Records::new(self.text, self.format.csv.delimiter);
        while wanted.peek().is_some()
            && let Some(record) = records.next_record()
        {
            if !self.all_fit && reason(&record, self.format).is_some() {
                continue;
            }
            if wanted.next_if_eq(&row).is_some() {
                let rest = &self.text[record.start..];
                let blank = rest.iter().take_while(|&&byte| is_terminator(byte)).count();
                let start = record.start + blank;
                let before = if counted == 0 { b'\n' } else { self.text[counted - 1] };
                line += count_lines(&self.text[counted..start], before);
                counted = start;
                found.push(line);
            }
            row += 1;
        }
        found
    }
}
