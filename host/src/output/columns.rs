//! The columns of an output with types: what a guest's table has, brought to what all tables of a job
//! can have in common.

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Fields, Schema, SchemaRef};
use arrow::error::ArrowError;
use std::fmt::Write as _;
use std::sync::Arc;

/// The columns as they are written. Every column may hold nulls: whether one does differs from table to
/// table. Dictionaries have keys of 32 bits: how many values they hold differs as well. What is said of
/// the table as a whole is dropped: it may be about the rows of this one.
///
/// # Errors
/// In words: a type that cannot be written.
pub(super) fn written(given: &Schema) -> Result<SchemaRef, String> {
    let fields = given.fields().iter().map(|field| {
        let kind = written_type(field.data_type()).map_err(|kind| {
            format!(
                "the column {:?} of the returned table has the type {kind}, which an output of this type \
                 cannot hold: return another one, or set output_format.type to jsonl",
                field.name()
            )
        })?;
        Ok(field.as_ref().clone().with_data_type(kind).with_nullable(true))
    });
    Ok(Arc::new(Schema::new(fields.collect::<Result<Vec<Field>, String>>()?)))
}

/// Fails with what cannot be written.
fn written_type(kind: &DataType) -> Result<DataType, String> {
    let field = |field: &Arc<Field>| -> Result<Arc<Field>, String> {
        let kind = written_type(field.data_type())?;
        Ok(Arc::new(field.as_ref().clone().with_data_type(kind)))
    };
    Ok(match kind {
        // Their values may be given once and stand for any number of rows, in nested types as well.
        DataType::RunEndEncoded(..)
        | DataType::Union(..)
        | DataType::ListView(_)
        | DataType::LargeListView(_) => return Err(kind.to_string()),
        DataType::Dictionary(_, values) if values.is_nested() => return Err(kind.to_string()),
        DataType::Dictionary(_, values) => {
            DataType::Dictionary(Box::new(DataType::Int32), values.clone())
        }
        DataType::List(items) => DataType::List(field(items)?),
        DataType::LargeList(items) => DataType::LargeList(field(items)?),
        DataType::FixedSizeList(items, size) => DataType::FixedSizeList(field(items)?, *size),
        DataType::Map(entries, sorted) => DataType::Map(field(entries)?, *sorted),
        DataType::Struct(fields) => {
            DataType::Struct(fields.iter().map(field).collect::<Result<Fields, String>>()?)
        }
        other => other.clone(),
    })
}

/// The columns in words, each on a line: all that must be the same in every table of a job.
pub(super) fn words(schema: &Schema) -> String {
    let mut text = String::new();
    for field in schema.fields() {
        let line_end = if text.is_empty() { "" } else { "\n" };
        // Infallible for a text. Names are quoted, those within a type too: no line break comes from them.
        let _ = write!(text, "{line_end}{:?} {}", field.name(), field.data_type());
    }
    text
}

/// The rows with the columns as they are written.
pub(super) fn fit(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch, ArrowError> {
    let columns = batch.columns().iter().zip(schema.fields()).map(|(column, field)| {
        if column.data_type() == field.data_type() {
            return Ok(Arc::clone(column));
        }
        cast(column, field.data_type())
    });
    RecordBatch::try_new(Arc::clone(schema), columns.collect::<Result<_, _>>()?)
}

/// Bytes that the values make if each of them is written out, however often one buffer serves several.
/// A value counts for one byte at least.
pub(super) fn size(array: &dyn Array) -> u64 {
    let rows = array.len() as u64;
    let own = match array.data_type() {
        DataType::Dictionary(..) => return dictionary_size(array).max(rows),
        DataType::Utf8View => array.as_string_view().lengths().map(u64::from).sum(),
        DataType::BinaryView => array.as_binary_view().lengths().map(u64::from).sum(),
        DataType::List(_) => {
            let list = array.as_list::<i32>();
            let offsets = list.value_offsets();
            part_size(list.values(), offsets[0] as usize, offsets[list.len()] as usize)
        }
        DataType::LargeList(_) => {
            let list = array.as_list::<i64>();
            let offsets = list.value_offsets();
            part_size(list.values(), offsets[0] as usize, offsets[list.len()] as usize)
        }
        DataType::Map(..) => {
            let map = array.as_map();
            let offsets = map.value_offsets();
            let entries: &dyn Array = map.entries();
            part_size(entries, offsets[0] as usize, offsets[map.len()] as usize)
        }
        DataType::FixedSizeList(..) => size(array.as_fixed_size_list().values()),
        DataType::Struct(_) => array.as_struct().columns().iter().map(|column| size(column)).sum(),
        // What cannot be counted is no table.
        _ => array.to_data().get_slice_memory_size().map_or(u64::MAX, |size| size as u64),
    };
    own.max(rows)
}

fn part_size(values: &dyn Array, from: usize, to: usize) -> u64 {
    size(values.slice(from, to.saturating_sub(from)).as_ref())
}

fn dictionary_size(array: &dyn Array) -> u64 {
    let dictionary = array.as_any_dictionary();
    let values = dictionary.values();
    if values.is_empty() {
        return 0;
    }
    let sizes: Vec<u64> = (0..values.len()).map(|at| size(values.slice(at, 1).as_ref())).collect();
    let keys = dictionary.normalized_keys();
    let used = keys.iter().enumerate().filter(|(row, _)| !array.is_null(*row));
    used.fold(0, |sum, (_, key)| sum.saturating_add(sizes.get(*key).copied().unwrap_or(0)))
}
