//! Decodes lines to Arrow tables.

use super::bad_records::reason;
use super::decoders::{Decoders, UnknownKeyCount};
use super::lines::FilledLines;
use super::parts::PartTarget;
use super::plain::PlainLines;
use super::strict;
use crate::dataset::csv::shortened;
use crate::dataset::{DatasetError, err};
use crate::model::UnknownKeys;
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use arrow::json::ReaderBuilder;
use arrow::json::reader::Decoder;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A table may have this many cells, or as many as its text has bytes, if that is more. More cells are
/// refused: rows may leave out columns, so a short text can describe a table that does not fit in memory.
const ALLOWED_CELLS: u64 = 16 << 20;

/// How many names of keys without a column are reported.
const MAX_NAMES: usize = UnknownKeys::NAMES;

/// Decodes lines with one schema. Reuses its decoders for the next text.
#[derive(Debug)]
pub struct JsonDecoder {
    schema: SchemaRef,
    /// Whether floats must not be rounded.
    exact: bool,
    /// How each value in a line is read.
    target: PartTarget,
    /// The fast path, for lines that are all alike.
    plain: Option<PlainLines>,
    /// A decoder at the start of a row, and how many rows it can hold.
    decoder: Option<(Decoder, usize)>,
    /// A decoder for single lines.
    checker: Option<Decoder>,
    /// A buffer for the last text, with the values of JSON columns quoted as JSON strings. `None` if no
    /// column is JSON.
    quoted: Option<Vec<u8>>,
    /// Detects keys without a column. `None` if such keys are not counted.
    unknown: Option<Arc<UnknownKeyCount>>,
}

/// The records that have keys without a column.
#[derive(Debug, PartialEq, Eq)]
pub struct UnknownKeyRecords {
    /// The number of records.
    pub records: u64,
    /// Some of the keys.
    pub names: Vec<String>,
    /// The byte offset in the text at which the first of the records begins.
    pub start: usize,
}

impl JsonDecoder {
    /// A decoder for tables with these columns. `exact`: whether a number that its column would round is
    /// refused. `dropped`: if `Some`, the decoder counts the records with keys that neither have a column nor
    /// are in `dropped`.
    pub fn new(schema: SchemaRef, exact: bool, dropped: Option<&[String]>) -> Self {
        let target = PartTarget::of_line(&schema, dropped.unwrap_or_default());
        Self {
            plain: PlainLines::new(&schema, exact),
            exact,
            quoted: target.has_json().then(Vec::new),
            target,
            decoder: None,
            checker: None,
            unknown: dropped.map(|dropped| Arc::new(UnknownKeyCount::new(&schema, dropped))),
            schema,
        }
    }

    /// The columns of the tables.
    pub fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    /// Decodes a text of `rows` lines. `None` if a line is not a row, or if the schema has no columns.
    pub fn decode(&mut self, text: &[u8], rows: u64) -> Option<RecordBatch> {
        if self.schema.fields().is_empty() {
            return None;
        }
        let rows = usize::try_from(rows).unwrap_or(usize::MAX).min(text.len());
        if let Some(batch) = self.plain.as_mut().and_then(|plain| plain.decode(text, rows)) {
            return Some(batch);
        }
        let Some(mut quoted) = self.quoted.take() else {
            return if strict::has_right_commas(text) {
                self.decode_with_arrow_json(text, rows)
            } else {
                None
            };
        };
        quoted.clear();
        let is_json =
            FilledLines::new(text).all(|(_, line)| self.target.append_quoted(line, &mut quoted));
        let batch = if is_json { self.decode_with_arrow_json(&quoted, rows) } else { None };
        self.quoted = Some(quoted);
        batch
    }

