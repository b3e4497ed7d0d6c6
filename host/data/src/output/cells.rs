//! Formats the values of a table's columns: single values as Python prints them, lists, maps and structs as
//! JSON, and whole rows as JSON lines. Quotes are added by `style`.

use super::json::text;
use super::layouts::{ListEnds, Nulls, RunEndColumn, UnionColumns};
use super::numbers::{NumberCell, append, fill};
use super::style::CellStyle;
use super::times::TimeColumn;
use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Float16Array, LargeStringArray, StringArray,
    StringViewArray,
};
use arrow::datatypes::{
    DataType, FieldRef, Float16Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type,
    Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow::error::ArrowError;
use arrow::util::display::{ArrayFormatter, FormatOptions};

/// A column of one batch. Its type is inspected only once.
pub(super) struct CellColumn<'a> {
    values: CellValues<'a>,
    nulls: Nulls,
    kind: CellStyle,
}

enum CellValues<'a> {
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
    Times(TimeColumn<'a>),
    /// The index of each row's value in the column of values.
    Dictionary(Vec<usize>, Box<CellColumn<'a>>),
    Runs(RunEndColumn<'a>, Box<CellColumn<'a>>),
    Union(UnionColumns<'a, CellColumn<'a>>),
    /// A list, map or struct, written as JSON of at most this many bytes.
    Nested(Box<CellValue<'a>>, u64),
    /// All other types, with a buffer for the value.
    Other(ArrayFormatter<'a>, String),
}

impl<'a> CellColumn<'a> {
    /// `limit` stops the writing of a list, map or struct once there are more bytes than this.
    ///
    /// Fails for types that cannot be printed.
    pub(super) fn new(array: &'a ArrayRef, limit: u64) -> Result<Self, ArrowError> {
        let mut kind = match array.data_type() {
            DataType::Boolean => CellStyle::Boolean,
            number if number.is_numeric() => CellStyle::Number,
            _ => CellStyle::Text,
        };
        let values = match array.data_type() {
            DataType::Int8 => CellValues::I8(array.as_primitive::<Int8Type>().values()),
            DataType::Int16 => CellValues::I16(array.as_primitive::<Int16Type>().values()),
            DataType::Int32 => CellValues::I32(array.as_primitive::<Int32Type>().values()),
            DataType::Int64 => CellValues::I64(array.as_primitive::<Int64Type>().values()),
            DataType::UInt8 => CellValues::U8(array.as_primitive::<UInt8Type>().values()),
            DataType::UInt16 => CellValues::U16(array.as_primitive::<UInt16Type>().values()),
            DataType::UInt32 => CellValues::U32(array.as_primitive::<UInt32Type>().values()),
            DataType::UInt64 => CellValues::U64(array.as_primitive::<UInt64Type>().values()),
            DataType::Float16 => CellValues::F16(array.as_primitive::<Float16Type>()),
            DataType::Float32 => CellValues::F32(array.as_primitive::<Float32Type>().values()),
            DataType::Float64 => CellValues::F64(array.as_primitive::<Float64Type>().values()),
            DataType::Boolean => CellValues::Boolean(array.as_boolean()),
            DataType::Utf8 => CellValues::Text(array.as_string::<i32>()),
            DataType::LargeUtf8 => CellValues::LargeText(array.as_string::<i64>()),
            DataType::Utf8View => CellValues::TextView(array.as_string_view()),
            DataType::Dictionary(..) if !array.as_any_dictionary().values().is_empty() => {
                let dictionary = array.as_any_dictionary();
                let values = Self::new(dictionary.values(), limit)?;
                kind = values.kind;
                CellValues::Dictionary(dictionary.normalized_keys(), Box::new(values))
            }
            DataType::RunEndEncoded(..) => {
                let runs = RunEndColumn::of(array)?;
                let values = Self::new(runs.values(), limit)?;
                kind = values.kind;
                CellValues::Runs(runs, Box::new(values))
            }
            DataType::Union(..) => {
                CellValues::Union(UnionColumns::of(array.as_union(), |child| {
                    Self::new(child, limit)
                })?)
            }
            // A dictionary without values has no nested shape either.
            kind if kind.is_nested() && !matches!(kind, DataType::Dictionary(..)) => {
                CellValues::Nested(Box::new(CellValue::new(array, limit)?), limit)
            }
            _ => match TimeColumn::of(array)? {
                Some(times) => CellValues::Times(times),
                None => {
                    let options = const { FormatOptions::new().with_display_error(false) };
                    CellValues::Other(
                        ArrayFormatter::try_new(array.as_ref(), &options)?,
                        String::new(),
                    )
                }
            },
        };
        Ok(Self { values, nulls: Nulls::of(array), kind })
    }

    /// The kind of its values.
    #[inline]
    pub(super) fn kind(&self) -> CellStyle {
        self.kind
    }

    /// Whether the row is null.
    #[inline]
    pub(super) fn is_null(&self, row: usize) -> bool {
        match &self.nulls {
            Nulls::Never => false,
            Nulls::Always => true,
            Nulls::Rows(nulls) => nulls.is_null(row),
            Nulls::OfValues => match &self.values {
                CellValues::Runs(runs, values) => values.is_null(runs.place(row)),
                CellValues::Union(variants) => {
                    variants.get(row).is_none_or(|(column, row)| column.is_null(row))
                }
                _ => false,
            },
        }
    }

    /// How many numbers were written as null, because JSON cannot represent them.
    pub(super) fn lost(&self) -> u64 {
        match &self.values {
            CellValues::Nested(value, _) => value.lost(),
            CellValues::Dictionary(_, column) | CellValues::Runs(_, column) => column.lost(),
            CellValues::Union(variants) => variants.all().map(Self::lost).sum(),
            _ => 0,
        }
    }

    /// Whether no row is null, and [`numbers`](Self::numbers) can write the values.
    pub(super) fn is_plain_number(&self) -> bool {
        matches!(self.nulls, Nulls::Never) && self.numbers(0, &mut [], b'\n')
    }

    /// Writes the values of the rows from `first` on into the cells, each followed by `end`. Returns `false`
    /// if the column holds anything but integers and floats.
    pub(super) fn numbers(&self, first: usize, cells: &mut [NumberCell], end: u8) -> bool {
        match &self.values {
            CellValues::I8(values) => fill(&values[first..], cells, end),
            CellValues::I16(values) => fill(&values[first..], cells, end),
            CellValues::I32(values) => fill(&values[first..], cells, end),
            CellValues::I64(values) => fill(&values[first..], cells, end),
            CellValues::U8(values) => fill(&values[first..], cells, end),
            CellValues::U16(values) => fill(&values[first..], cells, end),
            CellValues::U32(values) => fill(&values[first..], cells, end),
            CellValues::U64(values) => fill(&values[first..], cells, end),
            CellValues::F32(values) => fill(&values[first..], cells, end),
            CellValues::F64(values) => fill(&values[first..], cells, end),
            _ => return false,
        }
        true
    }

    /// Appends the value of a row, which must not be null. `row` is below the batch's number of rows.
    #[inline]
    pub(super) fn write(&mut self, row: usize, out: &mut Vec<u8>) -> Result<(), ArrowError> {
        match &mut self.values {
            CellValues::I8(values) => append(values[row], out),
            CellValues::I16(values) => append(values[row], out),
            CellValues::I32(values) => append(values[row], out),
            CellValues::I64(values) => append(values[row], out),
            CellValues::U8(values) => append(values[row], out),
            CellValues::U16(values) => append(values[row], out),
            CellValues::U32(values) => append(values[row], out),
            CellValues::U64(values) => append(values[row], out),
            CellValues::F16(values) => append(values.value(row).to_f32(), out),
            CellValues::F32(values) => append(values[row], out),
            CellValues::F64(values) => append(values[row], out),
            CellValues::Boolean(values) => {
                out.extend_from_slice(if values.value(row) { b"True" } else { b"False" });
            }
            CellValues::Text(values) => out.extend_from_slice(values.value(row).as_bytes()),
            CellValues::LargeText(values) => out.extend_from_slice(values.value(row).as_bytes()),
            CellValues::TextView(values) => out.extend_from_slice(values.value(row).as_bytes()),
            CellValues::Times(times) => return times.write(row, out),
            CellValues::Dictionary(keys, values) => return values.write(keys[row], out),
            CellValues::Runs(runs, values) => return values.write(runs.place(row), out),
            CellValues::Union(variants) => {
                if let Some((column, row)) = variants.get_mut(row) {
                    return column.write(row, out);
                }
            }
            CellValues::Nested(value, limit) => return value.write(row, out, *limit),
            CellValues::Other(formatter, field) => {
                field.clear();
                formatter.value(row).write(field)?;
                out.extend_from_slice(field.as_bytes());
            }
        }
        Ok(())
    }
}

/// A table's columns or a struct's fields: for each, `"name":` and the values.
pub(super) struct ObjectCells<'a>(Vec<(Vec<u8>, CellValue<'a>)>);

/// The values of one column.
pub(super) struct CellValue<'a> {
    shape: CellShape<'a>,
    nulls: Nulls,
}

