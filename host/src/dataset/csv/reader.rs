//! The worker's side: from a slice of a file to Arrow IPC.

use super::cut::{MAX_SLICE, open_file};
use super::lines::RowLines;
use super::misfit::{Misfits, sort_out};
use super::plain::PlainDecoder;
use super::types::arrow_type;
use crate::dataset::{DatasetError, fail};
use crate::model::{CsvSlice, FailedItem, TableFormat};
use arrow::array::RecordBatch;
use arrow::csv::ReaderBuilder;
use arrow::csv::reader::Decoder;
use arrow::datatypes::{Field, Schema, SchemaRef};
use arrow::error::ArrowError;
use arrow::ipc::writer::StreamWriter;
use regex::Regex;
use std::io::ErrorKind;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

/// arrow-csv guesses this many bytes for a field when it sizes its buffer.
const ARROW_FIELD_SIZE: usize = 8;

/// Reads parts of CSV files into Arrow IPC. Keeps its buffers from one mini-batch to the next.
#[derive(Debug)]
pub struct TableReader {
    format: TableFormat,
    schema: SchemaRef,
    /// What means null, where that is more than the empty field.
    nulls: Option<Regex>,
    /// For slices of simple text.
    plain: Option<PlainDecoder>,
    /// A decoder that stands at the start of a record, and the records it takes at once.
    decoder: Option<(Decoder, usize)>,
    text: Vec<u8>,
    kept: Vec<u8>,
    ipc: Vec<u8>,
}

/// A mini-batch in memory.
#[derive(Debug)]
pub struct LoadedTable<'a> {
    /// An Arrow IPC stream: schema, one record batch, end.
    pub ipc: &'a [u8],
    /// Rows in it.
    pub rows: u64,
    /// Records that did not fit the schema; exact, also where `rejected` was cut.
    pub rejected_count: u64,
    /// The first of them, with file and line; at most
    /// [`AttemptReport::MAX_FAILED_ITEMS`](crate::model::AttemptReport::MAX_FAILED_ITEMS).
    pub rejected: Vec<FailedItem>,
    /// Where its rows stand in the file.
    pub lines: RowLines<'a>,
}

impl TableReader {
    /// A reader for tables of one format. Fails only if the null values make too large a pattern.
    pub fn new(format: &TableFormat) -> Result<Self, DatasetError> {
        let fields = format.columns.iter();
        let fields: Vec<_> =
            fields.map(|column| Field::new(&column.name, arrow_type(column.kind), true)).collect();
        let schema = Arc::new(Schema::new(fields));
        Ok(Self {
            format: format.clone(),
            plain: PlainDecoder::new(format, &schema),
            schema,
            nulls: null_pattern(&format.csv.null_values)?,
            decoder: None,
            text: Vec::new(),
            kept: Vec::new(),
            ipc: Vec::new(),
        })
    }

