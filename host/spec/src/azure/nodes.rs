//! Helpers for nodes of a YAML tree, and for the entries of its maps.

use crate::error::SettingOrigin;
use crate::tree::{MapEntry, YamlNode, YamlValue};

/// The key that names the schema for an editor. It does not affect the job.
pub(crate) const SCHEMA_KEY: &str = "$schema";

/// Returns the text of a scalar. `None` for other nodes.
pub(super) fn text(node: &YamlNode) -> Option<&str> {
    match &node.value {
        YamlValue::Scalar { text, .. } => Some(text),
        _ => None,
    }
}

pub(super) fn entry_of<'n>(entries: &'n [MapEntry], key: &str) -> Option<&'n MapEntry> {
    entries.iter().find(|entry| entry.key == key)
}

/// Returns the text of the scalar with this key in a map.
pub(super) fn text_at<'n>(entries: &'n [MapEntry], key: &str) -> Option<&'n str> {
    entry_of(entries, key).and_then(|entry| text(&entry.node))
}

/// Removes a key from a map, and returns its value.
pub(super) fn remove_key(entries: &mut Vec<MapEntry>, key: &str) -> Option<YamlNode> {
    let index = entries.iter().position(|entry| entry.key == key)?;
    Some(entries.remove(index).node)
}

pub(super) fn scalar(text: impl Into<String>, origin: &SettingOrigin) -> YamlNode {
    YamlNode {
        origin: origin.clone(),
        value: YamlValue::Scalar { text: text.into(), is_text: true },
    }
}

pub(super) fn entry(key: &str, node: YamlNode) -> MapEntry {
    MapEntry { key: key.to_owned(), node }
}

/// Adds an entry to a map, unless the map has an entry with the same key.
pub(super) fn add_missing(entries: &mut Vec<MapEntry>, new: MapEntry) {
    if entry_of(entries, &new.key).is_none() {
        entries.push(new);
    }
}

/// Returns the entries of a group, and creates the group if it does not exist. `None` if the group is not a
/// map.
pub(super) fn group_or_insert<'e>(
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

/// The maximum size of an input's value. It also bounds how much a file can grow when references are replaced
/// by values.
pub(super) const MAX_PARAMETER_BYTES: usize = 1024;

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
    weight(node) <= MAX_PARAMETER_BYTES
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