enum CellShape<'a> {
    Plain(Plain<'a>),
    /// The index of each row's value among all values.
    Dictionary(Vec<usize>, Box<CellValue<'a>>),
    Runs(RunEndColumn<'a>, Box<CellValue<'a>>),
    Union(UnionColumns<'a, CellValue<'a>>),
    List(ListEnds<'a>, Box<CellValue<'a>>),
    Struct(ObjectCells<'a>),
    /// Keys and values. The flag says whether the map is an object, because all keys are texts; otherwise it
    /// is a list of pairs.
    Map(ListEnds<'a>, bool, Box<[CellValue<'a>; 2]>),
}

/// A number, a boolean, or a value that is written as text.
struct Plain<'a> {
    column: Box<CellColumn<'a>>,
    /// Holds a text before it is quoted.
    buffer: Vec<u8>,
    /// How many numbers became null, because JSON cannot represent them.
    lost: u64,
}

impl<'a> ObjectCells<'a> {
    /// Fails for types that cannot be printed.
    pub(super) fn new(
        fields: &[FieldRef],
        arrays: &'a [ArrayRef],
        limit: u64,
    ) -> Result<Self, ArrowError> {
        let mut members = Vec::with_capacity(arrays.len());
        for (field, array) in fields.iter().zip(arrays) {
            let mut name = Vec::new();
            text(field.name(), &mut name);
            name.push(b':');
            members.push((name, CellValue::new(array, limit)?));
        }
        Ok(Self(members))
    }

