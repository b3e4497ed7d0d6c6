//! Checks a model before a backend loads it, because backends trust models too much.

use super::weights::Weights;
use super::{InferenceError, ModelPort, ModelSource, NnErrorCode, ml, onnx_facts};
use crate::model::{ByteSize, count};
use std::collections::HashSet;
use std::fs;
use tract_onnx::Onnx;
use tract_onnx::pb::{GraphProto, ModelProto};
use tract_onnx::prelude::Framework;

/// The maximum number of nodes of a model. Large language models have several thousand.
const MAX_NODES: usize = 100_000;

/// The message if the decoder's recursion limit is reached.
const TOO_DEEP: &str = "its graphs are nested too deeply; the maximum is about 30 levels";

/// A model that a backend may load.
pub(super) struct VettedModel {
    pub(super) proto: ModelProto,
    /// Whether `proto` differs from the file: outputs that are maps were replaced by tensors.
    pub(super) changed: bool,
    pub(super) inputs: Vec<ModelPort>,
    pub(super) outputs: Vec<ModelPort>,
    /// The size of the file and the weights, in bytes.
    pub(super) bytes: u64,
    /// The size of the weights in separate files, in bytes.
    pub(super) separate_bytes: u64,
    /// The separate files with weights, as the model names them: paths relative to its folder.
    pub(super) separate_files: Vec<String>,
}

/// Reads a model. `limit` is the maximum size of its file and weights, in bytes.
///
/// # Errors
/// If the model is too large, cannot be read, is not an ONNX model, or contradicts itself.
pub(super) fn read(source: ModelSource<'_>, limit: u64) -> Result<VettedModel, InferenceError> {
    let size = size(source)?;
    check_size(size, "file", limit)?;
    let mut proto = decode(source, size)?;
    if proto.graph.is_none() {
        return Err(invalid_model("it is not an ONNX model: there is no graph in it"));
    }
    let nodes = onnx_facts::nodes(&proto).count();
    if nodes > MAX_NODES {
        let nodes = count(nodes as u64);
        let maximum = count(MAX_NODES as u64);
        return Err(InferenceError::refused(
            NnErrorCode::UnsupportedOperation,
            format!("it has {nodes} nodes; the maximum is {maximum}"),
        ));
    }
    let mut weights = Weights::new(match source {
        ModelSource::File(path) => path.parent(),
        ModelSource::Bytes(_) => None,
    });
    weights.add_all(&proto)?;
    let bytes = size.max(weights.inside_bytes).saturating_add(weights.separate_bytes);
    check_size(bytes, "file with its weights", limit)?;
    let separate_bytes = weights.separate_bytes;
    let separate_files: Vec<String> = weights.separate_files.into_iter().collect();
    // The backend loads a changed model from memory, without a path, so it could not find separate
    // files with weights. Therefore leave a model with separate files unchanged.
    let changed =
        separate_files.is_empty() && proto.graph.as_mut().is_some_and(ml::replace_zipmaps);
    let Some(graph) = &proto.graph else {
        return Err(invalid_model("it is not an ONNX model: there is no graph in it"));
    };
    let inputs = onnx_facts::inputs(graph)?;
    let outputs = onnx_facts::outputs(graph)?;
    check_names(&inputs, "inputs")?;
    check_names(&outputs, "outputs")?;
    check_sources(graph)?;
    Ok(VettedModel { proto, changed, inputs, outputs, bytes, separate_bytes, separate_files })
}

/// The size of the file, in bytes.
fn size(source: ModelSource<'_>) -> Result<u64, InferenceError> {
    let path = match source {
        ModelSource::Bytes(bytes) => return Ok(bytes.len() as u64),
        ModelSource::File(path) => path,
    };
    let unreadable = |why: String| {
        let path = path.display();
        InferenceError::refused(NnErrorCode::RuntimeError, format!("{path} cannot be read: {why}"))
    };
    let metadata = fs::metadata(path).map_err(|error| unreadable(error.to_string()))?;
    // Opening another kind of file, such as a FIFO, could block.
    if !metadata.is_file() {
        return Err(unreadable("it is not a regular file".to_owned()));
    }
    Ok(metadata.len())
}

fn check_size(bytes: u64, what: &str, limit: u64) -> Result<(), InferenceError> {
    if bytes <= limit {
        return Ok(());
    }
    let size = ByteSize(bytes).rounded();
    Err(InferenceError::refused(NnErrorCode::TooLarge, format!("its {what} has {size}")))
}

fn decode(source: ModelSource<'_>, size: u64) -> Result<ModelProto, InferenceError> {
    if size == 0 {
        return Err(invalid_model("it is empty"));
    }
    let onnx = Onnx::default();
    let proto = match source {
        ModelSource::File(path) => onnx.proto_model_for_path(path),
        ModelSource::Bytes(mut bytes) => onnx.proto_model_for_read(&mut bytes),
    };
    proto.map_err(|error| {
        let text = format!("{error:#}");
        // The original text would begin with the name of each of a hundred levels.
        let deep = text.ends_with("recursion limit reached");
        invalid_model(if deep {
            TOO_DEEP.to_owned()
        } else {
            format!("it is not an ONNX model: {text}")
        })
    })
}

/// Checks that names are unique, because callers find inputs and outputs by name.
fn check_names(ports: &[ModelPort], what: &str) -> Result<(), InferenceError> {
    let mut seen = HashSet::new();
    match ports.iter().find(|port| !seen.insert(&port.name)) {
        Some(port) => Err(invalid_model(format!("two of its {what} are called {:?}", port.name))),
        None => Ok(()),
    }
}

/// Checks that each output has a source in the graph.
fn check_sources(graph: &GraphProto) -> Result<(), InferenceError> {
    let nodes = graph.node.iter().flat_map(|node| &node.output);
    let inputs = graph.input.iter().map(|input| &input.name);
    let weights = graph.initializer.iter().map(|tensor| &tensor.name);
    let sparse = graph.sparse_initializer.iter().filter_map(|tensor| tensor.values.as_ref());
    let sparse = sparse.map(|tensor| &tensor.name);
    let known: HashSet<&String> = nodes.chain(inputs).chain(weights).chain(sparse).collect();
    match graph.output.iter().find(|output| !known.contains(&output.name)) {
        Some(output) => {
            Err(invalid_model(format!("nothing in it makes its output {:?}", output.name)))
        }
        None => Ok(()),
    }
}

fn invalid_model(message: impl Into<String>) -> InferenceError {
    InferenceError::refused(NnErrorCode::InvalidEncoding, message)
}