    /// The schema of every table it gives.
    pub fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    /// Reads the slice of the file below `root`; `item` is the file's name in messages. Records that
    /// do not fit the schema are left out and named. Fails if the file cannot be read or is not the
    /// one that was planned.
    pub fn read(
        &mut self,
        root: &Path,
        slice: &CsvSlice,
        item: &str,
    ) -> Result<LoadedTable<'_>, DatasetError> {
        if self.format.columns.is_empty() {
            return fail!("{item}: the table has no columns");
        }
        let mut text = std::mem::take(&mut self.text);
        let loaded =
            read_slice(root, slice, &mut text).and_then(|bytes| self.decode(bytes, slice, item));
        self.text = text;
        let (batch, misfits) = loaded?;
        let rows = batch.num_rows() as u64;
        if rows + misfits.count != slice.rows {
            return fail!(
                "{item} has changed since planning: the part from line {} on held {} records and \
                 now holds {}; run the job on files that nobody writes to",
                slice.first_line,
                slice.rows,
                rows + misfits.count,
            );
        }
        match write_ipc(&batch, &self.schema, &mut self.ipc) {
            Ok(()) => Ok(LoadedTable {
                ipc: &self.ipc,
                rows,
                rejected_count: misfits.count,
                rejected: misfits.named,
                lines: RowLines {
                    text: &self.text
                        [..usize::try_from(slice.length).unwrap_or(0).min(self.text.len())],
                    format: &self.format,
                    first_line: slice.first_line,
                    all_fit: misfits.count == 0,
                },
            }),
            Err(error) => fail!("{item}: cannot be written as Arrow data: {error}"),
        }
    }

    fn decode(
        &mut self,
        text: &[u8],
        slice: &CsvSlice,
        item: &str,
    ) -> Result<(RecordBatch, Misfits), DatasetError> {
        // arrow-csv checks all fields at once, so that two halves of a character in neighbouring
        // fields would pass for text; bytes that are text with their delimiters are so without.
        if self.may_fit(text, slice.rows)
            && let Ok(valid) = std::str::from_utf8(text)
        {
            let rows = usize::try_from(slice.rows).unwrap_or(usize::MAX).min(text.len());
            let plain = self.plain.as_ref().and_then(|plain| plain.decode(valid, rows));
            if let Some(batch) = plain.or_else(|| self.decode_text(text, slice.rows).ok()) {
                return Ok((batch, Misfits::default()));
            }
        }
        let mut kept = std::mem::take(&mut self.kept);
        let misfits = sort_out(text, &self.format, slice, item, &mut kept);
        let batch = self.decode_text(&kept, misfits.kept);
        self.kept = kept;
        match batch {
            Ok(batch) => Ok((batch, misfits)),
            Err(error) => fail!("{item}: cannot be decoded: {error}"),
        }
    }

    /// Whether so many records can be in the text with a field for each column. arrow-csv makes room
    /// for all their fields before it looks at one: under a wide header, short records that fit
    /// nowhere would cost far more memory than their text.
    fn may_fit(&self, text: &[u8], rows: u64) -> bool {
        // A field ends with a delimiter or a line end, except for the last one of a file.
        let fields = rows.saturating_mul(self.schema.fields().len() as u64);
        fields <= text.len() as u64 + 1
    }

    /// Decodes text of `rows` records, or of one more if the file changed.
    fn decode_text(&mut self, text: &[u8], rows: u64) -> Result<RecordBatch, ArrowError> {
        let rows = usize::try_from(rows).unwrap_or(usize::MAX).min(text.len());
        let (mut decoder, capacity) = match self.decoder.take() {
            Some((decoder, capacity)) if capacity > rows => (decoder, capacity),
            _ => self.new_decoder(rows, text.len())?,
        };
        let mut at = 0;
        loop {
            // The last call, with nothing, ends a record that has no line end.
            let count = decoder.decode(&text[at..])?;
            at += count;
            if count == 0 {
                break;
            }
        }
        let batch = decoder.flush()?;
        // After an error the decoder stands within a record and is dropped.
        self.decoder = Some((decoder, capacity));
        Ok(batch.unwrap_or_else(|| RecordBatch::new_empty(Arc::clone(&self.schema))))
    }

    fn new_decoder(&self, rows: usize, bytes: usize) -> Result<(Decoder, usize), ArrowError> {
        // One more than there should be, so that a full decoder never leaves bytes behind. And as
        // many as make arrow-csv's guess cover the text, so that it does not grow its buffer step
        // by step for each slice.
        let by_size = bytes / (self.schema.fields().len() * ARROW_FIELD_SIZE);
        let capacity = rows.max(by_size) + rows.max(by_size) / 8 + 2;
        let mut builder = ReaderBuilder::new(Arc::clone(&self.schema))
            .with_delimiter(self.format.csv.delimiter)
            .with_batch_size(capacity);
        if let Some(nulls) = &self.nulls {
            builder = builder.with_null_regex(nulls.clone());
        }
        let mut decoder = builder.build_decoder();
        // The first bytes of its life are the ones in which a decoder drops a BOM; a slice from
        // within a file must keep it.
        decoder.decode(b"\n")?;
        Ok((decoder, capacity))
    }
}

/// Reads the bytes of a slice into `buffer`, which only grows. Fails if the file is not there, is
/// no file or is shorter than planned.
pub(super) fn read_slice<'a>(
    root: &Path,
    slice: &CsvSlice,
    buffer: &'a mut Vec<u8>,
) -> Result<&'a [u8], DatasetError> {
    let path = root.join(&slice.file);
    if slice.length > 2 * MAX_SLICE - 1 {
        return fail!("{}: a part of {} bytes is too long", path.display(), slice.length);
    }
    let length = slice.length as usize;
    let file = open_file(&path)?;
    if buffer.len() < length {
        buffer.resize(length, 0);
    }
    match file.read_exact_at(&mut buffer[..length], slice.offset) {
        Ok(()) => Ok(&buffer[..length]),
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => fail!(
            "{} has changed since planning: it ends before byte {}; run the job on files that \
             nobody writes to",
            path.display(),
            slice.offset + slice.length,
        ),
        Err(error) => fail!("cannot read {}: {error}", path.display()),
    }
}

/// A pattern for the empty field and the given texts, each as a whole.
fn null_pattern(values: &[String]) -> Result<Option<Regex>, DatasetError> {
    if values.is_empty() {
        return Ok(None);
    }
    let values: Vec<_> = values.iter().map(|value| regex::escape(value)).collect();
    match Regex::new(&format!("^(?:|{})$", values.join("|"))) {
        Ok(pattern) => Ok(Some(pattern)),
        Err(error) => fail!("the null values cannot be used: {error}; give fewer or shorter ones"),
    }
}

fn write_ipc(batch: &RecordBatch, schema: &Schema, out: &mut Vec<u8>) -> Result<(), ArrowError> {
    out.clear();
    let mut writer = StreamWriter::try_new(out, schema)?;
    writer.write(batch)?;
    writer.finish()
}