    /// Appends a row. Stops within the row once `out` is longer than `limit`.
    pub(super) fn write(
        &mut self,
        row: usize,
        out: &mut Vec<u8>,
        limit: u64,
    ) -> Result<(), ArrowError> {
        out.push(b'{');
        for (index, (name, value)) in self.0.iter_mut().enumerate() {
            if out.len() as u64 > limit {
                break;
            }
            if index > 0 {
                out.push(b',');
            }
            out.extend_from_slice(name);
            value.write(row, out, limit)?;
        }
        out.push(b'}');
        Ok(())
    }

    /// How many numbers were written as null, because JSON cannot represent them.
    pub(super) fn lost(&self) -> u64 {
        self.0.iter().map(|(_, value)| value.lost()).sum()
    }
}

impl<'a> CellValue<'a> {
    /// Fails for types that cannot be printed. `limit` is as in [`write`](Self::write).
    pub(super) fn new(array: &'a ArrayRef, limit: u64) -> Result<Self, ArrowError> {
        let child = |values| Ok::<_, ArrowError>(Box::new(Self::new(values, limit)?));
        let shape = match array.data_type() {
            DataType::List(_) => {
                let lists = array.as_list::<i32>();
                CellShape::List(ListEnds::Short(lists.value_offsets()), child(lists.values())?)
            }
            DataType::LargeList(_) => {
                let lists = array.as_list::<i64>();
                CellShape::List(ListEnds::Long(lists.value_offsets()), child(lists.values())?)
            }
            DataType::FixedSizeList(_, length) => {
                let length = usize::try_from(*length).unwrap_or(0);
                CellShape::List(
                    ListEnds::Fixed(length),
                    child(array.as_fixed_size_list().values())?,
                )
            }
            DataType::ListView(_) => {
                let lists = array.as_list_view::<i32>();
                let ends = ListEnds::View(lists.value_offsets(), lists.value_sizes());
                CellShape::List(ends, child(lists.values())?)
            }
            DataType::LargeListView(_) => {
                let lists = array.as_list_view::<i64>();
                let ends = ListEnds::LongView(lists.value_offsets(), lists.value_sizes());
                CellShape::List(ends, child(lists.values())?)
            }
            DataType::Dictionary(_, values)
                if values.is_nested() && !array.as_any_dictionary().values().is_empty() =>
            {
                let dictionary = array.as_any_dictionary();
                CellShape::Dictionary(dictionary.normalized_keys(), child(dictionary.values())?)
            }
            DataType::RunEndEncoded(..) => {
                let runs = RunEndColumn::of(array)?;
                CellShape::Runs(runs, child(runs.values())?)
            }
            DataType::Union(..) => CellShape::Union(UnionColumns::of(array.as_union(), |child| {
                Self::new(child, limit)
            })?),
            DataType::Struct(fields) => {
                CellShape::Struct(ObjectCells::new(fields, array.as_struct().columns(), limit)?)
            }
            DataType::Map(..) => {
                let map = array.as_map();
                let keys = map.keys();
                let values = map.values();
                let both = [Self::new(keys, limit)?, Self::new(values, limit)?];
                let is_object = is_text(keys.data_type()) && matches!(both[0].nulls, Nulls::Never);
                CellShape::Map(ListEnds::Short(map.value_offsets()), is_object, Box::new(both))
            }
            _ => CellShape::Plain(Plain::new(array, limit)?),
        };
        Ok(Self { shape, nulls: Nulls::of(array) })
    }

