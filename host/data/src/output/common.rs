//! Finds one schema for several tables if a column is all null in some of them. A column that is all null in
//! one mini-batch has the type `Null` there, and it may have another type in the next mini-batch. The same
//! holds for the values of a list and the fields of a struct.

use arrow::array::{
    Array, ArrayRef, AsArray, FixedSizeListArray, GenericListArray, MapArray, OffsetSizeTrait,
    RecordBatch, StructArray, new_null_array,
};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::error::ArrowError;
use std::sync::Arc;

/// Whether the types of all columns are known: no column, list or struct has values of the type `Null`.
pub(super) fn is_settled(schema: &Schema) -> bool {
    !schema.fields().iter().any(|field| has_null(field.data_type()))
}

fn has_null(kind: &DataType) -> bool {
    match kind {
        DataType::Null => true,
        DataType::List(field)
        | DataType::LargeList(field)
        | DataType::FixedSizeList(field, _)
        | DataType::Map(field, _) => has_null(field.data_type()),
        DataType::Struct(fields) => fields.iter().any(|field| has_null(field.data_type())),
        _ => false,
    }
}

/// One schema for tables of both schemas; `None` if the schemas differ in anything but all-null columns.
pub(super) fn common_schema(one: &Schema, other: &Schema) -> Option<Schema> {
    let fields = common_fields(one.fields(), other.fields())?;
    Some(Schema::new(fields))
}

fn common_fields(one: &[Arc<Field>], other: &[Arc<Field>]) -> Option<Vec<Arc<Field>>> {
    let fields = one.iter().zip(other).map(|(one, other)| common_field(one, other));
    if one.len() == other.len() { fields.collect() } else { None }
}

fn common_field(one: &Arc<Field>, other: &Arc<Field>) -> Option<Arc<Field>> {
    if one.name() != other.name() {
        return None;
    }
    let kind = common_type(one.data_type(), other.data_type())?;
    // Metadata of a column, e.g. of an extension type, belongs to the known type.
    let known = if one.data_type().is_null() { other } else { one };
    let is_nullable = one.is_nullable() || other.is_nullable();
    Some(Arc::new(known.as_ref().clone().with_data_type(kind).with_nullable(is_nullable)))
}

fn common_type(one: &DataType, other: &DataType) -> Option<DataType> {
    Some(match (one, other) {
        (one, other) if one == other => one.clone(),
        (DataType::Null, known) | (known, DataType::Null) => known.clone(),
        (DataType::List(one), DataType::List(other)) => DataType::List(common_field(one, other)?),
        (DataType::LargeList(one), DataType::LargeList(other)) => {
            DataType::LargeList(common_field(one, other)?)
        }
        (DataType::FixedSizeList(one, size), DataType::FixedSizeList(other, other_size))
            if size == other_size =>
        {
            DataType::FixedSizeList(common_field(one, other)?, *size)
        }
        (DataType::Map(one, sorted), DataType::Map(other, other_sorted))
            if sorted == other_sorted =>
        {
            DataType::Map(common_field(one, other)?, *sorted)
        }
        (DataType::Struct(one), DataType::Struct(other)) => {
            DataType::Struct(common_fields(one, other)?.into())
        }
        _ => return None,
    })
}

/// The rows with the columns `to`: all-null columns become nulls of the type that `to` has.
pub(super) fn widened(batch: &RecordBatch, to: &SchemaRef) -> Result<RecordBatch, ArrowError> {
    let columns = batch.columns().iter().zip(to.fields());
    let columns = columns.map(|(column, field)| widened_values(column, field.data_type()));
    RecordBatch::try_new(Arc::clone(to), columns.collect::<Result<_, _>>()?)
}

fn widened_values(array: &ArrayRef, to: &DataType) -> Result<ArrayRef, ArrowError> {
    if array.data_type() == to {
        return Ok(Arc::clone(array));
    }
    match (array.data_type(), to) {
        (DataType::Null, _) => Ok(new_null_array(to, array.len())),
        (DataType::List(_), DataType::List(item)) => widened_list(array.as_list::<i32>(), item),
        (DataType::LargeList(_), DataType::LargeList(item)) => {
            widened_list(array.as_list::<i64>(), item)
        }
        (DataType::FixedSizeList(..), DataType::FixedSizeList(item, size)) => {
            let list = array.as_fixed_size_list();
            let values = widened_values(list.values(), item.data_type())?;
            let nulls = list.nulls().cloned();
            let rows = list.len();
            let item = Arc::clone(item);
            let list = FixedSizeListArray::try_new_with_length(item, *size, values, nulls, rows)?;
            Ok(Arc::new(list))
        }
        (DataType::Map(..), DataType::Map(entries, sorted)) => {
            let map = array.as_map();
            let pairs: ArrayRef = Arc::new(map.entries().clone());
            let pairs = widened_values(&pairs, entries.data_type())?;
            let offsets = map.offsets().clone();
            let nulls = map.nulls().cloned();
            let entries = Arc::clone(entries);
            let pairs = pairs.as_struct().clone();
            Ok(Arc::new(MapArray::try_new(entries, offsets, pairs, nulls, *sorted)?))
        }
        (DataType::Struct(_), DataType::Struct(fields)) => {
            let structs = array.as_struct();
            let columns = structs.columns().iter().zip(fields);
            let columns = columns.map(|(column, field)| widened_values(column, field.data_type()));
            let columns = columns.collect::<Result<Vec<_>, _>>()?;
            let nulls = structs.nulls().cloned();
            let rows = structs.len();
            let structs = StructArray::try_new_with_length(fields.clone(), columns, nulls, rows)?;
            Ok(Arc::new(structs))
        }
        (from, to) => Err(ArrowError::SchemaError(format!("{from} cannot become {to}"))),
    }
}

fn widened_list<O: OffsetSizeTrait>(
    list: &GenericListArray<O>,
    item: &Arc<Field>,
) -> Result<ArrayRef, ArrowError> {
    let values = widened_values(list.values(), item.data_type())?;
    let offsets = list.offsets().clone();
    let nulls = list.nulls().cloned();
    Ok(Arc::new(GenericListArray::try_new(Arc::clone(item), offsets, values, nulls)?))
}
