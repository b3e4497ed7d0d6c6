//! The fast path for the common case, several times as fast as csv-core: fills columns directly from the
//! text, once the field ends are known. [`read_by_records`](super::bad_records::read_by_records) reads texts that are
//! unusual or do not fit.

use super::column_builder::{FieldedRecords, FixedValues};
use super::columns::{CsvColumn, table};
use super::field_splitter::{FieldEnds, FoundEnds};
use super::numbers::{exact_float, exact_integer, short_float, short_integer};
#[cfg(target_arch = "x86_64")]
use super::simd_floats;
use super::tally::begins_a_line;
use super::types::{boolean, date, float, integer, microseconds, unsigned};
use crate::model::{ColumnType, CsvFormat, TableFormat};
use arrow::array::RecordBatch;
use arrow::compute::kernels::cast_utils::Parser;
use arrow::datatypes::{Float64Type, SchemaRef};
use memchr::memchr;
use std::borrow::Cow;
use std::sync::Arc;

/// Decodes slices of one format. Reuses its buffers.
#[derive(Debug)]
pub(in crate::dataset) struct PlainDecoder {
    schema: SchemaRef,
    csv: CsvFormat,
    /// The kinds of the columns. `None` for those that the job does not need.
    kinds: Vec<Option<ColumnType>>,
    /// Whether the kinds were inferred. If so, values must lose nothing in their column.
    exact: bool,
    found: FoundEnds,
}

impl PlainDecoder {
    /// `None` if tables of this format are not the common case.
    pub(in crate::dataset) fn new(format: &TableFormat, schema: &SchemaRef) -> Option<Self> {
        let delimiter = format.csv.delimiter;
        let nulls = &format.csv.null_values;
        // If the text that means null is a number, the fast path would read it as that number.
        let is_common = matches!(delimiter, b',' | b';' | b'|' | b'\t' | b' ')
            && !format.columns.is_empty()
            && nulls.iter().all(|null| Float64Type::parse(null).is_none());
        let is_wanted = |at: usize| {
            format.picked.as_ref().is_none_or(|picked| picked.iter().any(|&it| it as usize == at))
        };
        let kinds = format.columns.iter().enumerate();
        let kinds = kinds.map(|(at, column)| is_wanted(at).then_some(column.kind)).collect();
        let schema = Arc::clone(schema);
        let csv = format.csv.clone();
        let found = FoundEnds::default();
        is_common.then_some(Self { schema, csv, kinds, exact: format.inferred, found })
    }

    /// The table of whole records, about `rows` of them. Columns that the job does not need are null. `None`
    /// if a record does not fit, or if there are quotes within a field.
    pub(in crate::dataset) fn decode(&mut self, text: &str, rows: usize) -> Option<RecordBatch> {
        if self.has_escape_or_comment(text) {
            return None;
        }
        let fields = self.kinds.len();
        let kinds = self.kinds.iter();
        let mut columns: Vec<CsvColumn> = kinds.map(|kind| CsvColumn::new(*kind, rows)).collect();
        let delimiter = self.csv.delimiter;
        let mut walk = FieldEnds::new(text, delimiter, self.csv.quote, fields, &mut self.found)?;
        loop {
            let has_more = walk.find_more(&mut self.found);
            let records = FieldedRecords::new(text, &self.found, fields, delimiter);
            let quote = self.csv.quote.filter(|_| walk.has_quotes);
            let nulls = &self.csv.null_values;
            let records = PlainFields { records, quote, exact: self.exact, nulls };
            for (index, column) in columns.iter_mut().enumerate() {
                fill_column(column, &records, index)?;
            }
            let used = records.records.count * fields;
            self.found.remove_first(used);
            if !has_more {
                break;
            }
        }
        if self.found.count > 0 || walk.is_inside_quotes() {
            return None;
        }
        table(columns, &self.schema)
    }

    /// Whether a text has escapes, or may have a comment.
    fn has_escape_or_comment(&self, text: &str) -> bool {
        let text = text.as_bytes();
        self.csv.escape.is_some_and(|escape| memchr(escape, text).is_some())
            || self.csv.comment.is_some_and(|comment| begins_a_line(text, comment, b'\n'))
    }
}

/// The fields of some records.
struct PlainFields<'a> {
    records: FieldedRecords<'a>,
    /// The quote. `None` if the text has no quotes.
    quote: Option<u8>,
    /// Whether the columns' kinds were inferred.
    exact: bool,
    nulls: &'a [String],
}

