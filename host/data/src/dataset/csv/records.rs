//! Single records of a piece of CSV text. [`CsvScan`] finds the stray quotes, and csv-core parses.

use super::quotes::StrayQuote;
use super::scan::CsvScan;
use super::tally::is_terminator;
use crate::model::{CsvFormat, to_usize};
use csv_core::ReadRecordResult;
use memchr::memchr2;

/// The bytes that end a gathered record with an unclosed field: a quote, and a byte of text after it. They
/// prevent a quote of a later row from closing the field.
pub(in crate::dataset) fn unclosed_mark(csv: &CsvFormat) -> [u8; 2] {
    let text = if csv.delimiter == b'\x01' { b'\x02' } else { b'\x01' };
    [csv.quote.unwrap_or(b'"'), text]
}

/// Like [`unclosed_mark`], for a rewritten record in which text follows the closing quote.
pub(in crate::dataset) fn followed_mark(csv: &CsvFormat) -> [u8; 2] {
    let text = if csv.delimiter == b'\x03' { b'\x04' } else { b'\x03' };
    [csv.quote.unwrap_or(b'"'), text]
}

/// The length of the blank lines and comments before the first record. `text` starts at the start of a line.
fn skipped_length(text: &[u8], comment: Option<u8>) -> usize {
    let mut at = 0;
    loop {
        match text.get(at) {
            Some(byte) if is_terminator(*byte) => at += 1,
            Some(byte) if comment == Some(*byte) => {
                let rest = &text[at..];
                at += memchr2(b'\n', b'\r', rest).unwrap_or(rest.len());
            }
            _ => return at,
        }
    }
}

/// Walks over the records of a text that starts and ends at record boundaries.
#[derive(Debug)]
pub(in crate::dataset) struct RecordWalk<'a> {
    parser: csv_core::Reader,
    csv: &'a CsvFormat,
    text: &'a [u8],
    /// The offset of the next byte in `text`.
    at: usize,
    /// The stray quotes after `at`.
    strays: std::vec::IntoIter<StrayQuote>,
    /// The unquoted fields of the last record, one after the other.
    fields: Vec<u8>,
    /// The ends of these fields in `fields`.
    ends: Vec<usize>,
}

#[derive(Debug)]
pub(in crate::dataset) struct Record<'a> {
    /// The offset of its first byte in the text.
    pub(in crate::dataset) start: usize,
    /// The offset in the text at which the record ends: just after the first byte of its line end.
    pub(in crate::dataset) end: usize,
    /// The stray quote that makes a table refuse the record.
    pub(in crate::dataset) stray: Option<StrayField<'a>>,
    fields: &'a [u8],
    ends: &'a [usize],
}

#[derive(Debug)]
pub(in crate::dataset) struct StrayField<'a> {
    /// The column, counted from 0.
    pub(in crate::dataset) column: usize,
    /// The text from the quote to the end of the record.
    pub(in crate::dataset) text: &'a [u8],
    /// Whether text follows the closing quote. If not, no quote closes the field.
    pub(in crate::dataset) text_follows: bool,
}

impl<'a> RecordWalk<'a> {
    pub(in crate::dataset) fn new(text: &'a [u8], csv: &'a CsvFormat) -> Self {
        let strays = CsvScan::strays(text, csv).into_iter();
        let mut parser = csv_core::ReaderBuilder::new()
            .delimiter(csv.delimiter)
            .quote(csv.quote.unwrap_or(b'"'))
            .quoting(csv.quote.is_some())
            .build();
        reset(&mut parser);
        let fields = vec![0; 4096];
        let ends = vec![0; 64];
        Self { parser, csv, text, at: 0, strays, fields, ends }
    }

    pub(in crate::dataset) fn next_record(&mut self) -> Option<Record<'_>> {
        // A record with an unclosed field must not include the lines after it.
        let next = self.strays.as_slice().first().copied();
        let end = next.map_or(self.text.len(), |stray| to_usize(stray.end));
        let has_line_end = self.text[..end].last().is_some_and(|byte| is_terminator(*byte));
        let limit = if next.is_some() && has_line_end { end - 1 } else { end };
        self.at +=
            skipped_length(self.text.get(self.at..limit).unwrap_or_default(), self.csv.comment);
        let start = self.at;
        let (bytes, count) = match self.csv.escape {
            None => self.parse(limit)?,
            Some(escape) => self.parse_escaped(limit, escape)?,
        };
        let fields = &self.fields[..bytes];
        let ends = &self.ends[..count];
        let mut record = Record { start, end: self.at, stray: None, fields, ends };
        if let Some(stray) = next
            && self.at > to_usize(stray.quote)
        {
            self.strays.next();
            reset(&mut self.parser);
            self.at = end;
            record.end = end;
            let (before, field) = self.text[start..limit].split_at(to_usize(stray.quote) - start);
            record.stray = Some(StrayField::new(before, field, stray, self.csv));
        }
        Some(record)
    }

    /// Parses a record of the text up to `limit`. Returns the total length of its fields, and their number.
    /// `None` if there is no record.
    fn parse(&mut self, limit: usize) -> Option<(usize, usize)> {
        let mut bytes = 0;
        let mut count = 0;
        loop {
            let (result, read, written, ended) = self.parser.read_record(
                &self.text[self.at..limit],
                &mut self.fields[bytes..],
                &mut self.ends[count..],
            );
            self.at += read;
            bytes += written;
            count += ended;
            match result {
                ReadRecordResult::InputEmpty => {}
                ReadRecordResult::OutputFull => self.fields.resize(self.fields.len() * 2, 0),
                ReadRecordResult::OutputEndsFull => self.ends.resize(self.ends.len() * 2, 0),
                ReadRecordResult::End => return None,
                ReadRecordResult::Record => return Some((bytes, count)),
            }
        }
    }
}

