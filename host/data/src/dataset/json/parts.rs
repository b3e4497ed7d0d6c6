//! What becomes of each part of a line: which values are kept as the text that they are written in, and which keys no
//! column takes.

use super::field::is_json;
use super::walk::{Shape, shape};
use arrow::datatypes::{DataType, Field, Schema};
use serde::de::IgnoredAny;
use std::collections::HashMap;

/// What becomes of a value.
#[derive(Debug)]
pub(super) enum Part {
    /// It is decoded as its type says.
    Typed,
    /// It is kept as the text that it is written in.
    Json,
    /// Each item of a list becomes this.
    Items(Box<Part>),
    /// The members of an object become these; others nothing.
    Members(HashMap<String, Part>),
}

impl Part {
    /// Of a line of a table. Keys that are `dropped` are known, though no column takes them.
    pub(super) fn of_line(schema: &Schema, dropped: &[String]) -> Self {
        let dropped = dropped.iter().map(|name| (name.clone(), Self::Typed));
        let columns = schema.fields().iter().map(|field| (field.name().clone(), Self::of(field)));
        Self::Members(dropped.chain(columns).collect())
    }

    fn members<'a>(fields: impl Iterator<Item = &'a Field>) -> Self {
        Self::Members(fields.map(|field| (field.name().clone(), Self::of(field))).collect())
    }

    fn of(field: &Field) -> Self {
        match field.data_type() {
            DataType::List(item) => Self::Items(Box::new(Self::of(item))),
            DataType::Struct(fields) => Self::members(fields.iter().map(AsRef::as_ref)),
            _ if is_json(field) => Self::Json,
            _ => Self::Typed,
        }
    }

    /// Whether any value is kept as its text.
    pub(super) fn has_json(&self) -> bool {
        match self {
            Self::Typed => false,
            Self::Json => true,
            Self::Items(item) => item.has_json(),
            Self::Members(members) => members.values().any(Self::has_json),
        }
    }

    /// Appends a line in which each value that is kept as its text is a text that holds it, and a line end. Nulls stay
    /// nulls. False if the line is no JSON.
    pub(super) fn quote(&self, line: &[u8], out: &mut Vec<u8>) -> bool {
        let Ok(text) = std::str::from_utf8(line) else { return false };
        if serde_json::from_str::<IgnoredAny>(text).is_err() {
            return false;
        }
        let mut copied = 0;
        self.quote_value(text, text, &mut copied, out);
        out.extend_from_slice(&line[copied..]);
        out.push(b'\n');
        true
    }

    /// `value` is a part of `line`, of which all before `copied` was appended.
    fn quote_value(&self, value: &str, line: &str, copied: &mut usize, out: &mut Vec<u8>) {
        match (self, shape(value)) {
            (Self::Typed, _) | (_, Shape::Null) => {}
            (Self::Json, _) => {
                let start = value.as_ptr().addr() - line.as_ptr().addr();
                out.extend_from_slice(&line.as_bytes()[*copied..start]);
                out.extend_from_slice(serde_json::Value::from(value).to_string().as_bytes());
                *copied = start + value.len();
            }
            (Self::Items(item), Shape::List(items)) => {
                items.for_each(|value| item.quote_value(value, line, copied, out));
            }
            (Self::Members(parts), Shape::Object(members)) => {
                for (name, value) in members {
                    if let Some(part) = parts.get(name.as_ref()) {
                        part.quote_value(value, line, copied, out);
                    }
                }
            }
            _ => {}
        }
    }

    /// Adds the names of a value's keys that no column takes, as `a.b`, to those that are known, up to `most`. `path` is
    /// what the value is called. Whether there are any.
    pub(super) fn unknown(
        &self,
        value: &str,
        path: &str,
        most: usize,
        names: &mut Vec<String>,
    ) -> bool {
        let inside = |path: &str, name: &str| match path.is_empty() {
            true => name.to_owned(),
            false => format!("{path}.{name}"),
        };
        let mut found = false;
        match (self, shape(value)) {
            (Self::Items(item), Shape::List(items)) => {
                items.for_each(|value| found |= item.unknown(value, path, most, names));
            }
            (Self::Members(parts), Shape::Object(members)) => {
                for (name, value) in members {
                    match parts.get(name.as_ref()) {
                        Some(Self::Typed | Self::Json) => {}
                        Some(part) => {
                            found |= part.unknown(value, &inside(path, &name), most, names);
                        }
                        None => {
                            found = true;
                            let name = inside(path, &name);
                            if names.len() < most && !names.contains(&name) {
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

    fn part() -> Part {
        let inner = vec![Field::new("n", DataType::Int64, true), json_field("j")];
        let object = DataType::Struct(inner.into());
        let list = DataType::new_list(object.clone(), true);
        let fields = [("t", DataType::Utf8), ("o", object), ("l", list)];
        let mut fields: Vec<_> =
            fields.into_iter().map(|(name, kind)| Field::new(name, kind, true)).collect();
        fields.push(json_field("j"));
        Part::of_line(&Schema::new(fields), &[])
    }

    #[test]
    fn values_are_kept_as_they_are_written() {
        let quoted = |line: &str| {
            let mut out = b"before\n".to_vec();
            let is_json = part().quote(line.as_bytes(), &mut out);
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
        assert!(part().has_json());
    }

    #[test]
    fn keys_without_columns_are_found() {
        let mut names = Vec::new();
        assert!(!part().unknown(
            r#"{"j":{"x":1},"o":{"n":1},"l":[{"n":1}],"t":{"x":1}}"#,
            "",
            3,
            &mut names
        ));
        assert!(part().unknown(
            r#"{"l":[{"x":1}],"o":{"y":{"z":1}},"q":1,"r":2}"#,
            "",
            3,
            &mut names
        ));
        assert!(part().unknown(r#"{"s":1}"#, "", 3, &mut names));
        assert_eq!(names, ["l.x", "o.y", "q"]);
    }
}
