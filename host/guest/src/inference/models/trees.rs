//! Decision trees. tract walks them without looking: a child or a class that is not there is read and written all
//! the same, and a circle is walked for ever.

use super::onnx_facts::attribute;
use super::{ErrorCode, InferenceError};
use std::collections::{BTreeMap, BTreeSet};
use tract_onnx::pb::NodeProto;

/// The only operation of tract that has trees.
pub(super) const OPERATION: &str = "TreeEnsembleClassifier";

/// What tract 0.23.9 computes otherwise than ONNX Runtime does.
pub(super) fn wrong(node: &NodeProto) -> Option<&'static str> {
    if texts(node, "nodes_modes").iter().any(|mode| mode == b"BRANCH_GTE") {
        return Some("with BRANCH_GTE");
    }
    let transform = attribute(node, "post_transform").map_or(&b""[..], |it| it.s.as_slice());
    if matches!(transform, b"PROBIT" | b"SOFTMAX_ZERO") {
        return Some("with post_transform PROBIT or SOFTMAX_ZERO");
    }
    if !texts(node, "classlabels_strings").is_empty() {
        return Some("with labels that are texts");
    }
    // The label is another one.
    if labels(node) < 3 {
        return Some("of fewer than three classes");
    }
    // A class without a vote has 0 in tract and cannot win in ONNX Runtime.
    (!all_vote(node)).then_some("whose trees do not vote on each class")
}

/// Whether a class that nothing votes for cannot come out as the winner.
fn all_vote(node: &NodeProto) -> bool {
    let modes = texts(node, "nodes_modes");
    let nodes = ints(node, "nodes_treeids").iter().zip(ints(node, "nodes_nodeids"));
    let mut leaves: BTreeMap<i64, usize> = BTreeMap::new();
    for ((tree, _), mode) in nodes.zip(modes) {
        *leaves.entry(*tree).or_default() += usize::from(mode == b"LEAF");
    }
    let weights = floats(node, "class_weights");
    let votes = ints(node, "class_treeids").iter().zip(ints(node, "class_nodeids"));
    let votes = votes.zip(ints(node, "class_ids")).zip(weights);
    // Leaves that vote on a class, and those with a vote above zero, by tree.
    let mut on_class: BTreeMap<(i64, i64), BTreeSet<i64>> = BTreeMap::new();
    let mut above: BTreeMap<i64, BTreeSet<i64>> = BTreeMap::new();
    for (((tree, leaf), class), weight) in votes {
        on_class.entry((*class, *tree)).or_default().insert(*leaf);
        if *weight > 0.0 {
            above.entry(*tree).or_default().insert(*leaf);
        }
    }
    let all_leaves = |tree: &i64, some: &BTreeSet<i64>| leaves.get(tree) == Some(&some.len());
    let covered: BTreeSet<i64> = on_class
        .iter()
        .filter(|((_, tree), some)| all_leaves(tree, some))
        .map(|((class, _), _)| *class)
        .collect();
    let never_below = weights.iter().all(|weight| *weight >= 0.0);
    covered.len() == labels(node)
        || (never_below && above.iter().any(|(tree, some)| all_leaves(tree, some)))
}

