//! The columns of a table while they are being filled.

use super::column_builder::FixedValues;
use super::types::{UTC, boolean, date, float, integer, microseconds, unsigned};
use crate::model::ColumnType;
use arrow::array::{Array, ArrayRef, RecordBatch, StringBuilder, new_null_array};
use arrow::datatypes::{
    DataType, Date32Type, Float64Type, Int64Type, SchemaRef, TimestampMicrosecondType, UInt64Type,
};
use std::sync::Arc;

/// A column that is being filled.
pub(in crate::dataset) enum CsvColumn {
    /// The number of rows of a column that the job does not need.
    Unwanted(usize),
    Boolean(FixedValues<bool>),
    Int64(FixedValues<i64>),
    UInt64(FixedValues<u64>),
    Float64(FixedValues<f64>),
    Date(FixedValues<i32>),
    Timestamp(FixedValues<i64>),
    String(StringBuilder),
}

impl CsvColumn {
    /// An empty column, with room for `rows` rows. `kind` is `None` if the job does not need the
    /// column.
    pub(in crate::dataset) fn new(kind: Option<ColumnType>, rows: usize) -> Self {
        let Some(kind) = kind else { return Self::Unwanted(0) };
        match kind {
            ColumnType::Boolean => Self::Boolean(FixedValues::new(rows)),
            ColumnType::Int64 => Self::Int64(FixedValues::new(rows)),
            ColumnType::UInt64 => Self::UInt64(FixedValues::new(rows)),
            ColumnType::Float64 => Self::Float64(FixedValues::new(rows)),
            ColumnType::Date => Self::Date(FixedValues::new(rows)),
            ColumnType::Timestamp => Self::Timestamp(FixedValues::new(rows)),
            ColumnType::String | ColumnType::Json => {
                Self::String(StringBuilder::with_capacity(rows, rows.saturating_mul(8)))
            }
        }
    }

    /// Adds the text of a field; `None` is null. Returns `None` if the column does not accept the text.
    pub(in crate::dataset) fn push(&mut self, text: Option<&str>, exact: bool) -> Option<()> {
        match self {
            Self::Unwanted(rows) => {
                *rows += 1;
                Some(())
            }
            Self::Boolean(values) => push_parsed(values, text, boolean),
            Self::Int64(values) => push_parsed(values, text, |text| integer(text, exact)),
            Self::UInt64(values) => push_parsed(values, text, |text| unsigned(text, exact)),
            Self::Float64(values) => push_parsed(values, text, |text| float(text, exact)),
            Self::Date(values) => push_parsed(values, text, |text| date(text, exact)),
            Self::Timestamp(values) => push_parsed(values, text, microseconds),
            Self::String(values) => {
                values.append_option(text);
                Some(())
            }
        }
    }

    /// The finished column.
    pub(in crate::dataset) fn finish(self) -> Option<ArrayRef> {
        Some(match self {
            Self::Unwanted(rows) => new_null_array(&DataType::Utf8, rows),
            Self::Boolean(values) => Arc::new(values.booleans()),
            Self::Int64(values) => Arc::new(values.array::<Int64Type>()?),
            Self::UInt64(values) => Arc::new(values.array::<UInt64Type>()?),
            Self::Float64(values) => Arc::new(values.array::<Float64Type>()?),
            Self::Date(values) => Arc::new(values.array::<Date32Type>()?),
            Self::Timestamp(values) => {
                Arc::new(values.array::<TimestampMicrosecondType>()?.with_timezone(UTC))
            }
            Self::String(mut values) => Arc::new(values.finish()),
        })
    }
}

/// Adds the value of a text; `None` is null. Returns `None` if `parse` does.
fn push_parsed<T: Copy + Default>(
    values: &mut FixedValues<T>,
    text: Option<&str>,
    parse: impl Fn(&str) -> Option<T>,
) -> Option<()> {
    let value = match text {
        Some(text) => Some(parse(text)?),
        None => None,
    };
    values.add_empty(1).push(value)
}

/// The table of these columns. `None` if they do not match the schema.
pub(in crate::dataset) fn table(
    columns: Vec<CsvColumn>,
    schema: &SchemaRef,
) -> Option<RecordBatch> {
    let arrays = columns.into_iter().zip(schema.fields());
    let arrays = arrays.map(|(column, field)| {
        let array = column.finish()?;
        (array.data_type() == field.data_type()).then_some(array)
    });
    RecordBatch::try_new(Arc::clone(schema), arrays.collect::<Option<_>>()?).ok()
}
