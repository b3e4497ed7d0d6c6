//! Ensembles of decision trees.

use super::attributes::{floats, int, ints, text, texts};
use super::scores::{Labels, ScoreTransform, index_of_largest, logistic, round_to_f32, to_f64};
use super::{Classifier, Computation, OperatorRefusal, RowFunction};
use crate::inference::models::trees;
use std::collections::{HashMap, HashSet};
use tract_onnx::pb::NodeProto;

/// How a branch compares a feature with its value.
#[derive(Clone, Copy, Debug)]
enum Mode {
    Leq,
    Lt,
    Gte,
    Gt,
    Eq,
    Neq,
}

#[derive(Clone, Copy, Debug)]
enum TreeNode {
    /// The leaf's votes are at these indexes of [`Trees::votes`].
    Leaf { from: u32, to: u32 },
    Branch {
        mode: Mode,
        /// Whether a missing value (NaN) leads to `yes`.
        missing_is_yes: bool,
        feature: u32,
        value: f32,
        /// The index of the next node if the comparison is true.
        yes: u32,
        no: u32,
    },
}

/// Decision trees. For a row, each tree leads to one leaf, whose votes are added to the sums of the classes
/// or targets.
#[derive(Debug)]
struct Trees {
    roots: Vec<u32>,
    nodes: Vec<TreeNode>,
    /// Classes or targets, with weights.
    votes: Vec<(u32, f32)>,
    /// The minimum number of columns of a row.
    columns: usize,
}

impl Trees {
    /// Reads trees that vote for this number of classes or targets. `prefix` is the start of the names of the
    /// attributes that list the votes.
    fn read(node: &NodeProto, prefix: &str, targets: usize) -> Result<Self, OperatorRefusal> {
        if node.attribute.iter().any(|attribute| attribute.name.ends_with("_as_tensor")) {
            return Err(OperatorRefusal::Unsupported("of f64"));
        }
        // This refuses cycles and missing nodes.
        trees::check(node, targets).map_err(OperatorRefusal::Broken)?;
        let tree_ids = ints(node, "nodes_treeids");
        let node_ids = ints(node, "nodes_nodeids");
        if u32::try_from(node_ids.len()).is_err() {
            return Err(OperatorRefusal::Broken("has too many nodes".to_owned()));
        }
        let rows: HashMap<(i64, i64), u32> =
            tree_ids.iter().copied().zip(node_ids.iter().copied()).zip(0..).collect();
        let (votes, mut leaves) = read_votes(node, prefix)?;
        let list = |name: &str| ints(node, name);
        let (yes, no, features) =
            (list("nodes_truenodeids"), list("nodes_falsenodeids"), list("nodes_featureids"));
        let missing = list("nodes_missing_value_tracks_true");
        let values = floats(node, "nodes_values");
        let count = node_ids.len();
        let lengths = [features.len(), values.len()];
        if lengths.iter().any(|length| *length != count) || ![0, count].contains(&missing.len()) {
            return Err(OperatorRefusal::Broken(
                "describes its nodes in lists of different lengths".to_owned(),
            ));
        }
        let mut nodes = Vec::with_capacity(count);
        let mut columns = 0;
        for (row, mode) in texts(node, "nodes_modes").iter().enumerate() {
            let tree = tree_ids[row];
            let Some(mode) = branch_mode(mode)? else {
                let (from, to) = leaves.remove(&(tree, node_ids[row])).unwrap_or((0, 0));
                nodes.push(TreeNode::Leaf { from, to });
                continue;
            };
            let feature = u32::try_from(features[row]).map_err(|_| {
                OperatorRefusal::Broken(format!("asks for the column {}", features[row]))
            })?;
            columns = columns.max(feature as usize + 1);
            nodes.push(TreeNode::Branch {
                mode,
                missing_is_yes: missing.get(row).is_some_and(|flag| *flag != 0),
                feature,
                value: values[row],
                yes: rows[&(tree, yes[row])],
                no: rows[&(tree, no[row])],
            });
        }
        let roots = (0..).zip(node_ids).filter(|(_, id)| **id == 0).map(|(row, _)| row).collect();
        Ok(Self { roots, nodes, votes, columns })
    }

    /// The votes of each leaf of a tree.
    fn leaves(&self, root: u32) -> Vec<&[(u32, f32)]> {
        let mut leaves = Vec::new();
        let mut unvisited = vec![root];
        // Two paths may lead to the same node.
        let mut seen = HashSet::from([root]);
        while let Some(node) = unvisited.pop() {
            match self.nodes[node as usize] {
                TreeNode::Leaf { from, to } => leaves.push(&self.votes[from as usize..to as usize]),
                TreeNode::Branch { yes, no, .. } => {
                    unvisited.extend([yes, no].into_iter().filter(|child| seen.insert(*child)));
                }
            }
        }
        leaves
    }

