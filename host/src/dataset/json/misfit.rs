//! Why a line is no row of a table.

use super::numbers::{days, float, integer};
use crate::dataset::csv::{fits, shortened};
use crate::model::ColumnType;
use arrow::datatypes::{DataType, Fields, Schema};
use serde_json::Value;

/// Why arrow-json refuses the line, in words for people; `error` is what it says itself.
pub(super) fn reason(line: &[u8], schema: &Schema, error: &str) -> String {
    let Ok(text) = std::str::from_utf8(line) else {
        let bad = String::from_utf8_lossy(line);
        let at = bad.find('\u{fffd}').unwrap_or_default();
        let start = bad[..at].char_indices().rev().take(10).last().map_or(at, |(start, _)| start);
        return format!("{:?} is not UTF-8", shortened(&bad[start..]));
    };
    match serde_json::from_str(text) {
        Err(error) => syntax(text, &error),
        Ok(Value::Object(object)) => {
            let misfit = members(&object, schema.fields(), "");
            misfit.unwrap_or_else(|| format!("cannot be read: {error}"))
        }
        Ok(other) => {
            let what = what(&other);
            format!("holds {what}; each line must be an object, as in {{\"id\": 1}}")
        }
    }
}

/// What serde says, without its line: it has seen only this one.
fn syntax(text: &str, error: &serde_json::Error) -> String {
    if text.trim().is_empty() {
        return "holds blanks only; leave it empty, or write an object".to_owned();
    }
    let told = error.to_string();
    let told = told.split(" at line ").next().unwrap_or_default();
    format!("is no JSON: {told} at character {}", error.column())
}

fn members(object: &serde_json::Map<String, Value>, fields: &Fields, path: &str) -> Option<String> {
    fields.iter().find_map(|field| {
        let value = object.get(field.name())?;
        misfit(value, field.data_type(), &format!("{path}{}", field.name()))
    })
}

/// Why the value does not fit the type; `path` is what it is called.
fn misfit(value: &Value, kind: &DataType, path: &str) -> Option<String> {
    let (is_one, name) = match (kind, value) {
        (_, Value::Null) => return None,
        (DataType::List(field), Value::Array(items)) => {
            return items.iter().enumerate().find_map(|(index, item)| {
                misfit(item, field.data_type(), &format!("{path}[{index}]"))
            });
        }
        (DataType::Struct(fields), Value::Object(object)) => {
            return members(object, fields, &format!("{path}."));
        }
        (DataType::List(_), _) => (false, "list"),
        (DataType::Struct(_), _) => (false, "object"),
        (DataType::Int64, Value::Number(number)) => {
            (integer(&number.to_string()).is_some(), "int64")
        }
        (DataType::Int64, _) => (false, "int64"),
        (DataType::Float64, Value::Number(number)) => {
            (float(&number.to_string()).is_some(), "float64")
        }
        (DataType::Float64, _) => (false, "float64"),
        (DataType::Boolean, _) => (value.is_boolean(), "boolean"),
        (DataType::Utf8, _) => (!value.is_array() && !value.is_object(), "string"),
        (DataType::Date32, _) => (may_be(kind, value), "date"),
        (_, _) => (may_be(kind, value), "timestamp"),
    };
    if is_one {
        return None;
    }
    Some(format!("column '{path}': {} is no {name}", shortened(&value.to_string())))
}

/// Whether a column of dates or times takes the value.
fn may_be(kind: &DataType, value: &Value) -> bool {
    let is_date = *kind == DataType::Date32;
    let kind = if is_date { ColumnType::Date } else { ColumnType::Timestamp };
    match value {
        Value::String(text) => fits(kind, text),
        Value::Number(number) if is_date => days(&number.to_string()).is_some(),
        Value::Number(number) => integer(&number.to_string()).is_some(),
        _ => false,
    }
}

fn what(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a truth value",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}
