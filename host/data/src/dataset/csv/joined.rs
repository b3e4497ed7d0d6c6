//! Detects quoted fields that are probably several records: two stray quotes have joined the lines between
//! them.

use super::quotes::Span;
use super::tally::is_terminator;
use crate::model::to_usize;
use memchr::{memchr_iter, memchr2};
use std::fs::File;
use std::os::unix::fs::FileExt;

/// How many bytes of a field are inspected.
const MAX_INSPECTED_BYTES: usize = 64 << 10;
/// How many lines of a field are inspected.
const MAX_INSPECTED_LINES: usize = 1000;
/// How many bytes are inspected before and after a field, to see its first and its last line in full.
const MARGIN_BYTES: usize = 4 << 10;
/// The maximum number of fields whose lines are reported.
const MAX_REPORTED: usize = 3;
/// After this many lines that do not look like records, and at most one that does, the rest of the field is
/// not inspected.
const ENOUGH_DIFFERENT_LINES: usize = 8;

/// Detects the quoted fields in which most lines look like records, and keeps those found so far.
#[derive(Debug)]
pub(super) struct JoinedLines {
    delimiter: u8,
    /// The number of fields in a record.
    columns: usize,
    /// The numbers of the first and the last line of each of the first few detected fields.
    reported: Vec<(u64, u64)>,
    count: u64,
}

impl JoinedLines {
    /// A detector of fields that join records with this many columns.
    pub(super) fn new(delimiter: u8, columns: usize) -> Self {
        Self { delimiter, columns, reported: Vec::new(), count: 0 }
    }

    /// The first and the last line of the first few fields found, and the number of all fields found.
    pub(super) fn found(&self) -> (&[(u64, u64)], u64) {
        (&self.reported, self.count)
    }

    /// Checks a field of the file. `window` has the bytes of the file from the offset `window_start` on.
    pub(super) fn check(&mut self, span: &Span, window: &[u8], window_start: u64, file: &File) {
        let from = span.opens.saturating_sub(MARGIN_BYTES as u64);
        let opens = to_usize(span.opens - from);
        let closes = usize::try_from(span.closes - from).unwrap_or(usize::MAX);
        let wanted = closes.saturating_add(MARGIN_BYTES).min(MAX_INSPECTED_BYTES);
        let mut buffer = Vec::new();
        let in_window =
            from.checked_sub(window_start).and_then(|at| window.get(to_usize(at)..)?.get(..wanted));
        let text = in_window.unwrap_or_else(|| {
            buffer.resize(wanted, 0);
            // If the field can no longer be read, the reader of the rows reports it.
            let count = file.read_at(&mut buffer, from).unwrap_or(0);
            &buffer[..count]
        });
        let before = text.get(..opens).unwrap_or_default();
        let line_start =
            before.iter().rposition(|byte| is_terminator(*byte)).map_or(0, |end| end + 1);
        if self.is_joined(text.get(line_start..).unwrap_or_default(), closes - line_start) {
            self.count += 1;
            if self.reported.len() < MAX_REPORTED {
                self.reported.push(span.lines);
            }
        }
    }

    /// Whether more than half of the lines of a field have as many delimiters as a record. `text` begins with
    /// the first of these lines. `closes` is the index of the closing quote in `text`.
    fn is_joined(&self, text: &[u8], closes: usize) -> bool {
        let mut similar = 0;
        let mut different = 0;
        let mut start = 0;
        while start <= closes && similar + different < MAX_INSPECTED_LINES {
            let rest = text.get(start..).unwrap_or_default();
            let end = memchr2(b'\n', b'\r', rest);
            // A line that continues beyond the text does not count, unless it ends the field.
            if end.is_none() && closes >= text.len() {
                break;
            }
            let line = &rest[..end.unwrap_or(rest.len())];
            start += line.len() + 1;
            if line.is_empty() {
                continue;
            }
            match memchr_iter(self.delimiter, line).count() + 1 == self.columns {
                true => similar += 1,
                false => different += 1,
            }
            if similar <= 1 && different == ENOUGH_DIFFERENT_LINES {
                break;
            }
        }
        similar > different
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_joined(columns: usize, field: &str) -> bool {
        let closes = field.rfind('"').unwrap();
        JoinedLines::new(b',', columns).is_joined(field.as_bytes(), closes)
    }

    #[test]
    fn lines_that_would_be_records_are_noticed() {
        assert!(is_joined(2, "2,\"b\n3,c\n4,d\n5,e\"\n"));
        assert!(is_joined(2, "2,\"b\r\n3,c\"\r\n"));
        assert!(is_joined(2, "2,\"b\n3,c\""));
        assert!(is_joined(3, "2,\"b,1\n3,c,4\n4,x\",5\n"));
        assert!(!is_joined(2, "1,\"Dear all,\n\nthank you.\nYours, me, too\"\n"));
        assert!(!is_joined(2, "\"two\nlines\",x\n"));
        assert!(!is_joined(2, "x,\"two\nlines\"\n"));
        assert!(!is_joined(3, "1,\"two\nlines\",x\n"));
        assert!(!is_joined(3, &format!("1,\"{}\",x\n", "a line\n".repeat(100_000))));
        assert!(is_joined(2, &format!("1,\"{}\"\n", "1,x\n".repeat(100_000))));
    }
}
