//! Converts 96-bit times (Parquet's `INT96`) and intervals from their stored bytes. The library's own
//! conversion wraps times that its nanoseconds cannot hold, and drops the months of intervals.

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
const WIDTH: i32 = 12;
/// The Julian day of 1970-01-01: `INT96` counts Julian days.
const EPOCH: i64 = 2_440_588;
const NANOS_PER_DAY: i128 = 86_400_000_000_000;
const NANOS_PER_MILLI: i64 = 1_000_000;

/// The columns in the form in which they are passed on, from the form in which they are `stored` and the one
/// in which the `library` would pass them on. Intervals have months, unless the file states the Arrow type
/// that it was written from (`has_arrow`).
pub(super) fn meant(stored: &Fields, library: &Fields, has_arrow: bool) -> Fields {
    let both = stored.iter().zip(library);
    let field =
        |(stored, library): (&FieldRef, &FieldRef)| Arc::new(field(stored, library, has_arrow));
    both.map(field).collect()
}

fn field(stored: &Field, library: &Field, has_arrow: bool) -> Field {
    let data_type = meant_type(stored.data_type(), library.data_type(), has_arrow);
    library.clone().with_data_type(data_type)
}

fn meant_type(stored: &DataType, library: &DataType, has_arrow: bool) -> DataType {
    use DataType::*;
    let inner = |one: &Field, other: &Field| Arc::new(field(one, other, has_arrow));
    match (stored, library) {
        (FixedSizeBinary(WIDTH), Interval(_)) if !has_arrow => Interval(IntervalUnit::MonthDayNano),
        (Struct(one), Struct(other)) => Struct(meant(one, other, has_arrow)),
        (List(one), List(other)) => List(inner(one, other)),
        (LargeList(one), LargeList(other)) => LargeList(inner(one, other)),
        (FixedSizeList(one, _), FixedSizeList(other, length)) => {
            FixedSizeList(inner(one, other), *length)
        }
        (Map(one, _), Map(other, sorted)) => Map(inner(one, other), *sorted),
        _ => library.clone(),
    }
}

