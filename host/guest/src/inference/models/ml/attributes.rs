//! The attributes of a node.

use super::{OperatorRefusal, attribute};
use std::collections::HashSet;
use tract_onnx::pb::NodeProto;

/// Refuses two attributes with the same name: readers differ in which one they use.
pub(super) fn check_distinct(node: &NodeProto) -> Result<(), OperatorRefusal> {
    let mut names = HashSet::new();
    match node.attribute.iter().find(|attribute| !names.insert(&attribute.name)) {
        Some(twice) => Err(OperatorRefusal::Broken(format!("has two attributes {:?}", twice.name))),
        None => Ok(()),
    }
}

pub(super) fn ints<'a>(node: &'a NodeProto, name: &str) -> &'a [i64] {
    attribute(node, name).map_or(&[], |found| found.ints.as_slice())
}

pub(super) fn floats<'a>(node: &'a NodeProto, name: &str) -> &'a [f32] {
    attribute(node, name).map_or(&[], |found| found.floats.as_slice())
}

pub(super) fn texts<'a>(node: &'a NodeProto, name: &str) -> &'a [Vec<u8>] {
    attribute(node, name).map_or(&[], |found| found.strings.as_slice())
}

/// A string attribute; empty if it is missing.
pub(super) fn text<'a>(node: &'a NodeProto, name: &str) -> &'a [u8] {
    attribute(node, name).map_or(&[], |found| found.s.as_slice())
}

pub(super) fn int(node: &NodeProto, name: &str) -> Option<i64> {
    attribute(node, name).map(|found| found.i)
}

pub(super) fn check_length(
    what: &str,
    found: usize,
    expected: usize,
) -> Result<(), OperatorRefusal> {
    if found == expected {
        return Ok(());
    }
    Err(OperatorRefusal::Broken(format!("has {found} {what}; it takes {expected}")))
}
