//! What tract cannot do, said by name before it tries; and what it would do wrong without a word.

use super::{ErrorCode, InferenceError};
use tract_onnx::pb::ModelProto;

/// Refuses what tract does not have.
pub(super) fn check(proto: &ModelProto) -> Result<(), InferenceError> {
    let register = tract_onnx::onnx().op_register;
    let mut missing: Vec<&str> = proto
        .graph
        .iter()
        .flat_map(|graph| &graph.node)
        .filter(|node| !register.0.contains_key(&node.op_type))
        .map(|node| node.op_type.as_str())
        .collect();
    missing.sort_unstable();
    missing.dedup();
    if missing.is_empty() {
        return Ok(());
    }
    Err(InferenceError::refused(
        ErrorCode::UnsupportedOperation,
        format!(
            "it needs {}, which tract does not have; backend: onnxruntime has them",
            missing.join(", ")
        ),
    ))
}
