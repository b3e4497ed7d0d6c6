//! Reads the records of a slice one by one, together with their original text.

use super::records::{Record, RecordWalk, StrayField, followed_mark, unclosed_mark};
use super::slice::read_slice;
use super::tally::{count_lines, is_terminator};
use super::types::is_null;
use crate::dataset::DatasetError;
use crate::model::{CsvFormat, TextSlice};
use std::borrow::Cow;
use std::path::Path;

/// One record.
#[derive(Debug)]
pub struct RawRow<'a> {
    /// The bytes of the record, without its line end.
    pub text: &'a [u8],
    /// The line on which the record begins.
    pub line: u64,
    record: Record<'a>,
}

impl<'a> RawRow<'a> {
    /// The text of a field. Empty if the field is null or missing. Bytes that are not UTF-8 are replaced by
    /// U+FFFD.
    pub fn value(&self, column: usize, csv: &CsvFormat) -> Cow<'a, str> {
        match String::from_utf8_lossy(self.record.field(column).unwrap_or_default()) {
            text if is_null(&text, csv) => Cow::Borrowed(""),
            text => text,
        }
    }

    /// Appends the record and a line end to `out`, which gathers records of several files in the dialect
    /// [`CsvFormat::gathered`] of `csv`. `more` has further fields in that dialect, each with a delimiter
    /// before it.
    pub fn write(&self, more: &[u8], csv: &CsvFormat, out: &mut Vec<u8>) {
        if csv.is_rewritten() {
            return self.rewrite(more, &csv.gathered(), out);
        }
        out.extend_from_slice(self.text);
        match &self.record.stray {
            None => out.extend_from_slice(more),
            // A record with a stray quote is refused, so it needs no further fields.
            Some(stray) if stray.text_follows => {}
            Some(_) => out.extend_from_slice(&unclosed_mark(csv)),
        }
        out.push(b'\n');
    }

    /// Like [`Self::write`], but rewrites the record in the dialect `gathered`.
    fn rewrite(&self, more: &[u8], gathered: &CsvFormat, out: &mut Vec<u8>) {
        if let Some(stray) = &self.record.stray {
            rewrite_stray(stray, gathered, out);
            return;
        }
        let is_blank = more.is_empty() && self.record.fields().all(<[u8]>::is_empty);
        for (index, field) in self.record.fields().enumerate() {
            if index > 0 {
                out.push(gathered.delimiter);
            }
            quote_field(field, gathered, out);
        }
        if is_blank && self.record.len() == 1 {
            // An empty line would not be a record.
            out.extend_from_slice(b"\"\"");
        }
        out.extend_from_slice(more);
        out.push(b'\n');
    }
}

/// Appends a record in the dialect `gathered` that has the same stray quote in the same column.
fn rewrite_stray(stray: &StrayField<'_>, gathered: &CsvFormat, out: &mut Vec<u8>) {
    out.resize(out.len() + stray.column, gathered.delimiter);
    out.push(b'"');
    // Skips the stray quote itself, and replaces all others: none may close the field.
    let text = stray.text.get(1..).unwrap_or_default();
    out.extend(text.iter().map(|&byte| match byte {
        b'"' => b'\'',
        byte if is_terminator(byte) => b' ',
        byte => byte,
    }));
    let end = if stray.text_follows { followed_mark(gathered) } else { unclosed_mark(gathered) };
    out.extend_from_slice(&end);
    out.push(b'\n');
}

