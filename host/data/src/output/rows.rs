//! What a guest returns, as lines of the output file or as what an output with types is made of.

use super::batches::Batches;
use super::cells::{Column, Object};
use super::join::Joined;
use super::json;
use super::lines::Lines;
use super::members::member;
use super::refusal::{Refusal, Unfit, unprintable, unquotable};
use super::style::{Kind, NeedsQuotes, Style};
use super::table_error::JoinError;
use crate::model::{
    ByteSize, Compression, Failure, FailureKind, Header, Join, OutputFormat, OutputKind,
};
use arrow::array::RecordBatch;
use arrow::buffer::Buffer;
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use arrow::ipc::reader::StreamDecoder;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A buffer that has grown beyond this is given back before the next attempt.
const KEPT_CAPACITY: usize = 64 << 20;
/// The end-of-stream mark of Arrow's format. In streams without the first four bytes before each
/// message, which are older, the mark is without them too.
const END: [u8; 8] = [0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0];

/// Collects the rows of one attempt; its buffer serves attempt after attempt.
///
/// As text, a row of text is one line as it is. As CSV it is one field; as JSON lines it is a JSON
/// text, or itself if it is a JSON object or array.
///
/// A row of a table is one line with the delimiter between the fields (as text, a space), written as
/// Python's csv writer does it: with minimal quoting a field that holds the delimiter, a quote or a
/// line break stands in quotes, with quotes in it doubled. Numbers are written as Python prints
/// them (`1.0`, `1e-05`, `nan`), booleans as `True` and `False`, a null as an empty field, dates and
/// times in ISO 8601 (`2026-11-21T10:30:00`), lists, maps and structures as JSON, a union as the value that
/// it has, and other types as Arrow prints them. A line that would be empty because its only field is, is written as `""`. As
/// JSON lines it is an object, in which lists and structures are arrays and objects, a map is an object
/// or, unless its keys are texts, an array of pairs, and what is no number is null.
///
/// For an output with types, tables stay tables, and a row of text is one of a column `value`.
#[derive(Debug)]
pub struct RowWriter {
    buffer: Vec<u8>,
    rows: u64,
    limit: u64,
    row_limit: u64,
    keep: bool,
    kind: OutputKind,
    /// Whether a header is wanted, and rows of tables are numbered.
    header: bool,
    index: bool,
    style: Style,
    /// For outputs with types, in the place of lines.
    batches: Option<Batches>,
    /// What of the input is put in front, and that of this attempt.
    join: Option<Join>,
    joined: Option<Joined>,
    compression: Compression,
    /// The lines, compressed.
    member: Vec<u8>,
    found_header: Option<Header>,
    problem: Option<String>,
    /// Values of this attempt that were numbers, though none that JSON has, and became null.
    lost: u64,
}

impl RowWriter {
    /// `limit`: how many bytes of text one attempt may make. `keep`: false to count rows and drop
    /// them.
    pub fn new(limit: u64, keep: bool, format: &OutputFormat) -> Self {
        Self {
            buffer: Vec::new(),
            rows: 0,
            limit,
            row_limit: u64::MAX,
            keep,
            kind: format.kind,
            header: format.has_header(),
            index: format.index,
            style: Style::new(format),
            batches: (!format.kind.is_lines()).then(|| Batches::new(format, limit)),
            compression: if format.kind.is_lines() {
                format.compression
            } else {
                Compression::None
            },
            member: Vec::new(),
            join: format.join.clone(),
            joined: None,
            found_header: None,
            problem: None,
            lost: 0,
        }
    }

    /// The same, where no row of a table may be longer than `limits.row`. Rows of text are looked at
    /// before they come here.
    pub fn with_row_limit(self, limit: ByteSize) -> Self {
        Self { row_limit: limit.0, ..self }
    }

