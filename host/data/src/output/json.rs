//! Rows as JSON lines.

use super::cells::{Column, Kind};
use super::layouts::{Nulls, Runs, Variants};
use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{DataType, FieldRef};
use arrow::error::ArrowError;
use serde::de::IgnoredAny;
use std::collections::HashSet;

/// A table's columns, or a structure's fields: `"name":` and values.
pub(super) struct Object<'a>(Vec<(Vec<u8>, Value<'a>)>);

/// The values of one column.
pub(super) struct Value<'a> {
    shape: Shape<'a>,
    nulls: Nulls,
}

enum Shape<'a> {
    Plain(Plain<'a>),
    /// The place of each row's value among all values.
    Dictionary(Vec<usize>, Box<Value<'a>>),
    Runs(Runs<'a>, Box<Value<'a>>),
    Union(Variants<'a, Value<'a>>),
    List(Ends<'a>, Box<Value<'a>>),
    Struct(Object<'a>),
    /// Keys and values: an object where all keys are texts, else a list of pairs.
    Map(Ends<'a>, bool, Box<[Value<'a>; 2]>),
}

/// A number, a boolean or a text.
struct Plain<'a> {
    column: Box<Column<'a>>,
    /// A text is written here first.
    buffer: Vec<u8>,
    /// Values that were numbers, though none that JSON has, and became null.
    lost: u64,
}

/// Where the lists of a column begin and end among the values of all.
enum Ends<'a> {
    Short(&'a [i32]),
    Long(&'a [i64]),
    Fixed(usize),
    /// Beginnings and lengths.
    View(&'a [i32], &'a [i32]),
    LongView(&'a [i64], &'a [i64]),
}

impl Ends<'_> {
    fn of(&self, row: usize) -> std::ops::Range<usize> {
        match self {
            Self::Short(ends) => ends[row] as usize..ends[row + 1] as usize,
            Self::Long(ends) => ends[row] as usize..ends[row + 1] as usize,
            Self::Fixed(length) => row * length..(row + 1) * length,
            Self::View(begin, length) => {
                begin[row] as usize..begin[row] as usize + length[row] as usize
            }
            Self::LongView(begin, length) => {
                begin[row] as usize..begin[row] as usize + length[row] as usize
            }
        }
    }
}

impl<'a> Object<'a> {
    /// Fails on types that cannot be printed.
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
            members.push((name, Value::new(array, limit)?));
        }
        Ok(Self(members))
    }

    /// Appends a row. Stops within it once `out` is longer than `limit`.
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

    /// How many values were written as null that were numbers, though none that JSON has.
    pub(super) fn lost(&self) -> u64 {
        self.0.iter().map(|(_, value)| value.lost()).sum()
    }
}

impl<'a> Value<'a> {
    /// Fails on types that cannot be printed. `limit`: as for [`write`](Self::write).
    pub(super) fn new(array: &'a ArrayRef, limit: u64) -> Result<Self, ArrowError> {
        let child = |values| Ok::<_, ArrowError>(Box::new(Self::new(values, limit)?));
        let shape = match array.data_type() {
            DataType::List(_) => {
                let lists = array.as_list::<i32>();
                Shape::List(Ends::Short(lists.value_offsets()), child(lists.values())?)
            }
            DataType::LargeList(_) => {
                let lists = array.as_list::<i64>();
                Shape::List(Ends::Long(lists.value_offsets()), child(lists.values())?)
            }
            DataType::FixedSizeList(_, length) => {
                let length = usize::try_from(*length).unwrap_or(0);
                Shape::List(Ends::Fixed(length), child(array.as_fixed_size_list().values())?)
            }
            DataType::ListView(_) => {
                let lists = array.as_list_view::<i32>();
                let ends = Ends::View(lists.value_offsets(), lists.value_sizes());
                Shape::List(ends, child(lists.values())?)
            }
            DataType::LargeListView(_) => {
                let lists = array.as_list_view::<i64>();
                let ends = Ends::LongView(lists.value_offsets(), lists.value_sizes());
                Shape::List(ends, child(lists.values())?)
            }
            DataType::Dictionary(_, values)
                if values.is_nested() && !array.as_any_dictionary().values().is_empty() =>
            {
                let dictionary = array.as_any_dictionary();
                Shape::Dictionary(dictionary.normalized_keys(), child(dictionary.values())?)
            }
            DataType::RunEndEncoded(..) => {
                let runs = Runs::of(array)?;
                Shape::Runs(runs, child(runs.values())?)
            }
            DataType::Union(..) => {
                Shape::Union(Variants::of(array.as_union(), |child| Self::new(child, limit))?)
            }
            DataType::Struct(fields) => {
                Shape::Struct(Object::new(fields, array.as_struct().columns(), limit)?)
            }
            DataType::Map(..) => {
                let map = array.as_map();
                let (keys, values) = (map.keys(), map.values());
                let both = [Self::new(keys, limit)?, Self::new(values, limit)?];
                let is_object = is_text(keys.data_type()) && matches!(both[0].nulls, Nulls::Never);
                Shape::Map(Ends::Short(map.value_offsets()), is_object, Box::new(both))
            }
            _ => Shape::Plain(Plain::new(array, limit)?),
        };
        Ok(Self { shape, nulls: Nulls::of(array) })
    }