/// Whether the trees are trees.
///
/// # Errors
/// A list is too short, or something refers to what is not there or back to itself.
pub(super) fn check(node: &NodeProto) -> Result<(), InferenceError> {
    let mut names = BTreeSet::new();
    if let Some(twice) = node.attribute.iter().find(|it| !names.insert(&it.name)) {
        return Err(broken(&format!("has two attributes {:?}", twice.name)));
    }
    let modes = texts(node, "nodes_modes");
    let lists = ["nodes_treeids", "nodes_nodeids", "nodes_truenodeids", "nodes_falsenodeids"]
        .map(|name| ints(node, name));
    if lists.iter().any(|list| list.len() != modes.len()) {
        return Err(broken("describes its nodes in lists of different lengths"));
    }
    let [tree_ids, node_ids, yes, no] = lists;
    let mut trees: BTreeMap<i64, Vec<usize>> = BTreeMap::new();
    for (row, tree) in tree_ids.iter().enumerate() {
        trees.entry(*tree).or_default().push(row);
    }
    let mut leaves = BTreeSet::new();
    for (tree, rows) in &trees {
        let numbers = rows.iter().map(|row| node_ids[*row]);
        let distinct: BTreeSet<i64> = numbers.collect();
        let last = (rows.len() as u64).cast_signed() - 1;
        if distinct.len() != rows.len()
            || distinct.first() != Some(&0)
            || distinct.last() != Some(&last)
        {
            return Err(broken(&format!("has a tree {tree} whose nodes are not counted from 0")));
        }
        let is_leaf = |row: usize| modes[row] == b"LEAF";
        leaves.extend(rows.iter().filter(|row| is_leaf(**row)).map(|row| (*tree, node_ids[*row])));
        let branches: Vec<(i64, [i64; 2])> = rows
            .iter()
            .filter(|row| !is_leaf(**row))
            .map(|row| (node_ids[*row], [yes[*row], no[*row]]))
            .collect();
        ends(*tree, rows.len(), &branches)?;
    }
    votes(node, &leaves)
}

/// Whether every way through the tree leads to a leaf.
fn ends(tree: i64, nodes: usize, branches: &[(i64, [i64; 2])]) -> Result<(), InferenceError> {
    let mut parents = vec![0_usize; nodes];
    let mut children: Vec<Option<[usize; 2]>> = vec![None; nodes];
    for (branch, below) in branches {
        let below = below.map(|child| usize::try_from(child).ok().filter(|child| *child < nodes));
        let (Ok(branch), [Some(yes), Some(no)]) = (usize::try_from(*branch), below) else {
            return Err(broken(&format!(
                "has a tree {tree} of {nodes} nodes that leads to a node that is not there"
            )));
        };
        children[branch] = Some([yes, no]);
        parents[yes] += 1;
        parents[no] += 1;
    }
    // Takes away nodes that nothing leads to, until none is left.
    let mut free: Vec<usize> = (0..nodes).filter(|node| parents[*node] == 0).collect();
    let mut taken = 0;
    while let Some(node) = free.pop() {
        taken += 1;
        for child in children[node].into_iter().flatten() {
            parents[child] -= 1;
            if parents[child] == 0 {
                free.push(child);
            }
        }
    }
    if taken < nodes {
        return Err(broken(&format!("has a tree {tree} that goes round in a circle")));
    }
    Ok(())
}

/// Whether leaves vote, and on classes that are there.
fn votes(node: &NodeProto, leaves: &BTreeSet<(i64, i64)>) -> Result<(), InferenceError> {
    let [trees, nodes, classes] =
        ["class_treeids", "class_nodeids", "class_ids"].map(|name| ints(node, name));
    if trees.len() != classes.len() || nodes.len() != classes.len() {
        return Err(broken("describes its votes in lists of different lengths"));
    }
    let labels = labels(node);
    if let Some(class) =
        classes.iter().find(|id| !usize::try_from(**id).is_ok_and(|id| id < labels))
    {
        return Err(broken(&format!("votes on class {class}, and has {labels} classes")));
    }
    let mut votes = trees.iter().zip(nodes);
    match votes.find(|(tree, node)| !leaves.contains(&(**tree, **node))) {
        Some((tree, node)) => {
            Err(broken(&format!("has votes at node {node} of tree {tree}, which is no leaf")))
        }
        None => Ok(()),
    }
}

fn labels(node: &NodeProto) -> usize {
    ints(node, "classlabels_int64s").len().max(texts(node, "classlabels_strings").len())
}

fn ints<'a>(node: &'a NodeProto, name: &str) -> &'a [i64] {
    attribute(node, name).map_or(&[], |it| it.ints.as_slice())
}

fn floats<'a>(node: &'a NodeProto, name: &str) -> &'a [f32] {
    attribute(node, name).map_or(&[], |it| it.floats.as_slice())
}

fn texts<'a>(node: &'a NodeProto, name: &str) -> &'a [Vec<u8>] {
    attribute(node, name).map_or(&[], |it| it.strings.as_slice())
}

fn broken(what: &str) -> InferenceError {
    InferenceError::refused(ErrorCode::InvalidEncoding, format!("its {OPERATION} {what}"))
}
