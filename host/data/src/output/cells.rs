//! Formats the values of a table's columns: single values as Python prints them, lists, maps and structs as
//! JSON, and whole rows as JSON lines. `style` adds quotes.

use super::json::text;
use super::layouts::{ListOffsets, Nulls, RunEndColumn, UnionColumns};
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

/// A column of one batch, whose values are written as text. Its type is inspected only once.
pub(super) struct TextColumn<'a> {
    values: TextValues<'a>,
    nulls: Nulls,
    style: CellStyle,
}

enum TextValues<'a> {
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
    Dictionary(Vec<usize>, Box<TextColumn<'a>>),
    Runs(RunEndColumn<'a>, Box<TextColumn<'a>>),
    Union(UnionColumns<'a, TextColumn<'a>>),
    /// A list, map or struct, as JSON. Writing stops once there are more than this many bytes.
    Nested(Box<JsonValues<'a>>, u64),
    /// All other types, with a buffer for the value.
    Other(ArrayFormatter<'a>, String),
}

impl<'a> TextColumn<'a> {
    /// The writing of a list, map or struct stops once there are more than `limit` bytes.
    ///
    /// Fails for types that cannot be printed.
    pub(super) fn new(array: &'a ArrayRef, limit: u64) -> Result<Self, ArrowError> {
        let mut style = match array.data_type() {
            DataType::Boolean => CellStyle::Boolean,
            number if number.is_numeric() => CellStyle::Number,
            _ => CellStyle::Text,
        };
        let values = match array.data_type() {
            DataType::Int8 => TextValues::I8(array.as_primitive::<Int8Type>().values()),
            DataType::Int16 => TextValues::I16(array.as_primitive::<Int16Type>().values()),
            DataType::Int32 => TextValues::I32(array.as_primitive::<Int32Type>().values()),
            DataType::Int64 => TextValues::I64(array.as_primitive::<Int64Type>().values()),
            DataType::UInt8 => TextValues::U8(array.as_primitive::<UInt8Type>().values()),
            DataType::UInt16 => TextValues::U16(array.as_primitive::<UInt16Type>().values()),
            DataType::UInt32 => TextValues::U32(array.as_primitive::<UInt32Type>().values()),
            DataType::UInt64 => TextValues::U64(array.as_primitive::<UInt64Type>().values()),
            DataType::Float16 => TextValues::F16(array.as_primitive::<Float16Type>()),
            DataType::Float32 => TextValues::F32(array.as_primitive::<Float32Type>().values()),
            DataType::Float64 => TextValues::F64(array.as_primitive::<Float64Type>().values()),
            DataType::Boolean => TextValues::Boolean(array.as_boolean()),
            DataType::Utf8 => TextValues::Text(array.as_string::<i32>()),
            DataType::LargeUtf8 => TextValues::LargeText(array.as_string::<i64>()),
            DataType::Utf8View => TextValues::TextView(array.as_string_view()),
            DataType::Dictionary(..) if !array.as_any_dictionary().values().is_empty() => {
                let dictionary = array.as_any_dictionary();
                let values = Self::new(dictionary.values(), limit)?;
                style = values.style;
                TextValues::Dictionary(dictionary.normalized_keys(), Box::new(values))
            }
            DataType::RunEndEncoded(..) => {
                let runs = RunEndColumn::from_array(array)?;
                let values = Self::new(runs.values(), limit)?;
                style = values.style;
                TextValues::Runs(runs, Box::new(values))
            }
            DataType::Union(..) => {
                TextValues::Union(UnionColumns::from_array(array.as_union(), |child| {
                    Self::new(child, limit)
                })?)
            }
            // A dictionary without values is written as `Other`, even if its value type is nested.
            kind if kind.is_nested() && !matches!(kind, DataType::Dictionary(..)) => {
                TextValues::Nested(Box::new(JsonValues::new(array, limit)?), limit)
            }
            _ => match TimeColumn::from_array(array)? {
                Some(times) => TextValues::Times(times),
                None => {
                    let options = const { FormatOptions::new().with_display_error(false) };
                    TextValues::Other(
                        ArrayFormatter::try_new(array.as_ref(), &options)?,
                        String::new(),
                    )
                }
            },
        };
        Ok(Self { values, nulls: Nulls::from_array(array), style })
    }

    /// What the texts look like. This decides about quotes.
    #[inline]
    pub(super) fn style(&self) -> CellStyle {
        self.style
    }

    #[inline]
    pub(super) fn is_null(&self, row: usize) -> bool {
        match &self.nulls {
            Nulls::Never => false,
            Nulls::Always => true,
            Nulls::Rows(nulls) => nulls.is_null(row),
            Nulls::InValues => match &self.values {
                TextValues::Runs(runs, values) => values.is_null(runs.run_of(row)),
                TextValues::Union(variants) => {
                    variants.get(row).is_none_or(|(column, row)| column.is_null(row))
                }
                _ => false,
            },
        }
    }

    /// How many numbers were written as null, because JSON cannot represent them.
    pub(super) fn lost(&self) -> u64 {
        match &self.values {
            TextValues::Nested(value, _) => value.lost(),
            TextValues::Dictionary(_, column) | TextValues::Runs(_, column) => column.lost(),
            TextValues::Union(variants) => variants.columns().map(Self::lost).sum(),
            _ => 0,
        }
    }

    /// Whether no row is null, and [`write_numbers`](Self::write_numbers) can write the values.
    pub(super) fn is_plain_number(&self) -> bool {
        matches!(self.nulls, Nulls::Never) && self.write_numbers(0, &mut [], b'\n')
    }

    /// Writes the values of the rows from `first` on into the cells, each followed by `end`. Returns `false`
    /// if the column holds anything but integers and floats; if `cells` is empty, the call only checks the
    /// type.
    pub(super) fn write_numbers(&self, first: usize, cells: &mut [NumberCell], end: u8) -> bool {
        match &self.values {
            TextValues::I8(values) => fill(&values[first..], cells, end),
            TextValues::I16(values) => fill(&values[first..], cells, end),
            TextValues::I32(values) => fill(&values[first..], cells, end),
            TextValues::I64(values) => fill(&values[first..], cells, end),
            TextValues::U8(values) => fill(&values[first..], cells, end),
            TextValues::U16(values) => fill(&values[first..], cells, end),
            TextValues::U32(values) => fill(&values[first..], cells, end),
            TextValues::U64(values) => fill(&values[first..], cells, end),
            TextValues::F32(values) => fill(&values[first..], cells, end),
            TextValues::F64(values) => fill(&values[first..], cells, end),
            _ => return false,
        }
        true
    }

    /// Appends the value of a row, which must not be null. `row` is below the batch's number of rows.
    #[inline]
    pub(super) fn write(&mut self, row: usize, out: &mut Vec<u8>) -> Result<(), ArrowError> {
        match &mut self.values {
            TextValues::I8(values) => append(values[row], out),
            TextValues::I16(values) => append(values[row], out),
            TextValues::I32(values) => append(values[row], out),
            TextValues::I64(values) => append(values[row], out),
            TextValues::U8(values) => append(values[row], out),
            TextValues::U16(values) => append(values[row], out),
            TextValues::U32(values) => append(values[row], out),
            TextValues::U64(values) => append(values[row], out),
            TextValues::F16(values) => append(values.value(row).to_f32(), out),
            TextValues::F32(values) => append(values[row], out),
            TextValues::F64(values) => append(values[row], out),
            TextValues::Boolean(values) => {
                out.extend_from_slice(if values.value(row) { b"True" } else { b"False" });
            }
            TextValues::Text(values) => out.extend_from_slice(values.value(row).as_bytes()),
            TextValues::LargeText(values) => out.extend_from_slice(values.value(row).as_bytes()),
            TextValues::TextView(values) => out.extend_from_slice(values.value(row).as_bytes()),
            TextValues::Times(times) => return times.write(row, out),
            TextValues::Dictionary(keys, values) => return values.write(keys[row], out),
            TextValues::Runs(runs, values) => return values.write(runs.run_of(row), out),
            TextValues::Union(variants) => {
                if let Some((column, row)) = variants.get_mut(row) {
                    return column.write(row, out);
                }
            }
            TextValues::Nested(value, limit) => return value.write(row, out, *limit),
            TextValues::Other(formatter, field) => {
                field.clear();
                formatter.value(row).write(field)?;
                out.extend_from_slice(field.as_bytes());
            }
        }
        Ok(())
    }
}

/// A table's columns or a struct's fields, each with its name as JSON (`"name":`). Their values are written
/// as objects.
pub(super) struct ObjectCells<'a>(Vec<(Vec<u8>, JsonValues<'a>)>);

