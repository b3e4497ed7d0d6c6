//! Texts, names and rows in JSON.

use arrow::datatypes::{DataType, FieldRef};
use serde::de::IgnoredAny;
use std::collections::HashSet;

/// Appends a text in JSON quotes.
pub(super) fn text(text: &str, out: &mut Vec<u8>) {
    serde_json::to_writer(out, text).expect("a text can be written to memory");
}

/// A name that two fields share, within `fields` or within one struct.
pub(super) fn duplicate_name(fields: &[FieldRef]) -> Option<&str> {
    let mut names = HashSet::new();
    fields.iter().find_map(|field| match field.data_type() {
        _ if !names.insert(field.name()) => Some(field.name().as_str()),
        DataType::Struct(inner) => duplicate_name(inner),
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::ListView(item)
        | DataType::LargeListView(item)
        | DataType::FixedSizeList(item, _)
        | DataType::Map(item, _)
        | DataType::RunEndEncoded(_, item) => duplicate_name(std::slice::from_ref(item)),
        _ => None,
    })
}

/// Whether a row of text already is a JSON object or array.
pub(super) fn is_nested(row: &str) -> bool {
    row.trim_start().starts_with(['{', '[']) && serde_json::from_str::<IgnoredAny>(row).is_ok()
}
