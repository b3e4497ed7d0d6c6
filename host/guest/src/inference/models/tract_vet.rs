//! Refuses models that tract cannot run, or for which it would silently compute wrong results. The errors
//! name the operators.

use super::ml::{self, OPERATORS, OperatorRefusal};
use super::onnx_facts::{self, attribute};
use super::{InferenceError, NnErrorCode};
use std::collections::BTreeSet;
use tract_onnx::pb::{ModelProto, NodeProto};

/// The operators of ONNX Runtime's own domain (`com.microsoft`) that tract supports.
const MICROSOFT_OPERATORS: [&str; 9] = [
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

/// Advice for operators that tract does not support.
pub(super) const TRY_ONNXRUNTIME: &str = "ONNX Runtime may support it: run \"pip install onnxruntime\" in the active \
     virtual environment, or name its library with --onnxruntime PATH, and remove backend: tract";

/// Refuses operators that tract does not support, and malformed operators that tract would not notice.
///
/// # Errors
/// If the model needs an unsupported operator, or has a malformed one.
pub(super) fn check(proto: &ModelProto) -> Result<(), InferenceError> {
    let register = tract_onnx::onnx().op_register;
    let mut missing = BTreeSet::new();
    for node in onnx_facts::nodes(proto) {
        // Check the domain too, because tract only compares the operators' names.
        match node.domain.as_str() {
            "" | "ai.onnx" | "ai.onnx.ml" => {
                if OPERATORS.contains(&node.op_type.as_str()) {
                    match ml::read(node) {
                        Ok(_) => (),
                        Err(OperatorRefusal::Broken(what)) => return Err(ml::broken(node, &what)),
                        Err(OperatorRefusal::Unsupported(variant)) => {
                            missing.insert(format!("{} {variant}", node.op_type));
                        }
                    }
                } else if !register.0.contains_key(&node.op_type) {
                    missing.insert(node.op_type.clone());
                } else if let Some(variant) = wrong_variant(node) {
                    missing.insert(format!("{} {variant}", node.op_type));
                }
            }
            "com.microsoft" if MICROSOFT_OPERATORS.contains(&node.op_type.as_str()) => (),
            domain => {
                missing.insert(format!("{domain}.{}", node.op_type));
            }
        }
    }
    if !missing.is_empty() {
        let missing = Vec::from_iter(missing).join(", ");
        return Err(InferenceError::refused(
            NnErrorCode::UnsupportedOperation,
            format!("it needs {missing}, which tract does not have; {TRY_ONNXRUNTIME}"),
        ));
    }
    Ok(())
}

/// The variant of a node's operator, if tract 0.23.9 computes this variant differently from ONNX Runtime
/// (found by comparison).
fn wrong_variant(node: &NodeProto) -> Option<&'static str> {
    let text = |name: &str| attribute(node, name).map_or(&b""[..], |found| found.s.as_slice());
    let transform = text("post_transform");
    let transformed = !matches!(transform, b"" | b"NONE");
    match node.op_type.as_str() {
        "LinearRegressor"
            if transformed && attribute(node, "targets").is_none_or(|found| found.i <= 1) =>
        {
            Some("with post_transform")
        }
        _ => None,
    }
}
