//! The values of a table's columns, as Python prints them. Quotes are `style`'s affair.

use super::json::Value;
use super::layouts::{Nulls, Runs, Variants};
use super::numbers::{Cell, append, fill};
use super::times::Times;
use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Float16Array, LargeStringArray, StringArray,
    StringViewArray,
};
use arrow::datatypes::{
    DataType, Float16Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow::error::ArrowError;
use arrow::util::display::{ArrayFormatter, FormatOptions};

/// A column of one batch, its type looked at once.
pub(super) struct Column<'a> {
    values: Values<'a>,
    nulls: Nulls,
    kind: Kind,
}

/// What a column holds, as far as quotes and JSON tell it apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Digits, or `nan` or `inf`.
    Number,
    /// `True` or `False`.
    Boolean,
    /// Everything else.
    Text,
}

enum Values<'a> {
    I8(&'a [i8]),
    I16(&'a [i16]),
    I32(&'a [i32]),
    I64(&'a [i64]),
    U8(&'a [u8]),
    U16(&'a [u16]),
    U32(&'a [u32]),
    U64(&'a [u64]),
    F16(&'a Float16Array),
    F32(&'a [f32]),
    F64(&'a [f64]),
    Boolean(&'a BooleanArray),
    Text(&'a StringArray),
    LargeText(&'a LargeStringArray),
    TextView(&'a StringViewArray),
    Times(Times<'a>),
    /// The place of each row's value in a column of values.
    Dictionary(Vec<usize>, Box<Column<'a>>),
    Runs(Runs<'a>, Box<Column<'a>>),
    Union(Variants<'a, Column<'a>>),
    /// A list, map or structure, as JSON of so many bytes at most.
    Nested(Box<Value<'a>>, u64),
    /// Everything else, with a buffer for the value.
    Other(ArrayFormatter<'a>, String),
}

impl<'a> Column<'a> {
    /// `limit`: the writing of a list, map or structure stops once there are more bytes than this.
    ///
    /// Fails on types that cannot be printed.
    pub(super) fn new(array: &'a ArrayRef, limit: u64) -> Result<Self, ArrowError> {
        let mut kind = match array.data_type() {
            DataType::Boolean => Kind::Boolean,
            number if number.is_numeric() => Kind::Number,
            _ => Kind::Text,
        };
        let values = match array.data_type() {
            DataType::Int8 => Values::I8(array.as_primitive::<Int8Type>().values()),
            DataType::Int16 => Values::I16(array.as_primitive::<Int16Type>().values()),
            DataType::Int32 => Values::I32(array.as_primitive::<Int32Type>().values()),
            DataType::Int64 => Values::I64(array.as_primitive::<Int64Type>().values()),
            DataType::UInt8 => Values::U8(array.as_primitive::<UInt8Type>().values()),
            DataType::UInt16 => Values::U16(array.as_primitive::<UInt16Type>().values()),
            DataType::UInt32 => Values::U32(array.as_primitive::<UInt32Type>().values()),
            DataType::UInt64 => Values::U64(array.as_primitive::<UInt64Type>().values()),
            DataType::Float16 => Values::F16(array.as_primitive::<Float16Type>()),
            DataType::Float32 => Values::F32(array.as_primitive::<Float32Type>().values()),
            DataType::Float64 => Values::F64(array.as_primitive::<Float64Type>().values()),
            DataType::Boolean => Values::Boolean(array.as_boolean()),
            DataType::Utf8 => Values::Text(array.as_string::<i32>()),
            DataType::LargeUtf8 => Values::LargeText(array.as_string::<i64>()),
            DataType::Utf8View => Values::TextView(array.as_string_view()),
            DataType::Dictionary(..) if !array.as_any_dictionary().values().is_empty() => {
                let dictionary = array.as_any_dictionary();
                let values = Self::new(dictionary.values(), limit)?;
                kind = values.kind;
                Values::Dictionary(dictionary.normalized_keys(), Box::new(values))
            }
            DataType::RunEndEncoded(..) => {
                let runs = Runs::of(array)?;
                let values = Self::new(runs.values(), limit)?;
                kind = values.kind;
                Values::Runs(runs, Box::new(values))
            }
            DataType::Union(..) => {
                Values::Union(Variants::of(array.as_union(), |child| Self::new(child, limit))?)
            }
            // A dictionary without values has no shape either.
            kind if kind.is_nested() && !matches!(kind, DataType::Dictionary(..)) => {
                Values::Nested(Box::new(Value::new(array, limit)?), limit)
            }
            _ => match Times::of(array)? {
                Some(times) => Values::Times(times),
                None => {
                    let options = const { FormatOptions::new().with_display_error(false) };
                    Values::Other(ArrayFormatter::try_new(array.as_ref(), &options)?, String::new())
                }
            },
        };
        Ok(Self { values, nulls: Nulls::of(array), kind })
    }

    /// What it holds.
    #[inline]
    pub(super) fn kind(&self) -> Kind {
        self.kind
    }

    /// Whether the row has no value.
    #[inline]
    pub(super) fn is_null(&self, row: usize) -> bool {
        match &self.nulls {
            Nulls::Never => false,
            Nulls::Always => true,
            Nulls::Rows(nulls) => nulls.is_null(row),
            Nulls::OfValues => match &self.values {
                Values::Runs(runs, values) => values.is_null(runs.place(row)),
                Values::Union(variants) => {
                    variants.get(row).is_none_or(|(column, row)| column.is_null(row))
                }
                _ => false,
            },
        }
    }

    /// How many values were written as null that were numbers, though none that JSON has.
    pub(super) fn lost(&self) -> u64 {
        match &self.values {
            Values::Nested(value, _) => value.lost(),
            Values::Dictionary(_, column) | Values::Runs(_, column) => column.lost(),
            Values::Union(variants) => variants.all().map(Self::lost).sum(),
            _ => 0,
        }
    }

    /// Whether each row has a value, and [`numbers`](Self::numbers) can write it.
    pub(super) fn is_plain_number(&self) -> bool {
        matches!(self.nulls, Nulls::Never) && self.numbers(0, &mut [], b'\n')
    }

    /// Writes the values of the rows from `first` on, as many as there are cells, each with `end` behind it. False
    /// where it holds anything but integers and floats.
    pub(super) fn numbers(&self, first: usize, cells: &mut [Cell], end: u8) -> bool {
        match &self.values {
            Values::I8(values) => fill(&values[first..], cells, end),
            Values::I16(values) => fill(&values[first..], cells, end),
            Values::I32(values) => fill(&values[first..], cells, end),
            Values::I64(values) => fill(&values[first..], cells, end),
            Values::U8(values) => fill(&values[first..], cells, end),
            Values::U16(values) => fill(&values[first..], cells, end),
            Values::U32(values) => fill(&values[first..], cells, end),
            Values::U64(values) => fill(&values[first..], cells, end),
            Values::F32(values) => fill(&values[first..], cells, end),
            Values::F64(values) => fill(&values[first..], cells, end),
            _ => return false,
        }
        true
    }

    /// Appends the value of a row that has one. `row` is below the batch's number of rows.
    #[inline]
    pub(super) fn write(&mut self, row: usize, out: &mut Vec<u8>) -> Result<(), ArrowError> {
        match &mut self.values {
            Values::I8(values) => append(values[row], out),
            Values::I16(values) => append(values[row], out),
            Values::I32(values) => append(values[row], out),
            Values::I64(values) => append(values[row], out),
            Values::U8(values) => append(values[row], out),
            Values::U16(values) => append(values[row], out),
            Values::U32(values) => append(values[row], out),
            Values::U64(values) => append(values[row], out),
            Values::F16(values) => append(values.value(row).to_f32(), out),
            Values::F32(values) => append(values[row], out),
            Values::F64(values) => append(values[row], out),
            Values::Boolean(values) => {
                out.extend_from_slice(if values.value(row) { b"True" } else { b"False" });
            }
            Values::Text(values) => out.extend_from_slice(values.value(row).as_bytes()),
            Values::LargeText(values) => out.extend_from_slice(values.value(row).as_bytes()),
            Values::TextView(values) => out.extend_from_slice(values.value(row).as_bytes()),
            Values::Times(times) => return times.write(row, out),
            Values::Dictionary(keys, values) => return values.write(keys[row], out),
            Values::Runs(runs, values) => return values.write(runs.place(row), out),
            Values::Union(variants) => {
                if let Some((column, row)) = variants.get_mut(row) {
                    return column.write(row, out);
                }
            }
            Values::Nested(value, limit) => return value.write(row, out, *limit),
            Values::Other(formatter, field) => {
                field.clear();
                formatter.value(row).write(field)?;
                out.extend_from_slice(field.as_bytes());
            }
        }
        Ok(())
    }
}