impl<'a> PlainFields<'a> {
    /// The text of a field; the inner `None` is null. The outer `None` means that the field has quotes where
    /// the common case has none.
    #[inline]
    fn field(&self, start: usize, end: usize) -> Option<Option<Cow<'a, str>>> {
        let raw = self.records.text.get(start..end)?;
        let text = match self.quote {
            Some(quote) => unquoted(raw, char::from(quote))?,
            None => Cow::Borrowed(raw),
        };
        let is_null = text.is_empty() || self.nulls.iter().any(|null| *null == text);
        Some((!is_null).then_some(text))
    }

    /// Fills in the values of a column. Parses each field with `short`, or with `long` if `short`
    /// returns `None`.
    #[inline(always)]
    fn fill<T: Copy + Default>(
        &self,
        values: &mut FixedValues<T>,
        column: usize,
        short: impl Fn(usize, usize) -> Option<T>,
        long: impl Fn(&str) -> Option<T>,
    ) -> Option<()> {
        let mut buffer = values.add_empty(self.records.count);
        self.records.each(column, |start, end| buffer.push(self.value(start, end, &short, &long)?))
    }

    /// The value of a field. Parses the field with `short`, or with `long` if `short` returns
    /// `None`. The inner and the outer `None` of the result mean the same as in [`Self::parsed`].
    #[inline(always)]
    fn value<T>(
        &self,
        start: usize,
        end: usize,
        short: &impl Fn(usize, usize) -> Option<T>,
        long: &impl Fn(&str) -> Option<T>,
    ) -> Option<Option<T>> {
        match short(start, end) {
            Some(value) => Some(Some(value)),
            None => self.parsed(start, end, long),
        }
    }

    /// Fills in the floats of a column.
    #[inline(always)]
    fn fill_floats(&self, values: &mut FixedValues<f64>, column: usize) -> Option<()> {
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx2") {
            // SAFETY: the processor has AVX2.
            return unsafe { self.fill_floats_simd(values, column) };
        }
        let text = self.records.text.as_bytes();
        let short = |start, end| match self.exact {
            true => exact_float(text, start, end),
            false => short_float(text, start, end),
        };
        self.fill(values, column, short, |text| float(text, self.exact))
    }

    /// Like [`Self::fill_floats`], but parses several floats at once, until too many fields are unsuitable.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    fn fill_floats_simd(&self, values: &mut FixedValues<f64>, column: usize) -> Option<()> {
        let text = self.records.text.as_bytes();
        let count = self.records.count;
        let short = |start, end| match self.exact {
            true => exact_float(text, start, end),
            false => short_float(text, start, end),
        };
        let long = |text: &str| float(text, self.exact);
        let mut buffer = values.add_empty(count);
        let mut record = 0;
        let mut misses = 0;
        while record < count {
            if misses < simd_floats::MAX_MISSES && record + simd_floats::LANES <= count {
                let mut bounds = [(0, 0); simd_floats::LANES];
                for (lane, bounds) in bounds.iter_mut().enumerate() {
                    *bounds = self.records.bounds(column, record + lane)?;
                }
                if let Some(floats) = simd_floats::floats(text, &bounds, self.exact) {
                    buffer.push_all(floats)?;
                    record += simd_floats::LANES;
                    continue;
                }
                misses += 1;
            }
            for record in record..count.min(record + simd_floats::LANES) {
                let (start, end) = self.records.bounds(column, record)?;
                buffer.push(self.value(start, end, &short, &long)?)?;
            }
            record += simd_floats::LANES;
        }
        Some(())
    }

    /// The value of a field; the inner `None` is null. The outer `None` means that `parse` or [`Self::field`]
    /// returned `None`. Not inlined, to keep loops over short fields small.
    #[inline(never)]
    fn parsed<T>(
        &self,
        start: usize,
        end: usize,
        parse: &impl Fn(&str) -> Option<T>,
    ) -> Option<Option<T>> {
        match self.field(start, end)? {
            Some(text) => parse(&text).map(Some),
            None => Some(None),
        }
    }
}

/// A field without its quotes. `None` if it has quotes where the common case has none.
fn unquoted(raw: &str, quote: char) -> Option<Cow<'_, str>> {
    let has_quotes = |text: &str| text.contains(quote);
    let Some(rest) = raw.strip_prefix(quote) else {
        return (!has_quotes(raw)).then_some(Cow::Borrowed(raw));
    };
    let inner = rest.strip_suffix(quote)?;
    if !has_quotes(inner) {
        return Some(Cow::Borrowed(inner));
    }
    let text = inner.replace(&format!("{quote}{quote}"), quote.encode_utf8(&mut [0; 4]));
    // If all quotes were in pairs, `replace` has removed as many as remain.
    let remaining = text.matches(quote).count();
    (inner.len() - text.len() == remaining).then_some(Cow::Owned(text))
}

/// Adds the fields that some records have in a column. `None` if the column does not accept a field.
fn fill_column(filled: &mut CsvColumn, fields: &PlainFields<'_>, column: usize) -> Option<()> {
    let text = fields.records.text.as_bytes();
    match filled {
        CsvColumn::Unwanted(rows) => {
            *rows += fields.records.count;
            match fields.quote.is_some() {
                true => fields.records.each(column, |start, end| {
                    fields.field(start, end)?;
                    Some(())
                }),
                false => Some(()),
            }
        }
        CsvColumn::Int64(values) => fields.fill(
            values,
            column,
            |start, end| match fields.exact {
                true => exact_integer(text, start, end),
                false => short_integer(text, start, end),
            },
            |text| integer(text, fields.exact),
        ),
        CsvColumn::UInt64(values) => fields.fill(
            values,
            column,
            |start, end| match fields.exact {
                true => exact_integer(text, start, end)?.try_into().ok(),
                false => short_integer(text, start, end)?.try_into().ok(),
            },
            |text| unsigned(text, fields.exact),
        ),
        CsvColumn::Float64(values) => fields.fill_floats(values, column),
        CsvColumn::Boolean(values) => fields.fill(values, column, |_, _| None, boolean),
        CsvColumn::Date(values) => {
            fields.fill(values, column, |_, _| None, |text| date(text, fields.exact))
        }
        CsvColumn::Timestamp(values) => fields.fill(values, column, |_, _| None, microseconds),
        CsvColumn::String(values) => fields.records.each(column, |start, end| {
            values.append_option(fields.field(start, end)?);
            Some(())
        }),
    }
}

#[cfg(test)]
#[path = "plain_tests.rs"]
mod tests;
