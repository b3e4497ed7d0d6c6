//! Looking at a model before a backend does: backends trust what they load more than they should.

use super::{ErrorCode, InferenceError, ModelSource, Port, onnx_facts};
use crate::model::ByteSize;
use std::fs;
use tract_onnx::Onnx;
use tract_onnx::pb::ModelProto;
use tract_onnx::prelude::Framework;

/// A model that may be given to a backend.
pub(super) struct Vetted {
    pub(super) proto: ModelProto,
    pub(super) inputs: Vec<Port>,
    pub(super) outputs: Vec<Port>,
    /// Bytes of its file and weights.
    pub(super) bytes: u64,
}

/// Reads a model of at most `limit` bytes.
///
/// # Errors
/// It is too large, cannot be read, is no ONNX model, or one that no backend can run.
pub(super) fn read(source: ModelSource<'_>, limit: u64) -> Result<Vetted, InferenceError> {
    let bytes = match source {
        ModelSource::Bytes(bytes) => bytes.len() as u64,
        ModelSource::File(path) => {
            let unreadable = |why: String| {
                InferenceError::refused(
                    ErrorCode::RuntimeError,
                    format!("{} cannot be read: {why}", path.display()),
                )
            };
            let metadata = fs::metadata(path).map_err(|error| unreadable(error.to_string()))?;
            if !metadata.is_file() {
                return Err(unreadable("it is no regular file".to_owned()));
            }
            metadata.len()
        }
    };
    if bytes > limit {
        let size = ByteSize(bytes).rounded();
        return Err(InferenceError::refused(ErrorCode::TooLarge, format!("it has {size}")));
    }
    if bytes == 0 {
        return Err(encoding("it is empty".to_owned()));
    }
    let onnx = Onnx::default();
    let proto = match source {
        ModelSource::File(path) => onnx.proto_model_for_path(path),
        ModelSource::Bytes(mut bytes) => onnx.proto_model_for_read(&mut bytes),
    };
    let proto = proto.map_err(|error| encoding(format!("it is no ONNX model: {error:#}")))?;
    let Some(graph) = &proto.graph else {
        return Err(encoding("it is no ONNX model: there is no graph in it".to_owned()));
    };
    let (inputs, outputs) = (onnx_facts::inputs(graph)?, onnx_facts::outputs(graph)?);
    Ok(Vetted { proto, inputs, outputs, bytes })
}

fn encoding(message: String) -> InferenceError {
    InferenceError::refused(ErrorCode::InvalidEncoding, message)
}