    /// Forgets all rows; to be called before each attempt.
    pub fn clear(&mut self) {
        self.buffer.clear();
        if self.buffer.capacity() > KEPT_CAPACITY {
            self.buffer.shrink_to(KEPT_CAPACITY);
        }
        self.rows = 0;
        if let Some(batches) = &mut self.batches {
            batches.clear();
        }
        self.member.clear();
        self.joined = None;
        self.found_header = None;
        self.problem = None;
        self.lost = 0;
    }

    /// The lines so far. Empty where rows are dropped.
    pub fn lines(&self) -> &[u8] {
        &self.buffer
    }

    /// The rows so far, also where they are dropped.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// How many values were `nan` or infinite and are null in the output: JSON has no numbers for them.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// The columns, if there was a table and the format has a header; after [`seal`](Self::seal).
    pub fn take_header(&mut self) -> Option<Header> {
        self.found_header.take()
    }

    /// The input of the attempt: a table in pieces, as the guest gets it. Does nothing where rows are not joined.
    ///
    /// # Errors
    /// The job joins columns that the table does not have.
    pub fn join_table(&mut self, pieces: &[Buffer]) -> Result<(), Failure> {
        let Some(join) = &self.join else { return Ok(()) };
        let ipc = pieces.iter().map(Buffer::as_slice).collect::<Vec<_>>().concat();
        let joined = Joined::table(&ipc, join);
        let failure = |error: JoinError| Failure::new(FailureKind::BadResults, error.to_string());
        self.joined = Some(joined.map_err(failure)?);
        Ok(())
    }

    /// The same for files, by their names.
    pub fn join_files(&mut self, names: &[String]) {
        self.joined = self.join.as_ref().map(|_| Joined::files(names));
    }

    /// There is an outcome for each item: the next [`row`](Self::row) is that of the first one.
    pub fn outcomes(&mut self) {
        self.joined.iter_mut().for_each(Joined::outcomes);
    }

    /// The item at `index` has no row; the next row is that of the one behind it.
    pub fn failed(&mut self, index: usize) {
        self.joined.iter_mut().for_each(|joined| joined.failed(index));
    }

