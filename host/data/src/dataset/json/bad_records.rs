//! Explains why a line is not a row of a table.

use super::field::is_json;
use super::moments::{parse_date, parse_day_count, parse_timestamp};
use super::walk::{ValueShape, shape};
use crate::dataset::csv::shortened;
use crate::dataset::exact::{exact_float, float, integer, unsigned};
use arrow::datatypes::{DataType, Field, Fields, Schema};
use serde::de::IgnoredAny;
use serde_json::Value;
use std::borrow::Cow;
use std::collections::HashMap;

/// Explains to the user why arrow-json refuses the line. `error` is arrow-json's own message. `exact`:
/// whether a number that the column would round counts as a misfit.
pub(super) fn reason(line: &[u8], schema: &Schema, exact: bool, error: &str) -> String {
    let Ok(text) = std::str::from_utf8(line) else {
        let bad = String::from_utf8_lossy(line);
        let at = bad.find('\u{fffd}').unwrap_or_default();
        let start = bad[..at].char_indices().rev().take(10).last().map_or(at, |(start, _)| start);
        return format!("{:?} is not UTF-8", shortened(&bad[start..]));
    };
    // Parsing into `Value` gives the more detailed error, but also refuses valid JSON that exceeds the limits
    // of `Value` (depth, number range). `IgnoredAny` has no such limits.
    let detailed_error = serde_json::from_str::<Value>(text).err();
    if let Err(error) = serde_json::from_str::<IgnoredAny>(text) {
        return syntax_message(text, &detailed_error.unwrap_or(error));
    }
    match shape(text) {
        ValueShape::Object(_) => {
            let misfit = MisfitSearch { exact }.in_members(text, schema.fields(), "");
            misfit.unwrap_or_else(|| match detailed_error {
                Some(detailed_error) => syntax_message(text, &detailed_error),
                None => format!("cannot be read: {error}"),
            })
        }
        other => {
            let found = shape_name(&other);
            format!("holds {found}; each line must be an object, as in {{\"id\": 1}}")
        }
    }
}

/// The error message of serde without the line number: serde has seen only this line.
fn syntax_message(text: &str, error: &serde_json::Error) -> String {
    if text.trim().is_empty() {
        return "holds blanks only; leave it empty, or write an object".to_owned();
    }
    let reported = error.to_string();
    let reported = reported.split(" at line ").next().unwrap_or_default();
    format!("is not JSON: {reported} at character {}", error.column())
}

/// Finds the first value that does not fit its field.
struct MisfitSearch {
    exact: bool,
}

impl MisfitSearch {
    /// Why a member of the object does not fit its field. `path` comes before the member's name in messages.
    fn in_members(&self, object: &str, fields: &Fields, path: &str) -> Option<String> {
        let ValueShape::Object(members) = shape(object) else { return None };
        // If a name occurs several times, the last member counts.
        let members: HashMap<Cow<'_, str>, &str> = members.collect();
        fields.iter().find_map(|field| {
            let value = members.get(field.name().as_str())?;
            self.in_value(value, field, &format!("{path}{}", field.name()))
        })
    }

    /// Why the value does not fit the field. `path` names the value in the message.
    fn in_value(&self, value: &str, field: &Field, path: &str) -> Option<String> {
        let kind = field.data_type();
        let (fits, name) = match (kind, shape(value)) {
            (_, ValueShape::Null) => return None,
            (DataType::List(field), ValueShape::List(mut items)) => {
                let mut index = 0..;
                return items.find_map(|item| {
                    let index = index.next().unwrap_or_default();
                    self.in_value(item, field, &format!("{path}[{index}]"))
                });
            }
            (DataType::Struct(fields), ValueShape::Object(_)) => {
                return self.in_members(value, fields, &format!("{path}."));
            }
            (DataType::List(_), _) => (false, "list"),
            (DataType::Struct(_), _) => (false, "object"),
            (DataType::Float64, ValueShape::Number) if self.exact && float(value).is_some() => {
                if exact_float(value).is_some() {
                    return None;
                }
                return Some(format!(
                    "column '{path}': {} would be rounded as float64; set schema_inference to full, or \
                     the column's type in schema: string keeps all digits, float64 rounds",
                    shortened(value)
                ));
            }
            (DataType::Float64, ValueShape::Number) => (float(value).is_some(), "float64"),
            (DataType::Float64, _) => (false, "float64"),
            (DataType::Int64, shape) => {
                (matches!(shape, ValueShape::Number) && integer(value).is_some(), "int64")
            }
            (DataType::UInt64, shape) => {
                (matches!(shape, ValueShape::Number) && unsigned(value).is_some(), "uint64")
            }
            (DataType::Boolean, shape) => (matches!(shape, ValueShape::Boolean), "boolean"),
            (DataType::Utf8, shape) => {
                let is_plain = !matches!(shape, ValueShape::List(_) | ValueShape::Object(_));
                (is_plain || is_json(field), "string")
            }
            (DataType::Date32, shape) => {
                (accepts_moment(value, &shape, parse_date, parse_day_count), "date")
            }
            (_, shape) => (accepts_moment(value, &shape, parse_timestamp, integer), "timestamp"),
        };
        (!fits).then(|| format!("column '{path}': {} is not a valid {name}", shortened(value)))
    }
}

/// Whether a column of dates or times accepts the value. `parse` reads texts, and `count` reads numbers.
fn accepts_moment<T>(
    value: &str,
    shape: &ValueShape<'_>,
    parse: fn(&str) -> Option<T>,
    count: fn(&str) -> Option<T>,
) -> bool {
    match shape {
        ValueShape::Text => {
            serde_json::from_str::<String>(value).is_ok_and(|text| parse(&text).is_some())
        }
        ValueShape::Number => count(value).is_some(),
        _ => false,
    }
}

/// The type of a value, for a message.
fn shape_name(shape: &ValueShape<'_>) -> &'static str {
    match shape {
        ValueShape::Null => "null",
        ValueShape::Boolean => "a truth value",
        ValueShape::Number => "a number",
        ValueShape::Text => "a text",
        ValueShape::List(_) => "a list",
        ValueShape::Object(_) => "an object",
    }
}