impl RecordWalk<'_> {
    /// Like [`Self::parse`], for a dialect with escapes: csv-core supports them only inside quotes.
    fn parse_escaped(&mut self, limit: usize, escape: u8) -> Option<(usize, usize)> {
        let text = self.text.get(..limit)?;
        let csv = self.csv;
        if self.at >= limit {
            return None;
        }
        self.fields.clear();
        self.ends.clear();
        let mut is_quoted = false;
        let mut is_start = true;
        while let Some(&byte) = text.get(self.at) {
            self.at += 1;
            let next = text.get(self.at).copied();
            if byte == escape {
                let count = escaped_length(&text[self.at..], csv.quoted_newlines);
                // An escape that escapes nothing is text.
                let from = if count == 0 { self.at - 1 } else { self.at };
                self.fields.extend_from_slice(&text[from..self.at + count]);
                self.at += count;
            } else if is_quoted {
                match (Some(byte) == csv.quote, next == csv.quote) {
                    (false, _) => self.fields.push(byte),
                    (true, false) => is_quoted = false,
                    (true, true) => {
                        self.fields.push(byte);
                        self.at += 1;
                    }
                }
            } else if is_start && Some(byte) == csv.quote {
                is_quoted = true;
            } else if is_terminator(byte) {
                break;
            } else if byte == csv.delimiter {
                self.ends.push(self.fields.len());
                is_start = true;
                continue;
            } else {
                self.fields.push(byte);
            }
            is_start = false;
        }
        self.ends.push(self.fields.len());
        Some((self.fields.len(), self.ends.len()))
    }
}

/// How many bytes are text because of the escape before them. `escapes_lines`: whether a line end after an
/// escape is text.
fn escaped_length(bytes: &[u8], escapes_lines: bool) -> usize {
    match bytes {
        [b'\r', b'\n', ..] if escapes_lines => 2,
        [byte, ..] if escapes_lines || !is_terminator(*byte) => 1,
        _ => 0,
    }
}

/// Resets a parser to the start of a record.
fn reset(parser: &mut csv_core::Reader) {
    parser.reset();
    // A parser drops a BOM at the start of its input, but the text may be from the middle of a file. So the
    // parser first reads a line end.
    parser.read_record(b"\n", &mut [0], &mut [0]);
}

impl<'a> StrayField<'a> {
    /// `before` is the record's text before the field, and `field` is the record's text from the
    /// stray quote on.
    fn new(before: &[u8], field: &'a [u8], stray: StrayQuote, csv: &CsvFormat) -> Self {
        let column = count_delimiters(before, csv);
        if let Some(text) = field.strip_suffix(&unclosed_mark(csv)) {
            return Self { column, text, text_follows: false };
        }
        let text = field.strip_suffix(&followed_mark(csv)).unwrap_or(field);
        Self { column, text, text_follows: stray.text_follows }
    }
}

/// The number of delimiters outside quotes in a text that has no stray quotes.
fn count_delimiters(text: &[u8], csv: &CsvFormat) -> usize {
    let mut count = 0;
    let mut is_quoted = false;
    let mut was_closed = false;
    let mut is_escaped = false;
    let mut before = b'\n';
    for &byte in text {
        if is_escaped || csv.escape == Some(byte) {
            is_escaped = !is_escaped;
            was_closed = false;
            before = 0;
            continue;
        }
        let is_quote = csv.quote == Some(byte);
        let can_open = was_closed || before == csv.delimiter || is_terminator(before);
        was_closed = is_quoted && is_quote;
        is_quoted = if is_quote { !is_quoted && can_open } else { is_quoted };
        count += usize::from(byte == csv.delimiter && !is_quoted);
        before = byte;
    }
    count
}

impl<'a> Record<'a> {
    /// The number of fields, at least one.
    pub(in crate::dataset) fn len(&self) -> usize {
        self.ends.len()
    }

    /// A field, unquoted. `None` if the record is shorter.
    pub(in crate::dataset) fn field(&self, index: usize) -> Option<&'a [u8]> {
        let start = if index == 0 { 0 } else { *self.ends.get(index - 1)? };
        self.fields.get(start..*self.ends.get(index)?)
    }

    /// The fields, unquoted.
    pub(in crate::dataset) fn fields(&self) -> impl Iterator<Item = &'a [u8]> {
        let fields = self.fields;
        let ends = self.ends;
        (0..ends.len()).map(move |index| {
            let start = if index == 0 { 0 } else { ends[index - 1] };
            &fields[start..ends[index]]
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_have_their_offsets() {
        let text = b"\n1,\"a\nb\"\r\n\xEF\xBB\xBFx\n\ny,z,\"\"\"\"";
        let csv = CsvFormat::default();
        let mut records = RecordWalk::new(text, &csv);
        let mut seen = Vec::new();
        while let Some(record) = records.next_record() {
            let fields: Vec<_> = record.fields().map(String::from_utf8_lossy).collect();
            seen.push((record.start, record.end, fields.join("|")));
        }
        assert_eq!(
            seen,
            [
                (1, 9, "1|a\nb".to_owned()),
                (10, 15, "\u{feff}x".to_owned()),
                (16, text.len(), "y|z|\"".to_owned())
            ]
        );
    }

    #[test]
    fn wide_and_long_records_fit() {
        let text = format!("{}\n{}", "ab,".repeat(500), "x".repeat(100_000));
        let csv = CsvFormat::default();
        let mut records = RecordWalk::new(text.as_bytes(), &csv);
        assert_eq!(records.next_record().unwrap().len(), 501);
        assert_eq!(records.next_record().unwrap().fields().next().unwrap().len(), 100_000);
        assert!(records.next_record().is_none());
    }
}
