//! What a guest returns, as lines of the output file.

use super::cells::Column;
use crate::model::{Failure, FailureKind};
use arrow::array::RecordBatch;
use arrow::buffer::Buffer;
use arrow::error::ArrowError;
use arrow::ipc::reader::StreamDecoder;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A buffer that has grown beyond this is given back before the next attempt.
const KEPT_CAPACITY: usize = 64 << 20;

/// Collects the rows of one attempt; its buffer serves attempt after attempt.
///
/// A row of text is one line. A row of a table is one line with a single space between the fields,
/// without header, written as Python's csv writer does it: a field that holds a space, a quote or a
/// line break stands in quotes, with quotes in it doubled. Numbers are written as Python prints
/// them (`1.0`, `1e-05`, `nan`), booleans as `True` and `False`, a null as an empty field, dates and
/// times in ISO 8601 (`2026-11-21T10:30:00`), and other types as Arrow prints them. A line that
/// would be empty because its only field is, is written as `""`.
#[derive(Debug)]
pub struct RowWriter {
    buffer: Vec<u8>,
    rows: u64,
    limit: u64,
    keep: bool,
    problem: Option<String>,
}

impl RowWriter {
    /// `limit`: how many bytes of text one attempt may make. `keep`: false to count rows and drop
    /// them.
    pub fn new(limit: u64, keep: bool) -> Self {
        Self { buffer: Vec::new(), rows: 0, limit, keep, problem: None }
    }

    /// Forgets all rows; to be called before each attempt.
    pub fn clear(&mut self) {
        self.buffer.clear();
        if self.buffer.capacity() > KEPT_CAPACITY {
            self.buffer.shrink_to(KEPT_CAPACITY);
        }
        self.rows = 0;
        self.problem = None;
    }

    /// The lines so far. Empty where rows are dropped.
    pub fn lines(&self) -> &[u8] {
        &self.buffer
    }

    /// The rows so far, also where they are dropped.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// What was wrong with rows of text: the attempt has to fail with this.
    pub fn problem(&mut self) -> Option<Failure> {
        self.problem.take().map(|message| Failure::new(FailureKind::BadResults, message))
    }

    /// Takes a row of text. One line end at its end is dropped; a line break inside it would make
    /// two rows of one, so it is noted as the attempt's [`problem`](Self::problem).
    pub fn row(&mut self, row: &str) {
        let row = row.strip_suffix('\n').unwrap_or(row);
        let row = row.strip_suffix('\r').unwrap_or(row);
        let number = self.rows;
        self.rows += 1;
        if !self.keep || self.problem.is_some() {
            return;
        }
        if memchr::memchr2(b'\n', b'\r', row.as_bytes()).is_some() {
            self.problem = Some(format!(
                "row {number} (counted from 0) of the results holds a line break, but a row is one \
                 line of the output: replace the line break, or return a table, whose fields may \
                 hold one"
            ));
            return;
        }
        self.buffer.extend_from_slice(row.as_bytes());
        self.buffer.push(b'\n');
        if self.over_limit() {
            self.problem = Some(self.too_large());
        }
    }

    /// Takes the rows of an Arrow IPC stream. Decodes strictly: anything that is not as the format
    /// says is `BadResults`.
    pub fn table(&mut self, ipc: &[u8]) -> Result<(), Failure> {
        // The decoder is well kept but large, and these bytes come from code that nobody vouches
        // for: a panic in it must cost one attempt, not the worker.
        let result = catch_unwind(AssertUnwindSafe(|| self.decode(ipc))).unwrap_or_else(|_| {
            Err(Refusal::Invalid("its bytes contradict each other".to_owned()))
        });
        result.map_err(|refusal| {
            let message = match refusal {
                Refusal::Invalid(why) => {
                    format!("run returned a table that is no valid Arrow IPC stream: {why}")
                }
                Refusal::TooLarge => self.too_large(),
            };
            Failure::new(FailureKind::BadResults, message)
        })
    }

    fn decode(&mut self, ipc: &[u8]) -> Result<(), Refusal> {
        let mut bytes = Buffer::from(ipc);
        let mut decoder = StreamDecoder::new();
        while !bytes.is_empty() {
            if let Some(batch) = decoder.decode(&mut bytes)? {
                self.batch(&batch)?;
            }
        }
        let invalid = |why| Err(Refusal::Invalid(format!("{why} (it has {} bytes)", ipc.len())));
        if decoder.finish().is_err() {
            return invalid("it ends without an end-of-stream mark");
        }
        if decoder.schema().is_none() {
            return invalid("it holds no schema");
        }
        Ok(())
    }