/// The type of a column, with microseconds instead of nanoseconds for 96-bit times. `stored` is the type in
/// which it is stored, and `meant` the one in which it is passed on.
pub(super) fn coarse(stored: &DataType, meant: &DataType) -> DataType {
    use DataType::*;
    let inner = |one: &Field, other: &Field| {
        let data_type = coarse(one.data_type(), other.data_type());
        Arc::new(other.clone().with_data_type(data_type))
    };
    match (stored, meant) {
        (FixedSizeBinary(WIDTH), Timestamp(TimeUnit::Nanosecond, None)) => {
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
        _ => meant.clone(),
    }
}

/// A file's columns in the form in which they are passed on, with microseconds where the table has them.
pub(super) fn as_in(stored: &Schema, meant: &SchemaRef, table: &Schema) -> SchemaRef {
    let both = stored.fields().iter().zip(meant.fields());
    let is_coarse = |name: &str, coarse: &DataType| {
        table.field_with_name(name).is_ok_and(|field| field.data_type() == coarse)
    };
    let field = |(stored, meant): (&Arc<Field>, &Arc<Field>)| {
        if stored.data_type() == meant.data_type() {
            return Arc::clone(meant);
        }
        let coarse = coarse(stored.data_type(), meant.data_type());
        match is_coarse(meant.name(), &coarse) {
            true => Arc::new(meant.as_ref().clone().with_data_type(coarse)),
            false => Arc::clone(meant),
        }
    };
    let fields: Vec<_> = both.map(field).collect();
    Arc::new(Schema::new_with_metadata(fields, meant.metadata().clone()))
}

/// Converts an array of stored values to this type. Fails if a value does not fit.
pub(super) fn converted(array: &ArrayRef, to: &DataType) -> Result<ArrayRef, StoredError> {
    within(array, to, None)
}

/// Like `converted`. `above` says which of the values that contain these are present. Values inside the
/// others are ignored.
fn within(
    array: &ArrayRef,
    to: &DataType,
    above: Option<&NullBuffer>,
) -> Result<ArrayRef, StoredError> {
    use DataType::*;
    if array.data_type() == to {
        return Ok(Arc::clone(array));
    }
    match (array.data_type(), to) {
        (FixedSizeBinary(WIDTH), Timestamp(..) | Interval(_)) => {
            let bytes = array.as_fixed_size_binary();
            values(bytes, to, NullBuffer::union(bytes.nulls(), above).as_ref())
        }
        (FixedSizeBinary(WIDTH), Dictionary(_, plain)) => {
            let array = within(array, plain, above)?;
            let options = CastOptions { safe: false, ..CastOptions::default() };
            Ok(cast_with_options(&array, to, &options)?)
        }
        (Struct(_), Struct(fields)) => structure(array.as_struct(), fields, above),
        (List(_), List(item)) => list(array.as_list::<i32>(), item),
        (LargeList(_), LargeList(item)) => list(array.as_list::<i64>(), item),
        (FixedSizeList(..), FixedSizeList(item, length)) => {
            let lists = array.as_fixed_size_list();
            let nulls = lists.nulls();
            let each = usize::try_from(*length).unwrap_or(0);
            let above = nulls.map(|nulls| nulls.expand(each));
            let items = within(lists.values(), item.data_type(), above.as_ref())?;
            let made =
                FixedSizeListArray::try_new(Arc::clone(item), *length, items, nulls.cloned());
            Ok(Arc::new(made?))
        }
        (Map(..), Map(entries, sorted)) => {
            let maps = array.as_map();
            let (offsets, from, to) = rebased(maps.offsets());
            let inner: ArrayRef = Arc::new(maps.entries().slice(from, to - from));
            let inner = within(&inner, entries.data_type(), None)?;
            let entries = Arc::clone(entries);
            let nulls = maps.nulls().cloned();
            let made =
                MapArray::try_new(entries, offsets, inner.as_struct().clone(), nulls, *sorted);
            Ok(Arc::new(made?))
        }
        (found, to) => Err(StoredError::Type { found: found.clone(), to: to.clone() }),
    }
}

fn structure(
    array: &StructArray,
    fields: &Fields,
    above: Option<&NullBuffer>,
) -> Result<ArrayRef, StoredError> {
    let nulls = array.nulls().cloned();
    let here = NullBuffer::union(nulls.as_ref(), above);
    let columns = array.columns().iter().zip(fields);
    let columns = columns.map(|(column, field)| within(column, field.data_type(), here.as_ref()));
    let columns = columns.collect::<Result<Vec<_>, _>>()?;
    let made = StructArray::try_new(fields.clone(), columns, nulls);
    Ok(Arc::new(made?))
}

fn list<O: OffsetSizeTrait>(
    lists: &GenericListArray<O>,
    item: &FieldRef,
) -> Result<ArrayRef, StoredError> {
    let (offsets, from, to) = rebased(lists.offsets());
    let items = within(&lists.values().slice(from, to - from), item.data_type(), None)?;
    let nulls = lists.nulls().cloned();
    let made = GenericListArray::try_new(Arc::clone(item), offsets, items, nulls);
    Ok(Arc::new(made?))
}

/// The offsets, shifted so that the first is zero, and where the items begin and end.
fn rebased<O: OffsetSizeTrait>(offsets: &OffsetBuffer<O>) -> (OffsetBuffer<O>, usize, usize) {
    let first = offsets.first();
    let last = offsets.last();
    (OffsetBuffer::from_lengths(offsets.lengths()), first.as_usize(), last.as_usize())
}

/// Converts the values. Ignores those that are null in `there`.
fn values(
    bytes: &FixedSizeBinaryArray,
    to: &DataType,
    there: Option<&NullBuffer>,
) -> Result<ArrayRef, StoredError> {
    use TimeUnit::*;
    Ok(match to {
        DataType::Timestamp(Second, zone) => {
            Arc::new(times::<TimestampSecondType>(bytes, there)?.with_timezone_opt(zone.clone()))
        }
        DataType::Timestamp(Millisecond, zone) => Arc::new(
            times::<TimestampMillisecondType>(bytes, there)?.with_timezone_opt(zone.clone()),
        ),
        DataType::Timestamp(Microsecond, zone) => Arc::new(
            times::<TimestampMicrosecondType>(bytes, there)?.with_timezone_opt(zone.clone()),
        ),
        DataType::Timestamp(Nanosecond, zone) => Arc::new(
            times::<TimestampNanosecondType>(bytes, there)?.with_timezone_opt(zone.clone()),
        ),
        DataType::Interval(IntervalUnit::YearMonth) => {
            let value = |months, days, millis| (days == 0 && millis == 0).then_some(months);
            Arc::new(intervals(bytes, there, value)?.collect::<IntervalYearMonthArray>())
        }
        DataType::Interval(IntervalUnit::DayTime) => {
            let value = |months, days, millis: i64| {
                Some(IntervalDayTime::new(days, i32::try_from(millis).ok()?))
                    .filter(|_| months == 0)
            };
            Arc::new(intervals(bytes, there, value)?.collect::<IntervalDayTimeArray>())
        }
        _ => {
            let value = |months, days, millis: i64| {
                Some(IntervalMonthDayNano::new(months, days, millis * NANOS_PER_MILLI))
            };
            Arc::new(intervals(bytes, there, value)?.collect::<IntervalMonthDayNanoArray>())
        }
    })
}

fn times<T: ArrowTimestampType>(
    bytes: &FixedSizeBinaryArray,
    there: Option<&NullBuffer>,
) -> Result<PrimitiveArray<T>, StoredError> {
    let nanos_per_unit = match T::UNIT {
        TimeUnit::Second => 1_000_000_000,
        TimeUnit::Millisecond => 1_000_000,
        TimeUnit::Microsecond => 1_000,
        TimeUnit::Nanosecond => 1,
    };
    let time = |at: usize| {
        if there.is_some_and(|there| there.is_null(at)) {
            return Ok(0);
        }
        let nanos = nanos(bytes.value(at));
        let found = i64::try_from(nanos / nanos_per_unit).ok();
        let found = found.filter(|_| nanos % nanos_per_unit == 0);
        found.ok_or(StoredError::Time { nanos, unit: T::UNIT })
    };
    let times = (0..bytes.len()).map(time).collect::<Result<Vec<i64>, _>>()?;
    Ok(PrimitiveArray::try_new(times.into(), bytes.nulls().cloned())?)
}

/// A stored time, in nanoseconds since 1970.
fn nanos(value: &[u8]) -> i128 {
    let (nanos, day) = value.split_first_chunk::<8>().unwrap_or((&[0; 8], &[]));
    let day = day.first_chunk::<4>().map_or(0, |day| i32::from_le_bytes(*day));
    i128::from(i64::from(day) - EPOCH) * NANOS_PER_DAY + i128::from(i64::from_le_bytes(*nanos))
}

/// Calls `value` with the months, days and milliseconds of each interval.
fn intervals<T>(
    bytes: &FixedSizeBinaryArray,
    there: Option<&NullBuffer>,
    value: impl Fn(i32, i32, i64) -> Option<T>,
) -> Result<impl Iterator<Item = Option<T>>, StoredError> {
    let interval = |at: usize| {
        if there.is_some_and(|there| there.is_null(at)) {
            return Ok(None);
        }
        let (parts, _) = bytes.value(at).as_chunks::<4>();
        let part = |at: usize| parts.get(at).map_or(0, |part| u32::from_le_bytes(*part));
        let months = part(0);
        let days = part(1);
        let millis = part(2);
        let found = i32::try_from(months).ok().zip(i32::try_from(days).ok());
        match found.and_then(|(months, days)| value(months, days, i64::from(millis))) {
            Some(found) => Ok(Some(found)),
            None => Err(StoredError::Interval { months, days, millis }),
        }
    };
    let all = (0..bytes.len()).map(interval).collect::<Result<Vec<_>, _>>()?;
    Ok(all.into_iter())
}