    /// Counts the records that have keys without a column. `text` is the text that was last passed to
    /// `decode`, whether that succeeded or not. `None` if there are no such records, or if they are not
    /// counted.
    pub fn unknown_keys(&mut self, text: &[u8]) -> Option<UnknownKeyRecords> {
        let unknown = self.unknown.as_ref()?;
        if let Some(names) =
            self.plain.as_mut().and_then(|plain| plain.take_unknown(&unknown.dropped))
        {
            let mut lines = FilledLines::new(text);
            let (start, _) = lines.next()?;
            let records = 1 + lines.count() as u64;
            let names = names.iter().take(MAX_NAMES).map(|name| shortened(name)).collect();
            return Some(UnknownKeyRecords { records, names, start });
        }
        if !unknown.found.swap(false, Ordering::Relaxed) {
            return None;
        }
        let mut found = UnknownKeyRecords { records: 0, names: Vec::new(), start: 0 };
        for (start, line) in FilledLines::new(text) {
            let Ok(line) = std::str::from_utf8(line) else { continue };
            if self.target.collect_unknown(line, "", MAX_NAMES, &mut found.names) {
                if found.records == 0 {
                    found.start = start;
                }
                found.records += 1;
            }
        }
        found.names.iter_mut().for_each(|name| *name = shortened(name));
        (found.records > 0).then_some(found)
    }

    /// Decodes with arrow-json. The caller has checked the commas.
    pub(super) fn decode_with_arrow_json(
        &mut self,
        text: &[u8],
        rows: usize,
    ) -> Option<RecordBatch> {
        let (mut decoder, capacity) = match self.decoder.take() {
            Some((decoder, capacity)) if capacity > rows => (decoder, capacity),
            _ => (self.build(rows + rows / 8 + 2).ok()?, rows + rows / 8 + 2),
        };
        for (number, (_, line)) in FilledLines::new(text).enumerate() {
            // Refuses a line that is not exactly one value: the next line would continue an incomplete value.
            let passed = decoder.decode(line).ok()?;
            if passed != line.len() || decoder.has_partial_record() || decoder.len() != number + 1 {
                return None;
            }
        }
        let batch = decoder.flush().ok()?;
        self.decoder = Some((decoder, capacity));
        Some(batch.unwrap_or_else(|| RecordBatch::new_empty(Arc::clone(&self.schema))))
    }

    /// Why the line is not a row. `None` if it is one.
    pub fn misfit(&mut self, line: &[u8]) -> Option<String> {
        let error = match self.is_row(line) {
            _ if self.schema.fields().is_empty() => "the table has no columns".to_owned(),
            Ok(true) => return None,
            Ok(false) => "it is not one object".to_owned(),
            Err(error) => error.to_string(),
        };
        Some(reason(line, &self.schema, self.exact, &error))
    }

    /// Whether the line is a row.
    fn is_row(&mut self, line: &[u8]) -> Result<bool, ArrowError> {
        let mut quoted = Vec::new();
        let line = match &self.quoted {
            Some(_) if !self.target.append_quoted(line, &mut quoted) => return Ok(false),
            Some(_) => quoted.trim_ascii_end(),
            None if !strict::has_right_commas(line) => return Ok(false),
            None => line,
        };
        let mut checker = match self.checker.take() {
            Some(checker) => checker,
            None => self.build(2)?,
        };
        let passed = checker.decode(line)?;
        if passed != line.len() || checker.has_partial_record() || checker.len() != 1 {
            return Ok(false);
        }
        checker.flush()?;
        // After an error the decoder would be in the middle of a row, so we keep it only on success.
        self.checker = Some(checker);
        Ok(true)
    }

    /// Fails if a text of this many rows may need far more memory than its length.
    pub fn check_size(&self, text: &[u8], rows: u64, item: &str) -> Result<(), DatasetError> {
        let columns = self.schema.flattened_fields().len() as u64;
        if rows.saturating_mul(columns) <= ALLOWED_CELLS.max(text.len() as u64) {
            return Ok(());
        }
        err!(
            "{item}: {rows} rows of {columns} columns, most of them without values, take too much \
             memory; list the columns that you need in columns, or choose a smaller mini_batch_size"
        )
    }

    /// Builds a decoder of arrow-json that can hold this many rows.
    fn build(&self, rows: usize) -> Result<Decoder, ArrowError> {
        let decoders = Decoders { exact: self.exact, unknown: self.unknown.clone() };
        ReaderBuilder::new(Arc::clone(&self.schema))
            .with_batch_size(rows)
            .with_coerce_primitive(true)
            .with_decoder_factory(Arc::new(decoders))
            .build_decoder()
    }
}
