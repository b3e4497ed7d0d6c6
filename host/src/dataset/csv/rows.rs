//! The records of a slice, one by one and as they stand in the file.

use super::reader::read_slice;
use super::records::{Record, Records};
use super::scan::{Scan, count_lines, is_terminator};
use super::types::is_null;
use crate::dataset::DatasetError;
use crate::model::{CsvFormat, TextSlice};
use std::borrow::Cow;
use std::path::Path;

/// One record.
#[derive(Debug)]
pub struct RawRow<'a> {
    /// Its bytes, without a line end.
    pub text: &'a [u8],
    /// The line that it begins on.
    pub line: u64,
    /// Whether a quote is left open at its end, where the file ends too.
    pub left_open: bool,
    record: Record<'a>,
}

impl<'a> RawRow<'a> {
    /// The text of a field. Null is the empty text, and so is a field that is not there; what is not
    /// UTF-8 is replaced.
    pub fn value(&self, column: usize, csv: &CsvFormat) -> Cow<'a, str> {
        match String::from_utf8_lossy(self.record.field(column).unwrap_or_default()) {
            text if is_null(&text, csv) => Cow::Borrowed(""),
            text => text,
        }
    }

    /// Appends the record to a text of records of any files, with a line end of its own. `more` are
    /// further fields, each with its delimiter.
    pub fn write(&self, more: &[u8], out: &mut Vec<u8>) {
        out.extend_from_slice(self.text);
        if self.left_open {
            out.push(b'"');
        }
        out.extend_from_slice(more);
        out.push(b'\n');
    }
}

/// Hands each record of the slice of a file below `root` to `take`. `buffer` is for the text, and
/// only grows. Fails if the file cannot be read, or as `take` does.
pub fn each_row<E: From<DatasetError>>(
    root: &Path,
    slice: &TextSlice,
    delimiter: u8,
    buffer: &mut Vec<u8>,
    mut take: impl FnMut(&RawRow<'_>) -> Result<(), E>,
) -> Result<(), E> {
    let text = read_slice(root, slice, buffer)?;
    let mut records = Records::new(text, delimiter);
    let (mut counted, mut line) = (0, slice.first_line);
    while let Some(record) = records.next_record() {
        let blank = text[record.start..].iter().take_while(|&&byte| is_terminator(byte)).count();
        let start = record.start + blank;
        let before = if counted == 0 { b'\n' } else { text[counted - 1] };
        line += count_lines(&text[counted..start], before);
        counted = start;
        let bytes = &text[start..record.end];
        let left_open = record.end == text.len() && is_left_open(bytes, delimiter);
        let text = match bytes {
            [inner @ .., b'\n' | b'\r'] if !left_open => inner,
            whole => whole,
        };
        take(&RawRow { text, line, left_open, record })?;
    }
    Ok(())
}

fn is_left_open(record: &[u8], delimiter: u8) -> bool {
    let mut scan = Scan::new(delimiter);
    scan.advance(record);
    scan.finish();
    scan.left_open
}

/// A field's text as it may stand in a file.
pub fn quote_field(text: &str, delimiter: u8, out: &mut Vec<u8>) {
    let special = |byte: u8| byte == delimiter || byte == b'"' || is_terminator(byte);
    if !text.bytes().any(special) {
        return out.extend_from_slice(text.as_bytes());
    }
    out.push(b'"');
    out.extend_from_slice(text.replace('"', "\"\"").as_bytes());
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataset::csv::Cutter;
    use crate::model::SliceSize;
    use proptest::prelude::*;

    fn rewritten(text: &[u8], size: u64) -> (Vec<Vec<String>>, Vec<Vec<String>>) {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("t.csv"), text).unwrap();
        let csv = CsvFormat { header: false, ..CsvFormat::default() };
        let (mut seen, mut written, mut buffer) = (Vec::new(), Vec::new(), Vec::new());
        let mut cutter = Cutter::new(&csv, SliceSize::Bytes(size));
        let mut cut = cutter.open(folder.path(), "t.csv".to_owned()).unwrap();
        while let Some(slice) = cut.next_slice().unwrap() {
            each_row::<DatasetError>(folder.path(), &slice, b',', &mut buffer, |row| {
                seen.push(fields(&row.record));
                row.write(b",\"p\"", &mut written);
                Ok(())
            })
            .unwrap();
        }
        let mut again = Vec::new();
        let mut records = Records::new(&written, b',');
        while let Some(record) = records.next_record() {
            again.push(fields(&record));
        }
        (seen, again)
    }

    fn fields(record: &Record<'_>) -> Vec<String> {
        record.fields().map(|field| String::from_utf8_lossy(field).into_owned()).collect()
    }

    proptest! {
        /// Rows of any file can stand behind rows of any other.
        #[test]
        fn rows_keep_their_fields(
            text in "([a,é\"\n\r]|\r\n|\"x\ny\"){0,40}", size in 1u64..60,
        ) {
            let (mut seen, again) = rewritten(text.as_bytes(), size);
            seen.iter_mut().for_each(|row| row.push("p".to_owned()));
            prop_assert_eq!(again, seen);
        }
    }

    #[test]
    fn an_open_quote_is_closed() {
        let (seen, again) = rewritten(b"a,b\n1,\"open\nfor ever\n", 100);
        assert_eq!(seen, [["a", "b"], ["1", "open\nfor ever\n"]]);
        assert_eq!(again, [["a", "b", "p"], ["1", "open\nfor ever\n", "p"]]);
    }

    #[test]
    fn fields_are_quoted_where_they_must() {
        let mut out = Vec::new();
        for text in ["a b", "a,b", "\"", "a\nb"] {
            quote_field(text, b',', &mut out);
            out.push(b'|');
        }
        assert_eq!(String::from_utf8(out).unwrap(), "a b|\"a,b\"|\"\"\"\"|\"a\nb\"|");
    }
}
