//! Turns what a guest returns into lines of the output file, or into batches for a typed output.

use super::batches::Batches;
use super::cells::{ObjectCells, TextColumn};
use super::join::JoinedRows;
use super::json;
use super::lines::NumberLines;
use super::members::compressed_member;
use super::refusal::{TableRefusal, UnfitRow, unprintable, unquotable};
use super::style::{CellStyle, NeedsQuotes, Style};
use super::table_error::JoinError;
use crate::model::{
    ByteSize, Compression, Failure, FailureKind, Join, OutputFormat, OutputHeader, OutputKind,
};
use arrow::array::RecordBatch;
use arrow::buffer::Buffer;
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use arrow::ipc::reader::StreamDecoder;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A buffer that has grown beyond this is shrunk before the next attempt.
const KEPT_CAPACITY: usize = 64 << 20;
/// The end-of-stream marker of Arrow's format. The first four bytes are the continuation marker, which begins
/// each message. In the oldest version of the format, neither messages nor the end-of-stream marker have
/// these four bytes.
const END_MARKER: [u8; 8] = [0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0];

/// Collects the rows of one attempt. The buffer is reused for the next attempts.
///
/// A row of text is one unchanged line in a text output and one field in CSV. In JSON lines it becomes a JSON
/// string, unless it already is a JSON object or array.
///
/// In a text output and in CSV, a row of a table is one line, in the form of Python's csv writer. The
/// delimiter (in a text output, a space) is between the fields. With minimal quoting, a field that holds the
/// delimiter, a quote or a line break is put in quotes, and quotes inside are doubled. A line whose only
/// field is empty is written as `""`. The values are written in these forms:
///
/// - numbers as Python prints them (`1.0`, `1e-05`, `nan`), booleans as `True` and `False`;
/// - a null as an empty field;
/// - dates and times in ISO 8601 (`2026-11-21T10:30:00`);
/// - lists, maps and structs as JSON, a union as the value that it has;
/// - other types as Arrow prints them.
///
/// In JSON lines, a row of a table is an object. Lists and structs become arrays and objects. A map becomes
/// an object, or an array of pairs if its keys are not texts. `nan` and infinite values become null.
///
/// In a typed output, tables stay tables, and a row of text becomes a row of a column `value`.
#[derive(Debug)]
pub struct RowWriter {
    /// The lines.
    buffer: Vec<u8>,
    /// The number of rows so far.
    rows: u64,
    /// The maximum size of all rows of one attempt, in bytes of text.
    limit: u64,
    /// The maximum size of one row of a table, in bytes.
    max_row_size: u64,
    /// If false, rows are counted and dropped.
    keep: bool,
    kind: OutputKind,
    wants_header: bool,
    /// Whether each row of a table begins with its number.
    has_index: bool,
    style: Style,
    /// The rows of a typed output; `None` if the output consists of lines.
    batches: Option<Batches>,
    /// Which input columns are put in front; `None` if the job does not join rows.
    join: Option<Join>,
    /// The input of this attempt, with the rows that are joined to it.
    joined: Option<JoinedRows>,
    compression: Compression,
    /// The lines after compression.
    compressed: Vec<u8>,
    found_header: Option<OutputHeader>,
    problem: Option<String>,
    /// How many numbers of this attempt became null, because JSON cannot represent them.
    lost: u64,
}

impl RowWriter {
    /// `limit` is how many bytes of text one attempt may make. If `keep` is false, rows are counted and
    /// dropped.
    pub fn new(limit: u64, keep: bool, format: &OutputFormat) -> Self {
        Self {
            buffer: Vec::new(),
            rows: 0,
            limit,
            max_row_size: u64::MAX,
            keep,
            kind: format.kind,
            wants_header: format.has_header(),
            has_index: format.index,
            style: Style::new(format),
            batches: (!format.kind.is_lines()).then(|| Batches::new(format, limit)),
            compression: if format.kind.is_lines() {
                format.compression
            } else {
                Compression::None
            },
            compressed: Vec::new(),
            join: format.join.clone(),
            joined: None,
            found_header: None,
            problem: None,
            lost: 0,
        }
    }

    /// Sets the maximum size of one row of a table: `limits.row`. The sandbox has already checked rows of text.
    pub fn with_max_row_size(self, size: ByteSize) -> Self {
        Self { max_row_size: size.0, ..self }
    }

    /// Forgets all rows; call it before each attempt.
    pub fn clear(&mut self) {
        self.buffer.clear();
        if self.buffer.capacity() > KEPT_CAPACITY {
            self.buffer.shrink_to(KEPT_CAPACITY);
        }
        self.rows = 0;
        if let Some(batches) = &mut self.batches {
            batches.clear();
        }
        self.compressed.clear();
        self.joined = None;
        self.found_header = None;
        self.problem = None;
        self.lost = 0;
    }

