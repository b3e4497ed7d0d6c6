//! From lines to Arrow.

use super::commas;
use super::lines::Lines;
use super::misfit::reason;
use super::numbers::Exact;
use super::plain::PlainLines;
use crate::dataset::{DatasetError, fail};
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use arrow::json::ReaderBuilder;
use arrow::json::reader::Decoder;
use std::sync::Arc;

/// Cells that a table may have whatever its text is like. Rows may leave out columns, so that a short
/// text can stand for a table that fits nowhere.
const CELLS: u64 = 16 << 20;

/// Decodes lines with one schema. Keeps its decoders from one text to the next.
#[derive(Debug)]
pub struct JsonDecoder {
    schema: SchemaRef,
    /// For lines that are all alike.
    plain: Option<PlainLines>,
    /// A decoder that stands between two rows, and the rows it takes at once.
    decoder: Option<(Decoder, usize)>,
    /// The same for single lines.
    checker: Option<Decoder>,
}

impl JsonDecoder {
    /// A decoder of tables with these columns.
    pub fn new(schema: SchemaRef) -> Self {
        Self { plain: PlainLines::new(&schema), schema, decoder: None, checker: None }
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
        if commas::are_right(text) { self.decode_any(text, rows) } else { None }
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
        if self.schema.fields().is_empty() {
            return Some(reason(line, &self.schema, "the table has no columns"));
        }
        let error = match self.check(line) {
            Ok(true) => return None,
            Ok(false) => "it is not one object".to_owned(),
            Err(error) => error.to_string(),
        };
        Some(reason(line, &self.schema, &error))
    }

    fn check(&mut self, line: &[u8]) -> Result<bool, ArrowError> {
        let mut checker = match self.checker.take() {
            Some(checker) => checker,
            None => self.build(2)?,
        };
        let passed = if commas::are_right(line) { checker.decode(line)? } else { 0 };
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
        ReaderBuilder::new(Arc::clone(&self.schema))
            .with_batch_size(rows)
            .with_coerce_primitive(true)
            .with_decoder_factory(Arc::new(Exact))
            .build_decoder()
    }
}
