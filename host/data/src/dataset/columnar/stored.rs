//! Converts 96-bit times (Parquet's `INT96`) and intervals from their stored bytes. The `parquet`
//! crate's own conversion wraps times that its nanoseconds cannot hold, and drops the months of
//! intervals.

use crate::dataset::error::StoredError;
use arrow::array::types::{
    ArrowTimestampType, IntervalDayTime, IntervalMonthDayNano, TimestampMicrosecondType,
    TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType,
};
use arrow::array::{
    Array, ArrayRef, AsArray, FixedSizeBinaryArray, FixedSizeListArray, GenericListArray,
    IntervalDayTimeArray, IntervalMonthDayNanoArray, IntervalYearMonthArray, MapArray,
    OffsetSizeTrait, PrimitiveArray, StructArray,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{
    DataType, Field, FieldRef, Fields, IntervalUnit, Schema, SchemaRef, TimeUnit,
};
use std::sync::Arc;

/// The bytes of each value.
const VALUE_BYTES: i32 = 12;
/// The Julian day number of 1970-01-01: `INT96` counts Julian days.
const EPOCH_DAY: i64 = 2_440_588;
const NANOS_PER_DAY: i128 = 86_400_000_000_000;
const NANOS_PER_MILLI: i64 = 1_000_000;

/// The columns, with the types that we convert stored values to. `stored` are the columns with
/// plain bytes, and `library` are the columns as the `parquet` crate would convert them. Intervals
/// keep their months, unless the file states its Arrow schema (`has_arrow_schema`): then intervals
/// have the type in that schema.
pub(super) fn output_fields(stored: &Fields, library: &Fields, has_arrow_schema: bool) -> Fields {
    let both = stored.iter().zip(library);
    let field = |(stored, library): (&FieldRef, &FieldRef)| {
        Arc::new(output_field(stored, library, has_arrow_schema))
    };
    both.map(field).collect()
}

fn output_field(stored: &Field, library: &Field, has_arrow_schema: bool) -> Field {
    let data_type = output_type(stored.data_type(), library.data_type(), has_arrow_schema);
    library.clone().with_data_type(data_type)
}

fn output_type(stored: &DataType, library: &DataType, has_arrow_schema: bool) -> DataType {
    use DataType::*;
    let inner = |one: &Field, other: &Field| Arc::new(output_field(one, other, has_arrow_schema));
    match (stored, library) {
        (FixedSizeBinary(VALUE_BYTES), Interval(_)) if !has_arrow_schema => {
            Interval(IntervalUnit::MonthDayNano)
        }
        (Struct(one), Struct(other)) => Struct(output_fields(one, other, has_arrow_schema)),
        (List(one), List(other)) => List(inner(one, other)),
        (LargeList(one), LargeList(other)) => LargeList(inner(one, other)),
        (FixedSizeList(one, _), FixedSizeList(other, length)) => {
            FixedSizeList(inner(one, other), *length)
        }
        (Map(one, _), Map(other, sorted)) => Map(inner(one, other), *sorted),
        _ => library.clone(),
    }
}

/// The type `output`, with microseconds instead of nanoseconds for 96-bit times. `stored` is the
/// type in which a column is stored, and `output` is the type that it is converted to.
pub(super) fn in_microseconds(stored: &DataType, output: &DataType) -> DataType {
    use DataType::*;
    let inner = |one: &Field, other: &Field| {
        let data_type = in_microseconds(one.data_type(), other.data_type());
        Arc::new(other.clone().with_data_type(data_type))
    };
    match (stored, output) {
        (FixedSizeBinary(VALUE_BYTES), Timestamp(TimeUnit::Nanosecond, None)) => {
            Timestamp(TimeUnit::Microsecond, None)
        }
        (Struct(one), Struct(other)) => {
            Struct(one.iter().zip(other).map(|(one, other)| inner(one, other)).collect())
        }
        (List(one), List(other)) => List(inner(one, other)),
        (LargeList(one), LargeList(other)) => LargeList(inner(one, other)),
        (FixedSizeList(one, _), FixedSizeList(other, length)) => {
            FixedSizeList(inner(one, other), *length)
        }
        (Map(one, _), Map(other, sorted)) => Map(inner(one, other), *sorted),
        _ => output.clone(),
    }
}

/// The schema `output`, with microseconds where the table has microseconds. `stored` is the schema
/// in which a file's columns are stored, and `output` is the schema that they are converted to.
pub(super) fn schema_in_table(stored: &Schema, output: &SchemaRef, table: &Schema) -> SchemaRef {
    let both = stored.fields().iter().zip(output.fields());
    let has_type = |name: &str, data_type: &DataType| {
        table.field_with_name(name).is_ok_and(|field| field.data_type() == data_type)
    };
    let field = |(stored, output): (&Arc<Field>, &Arc<Field>)| {
        if stored.data_type() == output.data_type() {
            return Arc::clone(output);
        }
        let coarse = in_microseconds(stored.data_type(), output.data_type());
        match has_type(output.name(), &coarse) {
            true => Arc::new(output.as_ref().clone().with_data_type(coarse)),
            false => Arc::clone(output),
        }
    };
    let fields: Vec<_> = both.map(field).collect();
    Arc::new(Schema::new_with_metadata(fields, output.metadata().clone()))
}

/// Converts an array of stored values to this type. Fails if a value does not fit.
pub(super) fn converted(array: &ArrayRef, to: &DataType) -> Result<ArrayRef, StoredError> {
    converted_within(array, to, None)
}

/// Like [`converted`], for values inside other values. `parents` says which of the other values are null.
/// Values inside a null are ignored.
fn converted_within(
    array: &ArrayRef,
    to: &DataType,
    parents: Option<&NullBuffer>,
) -> Result<ArrayRef, StoredError> {
    use DataType::*;
    if array.data_type() == to {
        return Ok(Arc::clone(array));
    }
    match (array.data_type(), to) {
        (FixedSizeBinary(VALUE_BYTES), Timestamp(..) | Interval(_)) => {
            let bytes = array.as_fixed_size_binary();
            values(bytes, to, NullBuffer::union(bytes.nulls(), parents).as_ref())
        }
        (FixedSizeBinary(VALUE_BYTES), Dictionary(_, plain)) => {
            let array = converted_within(array, plain, parents)?;
            let options = CastOptions { safe: false, ..CastOptions::default() };
            Ok(cast_with_options(&array, to, &options)?)
        }
        (Struct(_), Struct(fields)) => structure(array.as_struct(), fields, parents),
        (List(_), List(item)) => list(array.as_list::<i32>(), item),
        (LargeList(_), LargeList(item)) => list(array.as_list::<i64>(), item),
        (FixedSizeList(..), FixedSizeList(item, length)) => {
            let lists = array.as_fixed_size_list();
            let nulls = lists.nulls();
            let items_per_list = usize::try_from(*length).unwrap_or(0);
            let parents = nulls.map(|nulls| nulls.expand(items_per_list));
            let items = converted_within(lists.values(), item.data_type(), parents.as_ref())?;
            let lists =
                FixedSizeListArray::try_new(Arc::clone(item), *length, items, nulls.cloned());
            Ok(Arc::new(lists?))
        }
        (Map(..), Map(entries, sorted)) => {
            let maps = array.as_map();
            let (offsets, from, to) = rebased(maps.offsets());
            let inner: ArrayRef = Arc::new(maps.entries().slice(from, to - from));
            let inner = converted_within(&inner, entries.data_type(), None)?;
            let entries = Arc::clone(entries);
            let nulls = maps.nulls().cloned();
            let maps =
                MapArray::try_new(entries, offsets, inner.as_struct().clone(), nulls, *sorted);
            Ok(Arc::new(maps?))
        }
        (found, to) => Err(StoredError::Type { found: found.clone(), to: to.clone() }),
    }
}

fn structure(
    array: &StructArray,
    fields: &Fields,
    parents: Option<&NullBuffer>,
) -> Result<ArrayRef, StoredError> {
    let nulls = array.nulls().cloned();
    let all_nulls = NullBuffer::union(nulls.as_ref(), parents);
    let columns = array.columns().iter().zip(fields);
    let columns = columns
        .map(|(column, field)| converted_within(column, field.data_type(), all_nulls.as_ref()));
    let columns = columns.collect::<Result<Vec<_>, _>>()?;
    let structs = StructArray::try_new(fields.clone(), columns, nulls);
    Ok(Arc::new(structs?))
}

fn list<O: OffsetSizeTrait>(
    lists: &GenericListArray<O>,
    item: &FieldRef,
) -> Result<ArrayRef, StoredError> {
    let (offsets, from, to) = rebased(lists.offsets());
    let items = converted_within(&lists.values().slice(from, to - from), item.data_type(), None)?;
    let nulls = lists.nulls().cloned();
    let lists = GenericListArray::try_new(Arc::clone(item), offsets, items, nulls);
    Ok(Arc::new(lists?))
}

/// The offsets, shifted so that the first is zero, and where the items begin and end.
fn rebased<O: OffsetSizeTrait>(offsets: &OffsetBuffer<O>) -> (OffsetBuffer<O>, usize, usize) {
    let first = offsets.first();
    let last = offsets.last();
    (OffsetBuffer::from_lengths(offsets.lengths()), first.as_usize(), last.as_usize())
}

/// Converts the values. Ignores values that are null in `nulls`.
fn values(
    bytes: &FixedSizeBinaryArray,
    to: &DataType,
    nulls: Option<&NullBuffer>,
) -> Result<ArrayRef, StoredError> {
    use TimeUnit::*;
    Ok(match to {
        DataType::Timestamp(Second, zone) => {
            Arc::new(times::<TimestampSecondType>(bytes, nulls)?.with_timezone_opt(zone.clone()))
        }
        DataType::Timestamp(Millisecond, zone) => Arc::new(
            times::<TimestampMillisecondType>(bytes, nulls)?.with_timezone_opt(zone.clone()),
        ),
        DataType::Timestamp(Microsecond, zone) => Arc::new(
            times::<TimestampMicrosecondType>(bytes, nulls)?.with_timezone_opt(zone.clone()),
        ),
        DataType::Timestamp(Nanosecond, zone) => Arc::new(
            times::<TimestampNanosecondType>(bytes, nulls)?.with_timezone_opt(zone.clone()),
        ),
        DataType::Interval(IntervalUnit::YearMonth) => {
            let value = |months, days, millis| (days == 0 && millis == 0).then_some(months);
            Arc::new(intervals(bytes, nulls, value)?.collect::<IntervalYearMonthArray>())
        }
        DataType::Interval(IntervalUnit::DayTime) => {
            let value = |months, days, millis: i64| {
                Some(IntervalDayTime::new(days, i32::try_from(millis).ok()?))
                    .filter(|_| months == 0)
            };
            Arc::new(intervals(bytes, nulls, value)?.collect::<IntervalDayTimeArray>())
        }
        _ => {
            let value = |months, days, millis: i64| {
                Some(IntervalMonthDayNano::new(months, days, millis * NANOS_PER_MILLI))
            };
            Arc::new(intervals(bytes, nulls, value)?.collect::<IntervalMonthDayNanoArray>())
        }
    })
}

fn times<T: ArrowTimestampType>(
    bytes: &FixedSizeBinaryArray,
    nulls: Option<&NullBuffer>,
) -> Result<PrimitiveArray<T>, StoredError> {
    let nanos_per_unit = match T::UNIT {
        TimeUnit::Second => 1_000_000_000,
        TimeUnit::Millisecond => 1_000_000,
        TimeUnit::Microsecond => 1_000,
        TimeUnit::Nanosecond => 1,
    };
    let time = |row: usize| {
        if nulls.is_some_and(|nulls| nulls.is_null(row)) {
            return Ok(0);
        }
        let nanos = nanos(bytes.value(row));
        let time = i64::try_from(nanos / nanos_per_unit).ok();
        let time = time.filter(|_| nanos % nanos_per_unit == 0);
        time.ok_or(StoredError::Time { nanos, unit: T::UNIT })
    };
    let times = (0..bytes.len()).map(time).collect::<Result<Vec<i64>, _>>()?;
    Ok(PrimitiveArray::try_new(times.into(), bytes.nulls().cloned())?)
}

/// A stored time, in nanoseconds since 1970. It has the nanoseconds of the day in 8 bytes, then the day in 4.
fn nanos(value: &[u8]) -> i128 {
    let (nanos, day) = value.split_first_chunk::<8>().unwrap_or((&[0; 8], &[]));
    let day = day.first_chunk::<4>().map_or(0, |day| i32::from_le_bytes(*day));
    i128::from(i64::from(day) - EPOCH_DAY) * NANOS_PER_DAY + i128::from(i64::from_le_bytes(*nanos))
}

/// Calls `value` with the months, days and milliseconds of each interval. Fails if `value` returns
/// `None`.
fn intervals<T>(
    bytes: &FixedSizeBinaryArray,
    nulls: Option<&NullBuffer>,
    value: impl Fn(i32, i32, i64) -> Option<T>,
) -> Result<impl Iterator<Item = Option<T>>, StoredError> {
    let interval = |row: usize| {
        if nulls.is_some_and(|nulls| nulls.is_null(row)) {
            return Ok(None);
        }
        let (parts, _) = bytes.value(row).as_chunks::<4>();
        let part = |index: usize| parts.get(index).map_or(0, |part| u32::from_le_bytes(*part));
        let months = part(0);
        let days = part(1);
        let millis = part(2);
        let signed = i32::try_from(months).ok().zip(i32::try_from(days).ok());
        match signed.and_then(|(months, days)| value(months, days, i64::from(millis))) {
            Some(interval) => Ok(Some(interval)),
            None => Err(StoredError::Interval { months, days, millis }),
        }
    };
    let intervals = (0..bytes.len()).map(interval).collect::<Result<Vec<_>, _>>()?;
    Ok(intervals.into_iter())
}
