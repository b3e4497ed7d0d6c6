//! Operators of `ai.onnx.ml` that tract does not have, or computes otherwise than ONNX Runtime does: what scikit-learn
//! pipelines are exported to.
//!
//! - `attributes`: what a node says, read with a look at each size;
//! - `columns`: rows of numbers made of rows of numbers: scalers, normalisers, imputers, one-hot encoders;
//! - `linear`, `ensemble`, `svm`: classifiers and regressors;
//! - `scores`: what becomes of scores at the end, and labels;
//! - `operator`: the way into tract;
//! - `extractor`: columns by their numbers;
//! - `zipmap`: the maps that scikit-learn exports end in, taken away.
//!
//! Everything here is checked when a model is loaded, so that computing neither fails nor panics but for the number of
//! columns of its input.

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
use super::{ErrorCode, InferenceError, trees};
use std::fmt;
use tract_onnx::pb::NodeProto;

pub(super) use operator::{OPERATORS, register};
pub(super) use zipmap::without_zipmaps;

/// Why an operator cannot be computed here.
#[derive(Debug)]
pub(super) enum Refusal {
    /// This variant of it is not supported, by words that follow its name: `with the norm MEDIAN`.
    Unsupported(&'static str),
    /// Its attributes contradict each other, by words that follow `its NAME`.
    Broken(String),
}

/// What a node computes, ready for use.
#[derive(Debug)]
pub(super) enum Computation {
    /// Rows of numbers from rows of numbers.
    Rows(Box<dyn Rows>),
    /// Labels, and rows of scores.
    Classes(Box<dyn Classes>, scores::Labels),
    /// Whole numbers, of which each becomes a row.
    OneHot(columns::OneHot),
}

/// Makes a row of each row.
pub(super) trait Rows: fmt::Debug + Send + Sync {
    /// Columns of a result.
    fn width(&self, columns: usize) -> usize;

    /// Whether it can take rows of so many columns.
    fn takes(&self, columns: usize) -> bool;

    /// Computes one row of `width` columns.
    fn row(&self, x: &[f32], y: &mut [f32]);
}

/// Finds a class for each row.
pub(super) trait Classes: fmt::Debug + Send + Sync {
    /// Scores of a row.
    fn width(&self) -> usize;

    /// Whether it can take rows of so many columns.
    fn takes(&self, columns: usize) -> bool;

    /// Computes the `width` scores of a row, and which class it is, by its place among the labels.
    fn row(&self, x: &[f32], scores: &mut [f32]) -> usize;
}

/// Reads what a node of this name is to compute.
///
/// # Errors
/// It cannot be computed here, or contradicts itself.
pub(super) fn read(node: &NodeProto) -> Result<Computation, Refusal> {
    attributes::distinct(node)?;
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
        _ => Err(Refusal::Unsupported("of ai.onnx.ml")),
    }
}

/// The error of a node that contradicts itself.
pub(super) fn broken(node: &NodeProto, what: &str) -> InferenceError {
    InferenceError::refused(ErrorCode::InvalidEncoding, format!("its {} {what}", node.op_type))
}
