//! The final transformations of a classifier's scores, and its labels.

use super::OperatorRefusal;
use super::attributes::{ints, text, texts};
use tract_onnx::pb::NodeProto;

/// The labels of a classifier, one per class.
#[derive(Debug)]
pub(in super::super) enum Labels {
    Numbers(Vec<i64>),
    Texts(Vec<String>),
}

impl Labels {
    /// Reads the labels. `numbers` is the name of the list of integer labels. A node may have either this
    /// list or the list of string labels.
    pub(super) fn read(node: &NodeProto, numbers: &str) -> Result<Self, OperatorRefusal> {
        let numbers = ints(node, numbers);
        let strings = texts(node, "classlabels_strings");
        match (numbers, strings) {
            ([], []) => Err(OperatorRefusal::Broken("has no labels".to_owned())),
            (numbers, []) => Ok(Self::Numbers(numbers.to_vec())),
            ([], strings) => {
                let strings = strings.iter().map(|text| String::from_utf8(text.clone()));
                let strings: Result<Vec<String>, _> = strings.collect();
                let strings = strings.map_err(|_| {
                    OperatorRefusal::Broken("has a label that is not UTF-8".to_owned())
                })?;
                Ok(Self::Texts(strings))
            }
            _ => Err(OperatorRefusal::Broken(
                "has both labels that are numbers and labels that are texts".to_owned(),
            )),
        }
    }

    pub(super) fn len(&self) -> usize {
        match self {
            Self::Numbers(labels) => labels.len(),
            Self::Texts(labels) => labels.len(),
        }
    }
}

/// The final transformation of a row's scores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ScoreTransform {
    None,
    Logistic,
    Softmax,
}

impl ScoreTransform {
    pub(super) fn read(node: &NodeProto) -> Result<Self, OperatorRefusal> {
        match text(node, "post_transform") {
            b"" | b"NONE" => Ok(Self::None),
            b"LOGISTIC" => Ok(Self::Logistic),
            b"SOFTMAX" => Ok(Self::Softmax),
            _ => Err(OperatorRefusal::Unsupported("with post_transform PROBIT or SOFTMAX_ZERO")),
        }
    }

    pub(super) fn apply(self, scores: &mut [f32]) {
        match self {
            Self::None => (),
            Self::Logistic => scores.iter_mut().for_each(|score| *score = logistic(*score)),
            Self::Softmax => {
                let largest = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
                scores.iter_mut().for_each(|score| *score = (*score - largest).exp());
                let sum: f32 = scores.iter().sum();
                scores.iter_mut().for_each(|score| *score /= sum);
            }
        }
    }
}

/// Rounds to `f32`, the type of scores.
#[expect(clippy::cast_possible_truncation, reason = "the nearest one is wanted")]
pub(super) fn round_to_f32(x: f64) -> f32 {
    x as f32
}

pub(super) fn to_f64(count: usize) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}

/// The logistic function, without loss of precision near 0.
pub(super) fn logistic(x: f32) -> f32 {
    let x = f64::from(x);
    round_to_f32(if x < 0.0 { x.exp() / (1.0 + x.exp()) } else { 1.0 / (1.0 + (-x).exp()) })
}

/// The index of the largest score; of equal scores, the first. No comparison with NaN is true, so a NaN wins
/// only at index 0.
pub(super) fn index_of_largest(scores: &[f32]) -> usize {
    let mut best = 0;
    for (index, score) in scores.iter().enumerate() {
        if *score > scores[best] {
            best = index;
        }
    }
    best
}

/// The dot product. Several sums in parallel let the compiler use SIMD registers.
pub(super) fn dot(a: &[f32], b: &[f32]) -> f32 {
    const LANES: usize = 16;
    let (a_blocks, a_rest) = a.as_chunks::<LANES>();
    let (b_blocks, b_rest) = b.as_chunks::<LANES>();
    let mut sums = [0.0_f32; LANES];
    for (a, b) in a_blocks.iter().zip(b_blocks) {
        for lane in 0..LANES {
            sums[lane] += a[lane] * b[lane];
        }
    }
    let rest: f32 = a_rest.iter().zip(b_rest).map(|(a, b)| a * b).sum();
    sums.iter().sum::<f32>() + rest
}