    fn batch(&mut self, batch: &RecordBatch) -> Result<(), Refusal> {
        if batch.num_columns() == 0 {
            return Err(Refusal::Invalid("it has no columns".to_owned()));
        }
        let rows = batch.num_rows() as u64;
        // Every row makes a byte at least. Checked first, because some types claim any number of
        // rows without holding a byte.
        if rows > self.limit {
            return Err(Refusal::TooLarge);
        }
        self.rows += rows;
        if !self.keep {
            return Ok(());
        }
        let mut columns = batch.columns().iter().map(Column::new).collect::<Result<Vec<_>, _>>()?;
        for row in 0..batch.num_rows() {
            self.line(&mut columns, row)?;
            if self.over_limit() {
                return Err(Refusal::TooLarge);
            }
        }
        Ok(())
    }

    #[inline]
    fn line(&mut self, columns: &mut [Column<'_>], row: usize) -> Result<(), ArrowError> {
        let start = self.buffer.len();
        for (index, column) in columns.iter_mut().enumerate() {
            if index > 0 {
                self.buffer.push(b' ');
            }
            column.write(row, &mut self.buffer)?;
        }
        if self.buffer.len() == start {
            self.buffer.extend_from_slice(b"\"\"");
        }
        self.buffer.push(b'\n');
        Ok(())
    }

    fn over_limit(&self) -> bool {
        self.buffer.len() as u64 > self.limit
    }

    fn too_large(&self) -> String {
        let limit = crate::model::ByteSize(self.limit);
        format!(
            "the returned rows make more text than limits.results allows ({limit}): return less, or use \
             smaller mini-batches, or raise the limit"
        )
    }
}

/// Why a table is not taken.
enum Refusal {
    Invalid(String),
    TooLarge,
}

impl From<ArrowError> for Refusal {
    fn from(error: ArrowError) -> Self {
        Self::Invalid(match error {
            ArrowError::IpcError(text)
            | ArrowError::ParseError(text)
            | ArrowError::InvalidArgumentError(text)
            | ArrowError::SchemaError(text) => without_structs(text),
            other => other.to_string(),
        })
    }
}

/// Arrow's words without the values that it prints as a program would: `Unaligned { position: ..`.
fn without_structs(mut text: String) -> String {
    if let Some(at) = text.find(" { ") {
        text.truncate(at);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::*;
    use arrow::datatypes::Int32Type;
    use arrow::ipc::writer::StreamWriter;
    use proptest::prelude::*;
    use std::sync::Arc;

    fn ipc(columns: Vec<(&str, ArrayRef)>) -> Vec<u8> {
        let batch = RecordBatch::try_from_iter_with_nullable(
            columns.into_iter().map(|(name, array)| (name, array, true)),
        )
        .unwrap();
        let mut bytes = Vec::new();
        let mut writer = StreamWriter::try_new(&mut bytes, &batch.schema()).unwrap();
        writer.write(&batch).unwrap();
        writer.finish().unwrap();
        bytes
    }

    fn lines(ipc: &[u8]) -> String {
        let mut writer = RowWriter::new(1 << 20, true);
        writer.table(ipc).unwrap();
        let text = String::from_utf8(writer.lines().to_vec()).unwrap();
        assert_eq!(text.is_empty(), writer.rows() == 0);
        text
    }

    #[test]
    fn text_rows_are_lines() {
        let mut writer = RowWriter::new(100, true);
        for row in ["a b", "", "\"quoted\"", "ends\n", "ends too\r\n"] {
            writer.row(row);
        }
        assert_eq!(writer.lines(), b"a b\n\n\"quoted\"\nends\nends too\n");
        assert_eq!((writer.rows(), writer.problem()), (5, None));
        writer.row("one\ntwo");
        insta::assert_snapshot!(writer.problem().unwrap(), @"row 5 (counted from 0) of the results holds a line break, but a row is one line of the output: replace the line break, or return a table, whose fields may hold one");
        writer.clear();
        assert_eq!((writer.lines(), writer.rows()), (&b""[..], 0));
        writer.row(&"x".repeat(100));
        insta::assert_snapshot!(writer.problem().unwrap(), @"the returned rows make more text than limits.results allows (100 bytes): return less, or use smaller mini-batches, or raise the limit");
    }

    #[test]
    fn table_rows_are_spaced_lines() {
        let mut categories = StringDictionaryBuilder::<Int32Type>::new();
        categories.append_value("red hot");
        categories.append_null();
        categories.append_value("blue");
        let bytes = ipc(vec![
            ("id", Arc::new(Int64Array::from(vec![Some(-1), None, Some(3)]))),
            ("f", Arc::new(Float64Array::from(vec![1.0, 0.1, 1e-5]))),
            ("g", Arc::new(Float32Array::from(vec![Some(0.1), None, Some(1e20)]))),
            ("b", Arc::new(BooleanArray::from(vec![Some(true), Some(false), None]))),
            ("s", Arc::new(StringArray::from(vec!["plain", "with \"quote\"", "two\nlines"]))),
            ("d", Arc::new(Date32Array::from(vec![0, 1, 20_000]))),
            ("t", Arc::new(TimestampMicrosecondArray::from(vec![0, 1_500_000, -1]))),
            ("c", Arc::new(categories.finish())),
            ("u", Arc::new(UInt8Array::from(vec![0, 7, 255]))),
        ]);
        insta::assert_snapshot!(lines(&bytes), @r#"
        -1 1.0 0.1 True plain 1970-01-01 1970-01-01T00:00:00 "red hot" 0
         0.1  False "with ""quote""" 1970-01-02 1970-01-01T00:00:01.500  7
        3 1e-05 1e+20  "two
        lines" 2024-10-04 1969-12-31T23:59:59.999999 blue 255
        "#);
        let nulls = ipc(vec![("a", Arc::new(StringArray::from(vec![None, Some(""), Some("x")])))]);
        assert_eq!(lines(&nulls), "\"\"\n\"\"\nx\n");
        let none = ipc(vec![("a", Arc::new(Int64Array::from(Vec::<i64>::new())))]);
        assert_eq!(lines(&none), "");
    }

    #[test]
    fn dropped_rows_are_counted() {
        let mut writer = RowWriter::new(1 << 20, false);
        writer.row("a");
        writer.table(&ipc(vec![("a", Arc::new(Int64Array::from(vec![1, 2])))])).unwrap();
        assert_eq!((writer.rows(), writer.lines()), (3, &b""[..]));
    }

    #[test]
    fn what_is_no_table_is_said() {
        let whole = ipc(vec![("a", Arc::new(Int64Array::from(vec![1, 2])))]);
        let error = |bytes: &[u8]| RowWriter::new(1 << 20, true).table(bytes).unwrap_err().message;
        insta::assert_snapshot!(error(b""), @"run returned a table that is no valid Arrow IPC stream: it holds no schema (it has 0 bytes)");
        insta::assert_snapshot!(error(&whole[..whole.len() - 12]), @"run returned a table that is no valid Arrow IPC stream: it ends without an end-of-stream mark (it has 380 bytes)");
        let huge = ipc(vec![("n", Arc::new(NullArray::new(2 << 20)))]);
        insta::assert_snapshot!(error(&huge), @"the returned rows make more text than limits.results allows (1 MB): return less, or use smaller mini-batches, or raise the limit");
        assert!(error(b"a,b\n1,2\n").starts_with("run returned a table that is no valid Arrow"));
    }

    /// Reads a line as Python's csv reader does with a space as delimiter.
    fn parse(text: &str) -> Vec<Vec<String>> {
        let (mut rows, mut row, mut field) = (Vec::new(), Vec::new(), String::new());
        let (mut quoted, mut chars) = (false, text.chars().peekable());
        while let Some(c) = chars.next() {
            match c {
                '"' if quoted && chars.peek() == Some(&'"') => field.push(chars.next().unwrap()),
                '"' => quoted = !quoted,
                ' ' if !quoted => row.push(std::mem::take(&mut field)),
                '\n' if !quoted => {
                    row.push(std::mem::take(&mut field));
                    rows.push(std::mem::take(&mut row));
                }
                c => field.push(c),
            }
        }
        rows
    }

    proptest! {
        #[test]
        fn fields_survive_quoting(
            rows in prop::collection::vec(prop::array::uniform3("[ \"\n\r,ab\\PC]{0,6}"), 1..20)
        ) {
            let column = |i: usize| -> ArrayRef {
                Arc::new(StringArray::from_iter_values(rows.iter().map(|row| row[i].clone())))
            };
            let text = lines(&ipc(vec![("a", column(0)), ("b", column(1)), ("c", column(2))]));
            let expected: Vec<Vec<String>> = rows.iter().map(|row| row.to_vec()).collect();
            prop_assert_eq!(parse(&text), expected);
        }

        #[test]
        fn damaged_tables_are_an_error_or_rows(
            position in any::<prop::sample::Index>(), byte in any::<u8>(), cut in 0usize..40,
        ) {
            let mut bytes = ipc(vec![
                ("s", Arc::new(StringArray::from(vec!["a", "bb", "ccc"]))),
                ("n", Arc::new(Int32Array::from(vec![1, 2, 3]))),
            ]);
            let at = position.index(bytes.len());
            bytes[at] = byte;
            bytes.truncate(bytes.len() - cut);
            let _ = RowWriter::new(1 << 20, true).table(&bytes);
        }
    }
}