    /// How many values were written as null that were numbers, though none that JSON has.
    pub(super) fn lost(&self) -> u64 {
        match &self.shape {
            Shape::Plain(plain) => plain.lost,
            Shape::Dictionary(_, value) | Shape::Runs(_, value) | Shape::List(_, value) => {
                value.lost()
            }
            Shape::Union(variants) => variants.all().map(Self::lost).sum(),
            Shape::Struct(object) => object.lost(),
            Shape::Map(_, _, both) => both.iter().map(Self::lost).sum(),
        }
    }

    /// Appends a row's value. Stops within it once `out` is longer than `limit`.
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
            Shape::Plain(plain) => return plain.write(row, out),
            Shape::Dictionary(keys, values) => return values.write(keys[row], out, limit),
            Shape::Runs(runs, values) => return values.write(runs.place(row), out, limit),
            Shape::Union(variants) => match variants.get_mut(row) {
                Some((value, row)) => return value.write(row, out, limit),
                None => out.extend_from_slice(b"null"),
            },
            Shape::Struct(object) => return object.write(row, out, limit),
            Shape::List(ends, values) => {
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
            Shape::Map(ends, is_object, both) => {
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
        let column = Box::new(Column::new(array, limit)?);
        Ok(Self { column, buffer: Vec::new(), lost: 0 })
    }

    fn write(&mut self, row: usize, out: &mut Vec<u8>) -> Result<(), ArrowError> {
        let Self { column, buffer, lost } = self;
        let start = out.len();
        match column.kind() {
            Kind::Number => {
                column.write(row, out)?;
                // `nan` and `inf`, which JSON has no numbers for.
                if out.last().is_some_and(u8::is_ascii_alphabetic) {
                    out.truncate(start);
                    out.extend_from_slice(b"null");
                    *lost += 1;
                }
            }
            Kind::Boolean => {
                column.write(row, out)?;
                out[start..].make_ascii_lowercase();
            }
            Kind::Text => {
                buffer.clear();
                column.write(row, buffer)?;
                text(&String::from_utf8_lossy(buffer), out);
            }
        }
        Ok(())
    }
}

/// Appends a text in quotes.
pub(super) fn text(text: &str, out: &mut Vec<u8>) {
    serde_json::to_writer(out, text).expect("a text can be written to memory");
}

/// A name that two of the fields have, or two of a structure's within them.
pub(super) fn twice(fields: &[FieldRef]) -> Option<&str> {
    let mut names = HashSet::new();
    fields.iter().find_map(|field| match field.data_type() {
        _ if !names.insert(field.name()) => Some(field.name().as_str()),
        DataType::Struct(inner) => twice(inner),
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::ListView(item)
        | DataType::LargeListView(item)
        | DataType::FixedSizeList(item, _)
        | DataType::Map(item, _)
        | DataType::RunEndEncoded(_, item) => twice(std::slice::from_ref(item)),
        _ => None,
    })
}

/// Whether a row of text is a JSON object or array already.
pub(super) fn is_nested(row: &str) -> bool {
    row.trim_start().starts_with(['{', '[']) && serde_json::from_str::<IgnoredAny>(row).is_ok()
}