/// Calls `take` for each record of the slice of a file below `root`. `buffer` holds the text of the
/// slice, and never shrinks. Fails if the file cannot be read, or if `take` fails.
pub fn each_row<E: From<DatasetError>>(
    root: &Path,
    slice: &TextSlice,
    csv: &CsvFormat,
    buffer: &mut Vec<u8>,
    mut take: impl FnMut(&RawRow<'_>) -> Result<(), E>,
) -> Result<(), E> {
    let text = read_slice(root, slice, buffer)?;
    let mut records = RecordWalk::new(text, csv);
    let mut counted = 0;
    let mut line = slice.first_line;
    while let Some(record) = records.next_record() {
        let start = record.start;
        let before = if counted == 0 { b'\n' } else { text[counted - 1] };
        line += count_lines(&text[counted..start], before);
        counted = start;
        let text = match &text[start..record.end] {
            [inner @ .., b'\n' | b'\r'] => inner,
            whole => whole,
        };
        take(&RawRow { text, line, record })?;
    }
    Ok(())
}

/// Appends the text of a field, quoted if necessary, in the dialect `gathered`.
pub fn quote_field(text: &[u8], gathered: &CsvFormat, out: &mut Vec<u8>) {
    let quote = gathered.quote.unwrap_or(b'"');
    let is_special = |byte: u8| byte == gathered.delimiter || byte == quote || is_terminator(byte);
    if !text.iter().any(|byte| is_special(*byte)) {
        return out.extend_from_slice(text);
    }
    out.push(quote);
    for &byte in text {
        out.push(byte);
        if byte == quote {
            out.push(quote);
        }
    }
    out.push(quote);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataset::csv::Cutter;
    use crate::model::SliceSize;
    use proptest::prelude::*;

    /// The fields of a record, or the column, the text and `text_follows` of its stray quote.
    type Fields = Result<Vec<String>, (usize, String, bool)>;

    fn rewritten(text: &[u8], size: u64) -> (Vec<Fields>, Vec<Fields>) {
        rewritten_with(b',', text, size)
    }

    fn rewritten_with(delimiter: u8, text: &[u8], size: u64) -> (Vec<Fields>, Vec<Fields>) {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("t.csv"), text).unwrap();
        let csv = CsvFormat { delimiter, header: false, ..CsvFormat::default() };
        let mut seen = Vec::new();
        let mut written = Vec::new();
        let mut buffer = Vec::new();
        let mut cutter = Cutter::new(&csv, SliceSize::Bytes(size));
        let mut cut = cutter.open(folder.path(), "t.csv".to_owned()).unwrap();
        while let Some(slice) = cut.next_slice().unwrap() {
            each_row::<DatasetError>(folder.path(), &slice, &csv, &mut buffer, |row| {
                seen.push(fields(&row.record));
                row.write(&[&[delimiter], &b"\"p\""[..]].concat(), &csv, &mut written);
                Ok(())
            })
            .unwrap();
        }
        let mut again = Vec::new();
        let mut records = RecordWalk::new(&written, &csv);
        while let Some(record) = records.next_record() {
            again.push(fields(&record));
        }
        (seen, again)
    }

    fn fields(record: &Record<'_>) -> Fields {
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        match &record.stray {
            None => Ok(record.fields().map(text).collect()),
            Some(stray) => Err((stray.column, text(stray.text), stray.text_follows)),
        }
    }

    proptest! {
        /// Gathered rows of any file can follow those of any other file.
        #[test]
        fn rows_keep_their_fields(
            text in "([a,é\"\n\r]|\r\n|\"x\ny\"){0,40}", size in 1u64..60,
        ) {
            let (mut seen, again) = rewritten(text.as_bytes(), size);
            seen.iter_mut().flatten().for_each(|row| row.push("p".to_owned()));
            prop_assert_eq!(again, seen);
        }
    }

    #[test]
    fn a_stray_quote_stays_in_its_row() {
        let text = b"1,\"open\n2,b\n3,\"c\"d\n4,\"open, too\n5\",\"\"\n";
        let fields = |fields: &[&str]| Ok(fields.iter().map(|&field| field.to_owned()).collect());
        let stray = |text: &str, follows| Err((1, text.to_owned(), follows));
        let (seen, again) = rewritten(text, 5);
        assert_eq!(
            seen,
            [
                stray("\"open", false),
                fields(&["2", "b"]),
                stray("\"c\"d", true),
                fields(&["4", "open, too\n5", ""]),
            ]
        );
        assert_eq!(again[..3], [seen[0].clone(), fields(&["2", "b", "p"]), seen[2].clone()]);
    }

    #[test]
    fn a_stray_quote_stays_in_its_row_whatever_the_delimiter() {
        let fields = |fields: &[&str]| Ok(fields.iter().map(|&field| field.to_owned()).collect());
        for delimiter in [b'\x01', b'\x02'] {
            let text = b"1,\"open\n2,b\n3,\"c\"d\n";
            let text = text.map(|byte| if byte == b',' { delimiter } else { byte });
            let (_, again) = rewritten_with(delimiter, &text, 5);
            let expected = [
                Err((1, "\"open".to_owned(), false)),
                fields(&["2", "b", "p"]),
                Err((1, "\"c\"d".to_owned(), true)),
            ];
            assert_eq!(again, expected);
        }
    }

    #[test]
    fn fields_are_quoted_if_necessary() {
        let mut out = Vec::new();
        for text in ["a b", "a,b", "\"", "a\nb"] {
            quote_field(text.as_bytes(), &CsvFormat::default(), &mut out);
            out.push(b'|');
        }
        assert_eq!(String::from_utf8(out).unwrap(), "a b|\"a,b\"|\"\"\"\"|\"a\nb\"|");
    }
}
