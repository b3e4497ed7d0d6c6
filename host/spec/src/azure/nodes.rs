//! Helpers for trees.

use crate::error::SettingOrigin;
use crate::tree::{MapEntry, YamlNode, YamlValue};

/// The key that names the schema for an editor. It does not affect the job.
pub(crate) const SCHEMA_KEY: &str = "$schema";

/// The text of a scalar.
pub(super) fn text(node: &YamlNode) -> Option<&str> {
    match &node.value {
        YamlValue::Scalar { text, .. } => Some(text),
        _ => None,
    }
}

/// An entry of a map.
pub(super) fn entry_of<'n>(entries: &'n [MapEntry], key: &str) -> Option<&'n MapEntry> {
    entries.iter().find(|entry| entry.key == key)
}

/// A scalar in a map.
pub(super) fn text_at<'n>(entries: &'n [MapEntry], key: &str) -> Option<&'n str> {
    entry_of(entries, key).and_then(|entry| text(&entry.node))
}

/// Takes a value out of a map.
pub(super) fn take(entries: &mut Vec<MapEntry>, key: &str) -> Option<YamlNode> {
    let index = entries.iter().position(|entry| entry.key == key)?;
    Some(entries.remove(index).node)
}

/// A text with that origin.
pub(super) fn scalar(text: impl Into<String>, origin: &SettingOrigin) -> YamlNode {
    YamlNode {
        origin: origin.clone(),
        value: YamlValue::Scalar { text: text.into(), is_text: true },
    }
}

/// A map's entry.
pub(super) fn entry(key: &str, node: YamlNode) -> MapEntry {
    MapEntry { key: key.to_owned(), node }
}

/// Adds an entry to a map, unless the map has one of that name.
pub(super) fn add_missing(entries: &mut Vec<MapEntry>, new: MapEntry) {
    if entry_of(entries, &new.key).is_none() {
        entries.push(new);
    }
}

/// The entries of a group, which is created if it does not exist. `None` if it is not a map.
pub(super) fn group_of<'e>(
    entries: &'e mut Vec<MapEntry>,
    group: &str,
    origin: &SettingOrigin,
) -> Option<&'e mut Vec<MapEntry>> {
    let index = entries.iter().position(|entry| entry.key == group).unwrap_or_else(|| {
        let node = YamlNode { origin: origin.clone(), value: YamlValue::Map(Vec::new()) };
        entries.push(entry(group, node));
        entries.len() - 1
    });
    match &mut entries[index].node.value {
        YamlValue::Map(entries) => Some(entries),
        _ => None,
    }
}

/// The maximum size of a parameter. It also bounds how much references can enlarge a file.
pub(super) const MAX_PARAMETER: usize = 1024;

/// Whether a value is small enough to replace a reference.
pub(super) fn is_small(node: &YamlNode) -> bool {
    fn weight(node: &YamlNode) -> usize {
        1 + match &node.value {
            YamlValue::Null => 0,
            YamlValue::Scalar { text, .. } => text.len(),
            YamlValue::List(items) => items.iter().map(weight).sum(),
            YamlValue::Map(entries) => {
                entries.iter().map(|entry| entry.key.len() + weight(&entry.node)).sum()
            }
        }
    }
    weight(node) <= MAX_PARAMETER
}

/// Calls `change` for every scalar of the tree.
pub(super) fn each_scalar(node: &mut YamlNode, change: &mut impl FnMut(&mut YamlNode)) {
    match &mut node.value {
        YamlValue::Null => {}
        YamlValue::Scalar { .. } => change(node),
        YamlValue::List(items) => items.iter_mut().for_each(|item| each_scalar(item, change)),
        YamlValue::Map(entries) => {
            entries.iter_mut().for_each(|entry| each_scalar(&mut entry.node, change));
        }
    }
}
