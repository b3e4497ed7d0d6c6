//! Decoders that replace those of arrow-json. The decoders of numbers, dates, times and texts are stricter
//! than arrow-json's. The decoder of objects detects keys without a column.

use super::field::is_json;
use super::moments::{parse_date, parse_day_count, parse_timestamp};
use crate::dataset::exact::{WrittenNumber, exact_float, float, integer, unsigned};
use arrow::array::{ArrayRef, PrimitiveBuilder, StringBuilder};
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, Date32Type, FieldRef, Fields, Float64Type, Int64Type, Schema,
    TimeUnit, TimestampMicrosecondType, UInt64Type,
};
use arrow::error::ArrowError;
use arrow::json::reader::{ArrayDecoder, DecoderContext, DecoderFactory, Tape, TapeElement};
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Makes the decoders of columns for arrow-json.
#[derive(Debug)]
pub(super) struct Decoders {
    /// Whether floats must not be rounded.
    pub(super) exact: bool,
    /// Detects keys without a column.
    pub(super) unknown: Option<Arc<UnknownKeyCount>>,
}

/// Notes whether objects have keys without a column.
#[derive(Debug)]
pub(super) struct UnknownKeyCount {
    /// Set at the first such key.
    pub(super) found: AtomicBool,
    /// The keys of a record that the job drops. They have no column, but count as known.
    pub(super) dropped: Vec<String>,
    /// The columns of the table. They distinguish a whole record from an object inside it.
    record: Fields,
}

impl UnknownKeyCount {
    pub(super) fn new(schema: &Schema, dropped: &[String]) -> Self {
        let record = schema.fields().clone();
        Self { found: AtomicBool::new(false), dropped: dropped.to_owned(), record }
    }

    /// The dropped keys of an object with these fields. Only a whole record has any.
    fn dropped_of(&self, fields: &Fields) -> &[String] {
        if *fields == self.record { &self.dropped } else { &[] }
    }
}

impl DecoderFactory for Decoders {
    fn make_default_decoder(
        &self,
        context: &DecoderContext,
        field: &FieldRef,
        is_nullable: bool,
    ) -> Result<Option<Box<dyn ArrayDecoder>>, ArrowError> {
        Ok(match field.data_type() {
            DataType::Int64 => {
                Some(Box::new(NumberColumn::<Int64Type> { parse: integer, name: "int64" }))
            }
            DataType::UInt64 => {
                Some(Box::new(NumberColumn::<UInt64Type> { parse: unsigned, name: "uint64" }))
            }
            DataType::Float64 => {
                let parse = if self.exact { exact_float } else { float };
                Some(Box::new(NumberColumn::<Float64Type> { parse, name: "float64" }))
            }
            DataType::Date32 => Some(Box::new(MomentColumn::<Date32Type> {
                kind: DataType::Date32,
                parse_text: parse_date,
                parse_number: parse_day_count,
            })),
            kind @ DataType::Timestamp(TimeUnit::Microsecond, Some(_)) => {
                Some(Box::new(MomentColumn::<TimestampMicrosecondType> {
                    kind: kind.clone(),
                    parse_text: parse_timestamp,
                    parse_number: integer,
                }))
            }
            DataType::Utf8 => Some(Box::new(JsonTextColumn { is_json: is_json(field) })),
            DataType::Struct(fields) => match &self.unknown {
                Some(unknown) => {
                    let inner = context.make_builtin_decoder(field, is_nullable)?;
                    Some(Box::new(WatchedObject::new(fields, inner, Arc::clone(unknown))))
                }
                None => None,
            },
            _ => None,
        })
    }
}

/// A column of dates or times: texts, or whole numbers that count days or microseconds since 1970.
struct MomentColumn<T: ArrowPrimitiveType> {
    kind: DataType,
    parse_text: fn(&str) -> Option<T::Native>,
    parse_number: fn(&str) -> Option<T::Native>,
}

impl<T: ArrowPrimitiveType> ArrayDecoder for MomentColumn<T> {
    fn decode(&mut self, tape: &Tape<'_>, pos: &[u32]) -> Result<ArrayRef, ArrowError> {
        let builder = PrimitiveBuilder::<T>::with_capacity(pos.len());
        let mut builder = builder.with_data_type(self.kind.clone());
        for &at in pos {
            let moment = match tape.get(at) {
                TapeElement::Null => {
                    builder.append_null();
                    continue;
                }
                TapeElement::String(index) => (self.parse_text)(tape.get_string(index)),
                TapeElement::Number(index) => (self.parse_number)(tape.get_string(index)),
                _ => None,
            };
            match moment {
                Some(moment) => builder.append_value(moment),
                None => return Err(tape.error(at, &self.kind.to_string())),
            }
        }
        Ok(Arc::new(builder.finish()))
    }
}

