//! The columns of a typed output: a guest's columns are converted to types that all tables of a job can
//! share, and that the file supports.

use super::fit::converted;
use super::table_error::{ColumnError, FitError, TypeError};
use crate::model::OutputKind;
use arrow::array::{Array, RecordBatch};
use arrow::datatypes::{
    DECIMAL32_MAX_PRECISION, DECIMAL64_MAX_PRECISION, DECIMAL128_MAX_PRECISION,
    DECIMAL256_MAX_PRECISION, DataType, Field, Fields, IntervalUnit, Schema, SchemaRef, TimeUnit,
};
use std::fmt::Write as _;
use std::sync::Arc;

/// The name of the column for rows of text.
pub(super) const VALUE_COLUMN: &str = "value";

/// The columns of rows of text.
pub(super) fn values_schema() -> Schema {
    Schema::new(vec![Field::new(VALUE_COLUMN, DataType::Utf8, true)])
}

/// Returns the output's columns for a table with the columns `given`. The output's columns must be
/// the same for all tables of a job. So every column, and every value in lists and structs, is
/// nullable, and the keys of all dictionaries have 32 bits. Metadata of the table is dropped: it
/// may describe the rows of this table only.
///
/// # Errors
/// If a type cannot be written.
pub(super) fn written_schema(given: &Schema, output: OutputKind) -> Result<SchemaRef, ColumnError> {
    let fields = given.fields().iter().map(|field| {
        let kind = written_type(field.data_type(), output).map_err(|source| ColumnError {
            name: field.name().clone(),
            kind: field.data_type().clone(),
            source,
            others: other_outputs(output, field.data_type()),
        })?;
        Ok(field.as_ref().clone().with_data_type(kind).with_nullable(true))
    });
    Ok(Arc::new(Schema::new(fields.collect::<Result<Vec<Field>, ColumnError>>()?)))
}

/// The other output types that can hold a column of this type.
fn other_outputs(output: OutputKind, kind: &DataType) -> &'static str {
    if output == OutputKind::Parquet && !has_union(kind) { "arrow or jsonl" } else { "jsonl" }
}

/// The type in the output for values of the type `kind`. Fails with the reason if there is none.
pub(super) fn written_type(kind: &DataType, output: OutputKind) -> Result<DataType, TypeError> {
    let field = |field: &Arc<Field>| -> Result<Arc<Field>, TypeError> {
        let kind = written_type(field.data_type(), output)?;
        Ok(Arc::new(field.as_ref().clone().with_data_type(kind).with_nullable(true)))
    };
    // The name of a list's item field has no meaning, and differs between programs.
    let item = |items: &Arc<Field>| -> Result<Arc<Field>, TypeError> {
        let item = field(items)?;
        Ok(Arc::new(item.as_ref().clone().with_name(Field::LIST_FIELD_DEFAULT_NAME)))
    };
    Ok(match kind {
        DataType::Union(..) => return Err(TypeError::Union),
        // In a run-end encoded column, one value may apply to any number of rows. In the output, each row has
        // its own value.
        DataType::RunEndEncoded(_, values) => written_type(values.data_type(), output)?,
        DataType::ListView(items) => DataType::List(item(items)?),
        DataType::LargeListView(items) => DataType::LargeList(item(items)?),
        DataType::Dictionary(_, values) => match written_type(values, output)? {
            plain if plain.is_nested() || plain.is_null() => plain,
            values => DataType::Dictionary(Box::new(DataType::Int32), Box::new(values)),
        },
        DataType::List(items) => DataType::List(item(items)?),
        DataType::LargeList(items) => DataType::LargeList(item(items)?),
        DataType::FixedSizeList(items, size) => DataType::FixedSizeList(item(items)?, *size),
        DataType::Map(entries, sorted) => DataType::Map(self::entries(entries, output)?, *sorted),
        DataType::Struct(fields) => {
            DataType::Struct(fields.iter().map(field).collect::<Result<Fields, TypeError>>()?)
        }
        other if output == OutputKind::Parquet => parquet_type(other)?,
        other => other.clone(),
    })
}

