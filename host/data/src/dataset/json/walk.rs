//! Iterates over the values in a JSON text, and gives the text of each. The text must be valid JSON.

use super::strict::string_end;
use std::borrow::Cow;

/// The type of a value. For a list or an object, the variant holds an iterator over the values.
#[derive(Debug)]
pub(super) enum ValueShape<'a> {
    Null,
    Boolean,
    Number,
    Text,
    List(ListItems<'a>),
    Object(ObjectMembers<'a>),
}

/// The shape of the value that the text begins with, after blanks.
pub(super) fn shape(text: &str) -> ValueShape<'_> {
    let text = text.trim_ascii();
    match text.as_bytes().first() {
        Some(b'{') => ValueShape::Object(ObjectMembers(Rest { text, at: 1 })),
        Some(b'[') => ValueShape::List(ListItems(Rest { text, at: 1 })),
        Some(b'"') => ValueShape::Text,
        Some(b't' | b'f') => ValueShape::Boolean,
        Some(b'n') => ValueShape::Null,
        _ => ValueShape::Number,
    }
}

#[derive(Debug)]
pub(super) struct ListItems<'a>(Rest<'a>);

impl<'a> Iterator for ListItems<'a> {
    /// An item's text.
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        self.0.next_value()
    }
}

#[derive(Debug)]
pub(super) struct ObjectMembers<'a>(Rest<'a>);

impl<'a> Iterator for ObjectMembers<'a> {
    /// A member's name and the text of its value.
    type Item = (Cow<'a, str>, &'a str);

    fn next(&mut self) -> Option<Self::Item> {
        let name = self.0.next_value()?;
        let value = self.0.next_value()?;
        let plain = name.get(1..name.len().checked_sub(1)?)?;
        let name = match plain.contains('\\') {
            true => Cow::Owned(serde_json::from_str(name).ok()?),
            false => Cow::Borrowed(plain),
        };
        Some((name, value))
    }
}

/// The rest of a list or an object.
#[derive(Debug)]
struct Rest<'a> {
    text: &'a str,
    /// The offset of the next byte in `text`.
    at: usize,
}

impl<'a> Rest<'a> {
    /// The next value or name, after the separators. `None` at the end.
    fn next_value(&mut self) -> Option<&'a str> {
        let bytes = self.text.as_bytes();
        let is_separator = |byte: &&u8| matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | b',' | b':');
        self.at += bytes.get(self.at..)?.iter().take_while(is_separator).count();
        let start = self.at;
        self.at = value_end(bytes, start)?;
        self.text.get(start..self.at)
    }
}

/// The end of the value that begins at `start`. `None` if there is no value.
fn value_end(bytes: &[u8], start: usize) -> Option<usize> {
    let mut at = start;
    let mut depth = 0_usize;
    loop {
        match bytes.get(at)? {
            b'"' => at = string_end(bytes, at + 1),
            b'{' | b'[' => {
                depth += 1;
                at += 1;
            }
            b'}' | b']' => {
                depth = depth.checked_sub(1)?;
                at += 1;
            }
            b',' | b':' | b' ' | b'\t' | b'\n' | b'\r' => at += 1,
            _ => {
                let is_plain = |byte: &&u8| {
                    !matches!(byte, b',' | b':' | b'}' | b']' | b' ' | b'\t' | b'\n' | b'\r')
                };
                at += bytes[at..].iter().take_while(is_plain).count();
            }
        }
        if depth == 0 {
            return Some(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::Value;

    /// What the walk sees, as a `Value`.
    fn seen(text: &str) -> Value {
        match shape(text) {
            ValueShape::List(items) => items.map(seen).collect(),
            ValueShape::Object(members) => {
                members.map(|(name, value)| (name.into_owned(), seen(value))).collect()
            }
            _ => serde_json::from_str(text).unwrap(),
        }
    }

    fn value() -> impl Strategy<Value = String> {
        let space = "[ \t\n]{0,2}";
        let scalar = r#"null|true|false|-?[1-9][0-9]{0,3}([.][0-9]{1,3})?(e[+-]?[1-9])?|"([a-z{}\[\]:,é]|\\\\|\\"|\\u00e9){0,5}""#;
        let leaf = (space, scalar, space).prop_map(|(a, value, b)| format!("{a}{value}{b}"));
        leaf.prop_recursive(4, 30, 4, move |inner| {
            let items = prop::collection::vec(inner.clone(), 0..4);
            let names = prop::collection::vec((r#"([a-z:{]|\\\\|\\"|\\u00e9){0,3}"#, inner), 0..4);
            prop_oneof![
                items.prop_map(|items| format!("[{}]", items.join(","))),
                names.prop_map(|names| {
                    let members = names.iter().map(|(name, value)| format!("\"{name}\" :{value}"));
                    format!(" {{ {} }}", members.collect::<Vec<_>>().join(" , "))
                }),
            ]
        })
    }

    proptest! {
        #[test]
        fn each_value_is_found(text in value()) {
            prop_assert_eq!(seen(&text), serde_json::from_str::<Value>(&text).unwrap(), "{}", text);
        }

        /// The walk ends on any text.
        #[test]
        fn any_text_is_walked_to_its_end(text in "[{}\\[\\]\",:a1 \\\\é]{0,40}") {
            if let ValueShape::Object(members) = shape(&text) {
                members.for_each(drop);
            }
            if let ValueShape::List(items) = shape(&text) {
                items.for_each(drop);
            }
        }
    }
}