    /// Finds the leaf of each tree for a row, and passes the leaf's votes to `add`.
    fn vote(&self, x: &[f32], mut add: impl FnMut(usize, f32)) {
        for root in &self.roots {
            let mut node = *root;
            loop {
                match self.nodes[node as usize] {
                    TreeNode::Branch { mode, missing_is_yes, feature, value, yes, no } => {
                        let x = x[feature as usize];
                        let holds = match mode {
                            Mode::Leq => x <= value,
                            Mode::Lt => x < value,
                            Mode::Gte => x >= value,
                            Mode::Gt => x > value,
                            Mode::Eq => x == value,
                            Mode::Neq => x != value,
                        };
                        node = if holds || (missing_is_yes && x.is_nan()) { yes } else { no };
                    }
                    TreeNode::Leaf { from, to } => {
                        let votes = &self.votes[from as usize..to as usize];
                        votes.iter().for_each(|(target, weight)| add(*target as usize, *weight));
                        break;
                    }
                }
            }
        }
    }
}

/// The mode of a branch; `None` for a leaf.
fn branch_mode(mode: &[u8]) -> Result<Option<Mode>, OperatorRefusal> {
    Ok(Some(match mode {
        b"LEAF" => return Ok(None),
        b"BRANCH_LEQ" => Mode::Leq,
        b"BRANCH_LT" => Mode::Lt,
        b"BRANCH_GTE" => Mode::Gte,
        b"BRANCH_GT" => Mode::Gt,
        b"BRANCH_EQ" => Mode::Eq,
        b"BRANCH_NEQ" => Mode::Neq,
        _ => {
            return Err(OperatorRefusal::Broken(
                "has a node of a mode that is not known".to_owned(),
            ));
        }
    }))
}

/// The range of each leaf's votes, by the tree's id and the node's id.
type LeafRanges = HashMap<(i64, i64), (u32, u32)>;

/// All votes, sorted so that the votes of a leaf are adjacent, and the range of each leaf's votes.
fn read_votes(
    node: &NodeProto,
    prefix: &str,
) -> Result<(Vec<(u32, f32)>, LeafRanges), OperatorRefusal> {
    let list = |part: &str| ints(node, &format!("{prefix}_{part}"));
    let (tree_ids, node_ids, targets) = (list("treeids"), list("nodeids"), list("ids"));
    let weights = floats(node, &format!("{prefix}_weights"));
    if weights.len() != targets.len() {
        return Err(OperatorRefusal::Broken(
            "describes its votes in lists of different lengths".to_owned(),
        ));
    }
    let mut order: Vec<usize> = (0..targets.len()).collect();
    order.sort_by_key(|row| (tree_ids[*row], node_ids[*row]));
    let mut votes: Vec<(u32, f32)> = Vec::with_capacity(order.len());
    let mut leaves = LeafRanges::new();
    for (index, row) in (0..).zip(order) {
        // The conversion never fails, because [`trees::check`] has refused targets that do not
        // exist.
        votes.push((u32::try_from(targets[row]).unwrap_or(0), weights[row]));
        leaves.entry((tree_ids[row], node_ids[row])).or_insert((index, index)).1 = index + 1;
    }
    Ok((votes, leaves))
}

/// Adds up the votes for each class, starting from the base values.
#[derive(Debug)]
struct TreeClassifier {
    trees: Trees,
    base: Vec<f32>,
    classes: usize,
    transform: ScoreTransform,
    /// `None` if there are more than two classes. If there are two, all votes name the first class,
    /// but their sum is for the second class.
    binary: Option<Binary>,
}

/// If there are two classes: how the sum of the votes gives the probability of the second class.
#[derive(Clone, Copy, Debug)]
enum Binary {
    /// The sum is the probability.
    Probability,
    /// The logistic function of the sum is the probability.
    Logistic,
}

pub(super) fn classifier(node: &NodeProto) -> Result<Computation, OperatorRefusal> {
    let labels = Labels::read(node, "classlabels_int64s")?;
    let transform = ScoreTransform::read(node)?;
    let classes = labels.len();
    let trees = Trees::read(node, "class", classes)?;
    let base = floats(node, "base_values").to_vec();
    let binary = match classes {
        0 | 1 => return Err(OperatorRefusal::Unsupported("of one class")),
        2 => Some(binary(&trees, &base, transform)?),
        _ => None,
    };
    if classes > 2 {
        if !base.is_empty() && base.len() != classes {
            return Err(OperatorRefusal::Unsupported("with base_values for some classes only"));
        }
        if base.is_empty() && !winner_has_votes(&trees, classes) {
            return Err(OperatorRefusal::Unsupported("whose trees do not vote on each class"));
        }
    }
    let trees = TreeClassifier { trees, base, classes, transform, binary };
    Ok(Computation::Classes(Box::new(trees), labels))
}