    /// The lines so far. Empty if rows are dropped.
    pub fn lines(&self) -> &[u8] {
        &self.buffer
    }

    /// The number of rows so far, including dropped ones.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// How many values were `nan` or infinite and became null in the output, because JSON cannot represent
    /// them.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// The names of the columns, if there was a table and the format has a header. Call it after
    /// [`seal`](Self::seal).
    pub fn take_header(&mut self) -> Option<OutputHeader> {
        self.found_header.take()
    }

    /// Sets the input of the attempt: a table in pieces, as the guest receives it. Does nothing if the job
    /// does not join rows.
    ///
    /// # Errors
    /// If the job joins columns that the table does not have.
    pub fn join_table(&mut self, pieces: &[Buffer]) -> Result<(), Failure> {
        let Some(join) = &self.join else { return Ok(()) };
        let ipc = pieces.iter().map(Buffer::as_slice).collect::<Vec<_>>().concat();
        let joined = JoinedRows::table(&ipc, join);
        let failure = |error: JoinError| Failure::new(FailureKind::BadResults, error.to_string());
        self.joined = Some(joined.map_err(failure)?);
        Ok(())
    }

    /// As [`Self::join_table`], but for files. `names` are the files' names.
    pub fn join_files(&mut self, names: &[String]) {
        self.joined = self.join.as_ref().map(|_| JoinedRows::files(names));
    }

    /// Records that the results are outcomes, one for each item. The next [`row`](Self::row) belongs to the
    /// first item.
    pub fn outcomes(&mut self) {
        self.joined.iter_mut().for_each(JoinedRows::outcomes);
    }

    /// Records that the item at `index` has no row; the next row belongs to the item after it.
    pub fn failed(&mut self, index: usize) {
        self.joined.iter_mut().for_each(|joined| joined.failed(index));
    }

    /// Turns the rows into the bytes for the part file, which [`segment`](Self::segment) returns. Call it
    /// once, after the last row.
    pub fn seal(&mut self) -> Result<(), Failure> {
        self.write_joined().map_err(|refusal| self.refusal(refusal))?;
        if let Some(batches) = &mut self.batches {
            let sealed = batches.seal();
            self.found_header = sealed.map_err(|refused| self.refusal(refused.into()))?;
            return Ok(());
        }
        if self.compression == Compression::None {
            return Ok(());
        }
        let compress = |text: &[u8]| {
            compressed_member(text, self.compression).map_err(|error| {
                let message = format!("the rows cannot be compressed: {error}");
                Failure::new(FailureKind::HostFault, message)
            })
        };
        if let Some(header) = &mut self.found_header {
            header.bytes = Some(compress(format!("{}\n", header.text).as_bytes())?);
        }
        if !self.buffer.is_empty() {
            self.compressed = compress(&self.buffer)?;
        }
        if self.compressed.len() as u64 > self.limit {
            return Err(self.refusal(TableRefusal::TooLarge));
        }
        Ok(())
    }

    /// The bytes for the part file. Call it after [`seal`](Self::seal).
    pub fn segment(&self) -> &[u8] {
        match &self.batches {
            Some(batches) => batches.sealed(),
            None if self.compression == Compression::None => &self.buffer,
            None => &self.compressed,
        }
    }

    /// What is wrong with the rows of text so far, if anything. The attempt must fail with this failure.
    pub fn problem(&mut self) -> Option<Failure> {
        self.problem.take().map(|message| Failure::new(FailureKind::BadResults, message))
    }

