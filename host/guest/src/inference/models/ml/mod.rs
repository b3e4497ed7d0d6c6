//! Operators of `ai.onnx.ml` that tract lacks, or computes differently from ONNX Runtime. scikit-learn
//! pipelines are exported to these operators.
//!
//! - `attributes`: reads a node's attributes, and checks their lengths;
//! - `columns`: computes rows of numbers from rows of numbers: scalers, normalisers, imputers, one-hot
//!   encoders;
//! - `linear`, `ensemble`, `svm`: classifiers and regressors;
//! - `scores`: the final transformations of a classifier's scores, and its labels;
//! - `operator`: connects the computations to tract;
//! - `extractor`: selects columns by index;
//! - `zipmap`: removes the maps at the end of scikit-learn's exports.
//!
//! Everything is checked when a model is loaded. Computing can then fail only because of the input,
//! for example because of its number of columns. Computing does not panic.

mod attributes;
mod columns;
mod ensemble;
mod extractor;
mod linear;
mod operator;
mod scores;
mod svm;
mod zipmap;

use super::onnx_facts::attribute;
use super::{InferenceError, NnErrorCode, trees};
use std::fmt;
use tract_onnx::pb::NodeProto;

pub(super) use operator::{OPERATORS, register};
pub(super) use zipmap::replace_zipmaps;

/// Why this module cannot compute an operator.
#[derive(Debug)]
pub(super) enum OperatorRefusal {
    /// This variant is not supported. The text follows the operator's name, for example `without intercepts`.
    Unsupported(&'static str),
    /// The attributes contradict each other. The text follows `its` and the operator's name: `has no labels`.
    Broken(String),
}

/// The computation of a node.
#[derive(Debug)]
pub(super) enum Computation {
    /// Computes rows of numbers from rows of numbers.
    Rows(Box<dyn RowFunction>),
    /// Computes labels and rows of scores from rows of numbers.
    Classes(Box<dyn Classifier>, scores::Labels),
    /// Turns each integer into a row.
    OneHot(columns::OneHot),
}

/// Computes one row from each row.
pub(super) trait RowFunction: fmt::Debug + Send + Sync {
    /// The number of columns of a result.
    fn width(&self, columns: usize) -> usize;

    /// Whether the function accepts rows with this number of columns.
    fn takes(&self, columns: usize) -> bool;

    /// Computes one row of `width` columns.
    fn row(&self, x: &[f32], y: &mut [f32]);
}

/// Classifies each row.
pub(super) trait Classifier: fmt::Debug + Send + Sync {
    /// The number of scores per row.
    fn width(&self) -> usize;

    /// Whether the function accepts rows with this number of columns.
    fn takes(&self, columns: usize) -> bool;

    /// Computes the `width` scores of a row, and returns the index of its class among the labels.
    fn row(&self, x: &[f32], scores: &mut [f32]) -> usize;
}

/// Reads the computation of a node.
///
/// # Errors
/// If the node cannot be computed here, or contradicts itself.
pub(super) fn read(node: &NodeProto) -> Result<Computation, OperatorRefusal> {
    attributes::check_distinct(node)?;
    match node.op_type.as_str() {
        "Scaler" => columns::scaler(node),
        "Normalizer" => columns::normalizer(node),
        "Imputer" => columns::imputer(node),
        "OneHotEncoder" => columns::one_hot(node),
        "LinearClassifier" => linear::classifier(node),
        "SVMClassifier" => svm::classifier(node),
        "SVMRegressor" => svm::regressor(node),
        trees::CLASSIFIER => ensemble::classifier(node),
        trees::REGRESSOR => ensemble::regressor(node),
        _ => Err(OperatorRefusal::Unsupported("of ai.onnx.ml")),
    }
}

/// The error for a node that contradicts itself.
pub(super) fn broken(node: &NodeProto, what: &str) -> InferenceError {
    InferenceError::refused(NnErrorCode::InvalidEncoding, format!("its {} {what}", node.op_type))
}
