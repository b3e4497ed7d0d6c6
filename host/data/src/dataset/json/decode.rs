//! From lines to Arrow.

use super::commas;
use super::decoders::{Counting, Decoders};
use super::lines::Lines;
use super::misfit::reason;
use super::parts::Part;
use super::plain::PlainLines;
use crate::dataset::csv::shortened;
use crate::dataset::{DatasetError, fail};
use crate::model::UnknownKeys;
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use arrow::json::ReaderBuilder;
use arrow::json::reader::Decoder;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Cells that a table may have whatever its text is like. Rows may leave out columns, so that a short
/// text can stand for a table that fits nowhere.
const CELLS: u64 = 16 << 20;

/// Names of keys without a column that are told.
const NAMES: usize = UnknownKeys::NAMES;

/// Decodes lines with one schema. Keeps its decoders from one text to the next.
#[derive(Debug)]
pub struct JsonDecoder {
    schema: SchemaRef,
    /// Whether floats must not be rounded.
    exact: bool,
    part: Part,
    /// For lines that are all alike.
    plain: Option<PlainLines>,
    /// A decoder that stands between two rows, and the rows it takes at once.
    decoder: Option<(Decoder, usize)>,
    /// The same for single lines.
    checker: Option<Decoder>,
    /// The last text, with its values of JSON as texts.
    quoted: Option<Vec<u8>>,
    /// Where keys that no column takes are counted.
    unknown: Option<Arc<Counting>>,
}

/// Records with keys that no column takes.
#[derive(Debug, PartialEq, Eq)]
pub struct Unknown {
    /// How many.
    pub records: u64,
    /// Some of the keys.
    pub names: Vec<String>,
    /// The byte of the text at which the first of the records begins.
    pub start: usize,
}

impl JsonDecoder {
    /// A decoder of tables with these columns. `exact`: whether a number does not fit that its column would round.
    /// `dropped`: records are counted that have keys which are neither columns nor these; `None`: they are not counted.
    pub fn new(schema: SchemaRef, exact: bool, dropped: Option<&[String]>) -> Self {
        let part = Part::of_line(&schema, dropped.unwrap_or_default());
        Self {
            plain: PlainLines::new(&schema, exact),
            exact,
            quoted: part.has_json().then(Vec::new),
            part,
            decoder: None,
            checker: None,
            unknown: dropped.map(|dropped| Arc::new(Counting::new(&schema, dropped))),
            schema,
        }
    }

    /// The columns of its tables.
    pub fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    /// The table that a text of `rows` lines is. None if not every line is one of its rows.
    pub fn decode(&mut self, text: &[u8], rows: u64) -> Option<RecordBatch> {
        if self.schema.fields().is_empty() {
            return None;
        }
        let rows = usize::try_from(rows).unwrap_or(usize::MAX).min(text.len());
        if let Some(batch) = self.plain.as_mut().and_then(|plain| plain.decode(text, rows)) {
            return Some(batch);
        }
        let Some(mut quoted) = self.quoted.take() else {
            return if commas::are_right(text) { self.decode_any(text, rows) } else { None };
        };
        quoted.clear();
        let is_json = Lines::new(text).all(|(_, line)| self.part.quote(line, &mut quoted));
        let batch = if is_json { self.decode_any(&quoted, rows) } else { None };
        self.quoted = Some(quoted);
        batch
    }

    /// The records of a text that has been decoded, or was tried to, with keys that no column takes. `None` where there
    /// are no such records, or where they are not counted.
    pub fn unknown_keys(&mut self, text: &[u8]) -> Option<Unknown> {
        let unknown = self.unknown.as_ref()?;
        if let Some(names) =
            self.plain.as_mut().and_then(|plain| plain.take_unknown(&unknown.dropped))
        {
            let mut lines = Lines::new(text);
            let (start, _) = lines.next()?;
            let records = 1 + lines.count() as u64;
            let names = names.iter().take(NAMES).map(|name| shortened(name)).collect();
            return Some(Unknown { records, names, start });
        }
        if !unknown.found.swap(false, Ordering::Relaxed) {
            return None;
        }
        let mut found = Unknown { records: 0, names: Vec::new(), start: 0 };
        for (start, line) in Lines::new(text) {
            let Ok(line) = std::str::from_utf8(line) else { continue };
            if self.part.unknown(line, "", NAMES, &mut found.names) {
                if found.records == 0 {
                    found.start = start;
                }
                found.records += 1;
            }
        }
        found.names.iter_mut().for_each(|name| *name = shortened(name));
        (found.records > 0).then_some(found)
    }

    /// The same by arrow-json, of a text whose commas are right.
    pub(super) fn decode_any(&mut self, text: &[u8], rows: usize) -> Option<RecordBatch> {
        let (mut decoder, capacity) = match self.decoder.take() {
            Some((decoder, capacity)) if capacity > rows => (decoder, capacity),
            _ => (self.build(rows + rows / 8 + 2).ok()?, rows + rows / 8 + 2),
        };
        for (number, (_, line)) in Lines::new(text).enumerate() {
            // A line that is not exactly one value must not be completed by the next one.
            let passed = decoder.decode(line).ok()?;
            if passed != line.len() || decoder.has_partial_record() || decoder.len() != number + 1 {
                return None;
            }
        }
        let batch = decoder.flush().ok()?;
        self.decoder = Some((decoder, capacity));
        Some(batch.unwrap_or_else(|| RecordBatch::new_empty(Arc::clone(&self.schema))))
    }

    /// Why the line is no row; none if it is one.
    pub fn misfit(&mut self, line: &[u8]) -> Option<String> {
        let error = match self.check(line) {
            _ if self.schema.fields().is_empty() => "the table has no columns".to_owned(),
            Ok(true) => return None,
            Ok(false) => "it is not one object".to_owned(),
            Err(error) => error.to_string(),
        };
        Some(reason(line, &self.schema, self.exact, &error))
    }

    fn check(&mut self, line: &[u8]) -> Result<bool, ArrowError> {
        let mut quoted = Vec::new();
        let line = match &self.quoted {
            Some(_) if !self.part.quote(line, &mut quoted) => return Ok(false),
            Some(_) => quoted.trim_ascii_end(),
            None if !commas::are_right(line) => return Ok(false),
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
        // After an error it stands within a row, and is dropped.
        self.checker = Some(checker);
        Ok(true)
    }

    /// Fails if a text of so many rows may need far more memory than its length.
    pub fn check_size(&self, text: &[u8], rows: u64, item: &str) -> Result<(), DatasetError> {
        let columns = self.schema.flattened_fields().len() as u64;
        if rows.saturating_mul(columns) <= CELLS.max(text.len() as u64) {
            return Ok(());
        }
        fail!(
            "{item}: {rows} rows of {columns} columns, most of which are not there, take too much \
             memory; name the columns that are needed by columns, or choose a smaller \
             mini_batch_size"
        )
    }

    fn build(&self, rows: usize) -> Result<Decoder, ArrowError> {
        let decoders = Decoders { exact: self.exact, unknown: self.unknown.clone() };
        ReaderBuilder::new(Arc::clone(&self.schema))
            .with_batch_size(rows)
            .with_coerce_primitive(true)
            .with_decoder_factory(Arc::new(decoders))
            .build_decoder()
    }
}
