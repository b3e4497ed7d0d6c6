//! Finds the columns that tables have in common if one of them has all-null columns. A column that is all
//! null in one mini-batch has the type `Null` there, and another type in the next. The same holds for a
//! list's values and a struct's fields.

use arrow::array::{
    Array, ArrayRef, AsArray, FixedSizeListArray, GenericListArray, MapArray, OffsetSizeTrait,
    RecordBatch, StructArray, new_null_array,
};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::error::ArrowError;
use std::sync::Arc;

/// Whether the types of all columns are known: none is or contains an all-null column.
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

/// The columns that fit both schemas; `None` if they differ in more than all-null columns.
pub(super) fn common_schema(one: &Schema, other: &Schema) -> Option<Schema> {
    let fields = common_fields(one.fields(), other.fields())?;
    Some(Schema::new(fields))
}

fn common_fields(one: &[Arc<Field>], other: &[Arc<Field>]) -> Option<Vec<Arc<Field>>> {
    let all = one.iter().zip(other).map(|(one, other)| common_field(one, other));
    if one.len() == other.len() { all.collect() } else { None }
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
        (DataType::FixedSizeList(one, size), DataType::FixedSizeList(other, same))
            if size == same =>
        {
            DataType::FixedSizeList(common_field(one, other)?, *size)
        }
        (DataType::Map(one, sorted), DataType::Map(other, same)) if sorted == same => {
            DataType::Map(common_field(one, other)?, *sorted)
        }
        (DataType::Struct(one), DataType::Struct(other)) => {
            DataType::Struct(common_fields(one, other)?.into())
        }
        _ => return None,
    })
}

/// The rows with the columns `to`: all-null columns become nulls of the type there.
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
            let both: ArrayRef = Arc::new(map.entries().clone());
            let both = widened_values(&both, entries.data_type())?;
            let ends = map.offsets().clone();
            let nulls = map.nulls().cloned();
            let entries = Arc::clone(entries);
            let both = both.as_struct().clone();
            Ok(Arc::new(MapArray::try_new(entries, ends, both, nulls, *sorted)?))
        }
        (DataType::Struct(_), DataType::Struct(fields)) => {
            let all = array.as_struct();
            let columns = all.columns().iter().zip(fields);
            let columns = columns.map(|(column, field)| widened_values(column, field.data_type()));
            let columns = columns.collect::<Result<Vec<_>, _>>()?;
            let nulls = all.nulls().cloned();
            let rows = all.len();
            let all = StructArray::try_new_with_length(fields.clone(), columns, nulls, rows)?;
            Ok(Arc::new(all))
        }
        (from, to) => Err(ArrowError::SchemaError(format!("{from} cannot become {to}"))),
    }
}

fn widened_list<O: OffsetSizeTrait>(
    list: &GenericListArray<O>,
    item: &Arc<Field>,
) -> Result<ArrayRef, ArrowError> {
    let values = widened_values(list.values(), item.data_type())?;
    let ends = list.offsets().clone();
    let nulls = list.nulls().cloned();
    Ok(Arc::new(GenericListArray::try_new(Arc::clone(item), ends, values, nulls)?))
}