    /// How many numbers were written as null, because JSON cannot represent them.
    pub(super) fn lost(&self) -> u64 {
        match &self.shape {
            CellShape::Plain(plain) => plain.lost,
            CellShape::Dictionary(_, value)
            | CellShape::Runs(_, value)
            | CellShape::List(_, value) => value.lost(),
            CellShape::Union(variants) => variants.all().map(Self::lost).sum(),
            CellShape::Struct(object) => object.lost(),
            CellShape::Map(_, _, both) => both.iter().map(Self::lost).sum(),
        }
    }

    /// Appends a row's value. Stops within the value once `out` is longer than `limit`.
    pub(super) fn write(
        &mut self,
        row: usize,
        out: &mut Vec<u8>,
        limit: u64,
    ) -> Result<(), ArrowError> {
        let is_null = match &self.nulls {
            Nulls::Never | Nulls::OfValues => false,
            Nulls::Always => true,
            Nulls::Rows(nulls) => nulls.is_null(row),
        };
        if is_null {
            out.extend_from_slice(b"null");
            return Ok(());
        }
        match &mut self.shape {
            CellShape::Plain(plain) => return plain.write(row, out),
            CellShape::Dictionary(keys, values) => return values.write(keys[row], out, limit),
            CellShape::Runs(runs, values) => return values.write(runs.place(row), out, limit),
            CellShape::Union(variants) => match variants.get_mut(row) {
                Some((value, row)) => return value.write(row, out, limit),
                None => out.extend_from_slice(b"null"),
            },
            CellShape::Struct(object) => return object.write(row, out, limit),
            CellShape::List(ends, values) => {
                out.push(b'[');
                for (index, at) in ends.of(row).enumerate() {
                    if out.len() as u64 > limit {
                        break;
                    }
                    if index > 0 {
                        out.push(b',');
                    }
                    values.write(at, out, limit)?;
                }
                out.push(b']');
            }
            CellShape::Map(ends, is_object, both) => {
                let [keys, values] = &mut **both;
                let [begin, middle, end] = if *is_object { ["", ":", ""] } else { ["[", ",", "]"] };
                out.push(if *is_object { b'{' } else { b'[' });
                for (index, at) in ends.of(row).enumerate() {
                    if out.len() as u64 > limit {
                        break;
                    }
                    out.extend_from_slice(if index > 0 { b"," } else { b"" });
                    out.extend_from_slice(begin.as_bytes());
                    keys.write(at, out, limit)?;
                    out.extend_from_slice(middle.as_bytes());
                    values.write(at, out, limit)?;
                    out.extend_from_slice(end.as_bytes());
                }
                out.push(if *is_object { b'}' } else { b']' });
            }
        }
        Ok(())
    }
}

fn is_text(kind: &DataType) -> bool {
    match kind {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => true,
        DataType::Dictionary(_, values) => is_text(values),
        _ => false,
    }
}

impl<'a> Plain<'a> {
    fn new(array: &'a ArrayRef, limit: u64) -> Result<Self, ArrowError> {
        let column = Box::new(CellColumn::new(array, limit)?);
        Ok(Self { column, buffer: Vec::new(), lost: 0 })
    }

    fn write(&mut self, row: usize, out: &mut Vec<u8>) -> Result<(), ArrowError> {
        let Self { column, buffer, lost } = self;
        let start = out.len();
        match column.kind() {
            CellStyle::Number => {
                column.write(row, out)?;
                // `nan` and `inf`, which JSON cannot represent.
                if out.last().is_some_and(u8::is_ascii_alphabetic) {
                    out.truncate(start);
                    out.extend_from_slice(b"null");
                    *lost += 1;
                }
            }
            CellStyle::Boolean => {
                column.write(row, out)?;
                out[start..].make_ascii_lowercase();
            }
            CellStyle::Text => {
                buffer.clear();
                column.write(row, buffer)?;
                text(&String::from_utf8_lossy(buffer), out);
            }
        }
        Ok(())
    }
}