/// Checks a classifier of two classes. Accepts only the form that all exporters write. For this
/// form, ONNX Runtime computes what the exporters intend; for others, it may not.
fn binary(
    trees: &Trees,
    base: &[f32],
    transform: ScoreTransform,
) -> Result<Binary, OperatorRefusal> {
    if trees.votes.iter().any(|(class, _)| *class != 0) {
        return Err(OperatorRefusal::Unsupported("of two classes with votes on the second one"));
    }
    if base.len() > 1 {
        return Err(OperatorRefusal::Unsupported("of two classes with two base_values"));
    }
    let never_negative = trees.votes.iter().all(|(_, weight)| *weight >= 0.0);
    match transform {
        ScoreTransform::None if never_negative => Ok(Binary::Probability),
        ScoreTransform::Logistic if !never_negative => Ok(Binary::Logistic),
        _ => Err(OperatorRefusal::Unsupported(
            "of two classes whose weights and post_transform do not match",
        )),
    }
}

/// Whether only classes with votes can win. Our code gives a class without votes the score 0, so
/// this class could win if no other score is positive. In ONNX Runtime, a class without votes
/// cannot win.
fn winner_has_votes(trees: &Trees, classes: usize) -> bool {
    let leaves: Vec<Vec<&[(u32, f32)]>> =
        trees.roots.iter().map(|root| trees.leaves(*root)).collect();
    let votes_on =
        |leaf: &&[(u32, f32)], class: usize| leaf.iter().any(|(voted, _)| *voted as usize == class);
    let covered =
        |class: usize| leaves.iter().any(|leaves| leaves.iter().all(|leaf| votes_on(leaf, class)));
    let has_positive_vote = |leaf: &&[(u32, f32)]| leaf.iter().any(|(_, weight)| *weight > 0.0);
    let never_negative = trees.votes.iter().all(|(_, weight)| *weight >= 0.0);
    (never_negative && leaves.iter().any(|leaves| leaves.iter().all(has_positive_vote)))
        || (0..classes).all(covered)
}

impl Classifier for TreeClassifier {
    fn width(&self) -> usize {
        self.classes
    }

    fn takes(&self, columns: usize) -> bool {
        columns >= self.trees.columns
    }

    fn row(&self, x: &[f32], scores: &mut [f32]) -> usize {
        let mut sums = vec![0.0_f64; self.classes];
        self.trees.vote(x, |class, weight| sums[class] += f64::from(weight));
        for (sum, base) in sums.iter_mut().zip(&self.base) {
            *sum += f64::from(*base);
        }
        for (score, sum) in scores.iter_mut().zip(&sums) {
            *score = round_to_f32(*sum);
        }
        let score = scores[0];
        match self.binary {
            Some(Binary::Probability) => {
                scores.copy_from_slice(&[1.0 - score, score]);
                usize::from(score > 0.5)
            }
            Some(Binary::Logistic) => {
                scores.copy_from_slice(&[logistic(-score), logistic(score)]);
                usize::from(score > 0.0)
            }
            None => {
                let class = index_of_largest(scores);
                self.transform.apply(scores);
                class
            }
        }
    }
}

#[derive(Debug)]
struct TreeRegressor {
    trees: Trees,
    base: Vec<f32>,
    targets: usize,
    average: bool,
}

/// The maximum number of a regressor's targets. Each row has a sum per target.
const MAX_TARGETS: usize = 100_000;

pub(super) fn regressor(node: &NodeProto) -> Result<Computation, OperatorRefusal> {
    if ScoreTransform::read(node)? != ScoreTransform::None {
        return Err(OperatorRefusal::Unsupported("with post_transform"));
    }
    let average = match text(node, "aggregate_function") {
        b"" | b"SUM" => false,
        b"AVERAGE" => true,
        _ => {
            return Err(OperatorRefusal::Unsupported(
                "with an aggregate_function other than SUM and AVERAGE",
            ));
        }
    };
    let targets = usize::try_from(int(node, "n_targets").unwrap_or(1)).unwrap_or(0);
    if !(1..=MAX_TARGETS).contains(&targets) {
        return Err(OperatorRefusal::Broken(format!("has {targets} targets")));
    }
    let trees = Trees::read(node, "target", targets)?;
    let base = floats(node, "base_values").to_vec();
    if ![0, targets].contains(&base.len()) {
        return Err(OperatorRefusal::Broken(format!(
            "has {} base_values for {targets} targets",
            base.len()
        )));
    }
    Ok(Computation::Rows(Box::new(TreeRegressor { trees, base, targets, average })))
}

impl RowFunction for TreeRegressor {
    fn width(&self, _columns: usize) -> usize {
        self.targets
    }

    fn takes(&self, columns: usize) -> bool {
        columns >= self.trees.columns
    }

    fn row(&self, x: &[f32], y: &mut [f32]) {
        let mut sums = vec![0.0_f64; self.targets];
        self.trees.vote(x, |target, weight| sums[target] += f64::from(weight));
        let divisor = if self.average { to_f64(self.trees.roots.len()) } else { 1.0 };
        for (target, (y, sum)) in y.iter_mut().zip(sums).enumerate() {
            let base = self.base.get(target).copied().unwrap_or(0.0);
            *y = round_to_f32(sum / divisor + f64::from(base));
        }
    }
}