    /// Makes of the rows what the part file is to have: [`segment`](Self::segment). To be called once,
    /// after the last row.
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
        let compressed = |text: &[u8]| {
            member(text, self.compression).map_err(|error| {
                let message = format!("the rows cannot be compressed: {error}");
                Failure::new(FailureKind::HostFault, message)
            })
        };
        if let Some(header) = &mut self.found_header {
            header.bytes = Some(compressed(format!("{}\n", header.text).as_bytes())?);
        }
        if !self.buffer.is_empty() {
            self.member = compressed(&self.buffer)?;
        }
        if self.member.len() as u64 > self.limit {
            return Err(self.refusal(Refusal::TooLarge));
        }
        Ok(())
    }

    /// What the part file is to have; after [`seal`](Self::seal).
    pub fn segment(&self) -> &[u8] {
        match &self.batches {
            Some(batches) => batches.sealed(),
            None if self.compression == Compression::None => &self.buffer,
            None => &self.member,
        }
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
        if let Some(joined) = &mut self.joined {
            if joined.text(row) > self.limit {
                self.problem = Some(self.too_large());
            }
            return;
        }
        if let Some(batches) = &mut self.batches {
            let taken = batches.text(row);
            self.problem = taken.err().map(|refused| self.refusal(refused.into()).message);
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
            self.problem = self.shaped_row(row).err().map(|_| unquotable(number, None));
        }
        if self.over_limit() {
            self.problem = Some(self.too_large());
        }
    }

    /// Appends a row of text as CSV or JSON.
    fn shaped_row(&mut self, row: &str) -> Result<(), NeedsQuotes> {
        let start = self.buffer.len();
        if self.kind == OutputKind::Csv {
            self.buffer.extend_from_slice(row.as_bytes());
            self.style.close(&mut self.buffer, start, Kind::Text)?;
            return self.style.end(&mut self.buffer, start);
        }
        if json::is_nested(row) {
            self.buffer.extend_from_slice(row.as_bytes());
        } else {
            json::text(row, &mut self.buffer);
        }
        self.buffer.push(b'\n');
        Ok(())
    }

    /// Takes the rows of an Arrow IPC stream. Decodes strictly: anything that is not as the format
    /// says is `BadResults`.
    pub fn table(&mut self, ipc: &[u8]) -> Result<(), Failure> {
        // The decoder is well kept but large, and these bytes come from code that nobody vouches
        // for: a panic in it must cost one attempt, not the worker.
        let result = catch_unwind(AssertUnwindSafe(|| self.decode(ipc))).unwrap_or_else(|_| {
            Err(Refusal::Invalid("its bytes contradict each other".to_owned()))
        });
        result.map_err(|refusal| self.refusal(refusal))
    }

    fn refusal(&self, refusal: Refusal) -> Failure {
        let mut kind = FailureKind::BadResults;
        let message = match refusal {
            Refusal::Invalid(why) => {
                format!("run returned a table that is no valid Arrow IPC stream: {why}")
            }
            Refusal::TooLarge => self.too_large(),
            Refusal::Unfit(why) => why,
            Refusal::LongRow(why) => {
                kind = FailureKind::OverLimit;
                why
            }
        };
        Failure::new(kind, message)
    }

    fn decode(&mut self, ipc: &[u8]) -> Result<(), Refusal> {
        let invalid = |why| Err(Refusal::Invalid(format!("{why} (it has {} bytes)", ipc.len())));
        let mut bytes = Buffer::from(ipc);
        let mut decoder = StreamDecoder::new();
        while !bytes.is_empty() {
            if let Some(batch) = decoder.decode(&mut bytes)? {
                self.batch(&batch)?;
            }
        }
        // The decoder takes a stream that was cut between two messages for a whole one.
        let mark = if ipc.starts_with(&END[..4]) { &END[..] } else { &END[4..] };
        if decoder.finish().is_err() || !(ipc.is_empty() || ipc.ends_with(mark)) {
            return invalid("it ends without an end-of-stream mark");
        }
        match decoder.schema() {
            None => invalid("it holds no schema"),
            Some(schema) if self.keep => {
                let Some(joined) = &self.joined else { return self.begin(&schema) };
                joined.finish_table()?;
                let schema = joined.schema(&schema)?;
                self.begin(&schema)
            }
            Some(_) => Ok(()),
        }
    }

    /// Takes note of the columns.
    fn begin(&mut self, schema: &SchemaRef) -> Result<(), Refusal> {
        if let Some(batches) = &mut self.batches {
            batches.open(schema)?;
        } else if self.header {
            let line = self.style.names(schema, self.index);
            let line = line.map_err(|error| Refusal::Unfit(error.to_string()))?;
            self.found_header = Some(line.as_str().into());
        }
        Ok(())
    }

    /// Rows of text that are joined are known at the end.
    fn write_joined(&mut self) -> Result<(), Refusal> {
        let Some(mut joined) = self.joined.take() else { return Ok(()) };
        let Some(batch) = joined.finish_texts()? else { return Ok(()) };
        self.begin(batch.schema_ref())?;
        self.rows = 0;
        self.batch(&batch)
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
        let before = self.rows;
        self.rows += rows;
        if !self.keep {
            return Ok(());
        }
        let beside = self.joined.as_mut().map(|joined| joined.batch(batch)).transpose()?;
        let batch = beside.as_ref().unwrap_or(batch);
        if let Some(batches) = &mut self.batches {
            return Ok(batches.batch(batch)?);
        }
        let kind = self.kind;
        let unprintable = |row: usize, error: &ArrowError| {
            unprintable(batch, row, before + row as u64, kind, error)
        };
        if self.kind == OutputKind::Jsonl {
            return self.objects(batch, before);
        }
        let columns = batch.columns().iter().map(|column| Column::new(column, self.limit));
        let columns = columns.collect::<Result<Vec<_>, _>>();
        let mut columns = columns.map_err(|error| unprintable(0, &error))?;
        if !self.index
            && let Some(mut lines) = Lines::new(&columns, &self.style, self.row_limit)
        {
            let fits = lines.append(batch.num_rows(), &mut self.buffer, self.limit);
            return fits.then_some(()).ok_or(Refusal::TooLarge);
        }
        for row in 0..batch.num_rows() {
            let start = self.buffer.len();
            self.line(&mut columns, row, before + row as u64).map_err(|unfit| match unfit {
                Unfit::Arrow(error) => unprintable(row, &error),
                Unfit::Quotes(column) => {
                    let name = column.map(|index| batch.schema_ref().field(index).name().as_str());
                    Refusal::Unfit(unquotable(before + row as u64, name))
                }
            })?;
            self.check_size(start, before + row as u64)?;
        }
        self.lost += columns.iter().map(Column::lost).sum::<u64>();
        Ok(())
    }

    /// Appends the line of a row, which is the `number`-th of the attempt.
    #[inline]
    fn line(&mut self, columns: &mut [Column<'_>], row: usize, number: u64) -> Result<(), Unfit> {
        let out = &mut self.buffer;
        let style = &mut self.style;
        let line = out.len();
        if self.index {
            out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
            style.close(out, line, Kind::Number).map_err(|_| Unfit::Quotes(None))?;
        }
        for (index, column) in columns.iter_mut().enumerate() {
            if index > 0 || self.index {
                out.push(style.delimiter);
            }
            let field = out.len();
            let closed = if column.is_null(row) {
                style.null(out)
            } else {
                column.write(row, out)?;
                style.close(out, field, column.kind())
            };
            closed.map_err(|NeedsQuotes| Unfit::Quotes(Some(index)))?;
        }
        style.end(out, line).map_err(|NeedsQuotes| Unfit::Quotes(Some(0)))
    }

    /// Appends the rows as JSON lines.
    fn objects(&mut self, batch: &RecordBatch, before: u64) -> Result<(), Refusal> {
        let fields = batch.schema_ref().fields();
        if let Some(name) = json::twice(fields) {
            return Err(Refusal::Unfit(format!(
                "two columns of the returned table are called {name:?}, and output_format.type is \
                 jsonl, where a row is an object: give them different names"
            )));
        }
        let kind = self.kind;
        let unprintable = |row: usize, error: &ArrowError| {
            unprintable(batch, row, before + row as u64, kind, error)
        };
        let object = Object::new(fields, batch.columns(), self.limit);
        let mut object = object.map_err(|error| unprintable(0, &error))?;
        for row in 0..batch.num_rows() {
            let start = self.buffer.len();
            let written = object.write(row, &mut self.buffer, self.limit);
            written.map_err(|error| unprintable(row, &error))?;
            self.buffer.push(b'\n');
            self.check_size(start, before + row as u64)?;
        }
        self.lost += object.lost();
        Ok(())
    }

    /// Whether the row that begins at `start`, and all together, keep the limits.
    #[inline]
    fn check_size(&self, start: usize, number: u64) -> Result<(), Refusal> {
        if self.over_limit() {
            return Err(Refusal::TooLarge);
        }
        let size = (self.buffer.len() - start) as u64;
        if size <= self.row_limit {
            return Ok(());
        }
        Err(Refusal::LongRow(format!(
            "limits.row allows {} for one row; row {number} (counted from 0) of what run returned \
             has {}. Make its rows smaller, or raise the limit",
            ByteSize(self.row_limit),
            ByteSize(size).rounded()
        )))
    }

    fn over_limit(&self) -> bool {
        self.buffer.len() as u64 > self.limit
    }

    fn too_large(&self) -> String {
        let limit = ByteSize(self.limit);
        let what = if self.batches.is_some() { "bytes" } else { "text" };
        format!(
            "the returned rows make more {what} than limits.results allows ({limit}): return less, or use \
             smaller mini-batches, or raise the limit"
        )
    }
}

#[cfg(test)]
#[path = "rows_tests.rs"]
mod tests;
