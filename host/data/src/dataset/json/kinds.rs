//! Determines what the values of a column have in common, and so its type.

use super::field::{is_json, json_field};
use crate::dataset::exact::WrittenNumber;
use arrow::datatypes::{DataType, Field};
use std::collections::HashMap;
use std::mem::discriminant;

/// Why a column has another type than the user may expect, if it changed at this value.
pub(super) type Doubt = Option<&'static str>;

/// What the values of a column have in common.
#[derive(Debug, Default)]
pub(super) enum ValueKind {
    /// Nothing yet.
    #[default]
    Unknown,
    Boolean,
    Number(NumberKind),
    /// Texts, or a mix of plain values.
    String,
    List(Box<ValueKind>),
    Struct(ObjectFields),
    /// Values that no other type can hold together.
    Json,
}

impl ValueKind {
    /// Adds a value of this kind. It is neither a list nor an object.
    pub(super) fn take(&mut self, kind: Self) -> Doubt {
        match (&mut *self, kind) {
            (Self::Json, _) => None,
            (Self::Unknown, kind) => {
                *self = kind;
                None
            }
            (Self::List(_) | Self::Struct(_), _) => {
                *self = Self::Json;
                Some(
                    "is json, which keeps each value's own text, as it holds a plain value here, and something else \
                     before",
                )
            }
            (known, new) if discriminant(known) == discriminant(&new) => None,
            _ => {
                *self = Self::String;
                Some("is string, as it holds texts, numbers or truth values mixed")
            }
        }
    }

    /// Adds a list. Returns what is known of the items, as long as all values are lists.
    pub(super) fn take_list(&mut self) -> Result<&mut ValueKind, Doubt> {
        match self {
            Self::Unknown => *self = Self::List(Box::default()),
            Self::List(_) | Self::Json => {}
            _ => {
                *self = Self::Json;
                return Err(Some(
                    "is json, which keeps each value's own text, as it holds a list here, and something else before",
                ));
            }
        }
        if let Self::List(item) = self { Ok(item) } else { Err(None) }
    }

    /// Adds an object. Returns what is known of the members, as long as all values are objects.
    pub(super) fn take_object(&mut self) -> Result<&mut ObjectFields, Doubt> {
        match self {
            Self::Unknown => *self = Self::Struct(ObjectFields::default()),
            Self::Struct(_) | Self::Json => {}
            _ => {
                *self = Self::Json;
                return Err(Some(
                    "is json, which keeps each value's own text, as it holds an object here, and something else \
                     before",
                ));
            }
        }
        if let Self::Struct(fields) = self { Ok(fields) } else { Err(None) }
    }

    /// Adds a number.
    pub(super) fn take_number(&mut self, text: &str) -> Doubt {
        if matches!(self, Self::Unknown) {
            *self = Self::Number(NumberKind::default());
        }
        let Self::Number(numbers) = self else {
            return self.take(Self::Number(NumberKind::default()));
        };
        let before = numbers.data_type();
        numbers.take(text);
        let lost = before != DataType::Utf8 && numbers.data_type() == DataType::Utf8;
        lost.then(|| numbers.why_text())
    }

    /// A field that holds values like these.
    pub(super) fn field(&self, name: &str) -> Field {
        let kind = match self {
            Self::Boolean => DataType::Boolean,
            Self::Number(numbers) => numbers.data_type(),
            Self::Unknown | Self::String => DataType::Utf8,
            Self::Json => return json_field(name),
            Self::List(item) => {
                let item = item.field(Field::LIST_FIELD_DEFAULT_NAME);
                // Text of a whole list is easier to read than a list of JSON texts.
                if is_json(&item) {
                    return json_field(name);
                }
                DataType::List(item.into())
            }
            // Not every format can express an object without members.
            Self::Struct(fields) if fields.fields.is_empty() => return json_field(name),
            Self::Struct(fields) => DataType::Struct(fields.arrow().into()),
        };
        Field::new(name, kind, true)
    }
}

/// What numbers have in common.
#[derive(Debug, Default)]
pub(super) struct NumberKind {
    /// One is written with a point or an exponent.
    fractions: bool,
    negative: bool,
    /// One is a whole number beyond `i64`, but not beyond `u64`.
    beyond_signed: bool,
    /// One is a whole number beyond both.
    beyond_all: bool,
    /// A float would round one of the whole numbers.
    rounds_whole: bool,
    /// A float would round one of the fractions.
    rounds: bool,
}

impl NumberKind {
    fn take(&mut self, text: &str) {
        // Always succeeds: the line is valid JSON.
        let Some(number) = WrittenNumber::new(text) else { return };
        let is_kept = number.float().is_some();
        if !number.is_plain {
            self.fractions = true;
            self.rounds |= !is_kept;
            return;
        }
        self.rounds_whole |= !is_kept;
        match number.integer() {
            Some(whole) if i64::try_from(whole).is_ok() => self.negative |= whole < 0,
            Some(whole) if u64::try_from(whole).is_ok() => self.beyond_signed = true,
            _ => self.beyond_all = true,
        }
    }

    /// The type that keeps all digits of all numbers.
    fn data_type(&self) -> DataType {
        match self.fractions {
            true if self.rounds || self.rounds_whole => DataType::Utf8,
            true => DataType::Float64,
            false if self.beyond_all || self.beyond_signed && self.negative => DataType::Utf8,
            false if self.beyond_signed => DataType::UInt64,
            false => DataType::Int64,
        }
    }

    fn why_text(&self) -> &'static str {
        match self.fractions {
            true if self.rounds => {
                "is string, which keeps all digits, as it holds more of them than float64 does"
            }
            true => {
                "is string, which keeps all digits, as it holds fractions, and whole numbers that float64 would round"
            }
            false if self.beyond_all => {
                "is string, which keeps all digits, as it holds whole numbers of more than 64 bits"
            }
            false => {
                "is string, which keeps all digits, as it holds negative numbers, and others beyond int64"
            }
        }
    }
}

/// The columns of a table, or the members of an object, in order of appearance.
#[derive(Debug, Default)]
pub(super) struct ObjectFields {
    fields: Vec<(String, ValueKind)>,
    places: HashMap<String, usize>,
}

impl ObjectFields {
    /// The fields, as Arrow has them.
    pub(super) fn arrow(&self) -> Vec<Field> {
        self.fields.iter().map(|(name, kind)| kind.field(name)).collect()
    }

    /// The kind of a field. A new field is added if `may_grow` allows it.
    pub(super) fn get(
        &mut self,
        name: &str,
        may_grow: impl FnOnce() -> bool,
    ) -> Option<&mut ValueKind> {
        let place = match self.places.get(name) {
            Some(&place) => place,
            None if !may_grow() => return None,
            None => {
                self.places.insert(name.to_owned(), self.fields.len());
                self.fields.push((name.to_owned(), ValueKind::Unknown));
                self.fields.len() - 1
            }
        };
        self.fields.get_mut(place).map(|(_, kind)| kind)
    }
}
