//! Ensembles of decision trees.

use super::attributes::{floats, int, ints, text, texts};
use super::scores::{Labels, ScoreTransform, amount, largest, logistic, single};
use super::{Classifier, Computation, OperatorRefusal, RowFunction};
use crate::inference::models::trees;
use std::collections::{HashMap, HashSet};
use tract_onnx::pb::NodeProto;

#[derive(Clone, Copy, Debug)]
enum Mode {
    Leq,
    Lt,
    Gte,
    Gt,
    Eq,
    Neq,
}

/// A node of a tree.
#[derive(Clone, Copy, Debug)]
enum TreeNode {
    /// Its votes, as a range of all votes.
    Leaf {
        from: u32,
        to: u32,
    },
    Branch {
        mode: Mode,
        missing_is_yes: bool,
        feature: u32,
        value: f32,
        yes: u32,
        no: u32,
    },
}

/// Decision trees. For a row, each tree leads to one leaf, whose votes are added to sums.
#[derive(Debug)]
struct Trees {
    roots: Vec<u32>,
    places: Vec<TreeNode>,
    votes: Vec<(u32, f32)>,
    /// The minimum number of columns of a row.
    columns: usize,
}

impl Trees {
    /// Reads trees that vote for this number of classes or targets. `name` is the prefix of the lists of
    /// votes.
    fn read(node: &NodeProto, name: &str, targets: usize) -> Result<Self, OperatorRefusal> {
        if node.attribute.iter().any(|it| it.name.ends_with("_as_tensor")) {
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
        let (votes, mut leaves) = votes(node, name)?;
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
        let mut places = Vec::with_capacity(count);
        let mut columns = 0;
        for (row, mode) in texts(node, "nodes_modes").iter().enumerate() {
            let tree = tree_ids[row];
            let Some(mode) = branch(mode)? else {
                let (from, to) = leaves.remove(&(tree, node_ids[row])).unwrap_or((0, 0));
                places.push(TreeNode::Leaf { from, to });
                continue;
            };
            let feature = u32::try_from(features[row]).map_err(|_| {
                OperatorRefusal::Broken(format!("asks for the column {}", features[row]))
            })?;
            columns = columns.max(feature as usize + 1);
            places.push(TreeNode::Branch {
                mode,
                missing_is_yes: missing.get(row).is_some_and(|it| *it != 0),
                feature,
                value: values[row],
                yes: rows[&(tree, yes[row])],
                no: rows[&(tree, no[row])],
            });
        }
        let roots = (0..).zip(node_ids).filter(|(_, id)| **id == 0).map(|(row, _)| row).collect();
        Ok(Self { roots, places, votes, columns })
    }

    /// The votes of each leaf of a tree.
    fn leaves(&self, root: u32) -> Vec<&[(u32, f32)]> {
        let mut leaves = Vec::new();
        let mut open = vec![root];
        // Two paths may lead to the same node.
        let mut seen = HashSet::from([root]);
        while let Some(at) = open.pop() {
            match self.places[at as usize] {
                TreeNode::Leaf { from, to } => leaves.push(&self.votes[from as usize..to as usize]),
                TreeNode::Branch { yes, no, .. } => {
                    open.extend([yes, no].into_iter().filter(|below| seen.insert(*below)));
                }
            }
        }
        leaves
    }

    /// Passes the votes of each tree to `add`.
    fn vote(&self, x: &[f32], mut add: impl FnMut(usize, f32)) {
        for root in &self.roots {
            let mut at = *root;
            loop {
                match self.places[at as usize] {
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
                        at = if holds || (missing_is_yes && x.is_nan()) { yes } else { no };
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

fn branch(mode: &[u8]) -> Result<Option<Mode>, OperatorRefusal> {
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

/// The range of votes of each leaf, by the tree's id and the node's id.
type Leaves = HashMap<(i64, i64), (u32, u32)>;

/// All votes, sorted so that those of a leaf are adjacent, and the range of each leaf.
fn votes(node: &NodeProto, name: &str) -> Result<(Vec<(u32, f32)>, Leaves), OperatorRefusal> {
    let list = |part: &str| ints(node, &format!("{name}_{part}"));
    let (tree_ids, node_ids, targets) = (list("treeids"), list("nodeids"), list("ids"));
    let weights = floats(node, &format!("{name}_weights"));
    if weights.len() != targets.len() {
        return Err(OperatorRefusal::Broken(
            "describes its votes in lists of different lengths".to_owned(),
        ));
    }
    let mut order: Vec<usize> = (0..targets.len()).collect();
    order.sort_by_key(|row| (tree_ids[*row], node_ids[*row]));
    let mut votes: Vec<(u32, f32)> = Vec::with_capacity(order.len());
    let mut leaves = Leaves::new();
    for (at, row) in (0..).zip(order) {
        // [`trees::check`] has already compared it with the number of targets.
        votes.push((u32::try_from(targets[row]).unwrap_or(0), weights[row]));
        leaves.entry((tree_ids[row], node_ids[row])).or_insert((at, at)).1 = at + 1;
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
    /// Set for two classes. All votes are then for the first class in the list, and mean the second.
    binary: Option<Binary>,
}

#[derive(Clone, Copy, Debug)]
enum Binary {
    /// The sum is a probability.
    Probability,
    /// The logistic function of the sum is a probability.
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
        if base.is_empty() && !all_vote(&trees, classes) {
            return Err(OperatorRefusal::Unsupported("whose trees do not vote on each class"));
        }
    }
    let trees = TreeClassifier { trees, base, classes, transform, binary };
    Ok(Computation::Classes(Box::new(trees), labels))
}

/// For two classes, accepts only the form that all exporters write, which ONNX Runtime computes as they
/// intend.
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
    let never_below = trees.votes.iter().all(|(_, weight)| *weight >= 0.0);
    match transform {
        ScoreTransform::None if never_below => Ok(Binary::Probability),
        ScoreTransform::Logistic if !never_below => Ok(Binary::Logistic),
        _ => Err(OperatorRefusal::Unsupported(
            "of two classes whose weights and post_transform do not match",
        )),
    }
}

/// Whether a class without votes can never win. Such a class has the score 0 here, but cannot win in ONNX
/// Runtime.
fn all_vote(trees: &Trees, classes: usize) -> bool {
    let leaves: Vec<Vec<&[(u32, f32)]>> =
        trees.roots.iter().map(|root| trees.leaves(*root)).collect();
    let on_class =
        |leaf: &&[(u32, f32)], class: usize| leaf.iter().any(|(voted, _)| *voted as usize == class);
    let covered =
        |class: usize| leaves.iter().any(|leaves| leaves.iter().all(|leaf| on_class(leaf, class)));
    let above = |leaf: &&[(u32, f32)]| leaf.iter().any(|(_, weight)| *weight > 0.0);
    let never_below = trees.votes.iter().all(|(_, weight)| *weight >= 0.0);
    (never_below && leaves.iter().any(|leaves| leaves.iter().all(above)))
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
            *score = single(*sum);
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
                let class = largest(scores);
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

/// The limit on a regressor's targets, because each row has a sum per target.
const MOST_TARGETS: usize = 100_000;

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
    if !(1..=MOST_TARGETS).contains(&targets) {
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
        let trees = if self.average { amount(self.trees.roots.len()) } else { 1.0 };
        for (place, (y, sum)) in y.iter_mut().zip(sums).enumerate() {
            let base = self.base.get(place).copied().unwrap_or(0.0);
            *y = single(sum / trees + f64::from(base));
        }
    }
}