/// The type of a map's entries, whose keys are never null.
fn entries(entries: &Arc<Field>, output: OutputKind) -> Result<Arc<Field>, TypeError> {
    let DataType::Struct(pair) = entries.data_type() else { return Ok(Arc::clone(entries)) };
    let pair = pair.iter().enumerate().map(|(index, field)| {
        let kind = written_type(field.data_type(), output)?;
        Ok(field.as_ref().clone().with_data_type(kind).with_nullable(index > 0))
    });
    let pair = pair.collect::<Result<Vec<Field>, TypeError>>()?;
    let pair = DataType::Struct(Fields::from(pair));
    Ok(Arc::new(entries.as_ref().clone().with_data_type(pair).with_nullable(false)))
}

/// The type that replaces `kind` if Parquet lacks it. Other types are returned unchanged.
fn parquet_type(kind: &DataType) -> Result<DataType, TypeError> {
    Ok(match kind {
        DataType::Date64 => DataType::Date32,
        DataType::Timestamp(TimeUnit::Second, zone) => {
            DataType::Timestamp(TimeUnit::Millisecond, zone.clone())
        }
        DataType::Time32(TimeUnit::Second) => DataType::Time32(TimeUnit::Millisecond),
        DataType::Interval(IntervalUnit::MonthDayNano) => return Err(TypeError::Nanoseconds),
        DataType::Decimal32(precision, scale)
        | DataType::Decimal64(precision, scale)
        | DataType::Decimal128(precision, scale)
        | DataType::Decimal256(precision, scale)
            if *scale < 0 =>
        {
            whole_decimal(u32::from(*precision) + u32::from(scale.unsigned_abs()))?
        }
        other => other.clone(),
    })
}

/// A decimal type with this number of digits before the point and none after it.
fn whole_decimal(digits: u32) -> Result<DataType, TypeError> {
    let digits = u8::try_from(digits).ok().filter(|digits| *digits <= DECIMAL256_MAX_PRECISION);
    let digits = digits.ok_or(TypeError::Digits)?;
    let kinds = [
        (DECIMAL32_MAX_PRECISION, DataType::Decimal32(digits, 0)),
        (DECIMAL64_MAX_PRECISION, DataType::Decimal64(digits, 0)),
        (DECIMAL128_MAX_PRECISION, DataType::Decimal128(digits, 0)),
    ];
    let smallest = kinds.into_iter().find(|(max_digits, _)| digits <= *max_digits);
    Ok(smallest.map_or(DataType::Decimal256(digits, 0), |(_, kind)| kind))
}

fn has_union(kind: &DataType) -> bool {
    match kind {
        DataType::Union(..) => true,
        DataType::Dictionary(_, values) => has_union(values),
        DataType::Struct(fields) => fields.iter().any(|field| has_union(field.data_type())),
        DataType::List(field)
        | DataType::LargeList(field)
        | DataType::ListView(field)
        | DataType::LargeListView(field)
        | DataType::FixedSizeList(field, _)
        | DataType::Map(field, _)
        | DataType::RunEndEncoded(_, field) => has_union(field.data_type()),
        _ => false,
    }
}

/// The names and types of the columns, one per line. The text must be the same for every table of a job,
/// except for all-null columns.
pub(super) fn columns_text(schema: &Schema) -> String {
    let mut text = String::new();
    for field in schema.fields() {
        let line_end = if text.is_empty() { "" } else { "\n" };
        // Writing to a string cannot fail. Names are quoted, including those within a type, so they cannot
        // cause line breaks.
        let _ = write!(text, "{line_end}{:?} {}", field.name(), field.data_type());
    }
    text
}

/// Converts the rows to the output's columns. `rows_before` is the number of the attempt's rows
/// before this batch.
///
/// # Errors
/// If a value does not fit its type; the error names the row.
pub(super) fn fit(
    batch: &RecordBatch,
    schema: &SchemaRef,
    output: OutputKind,
    rows_before: u64,
) -> Result<RecordBatch, FitError> {
    let mut columns = Vec::with_capacity(batch.num_columns());
    for (index, column) in batch.columns().iter().enumerate() {
        let kind = schema.field(index).data_type();
        columns.push(converted(column, kind, output).map_err(|source| {
            let mut rows = 0..column.len();
            let is_wrong = |row: &usize| converted(&column.slice(*row, 1), kind, output).is_err();
            let row = rows.find(is_wrong).map(|row| rows_before + row as u64);
            let field = batch.schema_ref().field(index);
            let name = field.name().clone();
            let kind = field.data_type().clone();
            FitError::Value { name, kind, row, output, source }
        })?);
    }
    let batch = RecordBatch::try_new(Arc::clone(schema), columns);
    batch.map_err(|source| FitError::Table { output, source })
}
