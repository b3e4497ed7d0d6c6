//! Determines the type of a column from what its values have in common.

use super::field::{is_json, json_field};
use crate::dataset::exact::WrittenNumber;
use arrow::datatypes::{DataType, Field};
use std::collections::HashMap;
use std::mem::discriminant;

/// Why a column now has a type that the user may not expect. `None` if this value does not change the type.
pub(super) type Doubt = Option<&'static str>;

/// What the values of a column have in common.
#[derive(Debug, Default)]
pub(super) enum ValueKind {
    /// There has been no value, or only nulls.
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
    /// Adds a value of this kind, which is neither a list nor an object.
    pub(super) fn add(&mut self, kind: Self) -> Doubt {
        match (&mut *self, kind) {
            (Self::Json, _) => None,
            (Self::Unknown, kind) => {
                *self = kind;
                None
            }
            (Self::List(_) | Self::Struct(_), _) => {
                *self = Self::Json;
                Some(
                    "is json (the text of each value is kept): it holds a plain value here, and another kind \
                     of value before",
                )
            }
            (known, new) if discriminant(known) == discriminant(&new) => None,
            _ => {
                *self = Self::String;
                Some("is string, because it mixes texts, numbers or truth values")
            }
        }
    }

    /// Adds a list. If all values so far are lists, returns what their items have in common.
    pub(super) fn add_list(&mut self) -> Result<&mut ValueKind, Doubt> {
        match self {
            Self::Unknown => *self = Self::List(Box::default()),
            Self::List(_) | Self::Json => {}
            _ => {
                *self = Self::Json;
                return Err(Some(
                    "is json (the text of each value is kept): it holds a list here, and another kind \
                     of value before",
                ));
            }
        }
        if let Self::List(item) = self { Ok(item) } else { Err(None) }
    }

    /// Adds an object. If all values so far are objects, returns what their members have in common.
    pub(super) fn add_object(&mut self) -> Result<&mut ObjectFields, Doubt> {
        match self {
            Self::Unknown => *self = Self::Struct(ObjectFields::default()),
            Self::Struct(_) | Self::Json => {}
            _ => {
                *self = Self::Json;
                return Err(Some(
                    "is json (the text of each value is kept): it holds an object here, and another kind \
                     of value before",
                ));
            }
        }
        if let Self::Struct(fields) = self { Ok(fields) } else { Err(None) }
    }

    /// Adds a number.
    pub(super) fn add_number(&mut self, text: &str) -> Doubt {
        if matches!(self, Self::Unknown) {
            *self = Self::Number(NumberKind::default());
        }
        let Self::Number(numbers) = self else {
            return self.add(Self::Number(NumberKind::default()));
        };
        let before = numbers.data_type();
        numbers.add(text);
        let became_text = before != DataType::Utf8 && numbers.data_type() == DataType::Utf8;
        became_text.then(|| numbers.why_text())
    }

    /// The Arrow field that holds these values.
    pub(super) fn field(&self, name: &str) -> Field {
        let kind = match self {
            Self::Boolean => DataType::Boolean,
            Self::Number(numbers) => numbers.data_type(),
            Self::Unknown | Self::String => DataType::Utf8,
            Self::Json => return json_field(name),
            Self::List(item) => {
                let item = item.field(Field::LIST_FIELD_DEFAULT_NAME);
                // The JSON text of the whole list is easier to read than a list of JSON texts.
                if is_json(&item) {
                    return json_field(name);
                }
                DataType::List(item.into())
            }
            // Some file formats cannot express an object without members.
            Self::Struct(fields) if fields.fields.is_empty() => return json_field(name),
            Self::Struct(fields) => DataType::Struct(fields.arrow_fields().into()),
        };
        Field::new(name, kind, true)
    }
}

/// What numbers have in common.
#[derive(Debug, Default)]
pub(super) struct NumberKind {
    /// Whether a number is written with a point or an exponent.
    has_fraction: bool,
    /// Whether a whole number is negative.
    has_negative: bool,
    /// Whether a whole number is beyond `i64`, but not beyond `u64`.
    exceeds_i64: bool,
    /// Whether a whole number is beyond both `i64` and `u64`.
    exceeds_both: bool,
    /// Whether a float would round one of the whole numbers.
    rounds_whole: bool,
    /// Whether a float would round one of the fractions.
    rounds_fraction: bool,
}

impl NumberKind {
    fn add(&mut self, text: &str) {
        // Always succeeds: the line is valid JSON.
        let Some(number) = WrittenNumber::new(text) else { return };
        let is_kept = number.float().is_some();
        if !number.is_plain {
            self.has_fraction = true;
            self.rounds_fraction |= !is_kept;
            return;
        }
        self.rounds_whole |= !is_kept;
        match number.integer() {
            Some(whole) if i64::try_from(whole).is_ok() => self.has_negative |= whole < 0,
            Some(whole) if u64::try_from(whole).is_ok() => self.exceeds_i64 = true,
            _ => self.exceeds_both = true,
        }
    }

    /// The type that keeps all digits of all numbers.
    fn data_type(&self) -> DataType {
        match self.has_fraction {
            true if self.rounds_fraction || self.rounds_whole => DataType::Utf8,
            true => DataType::Float64,
            false if self.exceeds_both || self.exceeds_i64 && self.has_negative => DataType::Utf8,
            false if self.exceeds_i64 => DataType::UInt64,
            false => DataType::Int64,
        }
    }

    /// Why the type is text, for a message.
    fn why_text(&self) -> &'static str {
        match self.has_fraction {
            true if self.rounds_fraction => {
                "is string (all digits are kept): it holds numbers with more digits than \
                 float64 keeps"
            }
            true => {
                "is string (all digits are kept): it holds fractions, and whole numbers that \
                 float64 would round"
            }
            false if self.exceeds_both => {
                "is string (all digits are kept): it holds whole numbers of more than 64 bits"
            }
            false => {
                "is string (all digits are kept): it holds negative numbers, and others beyond \
                 int64"
            }
        }
    }
}

/// The columns of a table, or the members of an object, in order of appearance.
#[derive(Debug, Default)]
pub(super) struct ObjectFields {
    fields: Vec<(String, ValueKind)>,
    /// The index of each name in `fields`.
    indexes: HashMap<String, usize>,
}

impl ObjectFields {
    /// The fields of the Arrow schema.
    pub(super) fn arrow_fields(&self) -> Vec<Field> {
        self.fields.iter().map(|(name, kind)| kind.field(name)).collect()
    }

    /// The kind of a field. Adds a new field if `may_grow` allows it.
    pub(super) fn get(
        &mut self,
        name: &str,
        may_grow: impl FnOnce() -> bool,
    ) -> Option<&mut ValueKind> {
        let index = match self.indexes.get(name) {
            Some(&index) => index,
            None if !may_grow() => return None,
            None => {
                self.indexes.insert(name.to_owned(), self.fields.len());
                self.fields.push((name.to_owned(), ValueKind::Unknown));
                self.fields.len() - 1
            }
        };
        self.fields.get_mut(index).map(|(_, kind)| kind)
    }
}
