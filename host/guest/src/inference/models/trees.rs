//! Checks the decision trees of a model before they are evaluated: every child and class must exist, and
//! every path must end.

use super::onnx_facts::attribute;
use std::collections::{BTreeMap, BTreeSet};
use tract_onnx::pb::NodeProto;

/// The operators that have trees.
pub(super) const CLASSIFIER: &str = "TreeEnsembleClassifier";
pub(super) const REGRESSOR: &str = "TreeEnsembleRegressor";

/// Checks that the node describes trees, and that their leaves vote for existing classes or targets.
/// `targets` is the number of classes or targets.
///
/// # Errors
/// If the lists have different lengths, a node refers to a missing node, or a path leads back to a
/// node that it has passed. The text continues a sentence that begins with `its` and the operator's
/// name.
pub(super) fn check(node: &NodeProto, targets: usize) -> Result<(), String> {
    let modes = texts(node, "nodes_modes");
    let lists = ["nodes_treeids", "nodes_nodeids", "nodes_truenodeids", "nodes_falsenodeids"]
        .map(|name| ints(node, name));
    if lists.iter().any(|list| list.len() != modes.len()) {
        return Err("describes its nodes in lists of different lengths".to_owned());
    }
    let [tree_ids, node_ids, yes, no] = lists;
    let mut trees: BTreeMap<i64, Vec<usize>> = BTreeMap::new();
    for (row, tree) in tree_ids.iter().enumerate() {
        trees.entry(*tree).or_default().push(row);
    }
    let mut leaves = BTreeSet::new();
    for (tree, rows) in &trees {
        let ids = rows.iter().map(|row| node_ids[*row]);
        let distinct: BTreeSet<i64> = ids.collect();
        let last_id = (rows.len() as u64).cast_signed() - 1;
        if distinct.len() != rows.len()
            || distinct.first() != Some(&0)
            || distinct.last() != Some(&last_id)
        {
            return Err(format!("has a tree {tree} whose nodes are not numbered from 0"));
        }
        let is_leaf = |row: usize| modes[row] == b"LEAF";
        leaves.extend(rows.iter().filter(|row| is_leaf(**row)).map(|row| (*tree, node_ids[*row])));
        let branches: Vec<(i64, [i64; 2])> = rows
            .iter()
            .filter(|row| !is_leaf(**row))
            .map(|row| (node_ids[*row], [yes[*row], no[*row]]))
            .collect();
        check_paths_end(*tree, rows.len(), &branches)?;
    }
    check_votes(node, targets, &leaves)
}

/// Checks that every path through the tree leads to a leaf.
fn check_paths_end(tree: i64, nodes: usize, branches: &[(i64, [i64; 2])]) -> Result<(), String> {
    let mut parents = vec![0_usize; nodes];
    let mut children: Vec<Option<[usize; 2]>> = vec![None; nodes];
    for (branch, ids) in branches {
        let ids = ids.map(|child| usize::try_from(child).ok().filter(|child| *child < nodes));
        let (Ok(branch), [Some(yes), Some(no)]) = (usize::try_from(*branch), ids) else {
            return Err(format!(
                "has a tree {tree} of {nodes} nodes that leads to a node that does not exist"
            ));
        };
        children[branch] = Some([yes, no]);
        parents[yes] += 1;
        parents[no] += 1;
    }
    // Remove nodes that have no parent until no such node is left. Each node of a cycle keeps a parent.
    let mut without_parent: Vec<usize> = (0..nodes).filter(|node| parents[*node] == 0).collect();
    let mut removed = 0;
    while let Some(node) = without_parent.pop() {
        removed += 1;
        for child in children[node].into_iter().flatten() {
            parents[child] -= 1;
            if parents[child] == 0 {
                without_parent.push(child);
            }
        }
    }
    if removed < nodes {
        return Err(format!("has a tree {tree} that contains a cycle"));
    }
    Ok(())
}

/// Checks that only leaves vote, and only for existing classes.
fn check_votes(
    node: &NodeProto,
    targets: usize,
    leaves: &BTreeSet<(i64, i64)>,
) -> Result<(), String> {
    let (name, plural) = match node.op_type.as_str() {
        REGRESSOR => ("target", "targets"),
        _ => ("class", "classes"),
    };
    let [trees, nodes, classes] =
        ["treeids", "nodeids", "ids"].map(|part| ints(node, &format!("{name}_{part}")));
    if trees.len() != classes.len() || nodes.len() != classes.len() {
        return Err("describes its votes in lists of different lengths".to_owned());
    }
    if let Some(class) =
        classes.iter().find(|id| !usize::try_from(**id).is_ok_and(|id| id < targets))
    {
        return Err(format!("votes on {name} {class}, and has {targets} {plural}"));
    }
    let mut votes = trees.iter().zip(nodes);
    match votes.find(|(tree, node)| !leaves.contains(&(**tree, **node))) {
        Some((tree, node)) => {
            Err(format!("has votes at node {node} of tree {tree}, which is not a leaf"))
        }
        None => Ok(()),
    }
}

fn ints<'a>(node: &'a NodeProto, name: &str) -> &'a [i64] {
    attribute(node, name).map_or(&[], |attribute| attribute.ints.as_slice())
}

fn texts<'a>(node: &'a NodeProto, name: &str) -> &'a [Vec<u8>] {
    attribute(node, name).map_or(&[], |attribute| attribute.strings.as_slice())
}
