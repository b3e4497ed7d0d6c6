//! Determines the columns of a query's result. In SQLite values have types, but columns do not. A column gets
//! the type that its table declares, or else the type of its values. A value that does not fit is an error.

use crate::dataset::csv::shortened;
use arrow::datatypes::DataType;
use rusqlite::types::ValueRef;
use std::fmt;

/// Floats hold all whole numbers up to this one exactly.
const MAX_EXACT_INTEGER: u64 = 1 << 53;

/// The type of the values in a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StorageClass {
    Boolean,
    Int64,
    Float64,
    String,
    Binary,
}

impl StorageClass {
    /// The class for the type that a table declares for a column, by the rules of SQLite. `None` if the
    /// values decide.
    pub(super) fn declared(declared: &str) -> Option<Self> {
        let declared = declared.to_ascii_uppercase();
        let has = |words: &[&str]| words.iter().any(|word| declared.contains(word));
        Some(match () {
            () if has(&["INT"]) => Self::Int64,
            () if has(&["CHAR", "CLOB", "TEXT"]) => Self::String,
            () if has(&["BLOB"]) => Self::Binary,
            () if has(&["REAL", "FLOA", "DOUB"]) => Self::Float64,
            () if has(&["BOOL"]) => Self::Boolean,
            () => return None,
        })
    }

    /// The class of a value. `None` for null.
    pub(super) fn from_value(value: ValueRef<'_>) -> Option<Self> {
        match value {
            ValueRef::Null => None,
            ValueRef::Integer(_) => Some(Self::Int64),
            ValueRef::Real(_) => Some(Self::Float64),
            ValueRef::Text(_) => Some(Self::String),
            ValueRef::Blob(_) => Some(Self::Binary),
        }
    }

    /// The class that holds the values of both classes. `None` if there is no such class.
    pub(super) fn join(self, other: Self) -> Option<Self> {
        match (self, other) {
            _ if self == other => Some(self),
            (Self::Int64, Self::Float64) | (Self::Float64, Self::Int64) => Some(Self::Float64),
            _ => None,
        }
    }

    /// Whether a column of this class can hold the value unchanged.
    pub(super) fn holds(self, value: ValueRef<'_>) -> bool {
        match (self, value) {
            (_, ValueRef::Null)
            | (Self::Int64, ValueRef::Integer(_))
            | (Self::Float64, ValueRef::Real(_))
            | (Self::Binary, ValueRef::Blob(_)) => true,
            (Self::Boolean, ValueRef::Integer(number)) => matches!(number, 0 | 1),
            (Self::Float64, ValueRef::Integer(number)) => {
                number.unsigned_abs() <= MAX_EXACT_INTEGER
            }
            (Self::String, ValueRef::Text(text)) => std::str::from_utf8(text).is_ok(),
            _ => false,
        }
    }

    pub(super) fn arrow(self) -> DataType {
        match self {
            Self::Boolean => DataType::Boolean,
            Self::Int64 => DataType::Int64,
            Self::Float64 => DataType::Float64,
            Self::String => DataType::Utf8,
            Self::Binary => DataType::Binary,
        }
    }

    /// The class whose values have this type in Arrow. `None` if there is no such class.
    pub(super) fn from_arrow(kind: &DataType) -> Option<Self> {
        let classes = [Self::Boolean, Self::Int64, Self::Float64, Self::String, Self::Binary];
        classes.into_iter().find(|known| known.arrow() == *kind)
    }
}

impl fmt::Display for StorageClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Boolean => "truth values (0 or 1)",
            Self::Int64 => "whole numbers",
            Self::Float64 => "numbers",
            Self::String => "texts",
            Self::Binary => "blobs",
        })
    }
}

/// Describes a value, for a message.
pub(super) fn describe_value(value: ValueRef<'_>) -> String {
    match value {
        ValueRef::Null => "a null".to_owned(),
        ValueRef::Integer(number) => format!("the whole number {number}"),
        ValueRef::Real(number) => format!("the number {number:?}"),
        ValueRef::Text(text) => match std::str::from_utf8(text) {
            Ok(text) => format!("the text {:?}", shortened(text)),
            Err(_) => "a text that is not UTF-8".to_owned(),
        },
        ValueRef::Blob(bytes) => format!("a blob of {} bytes", bytes.len()),
    }
}

/// About how many bytes a value takes in a table.
pub(super) fn size(value: ValueRef<'_>) -> u64 {
    match value {
        ValueRef::Null | ValueRef::Integer(_) | ValueRef::Real(_) => 8,
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => bytes.len() as u64 + 4,
    }
}
