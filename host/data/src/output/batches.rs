//! Collects what a guest returns for a typed output: the messages of an Arrow IPC stream without its
//! beginning and end. The beginning (the schema) is the header of the output, so it is written only once.
//! After every commit, the header and the appended messages form a stream that Arrow libraries can read.

use super::columns::{columns_text, fit, values_schema, written_schema};
use super::common::is_settled;
use super::convert::convert_appended_rows;
use super::json;
use super::sizes::size;
use super::table_error::AttemptError;
use crate::model::{OutputFormat, OutputHeader, OutputKind};
use arrow::array::{ArrayBuilder, ArrayRef, RecordBatch, StringArray, StringBuilder};
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use arrow::ipc::writer::StreamWriter;
use std::error::Error;
use std::fmt;
use std::io::{self, Cursor};
use std::sync::Arc;

/// The length of the end-of-stream marker.
const END_MARKER_BYTES: usize = 8;
/// The most bytes of text in one batch: Arrow's offsets have 31 bits.
const BATCH_TEXT_BYTES: usize = 1 << 30;
/// The limit for a header, in bytes. It applies to the header's text, and separately to its schema as Arrow
/// writes it.
const HEADER_BYTES: usize = 1 << 20;

/// Why a table is refused.
pub(super) enum Refused {
    /// It is not a valid table.
    Invalid(ArrowError),
    /// The output cannot hold it, for this reason.
    Unfit(String),
    /// The attempt would have more bytes than allowed.
    TooLarge,
}

impl From<ArrowError> for Refused {
    fn from(error: ArrowError) -> Self {
        Self::Invalid(error)
    }
}

/// Collects the rows of one attempt.
pub(super) struct Batches {
    format: OutputFormat,
    limit: u64,
    /// The size of the attempt's rows in bytes. Every value counts, even if several values share one buffer.
    size: u64,
    rows: u64,
    texts: StringBuilder,
    /// The columns of the last table. The next table usually has the same columns.
    known: Option<CheckedColumns>,
    /// The stream of this attempt.
    stream: Option<StreamWriter<Vec<u8>>>,
    sealed: Vec<u8>,
    /// The offset in `sealed` at which the rows begin.
    start: usize,
}

/// Columns that were checked before.
#[derive(Debug)]
struct CheckedColumns {
    given: SchemaRef,
    written: SchemaRef,
    header: OutputHeader,
    /// Whether a test file, made from the first row, has shown that the output can hold these
    /// columns.
    is_tried: bool,
}

impl fmt::Debug for Batches {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batches").field("format", &self.format).finish_non_exhaustive()
    }
}

impl Batches {
    /// `limit` is how many bytes one attempt may make.
    pub(super) fn new(format: &OutputFormat, limit: u64) -> Self {
        Self {
            format: format.clone(),
            limit,
            size: 0,
            rows: 0,
            texts: StringBuilder::new(),
            known: None,
            stream: None,
            sealed: Vec::new(),
            start: 0,
        }
    }

    pub(super) fn clear(&mut self) {
        (self.size, self.rows, self.start) = (0, 0, 0);
        self.stream = None;
        self.texts = StringBuilder::new();
        self.sealed.clear();
    }

    /// The messages. Call it after [`seal`](Self::seal).
    pub(super) fn sealed(&self) -> &[u8] {
        &self.sealed[self.start..]
    }

    /// Takes a row of text.
    pub(super) fn text(&mut self, row: &str) -> Result<(), Refused> {
        self.count_bytes(row.len() as u64 + 1)?;
        if self.texts.values_slice().len().saturating_add(row.len()) > BATCH_TEXT_BYTES {
            self.flush_texts()?;
        }
        self.texts.append_value(row);
        Ok(())
    }

    fn flush_texts(&mut self) -> Result<(), Refused> {
        let texts: StringArray = self.texts.finish();
        let schema = Arc::new(values_schema());
        let batch = RecordBatch::try_new(Arc::clone(&schema), vec![Arc::new(texts) as ArrayRef])?;
        self.open(&schema)?;
        self.write(&batch)
    }

    /// Takes the rows of a table.
    pub(super) fn batch(&mut self, batch: &RecordBatch) -> Result<(), Refused> {
        let sizes = batch.columns().iter().map(|column| size(column));
        self.count_bytes(sizes.fold(0, u64::saturating_add))?;
        self.open(batch.schema_ref())?;
        self.write(batch)
    }

