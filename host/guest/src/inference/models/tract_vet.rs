//! What tract cannot do, said by name before it tries; and what it would do wrong without a word.

use super::onnx_facts::{self, attribute};
use super::{ErrorCode, InferenceError, trees};
use std::collections::BTreeSet;
use tract_onnx::pb::{ModelProto, NodeProto};

/// Operations of ONNX Runtime's own that tract has.
const CONTRIBUTED: [&str; 9] = [
    "BiasGelu",
    "FastGelu",
    "GatherBlockQuantized",
    "Gelu",
    "MatMulNBits",
    "QuickGelu",
    "RotaryEmbedding",
    "SkipLayerNormalization",
    "SkipSimplifiedLayerNormalization",
];

/// Refuses what tract does not have, and what would harm it.
///
/// # Errors
/// The model needs something else, or is not well formed where tract does not look.
pub(super) fn check(proto: &ModelProto) -> Result<(), InferenceError> {
    let register = tract_onnx::onnx().op_register;
    let mut missing = BTreeSet::new();
    for node in onnx_facts::nodes(proto) {
        // tract looks at names alone, whoever they are from.
        match node.domain.as_str() {
            "" | "ai.onnx" | "ai.onnx.ml" => {
                if !register.0.contains_key(&node.op_type) {
                    missing.insert(node.op_type.clone());
                } else if let Some(variant) = wrong(node) {
                    missing.insert(format!("{} {variant}", node.op_type));
                }
            }
            "com.microsoft" if CONTRIBUTED.contains(&node.op_type.as_str()) => (),
            domain => {
                missing.insert(format!("{domain}.{}", node.op_type));
            }
        }
    }
    if !missing.is_empty() {
        let missing = Vec::from_iter(missing).join(", ");
        return Err(InferenceError::refused(
            ErrorCode::UnsupportedOperation,
            format!("it needs {missing}, which tract does not have; try backend: onnxruntime"),
        ));
    }
    let mut trees = onnx_facts::nodes(proto).filter(|node| node.op_type == trees::OPERATION);
    trees.try_for_each(trees::check)
}

/// What of an operation tract 0.23.9 computes otherwise than ONNX Runtime does, found by comparing.
fn wrong(node: &NodeProto) -> Option<&'static str> {
    let length =
        |name: &str| attribute(node, name).map_or(0, |it| it.ints.len().max(it.floats.len()));
    let text = |name: &str| attribute(node, name).map_or(&b""[..], |it| it.s.as_slice());
    let transform = text("post_transform");
    let transformed = !matches!(transform, b"" | b"NONE");
    match node.op_type.as_str() {
        trees::OPERATION => trees::wrong(node),
        "Normalizer" if matches!(text("norm"), b"" | b"MAX") => Some("with the norm MAX"),
        "LinearRegressor"
            if transformed && attribute(node, "targets").is_none_or(|it| it.i <= 1) =>
        {
            Some("with post_transform")
        }
        "LinearClassifier" => {
            let texts = attribute(node, "classlabels_strings").is_some();
            let one_of_two = length("classlabels_ints") == 2 && length("intercepts") < 2;
            match transform {
                _ if texts => Some("with labels that are texts"),
                b"LOGISTIC" => None,
                _ => one_of_two.then_some("of two classes without post_transform LOGISTIC"),
            }
        }
        _ => None,
    }
}
