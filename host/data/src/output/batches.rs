//! Collects what a guest returns for a typed output: the messages of an Arrow IPC stream without its
//! beginning and end. The beginning (the schema) is the output's header. The appended bytes are therefore a
//! stream that Arrow libraries can read after every commit.

use super::columns::{fit, values_schema, words, written};
use super::common::is_settled;
use super::finish::finish;
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
const END: usize = 8;
/// The most bytes of text in one batch: Arrow's offsets have 31 bits.
const TEXT: usize = 1 << 30;
/// The longest header, in bytes, as text and as written.
const HEADER: usize = 1 << 20;

/// Why a table is refused.
pub(super) enum Refused {
    /// It is not a valid table.
    Invalid(ArrowError),
    /// The reason in words.
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
    /// The bytes of the rows if each value is written out.
    size: u64,
    rows: u64,
    texts: StringBuilder,
    /// The columns of the last table. The next table usually has the same.
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
    /// Whether a row was tried, and the output can hold it.
    tried: bool,
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
        self.grow(row.len() as u64 + 1)?;
        if self.texts.values_slice().len().saturating_add(row.len()) > TEXT {
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
        self.grow(sizes.fold(0, u64::saturating_add))?;
        self.open(batch.schema_ref())?;
        self.write(batch)
    }

    fn grow(&mut self, bytes: u64) -> Result<(), Refused> {
        self.size = self.size.saturating_add(bytes);
        if self.size > self.limit { Err(Refused::TooLarge) } else { Ok(()) }
    }

    /// Records a table's columns, even if it has no rows.
    pub(super) fn open(&mut self, given: &SchemaRef) -> Result<(), Refused> {
        if self.known.as_ref().is_none_or(|known| known.given != *given) {
            self.known = Some(known(given, self.format.kind)?);
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
        if !known.tried {
            attempt(&batch.slice(0, 1), &self.format).map_err(unfit)?;
            known.tried = true;
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
            self.sealed.truncate(self.sealed.len().saturating_sub(END));
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

fn known(given: &SchemaRef, output: OutputKind) -> Result<CheckedColumns, Refused> {
    if given.fields().is_empty() {
        return Err(Refused::Unfit("the returned table has no columns".to_owned()));
    }
    if let Some(name) = json::twice(given.fields()) {
        return Err(Refused::Unfit(format!(
            "two columns of the returned table are called {name:?}: give them different names"
        )));
    }
    let written = written(given, output).map_err(unfit)?;
    let whole = StreamWriter::try_new(Vec::new(), &written)?.into_inner()?;
    let bytes = whole[..whole.len().saturating_sub(END)].to_vec();
    let text = words(&written);
    if text.len().max(bytes.len()) > HEADER {
        return Err(Refused::Unfit(
            "the returned table has too many columns, or too long names: their description takes more \
             than 1 MB"
                .to_owned(),
        ));
    }
    let mut header = OutputHeader { text, bytes: Some(bytes), open_columns: None };
    if !is_settled(&written) {
        header.open_columns = Some(whole);
        header.bytes = Some(Vec::new());
    }
    Ok(CheckedColumns { given: Arc::clone(given), written, header, tried: false })
}

/// Checks that the output can hold such a row, by making a file from it. At the job's end an error would come
/// too late.
fn attempt(row: &RecordBatch, format: &OutputFormat) -> Result<(), AttemptError> {
    let stream = || -> Result<Vec<u8>, ArrowError> {
        let mut stream = StreamWriter::try_new(Vec::new(), row.schema_ref())?;
        stream.write(row)?;
        stream.into_inner()
    };
    let output = format.kind;
    let stream = stream().map_err(|source| AttemptError::Stream { output, source })?;
    let finished = finish(Cursor::new(stream), io::sink(), format, 1);
    finished.map_err(|source| AttemptError::File { output, source })
}

#[cfg(test)]
#[path = "batches_tests.rs"]
mod tests;
