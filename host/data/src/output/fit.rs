//! Converts values to the type with which they are written. The conversion never changes a value. A value
//! that the type cannot hold is an error, except in a list or struct that is null.

use super::layouts::RunEndColumn;
use super::times::DAY_MILLIS;
use crate::model::OutputKind;
use arrow::array::{
    AnyDictionaryArray, Array, ArrayRef, AsArray, Date64Array, FixedSizeListArray,
    GenericListArray, GenericListViewArray, MapArray, NullArray, OffsetSizeTrait, StructArray,
    UInt64Array, make_array,
};
use arrow::buffer::{NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow::compute::{CastOptions, cast_with_options, take};
use arrow::datatypes::{
    ArrowNativeType, DataType, Date32Type, Decimal32Type, Decimal64Type, Decimal128Type,
    Decimal256Type, DecimalType, FieldRef, Fields, IntervalDayTimeType, IntervalUnit,
    IntervalYearMonthType, Time32MillisecondType, Time32SecondType, TimeUnit,
    TimestampMillisecondType, TimestampSecondType,
};
use arrow::error::ArrowError;
use std::sync::Arc;

/// The values, converted to the type that `written_type` chose for them.
pub(super) fn converted(
    array: &ArrayRef,
    to: &DataType,
    output: OutputKind,
) -> Result<ArrayRef, ArrowError> {
    if array.data_type() == to && !(output == OutputKind::Parquet && needs_check(to)) {
        return Ok(Arc::clone(array));
    }
    let child = |array: &ArrayRef, to: &DataType| converted(array, to, output);
    match (array.data_type(), to) {
        (DataType::RunEndEncoded(..), _) => {
            let runs = RunEndColumn::from_array(array)?;
            let indices = (0..array.len()).map(|row| runs.run_of(row) as u64);
            child(&take(runs.values(), &UInt64Array::from_iter_values(indices), None)?, to)
        }
        (DataType::Dictionary(..), DataType::Null) => Ok(Arc::new(NullArray::new(array.len()))),
        (DataType::Dictionary(..), DataType::Dictionary(_, values)) => {
            let dictionary = array.as_any_dictionary();
            let values = match child(dictionary.values(), values) {
                Ok(values) => values,
                // Perhaps no row uses the value that does not fit.
                Err(_) => child(&used_values(dictionary)?, values)?,
            };
            let converted_values = dictionary.with_values(values);
            strictly(&converted_values, to)
        }
        (DataType::Dictionary(..), _) => {
            let dictionary = array.as_any_dictionary();
            child(&take(dictionary.values(), dictionary.keys(), None)?, to)
        }
        (DataType::ListView(_), DataType::List(item)) => {
            let list = array.as_list_view::<i32>();
            list_of_views(list, item, &child)
        }
        (DataType::LargeListView(_), DataType::LargeList(item)) => {
            let list = array.as_list_view::<i64>();
            list_of_views(list, item, &child)
        }
        (DataType::List(_), DataType::List(item)) => list(array.as_list::<i32>(), item, &child),
        (DataType::LargeList(_), DataType::LargeList(item)) => {
            list(array.as_list::<i64>(), item, &child)
        }
        (DataType::FixedSizeList(..), DataType::FixedSizeList(item, size)) => {
            fixed_list(array.as_fixed_size_list(), item, *size, &child)
        }
        (DataType::Map(..), DataType::Map(entries, sorted)) => {
            map(array.as_map(), entries, *sorted, &child)
        }
        (DataType::Struct(_), DataType::Struct(fields)) => {
            structure(array.as_struct(), fields, &child)
                .map(|structs| Arc::new(structs) as ArrayRef)
        }
        (from, to) => plain(array, from, to),
    }
}

/// The values of a dictionary, with null for each value that no row uses.
fn used_values(dictionary: &dyn AnyDictionaryArray) -> Result<ArrayRef, ArrowError> {
    let values = dictionary.values();
    if values.is_empty() {
        return Ok(Arc::clone(values));
    }
    let mut is_used = vec![false; values.len()];
    for (row, key) in dictionary.normalized_keys().into_iter().enumerate() {
        if dictionary.keys().is_valid(row) {
            is_used[key] = true;
        }
    }
    let indices = is_used.into_iter().enumerate();
    let indices = indices.map(|(index, is_used)| is_used.then_some(index as u64));
    take(values, &UInt64Array::from_iter(indices), None)
}

/// Whether values of the type must be checked, because Parquet cannot hold all of them.
pub(super) fn needs_check(kind: &DataType) -> bool {
    match kind {
        DataType::Decimal32(..)
        | DataType::Decimal64(..)
        | DataType::Decimal128(..)
        | DataType::Decimal256(..)
        | DataType::Interval(_) => true,
        DataType::Dictionary(_, values) => needs_check(values),
        DataType::Struct(fields) => fields.iter().any(|field| needs_check(field.data_type())),
        DataType::List(field)
        | DataType::LargeList(field)
        | DataType::FixedSizeList(field, _)
        | DataType::Map(field, _) => needs_check(field.data_type()),
        _ => false,
    }
}

/// Converts the values within a list, map or struct.
type ConvertChild<'c> = dyn Fn(&ArrayRef, &DataType) -> Result<ArrayRef, ArrowError> + 'c;

/// The values within a list or struct, with null wherever the list or struct is null (`outer_nulls`). What is
/// stored inside a null list or struct does not count as a value.
fn with_outer_nulls(
    values: &ArrayRef,
    outer_nulls: Option<&NullBuffer>,
) -> Result<ArrayRef, ArrowError> {
    let Some(outer_nulls) = outer_nulls.filter(|nulls| nulls.null_count() > 0) else {
        return Ok(Arc::clone(values));
    };
    let has_own_nulls = !matches!(
        values.data_type(),
        DataType::Null | DataType::RunEndEncoded(..) | DataType::Union(..)
    );
    if !has_own_nulls {
        // Arrays of these types have no null buffer, so copy the values.
        let indices = (0..values.len()).map(|row| outer_nulls.is_valid(row).then_some(row as u64));
        return take(values, &indices.collect::<UInt64Array>(), None);
    }
    let nulls = NullBuffer::union(values.nulls(), Some(outer_nulls));
    Ok(make_array(values.to_data().into_builder().nulls(nulls).build()?))
}

fn list<O: OffsetSizeTrait>(
    list: &GenericListArray<O>,
    item: &FieldRef,
    child: &ConvertChild<'_>,
) -> Result<ArrayRef, ArrowError> {
    let offsets = list.value_offsets();
    let hides_values = |row: usize| list.is_null(row) && offsets[row] != offsets[row + 1];
    if list.null_count() > 0 && (0..list.len()).any(hides_values) {
        // `take` makes an empty list of each list that is null.
        let rows = UInt64Array::from_iter_values(0..list.len() as u64);
        let without_hidden = take(list, &rows, None)?;
        return self::list(without_hidden.as_list::<O>(), item, child);
    }
    let first = offsets[0];
    let last = offsets[list.len()];
    let values = list.values().slice(first.as_usize(), (last - first).as_usize());
    let values = child(&values, item.data_type())?;
    let offsets: ScalarBuffer<O> = offsets.iter().map(|offset| *offset - first).collect();
    let offsets = OffsetBuffer::new(offsets);
    let nulls = list.nulls().cloned();
    Ok(Arc::new(GenericListArray::try_new(Arc::clone(item), offsets, values, nulls)?))
}

fn fixed_list(
    list: &FixedSizeListArray,
    item: &FieldRef,
    size: i32,
    child: &ConvertChild<'_>,
) -> Result<ArrayRef, ArrowError> {
    let width = usize::try_from(size).unwrap_or(0);
    let outer_nulls = list.nulls().map(|nulls| nulls.expand(width));
    let values = child(&with_outer_nulls(list.values(), outer_nulls.as_ref())?, item.data_type())?;
    let nulls = list.nulls().cloned();
    let rows = list.len();
    let item = Arc::clone(item);
    Ok(Arc::new(FixedSizeListArray::try_new_with_length(item, size, values, nulls, rows)?))
}

fn list_of_views<O: OffsetSizeTrait>(
    views: &GenericListViewArray<O>,
    item: &FieldRef,
    child: &ConvertChild<'_>,
) -> Result<ArrayRef, ArrowError> {
    let mut indices = Vec::new();
    let mut offsets = vec![O::zero()];
    for row in 0..views.len() {
        if views.is_valid(row) {
            let from = views.value_offsets()[row];
            let count = views.value_sizes()[row];
            indices.extend(from.as_usize() as u64..(from.as_usize() + count.as_usize()) as u64);
        }
        offsets.push(O::from_usize(indices.len()).ok_or_else(|| {
            ArrowError::InvalidArgumentError("its lists hold too many values together".to_owned())
        })?);
    }
    let values =
        child(&take(views.values(), &UInt64Array::from(indices), None)?, item.data_type())?;
    let offsets = OffsetBuffer::new(ScalarBuffer::from(offsets));
    let nulls = views.nulls().cloned();
    Ok(Arc::new(GenericListArray::try_new(Arc::clone(item), offsets, values, nulls)?))
}

fn map(
    map: &MapArray,
    entries: &FieldRef,
    sorted: bool,
    child: &ConvertChild<'_>,
) -> Result<ArrayRef, ArrowError> {
    let DataType::Struct(fields) = entries.data_type() else {
        return Err(ArrowError::InvalidArgumentError("a map has no entries".to_owned()));
    };
    let offsets = map.value_offsets();
    let hides_values = |row: usize| map.is_null(row) && offsets[row] != offsets[row + 1];
    if map.null_count() > 0 && (0..map.len()).any(hides_values) {
        let rows = UInt64Array::from_iter_values(0..map.len() as u64);
        let without_hidden = take(map, &rows, None)?;
        return self::map(without_hidden.as_map(), entries, sorted, child);
    }
    let first = offsets[0];
    let last = offsets[map.len()];
    let pairs = map.entries().slice(first.as_usize(), (last - first).as_usize());
    let pairs = structure(&pairs, fields, child)?;
    let offsets: ScalarBuffer<i32> = offsets.iter().map(|offset| *offset - first).collect();
    let offsets = OffsetBuffer::new(offsets);
    let map = MapArray::try_new(Arc::clone(entries), offsets, pairs, map.nulls().cloned(), sorted)?;
    Ok(Arc::new(map))
}

fn structure(
    array: &StructArray,
    fields: &Fields,
    child: &ConvertChild<'_>,
) -> Result<StructArray, ArrowError> {
    let columns =
        array.columns().iter().zip(fields).map(|(column, field)| {
            child(&with_outer_nulls(column, array.nulls())?, field.data_type())
        });
    let columns = columns.collect::<Result<Vec<_>, _>>()?;
    let nulls = array.nulls().cloned();
    StructArray::try_new_with_length(fields.clone(), columns, nulls, array.len())
}

/// Converts values that do not contain other values.
fn plain(array: &ArrayRef, from: &DataType, to: &DataType) -> Result<ArrayRef, ArrowError> {
    match (from, to) {
        (DataType::Date64, DataType::Date32) => return days(array.as_primitive()),
        (DataType::Timestamp(TimeUnit::Second, _), DataType::Timestamp(_, zone)) => {
            let times = array.as_primitive::<TimestampSecondType>();
            let times = times.try_unary::<_, TimestampMillisecondType, _>(|value| {
                value.checked_mul(1000).ok_or_else(|| {
                    unfit(format!(
                        "{value} s is out of range in milliseconds, the unit of this file"
                    ))
                })
            });
            return Ok(Arc::new(times?.with_timezone_opt(zone.clone())));
        }
        (DataType::Time32(TimeUnit::Second), DataType::Time32(_)) => {
            let times = array.as_primitive::<Time32SecondType>();
            let times = times.try_unary::<_, Time32MillisecondType, _>(|value| {
                let is_time_of_day = (0..86_400).contains(&value);
                let millis = is_time_of_day.then_some(value).map(|value| value * 1000);
                millis.ok_or_else(|| unfit(format!("{value} s is not a time of day")))
            });
            return Ok(Arc::new(times?));
        }
        (DataType::Decimal32(digits, _), _) => check_digits::<Decimal32Type>(array, *digits)?,
        (DataType::Decimal64(digits, _), _) => check_digits::<Decimal64Type>(array, *digits)?,
        (DataType::Decimal128(digits, _), _) => check_digits::<Decimal128Type>(array, *digits)?,
        (DataType::Decimal256(digits, _), _) => check_digits::<Decimal256Type>(array, *digits)?,
        (DataType::Interval(_), _) => check_sign(array)?,
        _ => {}
    }
    strictly(array, to)
}

fn unfit(why: String) -> ArrowError {
    ArrowError::InvalidArgumentError(why)
}

fn days(dates: &Date64Array) -> Result<ArrayRef, ArrowError> {
    let days = dates.try_unary::<_, Date32Type, _>(|value| {
        if value % DAY_MILLIS != 0 {
            return Err(unfit(format!(
                "{value} ms is not the beginning of a day, and a date in this file is a day"
            )));
        }
        let day = i32::try_from(value / DAY_MILLIS);
        day.map_err(|_| unfit(format!("{value} ms is out of range for a date in this file")))
    });
    Ok(Arc::new(days?))
}

/// Checks that no interval is negative: intervals in a Parquet file are unsigned.
fn check_sign(array: &ArrayRef) -> Result<(), ArrowError> {
    let is_negative = match array.data_type() {
        DataType::Interval(IntervalUnit::YearMonth) => {
            let months = array.as_primitive::<IntervalYearMonthType>();
            months.iter().flatten().any(|months| months < 0)
        }
        DataType::Interval(IntervalUnit::DayTime) => {
            let spans = array.as_primitive::<IntervalDayTimeType>();
            spans.iter().flatten().any(|span| span.days < 0 || span.milliseconds < 0)
        }
        _ => false,
    };
    if is_negative {
        Err(unfit("intervals in this file are not negative".to_owned()))
    } else {
        Ok(())
    }
}

/// Checks that no value has more digits than its type allows: a Parquet file has no room for more.
fn check_digits<T: DecimalType>(array: &ArrayRef, precision: u8) -> Result<(), ArrowError> {
    let values = array.as_primitive::<T>();
    let fits = |value| T::is_valid_decimal_precision(value, precision);
    match values.iter().flatten().find(|value| !fits(*value)) {
        None => Ok(()),
        Some(_) => Err(ArrowError::InvalidArgumentError(format!(
            "a decimal of this type has {precision} digits, and this one has more"
        ))),
    }
}

/// Arrow's own conversion, set to fail instead of turning values into nulls.
fn strictly(array: &ArrayRef, to: &DataType) -> Result<ArrayRef, ArrowError> {
    if array.data_type() == to {
        return Ok(Arc::clone(array));
    }
    cast_with_options(array, to, &CastOptions { safe: false, ..CastOptions::default() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::columns::fit;
    use arrow::array::{DictionaryArray, Int8Array, RecordBatch, TimestampSecondArray};
    use arrow::datatypes::{Field, Int8Type, Schema};

    #[test]
    fn only_used_dictionary_values_must_fit() {
        let fitted = |keys: Vec<Option<i8>>| {
            let values = Arc::new(TimestampSecondArray::from(vec![5, i64::MAX]));
            let keys = Int8Array::from(keys);
            let column = DictionaryArray::<Int8Type>::try_new(keys, values).unwrap();
            let batch = RecordBatch::try_from_iter([("d", Arc::new(column) as ArrayRef)]).unwrap();
            let millis = DataType::Timestamp(TimeUnit::Millisecond, None);
            let kind = DataType::Dictionary(Box::new(DataType::Int8), Box::new(millis));
            let schema = Arc::new(Schema::new(vec![Field::new("d", kind, true)]));
            fit(&batch, &schema, OutputKind::Parquet, 0)
        };
        let batch = fitted(vec![Some(0), None, Some(0)]).unwrap();
        let column = batch.column(0).as_dictionary::<Int8Type>();
        let values = column.values().as_primitive::<TimestampMillisecondType>();
        assert_eq!((values.value(0), column.keys().null_count()), (5000, 1));
        let named = |keys| {
            let error = fitted(keys).unwrap_err().to_string();
            let row = error.find("row ").map(|at| error[at..].to_owned());
            row.unwrap_or(error).chars().take(5).collect::<String>()
        };
        assert_eq!(named(vec![Some(1), Some(0)]), "row 0");
        assert_eq!(named(vec![Some(0), None, Some(1)]), "row 2");
    }
}
