//! Helpers for trees.

use crate::error::Origin;
use crate::tree::{Entry, Node, Value};

/// The key that names the schema for an editor. It does not affect the job.
pub(crate) const SCHEMA_KEY: &str = "$schema";

/// The text of a scalar.
pub(super) fn text(node: &Node) -> Option<&str> {
    match &node.value {
        Value::Scalar { text, .. } => Some(text),
        _ => None,
    }
}

/// An entry of a map.
pub(super) fn entry_of<'n>(entries: &'n [Entry], key: &str) -> Option<&'n Entry> {
    entries.iter().find(|entry| entry.key == key)
}

/// A scalar in a map.
pub(super) fn text_at<'n>(entries: &'n [Entry], key: &str) -> Option<&'n str> {
    entry_of(entries, key).and_then(|entry| text(&entry.node))
}

/// Takes a value out of a map.
pub(super) fn take(entries: &mut Vec<Entry>, key: &str) -> Option<Node> {
    let index = entries.iter().position(|entry| entry.key == key)?;
    Some(entries.remove(index).node)
}

/// A text with that origin.
pub(super) fn scalar(text: impl Into<String>, origin: &Origin) -> Node {
    Node { origin: origin.clone(), value: Value::Scalar { text: text.into(), is_text: true } }
}

/// A map's entry.
pub(super) fn entry(key: &str, node: Node) -> Entry {
    Entry { key: key.to_owned(), node }
}

/// Adds an entry to a map, unless the map has one of that name.
pub(super) fn add_missing(entries: &mut Vec<Entry>, new: Entry) {
    if entry_of(entries, &new.key).is_none() {
        entries.push(new);
    }
}

/// The entries of a group, which is created if it does not exist. `None` if it is not a map.
pub(super) fn group_of<'e>(
    entries: &'e mut Vec<Entry>,
    group: &str,
    origin: &Origin,
) -> Option<&'e mut Vec<Entry>> {
    let index = entries.iter().position(|entry| entry.key == group).unwrap_or_else(|| {
        let node = Node { origin: origin.clone(), value: Value::Map(Vec::new()) };
        entries.push(entry(group, node));
        entries.len() - 1
    });
    match &mut entries[index].node.value {
        Value::Map(entries) => Some(entries),
        _ => None,
    }
}

/// The maximum size of a parameter. It also bounds how much references can enlarge a file.
pub(super) const MAX_PARAMETER: usize = 1024;

/// Whether a value is small enough to replace a reference.
pub(super) fn is_small(node: &Node) -> bool {
    fn weight(node: &Node) -> usize {
        1 + match &node.value {
            Value::Null => 0,
            Value::Scalar { text, .. } => text.len(),
            Value::List(items) => items.iter().map(weight).sum(),
            Value::Map(entries) => {
                entries.iter().map(|entry| entry.key.len() + weight(&entry.node)).sum()
            }
        }
    }
    weight(node) <= MAX_PARAMETER
}

/// Calls `change` for every scalar of the tree.
pub(super) fn each_scalar(node: &mut Node, change: &mut impl FnMut(&mut Node)) {
    match &mut node.value {
        Value::Null => {}
        Value::Scalar { .. } => change(node),
        Value::List(items) => items.iter_mut().for_each(|item| each_scalar(item, change)),
        Value::Map(entries) => {
            entries.iter_mut().for_each(|entry| each_scalar(&mut entry.node, change));
        }
    }
}