    /// Counts bytes of the attempt, and fails if there are more than the limit.
    fn count_bytes(&mut self, bytes: u64) -> Result<(), Refused> {
        self.size = self.size.saturating_add(bytes);
        if self.size > self.limit { Err(Refused::TooLarge) } else { Ok(()) }
    }

    /// Records a table's columns, even if it has no rows.
    pub(super) fn open(&mut self, given: &SchemaRef) -> Result<(), Refused> {
        if self.known.as_ref().is_none_or(|known| known.given != *given) {
            self.known = Some(check_columns(given, self.format.kind)?);
            self.stream = None;
        }
        if let (None, Some(known)) = (&self.stream, &self.known) {
            let buffer = std::mem::take(&mut self.sealed);
            self.stream = Some(StreamWriter::try_new(buffer, &known.written)?);
        }
        Ok(())
    }

    fn write(&mut self, batch: &RecordBatch) -> Result<(), Refused> {
        let (Some(known), Some(stream)) = (&mut self.known, &mut self.stream) else {
            return Ok(());
        };
        let fitted = fit(batch, &known.written, self.format.kind, self.rows);
        let batch = fitted.map_err(unfit)?;
        self.rows += batch.num_rows() as u64;
        if batch.num_rows() == 0 {
            return Ok(());
        }
        if !known.is_tried {
            try_row(&batch.slice(0, 1), &self.format).map_err(unfit)?;
            known.is_tried = true;
        }
        Ok(stream.write(&batch)?)
    }

    /// Ends the attempt. Returns the output's header; `None` if the attempt had neither rows nor a table.
    pub(super) fn seal(&mut self) -> Result<Option<OutputHeader>, Refused> {
        if self.texts.len() > 0 {
            self.flush_texts()?;
        }
        let (Some(known), Some(stream)) = (&self.known, self.stream.take()) else {
            return Ok(None);
        };
        self.sealed = stream.into_inner()?;
        // If not all types are known, the segment stays a whole stream: see `appended`.
        if is_settled(&known.written) {
            self.sealed.truncate(self.sealed.len().saturating_sub(END_MARKER_BYTES));
        }
        self.start = known.header.bytes.as_ref().map_or(0, Vec::len);
        if (self.sealed.len() - self.start) as u64 > self.limit {
            return Err(Refused::TooLarge);
        }
        Ok(Some(known.header.clone()))
    }
}

fn unfit(error: impl Error) -> Refused {
    Refused::Unfit(error.to_string())
}

/// Returns the output's columns for a table, with their header. Fails if the output cannot hold
/// them.
fn check_columns(given: &SchemaRef, output: OutputKind) -> Result<CheckedColumns, Refused> {
    if given.fields().is_empty() {
        return Err(Refused::Unfit("the returned table has no columns".to_owned()));
    }
    if let Some(name) = json::duplicate_name(given.fields()) {
        return Err(Refused::Unfit(format!(
            "two columns of the returned table are called {name:?}: give them different names"
        )));
    }
    let written = written_schema(given, output).map_err(unfit)?;
    let empty_stream = StreamWriter::try_new(Vec::new(), &written)?.into_inner()?;
    let bytes = empty_stream[..empty_stream.len().saturating_sub(END_MARKER_BYTES)].to_vec();
    let text = columns_text(&written);
    if text.len().max(bytes.len()) > HEADER_BYTES {
        return Err(Refused::Unfit(
            "the returned table has too many columns, or too long names: their description takes more \
             than 1 MB"
                .to_owned(),
        ));
    }
    let mut header = OutputHeader { text, bytes: Some(bytes), open_columns: None };
    if !is_settled(&written) {
        header.open_columns = Some(empty_stream);
        header.bytes = Some(Vec::new());
    }
    Ok(CheckedColumns { given: Arc::clone(given), written, header, is_tried: false })
}

/// Checks that the output can hold a row with these columns, by making a file from it. At the job's end an
/// error would come too late.
fn try_row(row: &RecordBatch, format: &OutputFormat) -> Result<(), AttemptError> {
    let stream = || -> Result<Vec<u8>, ArrowError> {
        let mut stream = StreamWriter::try_new(Vec::new(), row.schema_ref())?;
        stream.write(row)?;
        stream.into_inner()
    };
    let output = format.kind;
    let stream = stream().map_err(|source| AttemptError::Stream { output, source })?;
    let finished = convert_appended_rows(Cursor::new(stream), io::sink(), format, 1);
    finished.map_err(|source| AttemptError::File { output, source })
}

#[cfg(test)]
#[path = "batches_tests.rs"]
mod tests;
