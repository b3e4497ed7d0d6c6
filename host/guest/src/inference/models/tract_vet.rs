//! Refuses models that tract cannot compute, naming the operators, and models that it would silently compute
//! wrongly.

use super::ml::{self, OPERATORS, OperatorRefusal};
use super::onnx_facts::{self, attribute};
use super::{InferenceError, NnErrorCode};
use std::collections::BTreeSet;
use tract_onnx::pb::{ModelProto, NodeProto};

/// The operators of ONNX Runtime's own domain that tract supports.
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

/// Advice for operators that tract does not support.
pub(super) const TRY_ONNXRUNTIME: &str = "ONNX Runtime may: run \"pip install onnxruntime\" in the active \
     virtual environment, or name its library with --onnxruntime PATH, and leave backend: tract out";

/// Refuses operators that tract does not support, and malformed ones that would harm it.
///
/// # Errors
/// If the model needs other operators, or is malformed in a way that tract does not check.
pub(super) fn check(proto: &ModelProto) -> Result<(), InferenceError> {
    let register = tract_onnx::onnx().op_register;
    let mut missing = BTreeSet::new();
    for node in onnx_facts::nodes(proto) {
        // Check the domain too: tract only compares names.
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
            "com.microsoft" if CONTRIBUTED.contains(&node.op_type.as_str()) => (),
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

/// The variants of operators that tract 0.23.9 computes differently from ONNX Runtime, found by comparison.
fn wrong_variant(node: &NodeProto) -> Option<&'static str> {
    let text = |name: &str| attribute(node, name).map_or(&b""[..], |it| it.s.as_slice());
    let transform = text("post_transform");
    let transformed = !matches!(transform, b"" | b"NONE");
    match node.op_type.as_str() {
        "LinearRegressor"
            if transformed && attribute(node, "targets").is_none_or(|it| it.i <= 1) =>
        {
            Some("with post_transform")
        }
        _ => None,
    }
}
