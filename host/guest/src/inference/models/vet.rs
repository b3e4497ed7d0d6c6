//! Checks a model before a backend loads it, because backends trust models too much.

use super::weights::Weights;
use super::{InferenceError, ModelPort, ModelSource, NnErrorCode, ml, onnx_facts};
use crate::model::{ByteSize, count};
use std::collections::HashSet;
use std::fs;
use tract_onnx::Onnx;
use tract_onnx::pb::{GraphProto, ModelProto};
use tract_onnx::prelude::Framework;

/// The limit on the nodes of a model. Large language models have several thousand.
const MOST_NODES: usize = 100_000;

/// The message if the decoder's recursion limit is reached.
const DEEP: &str = "its graphs are nested too deeply; about 30 levels are the most";

/// A model that a backend may load.
pub(super) struct VettedModel {
    pub(super) proto: ModelProto,
    /// Whether `proto` differs from the file: outputs that are maps were made into tensors.
    pub(super) changed: bool,
    pub(super) inputs: Vec<ModelPort>,
    pub(super) outputs: Vec<ModelPort>,
    /// The size of its file and weights, in bytes.
    pub(super) bytes: u64,
    /// The size of the weights in separate files, in bytes.
    pub(super) beside: u64,
    /// Those files, as the model names them: paths relative to its folder.
    pub(super) files: Vec<String>,
}

/// Reads a model. `limit` is the most bytes of its file and weights.
///
/// # Errors
/// If it is too large, cannot be read, is not an ONNX model, or contradicts itself.
pub(super) fn read(source: ModelSource<'_>, limit: u64) -> Result<VettedModel, InferenceError> {
    let size = size(source)?;
    within(size, "file", limit)?;
    let mut proto = decode(source, size)?;
    if proto.graph.is_none() {
        return Err(encoding("it is not an ONNX model: there is no graph in it"));
    }
    let nodes = onnx_facts::nodes(&proto).count();
    if nodes > MOST_NODES {
        let nodes = count(nodes as u64);
        let most = count(MOST_NODES as u64);
        return Err(InferenceError::refused(
            NnErrorCode::UnsupportedOperation,
            format!("it has {nodes} nodes; {most} is the most"),
        ));
    }
    let mut weights = Weights::new(match source {
        ModelSource::File(path) => path.parent(),
        ModelSource::Bytes(_) => None,
    });
    weights.add_all(&proto)?;
    let bytes = size.max(weights.inside).saturating_add(weights.beside);
    within(bytes, "file with its weights", limit)?;
    let beside = weights.beside;
    let files: Vec<String> = weights.files.into_iter().collect();
    // A changed model has no path, from which separate files with weights would be found. So such a model
    // stays unchanged.
    let changed = files.is_empty() && proto.graph.as_mut().is_some_and(ml::without_zipmaps);
    let Some(graph) = &proto.graph else {
        return Err(encoding("it is not an ONNX model: there is no graph in it"));
    };
    let inputs = onnx_facts::inputs(graph)?;
    let outputs = onnx_facts::outputs(graph)?;
    names(&inputs, "inputs")?;
    names(&outputs, "outputs")?;
    sources(graph)?;
    Ok(VettedModel { proto, changed, inputs, outputs, bytes, beside, files })
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

fn within(bytes: u64, what: &str, limit: u64) -> Result<(), InferenceError> {
    if bytes <= limit {
        return Ok(());
    }
    let size = ByteSize(bytes).rounded();
    Err(InferenceError::refused(NnErrorCode::TooLarge, format!("its {what} has {size}")))
}

fn decode(source: ModelSource<'_>, size: u64) -> Result<ModelProto, InferenceError> {
    if size == 0 {
        return Err(encoding("it is empty"));
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
        encoding(if deep { DEEP.to_owned() } else { format!("it is not an ONNX model: {text}") })
    })
}

/// Names must be unique, because callers find inputs and outputs by name.
fn names(ports: &[ModelPort], what: &str) -> Result<(), InferenceError> {
    let mut seen = HashSet::new();
    match ports.iter().find(|port| !seen.insert(&port.name)) {
        Some(port) => Err(encoding(format!("two of its {what} are called {:?}", port.name))),
        None => Ok(()),
    }
}

/// Checks that each output has a source in the graph.
fn sources(graph: &GraphProto) -> Result<(), InferenceError> {
    let nodes = graph.node.iter().flat_map(|node| &node.output);
    let inputs = graph.input.iter().map(|input| &input.name);
    let weights = graph.initializer.iter().map(|tensor| &tensor.name);
    let sparse = graph.sparse_initializer.iter().filter_map(|tensor| tensor.values.as_ref());
    let sparse = sparse.map(|tensor| &tensor.name);
    let made: HashSet<&String> = nodes.chain(inputs).chain(weights).chain(sparse).collect();
    match graph.output.iter().find(|output| !made.contains(&output.name)) {
        Some(output) => Err(encoding(format!("nothing in it makes its output {:?}", output.name))),
        None => Ok(()),
    }
}

fn encoding(message: impl Into<String>) -> InferenceError {
    InferenceError::refused(NnErrorCode::InvalidEncoding, message)
}