/// A column of one batch, whose values are written as JSON.
pub(super) struct JsonValues<'a> {
    shape: JsonShape<'a>,
    nulls: Nulls,
}

enum JsonShape<'a> {
    Plain(Plain<'a>),
    /// The index of each row's value among all values.
    Dictionary(Vec<usize>, Box<JsonValues<'a>>),
    Runs(RunEndColumn<'a>, Box<JsonValues<'a>>),
    Union(UnionColumns<'a, JsonValues<'a>>),
    List(ListOffsets<'a>, Box<JsonValues<'a>>),
    Struct(ObjectCells<'a>),
    /// Maps: their offsets, whether all keys are texts, and the keys and the values. Maps whose keys are texts
    /// are written as objects, other maps as arrays of pairs.
    Map(ListOffsets<'a>, bool, Box<[JsonValues<'a>; 2]>),
}

/// A column of numbers, booleans, or values that become JSON strings.
struct Plain<'a> {
    column: Box<TextColumn<'a>>,
    /// The text of a value before it is quoted.
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
            members.push((name, JsonValues::new(array, limit)?));
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

impl<'a> JsonValues<'a> {
    /// Fails for types that cannot be printed. For `limit`, see [`write`](Self::write).
    pub(super) fn new(array: &'a ArrayRef, limit: u64) -> Result<Self, ArrowError> {
        let child = |values| Ok::<_, ArrowError>(Box::new(Self::new(values, limit)?));
        let shape = match array.data_type() {
            DataType::List(_) => {
                let lists = array.as_list::<i32>();
                JsonShape::List(ListOffsets::Short(lists.value_offsets()), child(lists.values())?)
            }
            DataType::LargeList(_) => {
                let lists = array.as_list::<i64>();
                JsonShape::List(ListOffsets::Long(lists.value_offsets()), child(lists.values())?)
            }
            DataType::FixedSizeList(_, length) => {
                let length = usize::try_from(*length).unwrap_or(0);
                JsonShape::List(
                    ListOffsets::Fixed(length),
                    child(array.as_fixed_size_list().values())?,
                )
            }
            DataType::ListView(_) => {
                let lists = array.as_list_view::<i32>();
                let offsets = ListOffsets::View(lists.value_offsets(), lists.value_sizes());
                JsonShape::List(offsets, child(lists.values())?)
            }
            DataType::LargeListView(_) => {
                let lists = array.as_list_view::<i64>();
                let offsets = ListOffsets::LongView(lists.value_offsets(), lists.value_sizes());
                JsonShape::List(offsets, child(lists.values())?)
            }
            DataType::Dictionary(_, values)
                if values.is_nested() && !array.as_any_dictionary().values().is_empty() =>
            {
                let dictionary = array.as_any_dictionary();
                JsonShape::Dictionary(dictionary.normalized_keys(), child(dictionary.values())?)
            }
            DataType::RunEndEncoded(..) => {
                let runs = RunEndColumn::from_array(array)?;
                JsonShape::Runs(runs, child(runs.values())?)
            }
            DataType::Union(..) => {
                JsonShape::Union(UnionColumns::from_array(array.as_union(), |child| {
                    Self::new(child, limit)
                })?)
            }
            DataType::Struct(fields) => {
                JsonShape::Struct(ObjectCells::new(fields, array.as_struct().columns(), limit)?)
            }
            DataType::Map(..) => {
                let map = array.as_map();
                let keys = map.keys();
                let values = map.values();
                let pair = [Self::new(keys, limit)?, Self::new(values, limit)?];
                let is_object = is_text(keys.data_type()) && matches!(pair[0].nulls, Nulls::Never);
                JsonShape::Map(ListOffsets::Short(map.value_offsets()), is_object, Box::new(pair))
            }
            _ => JsonShape::Plain(Plain::new(array, limit)?),
        };
        Ok(Self { shape, nulls: Nulls::from_array(array) })
    }

    /// How many numbers were written as null, because JSON cannot represent them.
    pub(super) fn lost(&self) -> u64 {
        match &self.shape {
            JsonShape::Plain(plain) => plain.lost,
            JsonShape::Dictionary(_, value)
            | JsonShape::Runs(_, value)
            | JsonShape::List(_, value) => value.lost(),
            JsonShape::Union(variants) => variants.columns().map(Self::lost).sum(),
            JsonShape::Struct(object) => object.lost(),
            JsonShape::Map(_, _, pair) => pair.iter().map(Self::lost).sum(),
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
            Nulls::Never | Nulls::InValues => false,
            Nulls::Always => true,
            Nulls::Rows(nulls) => nulls.is_null(row),
        };
        if is_null {
            out.extend_from_slice(b"null");
            return Ok(());
        }
        match &mut self.shape {
            JsonShape::Plain(plain) => return plain.write(row, out),
            JsonShape::Dictionary(keys, values) => return values.write(keys[row], out, limit),
            JsonShape::Runs(runs, values) => return values.write(runs.run_of(row), out, limit),
            JsonShape::Union(variants) => match variants.get_mut(row) {
                Some((value, row)) => return value.write(row, out, limit),
                None => out.extend_from_slice(b"null"),
            },
            JsonShape::Struct(object) => return object.write(row, out, limit),
            JsonShape::List(offsets, values) => {
                out.push(b'[');
                for (position, index) in offsets.range(row).enumerate() {
                    if out.len() as u64 > limit {
                        break;
                    }
                    if position > 0 {
                        out.push(b',');
                    }
                    values.write(index, out, limit)?;
                }
                out.push(b']');
            }
            JsonShape::Map(offsets, is_object, pair) => {
                let [keys, values] = &mut **pair;
                let [begin, middle, end] = if *is_object { ["", ":", ""] } else { ["[", ",", "]"] };
                out.push(if *is_object { b'{' } else { b'[' });
                for (position, index) in offsets.range(row).enumerate() {
                    if out.len() as u64 > limit {
                        break;
                    }
                    out.extend_from_slice(if position > 0 { b"," } else { b"" });
                    out.extend_from_slice(begin.as_bytes());
                    keys.write(index, out, limit)?;
                    out.extend_from_slice(middle.as_bytes());
                    values.write(index, out, limit)?;
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
        let column = Box::new(TextColumn::new(array, limit)?);
        Ok(Self { column, buffer: Vec::new(), lost: 0 })
    }

    fn write(&mut self, row: usize, out: &mut Vec<u8>) -> Result<(), ArrowError> {
        let Self { column, buffer, lost } = self;
        let start = out.len();
        match column.style() {
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
