//! What the values of a column have in common.

use super::field::{is_json, json_field};
use crate::dataset::exact::Number;
use arrow::datatypes::{DataType, Field};
use std::collections::HashMap;
use std::mem::discriminant;

/// Why a column is of another type than might be expected, from a value on.
pub(super) type Doubt = Option<&'static str>;

/// What the values of a column have in common.
#[derive(Debug, Default)]
pub(super) enum Kind {
    /// Nothing yet.
    #[default]
    Unknown,
    Boolean,
    Number(Numbers),
    /// Texts; or plain values of several kinds.
    String,
    List(Box<Kind>),
    Struct(Fields),
    /// Values that no other type holds together.
    Json,
}

impl Kind {
    /// Learns that there is such a value, which is neither list nor object.
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

    /// The same of a list. What is known of its items, as long as all values are lists.
    pub(super) fn take_list(&mut self) -> Result<&mut Kind, Doubt> {
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

    /// The same of an object. What is known of its members, as long as all values are objects.
    pub(super) fn take_object(&mut self) -> Result<&mut Fields, Doubt> {
        match self {
            Self::Unknown => *self = Self::Struct(Fields::default()),
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

    /// The same of a number.
    pub(super) fn take_number(&mut self, text: &str) -> Doubt {
        if matches!(self, Self::Unknown) {
            *self = Self::Number(Numbers::default());
        }
        let Self::Number(numbers) = self else {
            return self.take(Self::Number(Numbers::default()));
        };
        let before = numbers.data_type();
        numbers.take(text);
        let lost = before != DataType::Utf8 && numbers.data_type() == DataType::Utf8;
        lost.then(|| numbers.why_text())
    }

    /// A field of values like these.
    pub(super) fn field(&self, name: &str) -> Field {
        let kind = match self {
            Self::Boolean => DataType::Boolean,
            Self::Number(numbers) => numbers.data_type(),
            Self::Unknown | Self::String => DataType::Utf8,
            Self::Json => return json_field(name),
            Self::List(item) => {
                let item = item.field(Field::LIST_FIELD_DEFAULT_NAME);
                // A list as a whole is easier to read than the pieces of its text.
                if is_json(&item) {
                    return json_field(name);
                }
                DataType::List(item.into())
            }
            // Not every format has a word for an object without members.
            Self::Struct(fields) if fields.fields.is_empty() => return json_field(name),
            Self::Struct(fields) => DataType::Struct(fields.arrow().into()),
        };
        Field::new(name, kind, true)
    }
}

/// What numbers have in common.
#[derive(Debug, Default)]
pub(super) struct Numbers {
    /// One is written with a point or a power.
    fractions: bool,
    negative: bool,
    /// A whole number is beyond `i64`, but not beyond `u64`.
    beyond_signed: bool,
    /// A whole number is beyond these.
    beyond_all: bool,
    /// A float would round a whole number, or another one.
    rounds_whole: bool,
    rounds: bool,
}

impl Numbers {
    fn take(&mut self, text: &str) {
        // It is one, as the line is JSON.
        let Some(number) = Number::new(text) else { return };
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

    /// The type that holds all of them with all their digits.
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

/// The columns of a table, or the parts of an object, in the order in which they came.
#[derive(Debug, Default)]
pub(super) struct Fields {
    fields: Vec<(String, Kind)>,
    places: HashMap<String, usize>,
}

impl Fields {
    /// The fields for Arrow.
    pub(super) fn arrow(&self) -> Vec<Field> {
        self.fields.iter().map(|(name, kind)| kind.field(name)).collect()
    }

    /// The kind of a field, which is made if it is not there and `may_grow` says so.
    pub(super) fn get(&mut self, name: &str, may_grow: impl FnOnce() -> bool) -> Option<&mut Kind> {
        let place = match self.places.get(name) {
            Some(&place) => place,
            None if !may_grow() => return None,
            None => {
                self.places.insert(name.to_owned(), self.fields.len());
                self.fields.push((name.to_owned(), Kind::Unknown));
                self.fields.len() - 1
            }
        };
        self.fields.get_mut(place).map(|(_, kind)| kind)
    }
}