/// A column of numbers, which `parse` reads.
struct NumberColumn<T: ArrowPrimitiveType> {
    parse: fn(&str) -> Option<T::Native>,
    name: &'static str,
}

impl<T: ArrowPrimitiveType> ArrayDecoder for NumberColumn<T> {
    fn decode(&mut self, tape: &Tape<'_>, pos: &[u32]) -> Result<ArrayRef, ArrowError> {
        let mut builder = PrimitiveBuilder::<T>::with_capacity(pos.len());
        for &at in pos {
            let number = match tape.get(at) {
                TapeElement::Null => None,
                TapeElement::Number(index) => Some((self.parse)(tape.get_string(index))),
                _ => Some(None),
            };
            match number {
                None => builder.append_null(),
                Some(Some(number)) => builder.append_value(number),
                Some(None) => return Err(tape.error(at, self.name)),
            }
        }
        Ok(Arc::new(builder.finish()))
    }
}

/// A column of texts. A number or a boolean becomes the text that it has in the file. If `is_json`,
/// all values are texts, because `parts` has already turned each value into a quoted text.
struct JsonTextColumn {
    is_json: bool,
}

impl ArrayDecoder for JsonTextColumn {
    fn decode(&mut self, tape: &Tape<'_>, pos: &[u32]) -> Result<ArrayRef, ArrowError> {
        let mut builder = StringBuilder::with_capacity(pos.len(), pos.len().saturating_mul(8));
        let mut length = 0;
        for &at in pos {
            let text = match tape.get(at) {
                TapeElement::Null => {
                    builder.append_null();
                    continue;
                }
                TapeElement::String(index) => Some(tape.get_string(index)),
                _ if self.is_json => None,
                TapeElement::True => Some("true"),
                TapeElement::False => Some("false"),
                TapeElement::Number(index) => {
                    Some(tape.get_string(index)).filter(|text| WrittenNumber::new(text).is_some())
                }
                _ => None,
            };
            let Some(text) = text else { return Err(tape.error(at, "string")) };
            length += text.len();
            // The builder panics at 2 GB, because Arrow's offsets have 32 bits.
            if i32::try_from(length).is_err() {
                return Err(ArrowError::JsonError("a column's texts take 2 GB or more".to_owned()));
            }
            builder.append_value(text);
        }
        Ok(Arc::new(builder.finish()))
    }
}

/// A decoder of objects that checks their keys.
struct WatchedObject {
    /// The keys that have columns, in the order in which they usually occur.
    keys: Vec<String>,
    /// The keys that have columns or are dropped.
    known: HashSet<String>,
    inner: Box<dyn ArrayDecoder>,
    unknown: Arc<UnknownKeyCount>,
}

impl WatchedObject {
    fn new(fields: &Fields, inner: Box<dyn ArrayDecoder>, unknown: Arc<UnknownKeyCount>) -> Self {
        let keys: Vec<_> = fields.iter().map(|field| field.name().clone()).collect();
        let known = keys.iter().chain(unknown.dropped_of(fields)).cloned().collect();
        Self { known, keys, inner, unknown }
    }

    /// Whether the object at this position has a key that is not in `known`.
    fn has_unknown(&self, tape: &Tape<'_>, at: u32) -> Result<bool, ArrowError> {
        let TapeElement::StartObject(end) = tape.get(at) else { return Ok(false) };
        let mut expected = self.keys.iter();
        let mut at = at + 1;
        while at < end {
            if let TapeElement::String(index) = tape.get(at) {
                let key = tape.get_string(index);
                let is_next = expected.next().is_some_and(|expected| expected == key);
                if !is_next && !self.known.contains(key) {
                    return Ok(true);
                }
            }
            at = tape.next(at + 1, "value")?;
        }
        Ok(false)
    }
}

impl ArrayDecoder for WatchedObject {
    fn decode(&mut self, tape: &Tape<'_>, pos: &[u32]) -> Result<ArrayRef, ArrowError> {
        if !self.unknown.found.load(Ordering::Relaxed) {
            for &at in pos {
                if self.has_unknown(tape, at)? {
                    self.unknown.found.store(true, Ordering::Relaxed);
                    break;
                }
            }
        }
        self.inner.decode(tape, pos)
    }
}