    /// Takes a row of text, without the line break at its end. A line break inside would turn one row into
    /// two, so it is recorded as the attempt's [`problem`](Self::problem).
    pub fn row(&mut self, row: &str) {
        let row = row.strip_suffix('\n').unwrap_or(row);
        let row = row.strip_suffix('\r').unwrap_or(row);
        let number = self.rows;
        self.rows += 1;
        if !self.keep || self.problem.is_some() {
            return;
        }
        if let Some(joined) = &mut self.joined {
            if joined.text(row) > self.limit {
                self.problem = Some(self.too_large_message());
            }
            return;
        }
        if let Some(batches) = &mut self.batches {
            let result = batches.text(row);
            self.problem = result.err().map(|refused| self.refusal(refused.into()).message);
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
        if self.kind == OutputKind::Text {
            self.buffer.extend_from_slice(row.as_bytes());
            self.buffer.push(b'\n');
        } else {
            self.problem = self.push_csv_or_json(row).err().map(|_| unquotable(number, None));
        }
        if self.is_over_limit() {
            self.problem = Some(self.too_large_message());
        }
    }

    /// Appends a row of text as CSV or JSON.
    fn push_csv_or_json(&mut self, row: &str) -> Result<(), NeedsQuotes> {
        let start = self.buffer.len();
        if self.kind == OutputKind::Csv {
            self.buffer.extend_from_slice(row.as_bytes());
            self.style.end_field(&mut self.buffer, start, CellStyle::Text)?;
            return self.style.end_line(&mut self.buffer, start);
        }
        if json::is_nested(row) {
            self.buffer.extend_from_slice(row.as_bytes());
        } else {
            json::text(row, &mut self.buffer);
        }
        self.buffer.push(b'\n');
        Ok(())
    }

    /// Takes the rows of an Arrow IPC stream. Decoding is strict: any violation of the format is
    /// `BadResults`.
    pub fn table(&mut self, ipc: &[u8]) -> Result<(), Failure> {
        // The decoder is well maintained but large, and these bytes come from untrusted code. If the decoder
        // panics, the attempt must fail, and the worker must go on.
        let result = catch_unwind(AssertUnwindSafe(|| self.decode(ipc))).unwrap_or_else(|_| {
            Err(TableRefusal::Invalid("its bytes are inconsistent".to_owned()))
        });
        result.map_err(|refusal| self.refusal(refusal))
    }

    fn refusal(&self, refusal: TableRefusal) -> Failure {
        let mut kind = FailureKind::BadResults;
        let message = match refusal {
            TableRefusal::Invalid(why) => {
                format!("run returned a table that is not a valid Arrow IPC stream: {why}")
            }
            TableRefusal::TooLarge => self.too_large_message(),
            TableRefusal::Unfit(why) => why,
            TableRefusal::LongRow(why) => {
                kind = FailureKind::OverLimit;
                why
            }
        };
        Failure::new(kind, message)
    }

    fn decode(&mut self, ipc: &[u8]) -> Result<(), TableRefusal> {
        let invalid =
            |why| Err(TableRefusal::Invalid(format!("{why} (it has {} bytes)", ipc.len())));
        let mut bytes = Buffer::from(ipc);
        let mut decoder = StreamDecoder::new();
        while !bytes.is_empty() {
            if let Some(batch) = decoder.decode(&mut bytes)? {
                self.write_batch(&batch)?;
            }
        }
        // The decoder accepts a stream that was truncated between two messages.
        let marker =
            if ipc.starts_with(&END_MARKER[..4]) { &END_MARKER[..] } else { &END_MARKER[4..] };
        if decoder.finish().is_err() || !(ipc.is_empty() || ipc.ends_with(marker)) {
            return invalid("it ends without an end-of-stream mark");
        }
        match decoder.schema() {
            None => invalid("it holds no schema"),
            Some(schema) if self.keep => {
                let Some(joined) = &self.joined else { return self.begin_table(&schema) };
                joined.finish_table()?;
                let schema = joined.schema(&schema)?;
                self.begin_table(&schema)
            }
            Some(_) => Ok(()),
        }
    }

    /// Records the columns of a table or of joined rows, and writes the header.
    fn begin_table(&mut self, schema: &SchemaRef) -> Result<(), TableRefusal> {
        if let Some(batches) = &mut self.batches {
            batches.open(schema)?;
        } else if self.wants_header {
            let line = self.style.header_line(schema, self.has_index);
            let line = line.map_err(|error| TableRefusal::Unfit(error.to_string()))?;
            self.found_header = Some(line.as_str().into());
        }
        Ok(())
    }

    /// Writes the joined rows of text. They can only be written at the end, when all of them are known.
    fn write_joined(&mut self) -> Result<(), TableRefusal> {
        let Some(mut joined) = self.joined.take() else { return Ok(()) };
        let Some(batch) = joined.finish_texts()? else { return Ok(()) };
        self.begin_table(batch.schema_ref())?;
        self.rows = 0;
        self.write_batch(&batch)
    }

    fn write_batch(&mut self, batch: &RecordBatch) -> Result<(), TableRefusal> {
        if batch.num_columns() == 0 {
            return Err(TableRefusal::Invalid("it has no columns".to_owned()));
        }
        let rows = batch.num_rows() as u64;
        // Every row makes at least one byte of output, so more rows than `limit` are too large. We check this
        // first, because a table of some types may claim any number of rows without holding a byte.
        if rows > self.limit {
            return Err(TableRefusal::TooLarge);
        }
        let rows_before = self.rows;
        self.rows += rows;
        if !self.keep {
            return Ok(());
        }
        let joined_batch = self.joined.as_mut().map(|joined| joined.batch(batch)).transpose()?;
        let batch = joined_batch.as_ref().unwrap_or(batch);
        if let Some(batches) = &mut self.batches {
            return Ok(batches.batch(batch)?);
        }
        let kind = self.kind;
        let unprintable = |row: usize, error: &ArrowError| {
            unprintable(batch, row, rows_before + row as u64, kind, error)
        };
        if self.kind == OutputKind::Jsonl {
            return self.write_objects(batch, rows_before);
        }
        let columns = batch.columns().iter().map(|column| TextColumn::new(column, self.limit));
        let columns = columns.collect::<Result<Vec<_>, _>>();
        let mut columns = columns.map_err(|error| unprintable(0, &error))?;
        if !self.has_index
            && let Some(mut lines) = NumberLines::new(&columns, &self.style, self.max_row_size)
        {
            let are_within_limit = lines.append(batch.num_rows(), &mut self.buffer, self.limit);
            return are_within_limit.then_some(()).ok_or(TableRefusal::TooLarge);
        }
        for row in 0..batch.num_rows() {
            let start = self.buffer.len();
            self.write_line(&mut columns, row, rows_before + row as u64).map_err(|unfit| {
                match unfit {
                    UnfitRow::Arrow(error) => unprintable(row, &error),
                    UnfitRow::Quotes(column) => {
                        let name =
                            column.map(|index| batch.schema_ref().field(index).name().as_str());
                        TableRefusal::Unfit(unquotable(rows_before + row as u64, name))
                    }
                }
            })?;
            self.check_size(start, rows_before + row as u64)?;
        }
        self.lost += columns.iter().map(TextColumn::lost).sum::<u64>();
        Ok(())
    }

    /// Appends the line of a row; `number` is its index among the attempt's rows.
    #[inline]
    fn write_line(
        &mut self,
        columns: &mut [TextColumn<'_>],
        row: usize,
        number: u64,
    ) -> Result<(), UnfitRow> {
        let out = &mut self.buffer;
        let style = &mut self.style;
        let line_start = out.len();
        if self.has_index {
            out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
            style
                .end_field(out, line_start, CellStyle::Number)
                .map_err(|_| UnfitRow::Quotes(None))?;
        }
        for (index, column) in columns.iter_mut().enumerate() {
            if index > 0 || self.has_index {
                out.push(style.delimiter);
            }
            let field_start = out.len();
            let result = if column.is_null(row) {
                style.push_null(out)
            } else {
                column.write(row, out)?;
                style.end_field(out, field_start, column.style())
            };
            result.map_err(|NeedsQuotes| UnfitRow::Quotes(Some(index)))?;
        }
        style.end_line(out, line_start).map_err(|NeedsQuotes| UnfitRow::Quotes(Some(0)))
    }

    /// Appends the rows as JSON lines.
    fn write_objects(&mut self, batch: &RecordBatch, rows_before: u64) -> Result<(), TableRefusal> {
        let fields = batch.schema_ref().fields();
        if let Some(name) = json::duplicate_name(fields) {
            return Err(TableRefusal::Unfit(format!(
                "two columns of the returned table are called {name:?}, and output_format.type is \
                 jsonl, where a row is an object: give them different names"
            )));
        }
        let kind = self.kind;
        let unprintable = |row: usize, error: &ArrowError| {
            unprintable(batch, row, rows_before + row as u64, kind, error)
        };
        let object = ObjectCells::new(fields, batch.columns(), self.limit);
        let mut object = object.map_err(|error| unprintable(0, &error))?;
        for row in 0..batch.num_rows() {
            let start = self.buffer.len();
            let written = object.write(row, &mut self.buffer, self.limit);
            written.map_err(|error| unprintable(row, &error))?;
            self.buffer.push(b'\n');
            self.check_size(start, rows_before + row as u64)?;
        }
        self.lost += object.lost();
        Ok(())
    }

    /// Checks the limits: on the row that begins at `start`, and on all rows together.
    #[inline]
    fn check_size(&self, start: usize, number: u64) -> Result<(), TableRefusal> {
        if self.is_over_limit() {
            return Err(TableRefusal::TooLarge);
        }
        let size = (self.buffer.len() - start) as u64;
        if size <= self.max_row_size {
            return Ok(());
        }
        Err(TableRefusal::LongRow(format!(
            "limits.row allows {} for one row; row {number} (counted from 0) of what run returned \
             has {}. Make its rows smaller, or raise the limit",
            ByteSize(self.max_row_size),
            ByteSize(size).rounded()
        )))
    }

    fn is_over_limit(&self) -> bool {
        self.buffer.len() as u64 > self.limit
    }

    fn too_large_message(&self) -> String {
        let limit = ByteSize(self.limit);
        let unit = if self.batches.is_some() { "bytes" } else { "text" };
        format!(
            "the returned rows make more {unit} than limits.results allows ({limit}): return less, or use \
             smaller mini-batches, or raise the limit"
        )
    }
}

#[cfg(test)]
#[path = "rows_tests.rs"]
mod tests;
