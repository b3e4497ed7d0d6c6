//! The columns of an output with types: what a guest's table has, brought to what all tables of a job
//! can have in common, and to what the file has a type for.

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

/// The column that rows of text become.
pub(super) const VALUE: &str = "value";

/// The columns of rows of text.
pub(super) fn values_schema() -> Schema {
    Schema::new(vec![Field::new(VALUE, DataType::Utf8, true)])
}

/// The columns as they are written. Every column, and every value in lists and structures, may hold nulls: whether
/// one does differs from table to table. Dictionaries have keys of 32 bits: how many values they hold differs as
/// well. What is said of the table as a whole is dropped: it may be about the rows of this one.
///
/// # Errors
/// A type that cannot be written.
pub(super) fn written(given: &Schema, output: OutputKind) -> Result<SchemaRef, ColumnError> {
    let fields = given.fields().iter().map(|field| {
        let kind = written_type(field.data_type(), output).map_err(|source| ColumnError {
            name: field.name().clone(),
            kind: field.data_type().clone(),
            source,
            others: others(output, field.data_type()),
        })?;
        Ok(field.as_ref().clone().with_data_type(kind).with_nullable(true))
    });
    Ok(Arc::new(Schema::new(fields.collect::<Result<Vec<Field>, ColumnError>>()?)))
}

/// The other types of output that hold a column of the type.
fn others(output: OutputKind, kind: &DataType) -> &'static str {
    if output == OutputKind::Parquet && !has_union(kind) { "arrow or jsonl" } else { "jsonl" }
}

/// What becomes of a type. Fails with why it cannot be written.
pub(super) fn written_type(kind: &DataType, output: OutputKind) -> Result<DataType, TypeError> {
    let field = |field: &Arc<Field>| -> Result<Arc<Field>, TypeError> {
        let kind = written_type(field.data_type(), output)?;
        Ok(Arc::new(field.as_ref().clone().with_data_type(kind).with_nullable(true)))
    };
    // The name of what lists hold means nothing, and differs from program to program.
    let item = |items: &Arc<Field>| -> Result<Arc<Field>, TypeError> {
        let item = field(items)?;
        Ok(Arc::new(item.as_ref().clone().with_name(Field::LIST_FIELD_DEFAULT_NAME)))
    };
    Ok(match kind {
        DataType::Union(..) => return Err(TypeError::Union),
        // Their values may be given once and stand for any number of rows: each is written out.
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

/// Keys of a map are never null.
fn entries(entries: &Arc<Field>, output: OutputKind) -> Result<Arc<Field>, TypeError> {
    let DataType::Struct(both) = entries.data_type() else { return Ok(Arc::clone(entries)) };
    let both = both.iter().enumerate().map(|(index, field)| {
        let kind = written_type(field.data_type(), output)?;
        Ok(field.as_ref().clone().with_data_type(kind).with_nullable(index > 0))
    });
    let both = both.collect::<Result<Vec<Field>, TypeError>>()?;
    let both = DataType::Struct(Fields::from(both));
    Ok(Arc::new(entries.as_ref().clone().with_data_type(both).with_nullable(false)))
}

/// A type that Parquet has in the place of one that it lacks.
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

/// A decimal of so many digits before the point, and none after it.
fn whole_decimal(digits: u32) -> Result<DataType, TypeError> {
    let digits = u8::try_from(digits).ok().filter(|digits| *digits <= DECIMAL256_MAX_PRECISION);
    let digits = digits.ok_or(TypeError::Digits)?;
    let kinds = [
        (DECIMAL32_MAX_PRECISION, DataType::Decimal32(digits, 0)),
        (DECIMAL64_MAX_PRECISION, DataType::Decimal64(digits, 0)),
        (DECIMAL128_MAX_PRECISION, DataType::Decimal128(digits, 0)),
    ];
    let smallest = kinds.into_iter().find(|(most, _)| digits <= *most);
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

/// The columns in words, each on a line: all that must be the same in every table of a job, but for columns
/// of nulls alone.
pub(super) fn words(schema: &Schema) -> String {
    let mut text = String::new();
    for field in schema.fields() {
        let line_end = if text.is_empty() { "" } else { "\n" };
        // Infallible for a text. Names are quoted, those within a type too: no line break comes from them.
        let _ = write!(text, "{line_end}{:?} {}", field.name(), field.data_type());
    }
    text
}

/// The rows with the columns as they are written. `before`: rows of the attempt that came before these.
///
/// # Errors
/// A value that the type cannot hold, and its row.
pub(super) fn fit(
    batch: &RecordBatch,
    schema: &SchemaRef,
    output: OutputKind,
    before: u64,
) -> Result<RecordBatch, FitError> {
    let mut columns = Vec::with_capacity(batch.num_columns());
    for (index, column) in batch.columns().iter().enumerate() {
        let kind = schema.field(index).data_type();
        columns.push(converted(column, kind, output).map_err(|source| {
            let mut rows = 0..column.len();
            let is_wrong = |row: &usize| converted(&column.slice(*row, 1), kind, output).is_err();
            let row = rows.find(is_wrong).map(|row| before + row as u64);
            let field = batch.schema_ref().field(index);
            let name = field.name().clone();
            let kind = field.data_type().clone();
            FitError::Value { name, kind, row, output, source }
        })?);
    }
    let batch = RecordBatch::try_new(Arc::clone(schema), columns);
    batch.map_err(|source| FitError::Table { output, source })
}
