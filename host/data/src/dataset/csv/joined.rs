//! Quoted fields that may be no fields: two stray quotes far apart hold the lines between them together.

use super::quotes::Span;
use super::tally::is_terminator;
use crate::model::to_usize;
use memchr::{memchr_iter, memchr2};
use std::fs::File;
use std::os::unix::fs::FileExt;

/// How much of a field is looked at, in bytes, and how many of its lines.
const LOOKED: usize = 64 << 10;
const LINES: usize = 1000;
/// How far before and after a field its first and its last line may reach.
const AROUND: usize = 4 << 10;
/// Fields that are named.
const NAMED: usize = 3;
/// So many lines that are no records, with one that is, are enough.
const ENOUGH: usize = 8;

/// Quoted fields over lines of which most would be records by themselves.
#[derive(Debug)]
pub(super) struct Joined {
    delimiter: u8,
    /// Fields of a record.
    columns: usize,
    /// From which line to which.
    named: Vec<(u64, u64)>,
    count: u64,
}

impl Joined {
    /// In records of so many columns.
    pub(super) fn new(delimiter: u8, columns: usize) -> Self {
        Self { delimiter, columns, named: Vec::new(), count: 0 }
    }

    /// The lines of the first ones, and how many there were.
    pub(super) fn found(&self) -> (&[(u64, u64)], u64) {
        (&self.named, self.count)
    }

    /// Looks at a field of the file, of which the bytes from the place `start` on are at hand.
    pub(super) fn look(&mut self, span: &Span, window: &[u8], start: u64, file: &File) {
        let from = span.opens.saturating_sub(AROUND as u64);
        let opens = to_usize(span.opens - from);
        let closes = usize::try_from(span.closes - from).unwrap_or(usize::MAX);
        let wanted = closes.saturating_add(AROUND).min(LOOKED);
        let mut buffer = Vec::new();
        let at_hand =
            from.checked_sub(start).and_then(|at| window.get(to_usize(at)..)?.get(..wanted));
        let text = at_hand.unwrap_or_else(|| {
            buffer.resize(wanted, 0);
            // A field that cannot be read any more is the reader's to tell.
            let count = file.read_at(&mut buffer, from).unwrap_or(0);
            &buffer[..count]
        });
        let before = text.get(..opens).unwrap_or_default();
        let line = before.iter().rposition(|byte| is_terminator(*byte)).map_or(0, |end| end + 1);
        if self.is_joined(text.get(line..).unwrap_or_default(), closes - line) {
            self.count += 1;
            if self.named.len() < NAMED {
                self.named.push(span.lines);
            }
        }
    }

    /// Whether more than half of the lines that the field stands on have as many fields as records have. The text
    /// begins with the first of them.
    fn is_joined(&self, text: &[u8], closes: usize) -> bool {
        let mut like = 0;
        let mut others = 0;
        let mut start = 0;
        while start <= closes && like + others < LINES {
            let rest = text.get(start..).unwrap_or_default();
            let end = memchr2(b'\n', b'\r', rest);
            // A line that goes on after what is looked at is not counted, but for the one that ends the field.
            if end.is_none() && closes >= text.len() {
                break;
            }
            let line = &rest[..end.unwrap_or(rest.len())];
            start += line.len() + 1;
            if line.is_empty() {
                continue;
            }
            match memchr_iter(self.delimiter, line).count() + 1 == self.columns {
                true => like += 1,
                false => others += 1,
            }
            if like <= 1 && others == ENOUGH {
                break;
            }
        }
        like > others
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_joined(columns: usize, field: &str) -> bool {
        let closes = field.rfind('"').unwrap();
        Joined::new(b',', columns).is_joined(field.as_bytes(), closes)
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
