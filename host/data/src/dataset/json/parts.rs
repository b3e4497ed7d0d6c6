//! Decides how each value in a line is read. Finds the values that are kept as JSON text, and the keys
//! without a column.

use super::field::is_json;
use super::walk::{ValueShape, shape};
use arrow::datatypes::{DataType, Field, Schema};
use serde::de::IgnoredAny;
use std::collections::HashMap;

/// How a value is read.
#[derive(Debug)]
pub(super) enum PartTarget {
    /// The value is decoded as its column's type.
    Typed,
    /// The text of the value is kept unchanged.
    Json,
    /// The value is a list. The inner target says how each item is read.
    Items(Box<PartTarget>),
    /// The value is an object. The map says, by name, how members are read. Other members have no column.
    Members(HashMap<String, PartTarget>),
}

impl PartTarget {
    /// How a line of a table is read. The keys in `dropped` have no column, but count as known.
    pub(super) fn of_line(schema: &Schema, dropped: &[String]) -> Self {
        let dropped = dropped.iter().map(|name| (name.clone(), Self::Typed));
        let columns =
            schema.fields().iter().map(|field| (field.name().clone(), Self::from_field(field)));
        Self::Members(dropped.chain(columns).collect())
    }

    fn members<'a>(fields: impl Iterator<Item = &'a Field>) -> Self {
        Self::Members(fields.map(|field| (field.name().clone(), Self::from_field(field))).collect())
    }

    fn from_field(field: &Field) -> Self {
        match field.data_type() {
            DataType::List(item) => Self::Items(Box::new(Self::from_field(item))),
            DataType::Struct(fields) => Self::members(fields.iter().map(AsRef::as_ref)),
            _ if is_json(field) => Self::Json,
            _ => Self::Typed,
        }
    }

    /// Whether the text of some value is kept.
    pub(super) fn has_json(&self) -> bool {
        match self {
            Self::Typed => false,
            Self::Json => true,
            Self::Items(item) => item.has_json(),
            Self::Members(members) => members.values().any(Self::has_json),
        }
    }

    /// Appends the line and a line end. Each value whose text is kept becomes a JSON string that holds that
    /// text; nulls stay nulls. Returns false if the line is not JSON.
    pub(super) fn append_quoted(&self, line: &[u8], out: &mut Vec<u8>) -> bool {
        let Ok(text) = std::str::from_utf8(line) else { return false };
        if serde_json::from_str::<IgnoredAny>(text).is_err() {
            return false;
        }
        let mut copied = 0;
        self.append_quoted_value(text, text, &mut copied, out);
        out.extend_from_slice(&line[copied..]);
        out.push(b'\n');
        true
    }

    /// `value` is a part of `line`. The part of `line` before `copied` has already been appended.
    fn append_quoted_value(&self, value: &str, line: &str, copied: &mut usize, out: &mut Vec<u8>) {
        match (self, shape(value)) {
            (Self::Typed, _) | (_, ValueShape::Null) => {}
            (Self::Json, _) => {
                let start = value.as_ptr().addr() - line.as_ptr().addr();
                out.extend_from_slice(&line.as_bytes()[*copied..start]);
                out.extend_from_slice(serde_json::Value::from(value).to_string().as_bytes());
                *copied = start + value.len();
            }
            (Self::Items(item), ValueShape::List(items)) => {
                items.for_each(|value| item.append_quoted_value(value, line, copied, out));
            }
            (Self::Members(parts), ValueShape::Object(members)) => {
                for (name, value) in members {
                    if let Some(part) = parts.get(name.as_ref()) {
                        part.append_quoted_value(value, line, copied, out);
                    }
                }
            }
            _ => {}
        }
    }

    /// Collects those keys of a value, such as `a.b`, for which there is no column. Stops when `names` holds
    /// `max_names`.
    /// `path` is the name of the value. Returns whether there are such keys.
    pub(super) fn collect_unknown(
        &self,
        value: &str,
        path: &str,
        max_names: usize,
        names: &mut Vec<String>,
    ) -> bool {
        let child_path = |path: &str, name: &str| match path.is_empty() {
            true => name.to_owned(),
            false => format!("{path}.{name}"),
        };
        let mut found = false;
        match (self, shape(value)) {
            (Self::Items(item), ValueShape::List(items)) => {
                items
                    .for_each(|value| found |= item.collect_unknown(value, path, max_names, names));
            }
            (Self::Members(parts), ValueShape::Object(members)) => {
                for (name, value) in members {
                    match parts.get(name.as_ref()) {
                        Some(Self::Typed | Self::Json) => {}
                        Some(part) => {
                            found |= part.collect_unknown(
                                value,
                                &child_path(path, &name),
                                max_names,
                                names,
                            );
                        }
                        None => {
                            found = true;
                            let name = child_path(path, &name);
                            if names.len() < max_names && !names.contains(&name) {
                                names.push(name);
                            }
                        }
                    }
                }
            }
            _ => {}
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::super::field::json_field;
    use super::*;
    use insta::assert_snapshot;

    fn target() -> PartTarget {
        let inner = vec![Field::new("n", DataType::Int64, true), json_field("j")];
        let object = DataType::Struct(inner.into());
        let list = DataType::new_list(object.clone(), true);
        let fields = [("t", DataType::Utf8), ("o", object), ("l", list)];
        let mut fields: Vec<_> =
            fields.into_iter().map(|(name, kind)| Field::new(name, kind, true)).collect();
        fields.push(json_field("j"));
        PartTarget::of_line(&Schema::new(fields), &[])
    }

    #[test]
    fn json_values_keep_their_text() {
        let quoted = |line: &str| {
            let mut out = b"before\n".to_vec();
            let is_json = target().append_quoted(line.as_bytes(), &mut out);
            let text = String::from_utf8(out).unwrap();
            (is_json, text.strip_prefix("before\n").unwrap().to_owned())
        };
        let lines = [
            r#"{"j":1.0000000000000000001,"t":"x"}"#,
            r#" {"t" : 1, "j" : {"a": [1, "\"é\u00e9"]} , "o":{"j":"x","n":1,"x":{}}} "#,
            r#"{"l":[{"j":[]},{"n":2},{"j":true}],"j":null,"j":-0}"#,
            r#"{"o":[],"l":{"j":1},"\u006a":{"j":{}}}"#,
        ];
        let lines = lines.map(|line| quoted(line).1);
        assert_snapshot!(lines.concat(), @r#"
        {"j":"1.0000000000000000001","t":"x"}
         {"t" : 1, "j" : "{\"a\": [1, \"\\\"é\\u00e9\"]}" , "o":{"j":"\"x\"","n":1,"x":{}}} 
        {"l":[{"j":"[]"},{"n":2},{"j":"true"}],"j":null,"j":"-0"}
        {"o":[],"l":{"j":1},"\u006a":"{\"j\":{}}"}
        "#);
        assert_eq!(quoted(r#"{"j":01}"#), (false, String::new()));
        assert!(target().has_json());
    }

    #[test]
    fn keys_without_columns_are_found() {
        let mut names = Vec::new();
        assert!(!target().collect_unknown(
            r#"{"j":{"x":1},"o":{"n":1},"l":[{"n":1}],"t":{"x":1}}"#,
            "",
            3,
            &mut names
        ));
        assert!(target().collect_unknown(
            r#"{"l":[{"x":1}],"o":{"y":{"z":1}},"q":1,"r":2}"#,
            "",
            3,
            &mut names
        ));
        assert!(target().collect_unknown(r#"{"s":1}"#, "", 3, &mut names));
        assert_eq!(names, ["l.x", "o.y", "q"]);
    }
}
