//! Reads the parts of an ONNX model: graphs, nodes, inputs and outputs.

use super::{
    InferenceError, ModelDimension, ModelElementType, ModelPort, NnErrorCode, NnTensorType,
};
use std::collections::HashSet;
use tract_onnx::pb::tensor_proto::DataType;
use tract_onnx::pb::tensor_shape_proto::dimension::Value;
use tract_onnx::pb::{
    AttributeProto, GraphProto, ModelProto, NodeProto, ValueInfoProto, type_proto,
};

/// All graphs of a model, including those inside nodes and functions.
pub(super) fn graphs(proto: &ModelProto) -> Vec<&GraphProto> {
    fn subgraphs(nodes: &[NodeProto]) -> impl Iterator<Item = &GraphProto> {
        let attributes = nodes.iter().flat_map(|node| &node.attribute);
        attributes.flat_map(|attribute| attribute.g.iter().chain(&attribute.graphs))
    }
    let mut found: Vec<&GraphProto> = proto.graph.iter().collect();
    found.extend(proto.functions.iter().flat_map(|function| subgraphs(&function.node)));
    let mut next = 0;
    while let Some(graph) = found.get(next) {
        found.extend(subgraphs(&graph.node));
        next += 1;
    }
    found
}

/// All nodes of a model, including those of functions.
pub(super) fn nodes(proto: &ModelProto) -> impl Iterator<Item = &NodeProto> {
    let functions = proto.functions.iter().flat_map(|function| &function.node);
    graphs(proto).into_iter().flat_map(|graph| &graph.node).chain(functions)
}

/// The names of values that a node uses, including those that graphs inside the node use.
pub(super) fn used_names(node: &NodeProto) -> Vec<&str> {
    let mut names = Vec::new();
    let mut nodes = vec![node];
    while let Some(node) = nodes.pop() {
        names.extend(node.input.iter().map(String::as_str));
        for graph in
            node.attribute.iter().flat_map(|attribute| attribute.g.iter().chain(&attribute.graphs))
        {
            names.extend(graph.output.iter().map(|output| output.name.as_str()));
            nodes.extend(&graph.node);
        }
    }
    names
}

pub(super) fn attribute<'a>(node: &'a NodeProto, name: &str) -> Option<&'a AttributeProto> {
    node.attribute.iter().find(|attribute| attribute.name == name)
}

/// The inputs that have no default value in the model.
pub(super) fn inputs(graph: &GraphProto) -> Result<Vec<ModelPort>, InferenceError> {
    free_inputs(graph).map(model_port).collect()
}

pub(super) fn outputs(graph: &GraphProto) -> Result<Vec<ModelPort>, InferenceError> {
    graph.output.iter().map(model_port).collect()
}

/// The inputs that a caller must give, because they have no default value.
pub(super) fn free_inputs(graph: &GraphProto) -> impl Iterator<Item = &ValueInfoProto> {
    let dense = graph.initializer.iter().map(|tensor| tensor.name.as_str());
    let sparse = graph.sparse_initializer.iter().filter_map(|tensor| tensor.values.as_ref());
    let with_default: HashSet<&str> =
        dense.chain(sparse.map(|tensor| tensor.name.as_str())).collect();
    graph.input.iter().filter(move |input| !with_default.contains(input.name.as_str()))
}

/// The element type of an input or output, in ONNX. `None` if it is not a tensor, or this version of Sandmill
/// does not know the type.
pub(super) fn data_type(info: &ValueInfoProto) -> Option<DataType> {
    DataType::try_from(tensor_type(info)?.elem_type).ok()
}

fn tensor_type(info: &ValueInfoProto) -> Option<&type_proto::Tensor> {
    let type_proto::Value::TensorType(tensor) = info.r#type.as_ref()?.value.as_ref()?;
    Some(tensor)
}

fn model_port(info: &ValueInfoProto) -> Result<ModelPort, InferenceError> {
    let name = info.name.clone();
    let Some(tensor) = tensor_type(info) else {
        // A sequence or a map. Its type is not read.
        return Ok(ModelPort {
            name,
            ty: ModelElementType::Other("no tensor".to_owned()),
            shape: None,
        });
    };
    let ty = element_type(tensor.elem_type);
    let Some(shape) = &tensor.shape else { return Ok(ModelPort { name, ty, shape: None }) };
    let shape: Result<Vec<ModelDimension>, InferenceError> = shape
        .dim
        .iter()
        .map(|dimension| match &dimension.value {
            Some(Value::DimValue(size)) if *size >= 0 => {
                u32::try_from(*size).map(ModelDimension::Fixed).map_err(|_| {
                    InferenceError::refused(
                        NnErrorCode::InvalidEncoding,
                        format!("{name:?} has a dimension of {size}; the maximum is {}", u32::MAX),
                    )
                })
            }
            // Some exporters write a question mark for an unknown size.
            Some(Value::DimParam(symbol)) if !symbol.is_empty() && symbol != "?" => {
                Ok(ModelDimension::Named(symbol.clone()))
            }
            _ => Ok(ModelDimension::Unknown),
        })
        .collect();
    Ok(ModelPort { shape: Some(shape?), name, ty })
}

fn element_type(number: i32) -> ModelElementType {
    let Ok(ty) = DataType::try_from(number) else {
        return ModelElementType::Other(format!("type {number} of ONNX"));
    };
    match wasi_nn_type(ty) {
        Some(ty) => ModelElementType::Standard(ty),
        None => ModelElementType::Other(ty.as_str_name().to_ascii_lowercase()),
    }
}

/// The type in `wasi:nn`; `None` if `wasi:nn` does not have the type.
fn wasi_nn_type(ty: DataType) -> Option<NnTensorType> {
    Some(match ty {
        DataType::Float16 => NnTensorType::F16,
        DataType::Float => NnTensorType::F32,
        DataType::Double => NnTensorType::F64,
        DataType::Bfloat16 => NnTensorType::Bf16,
        DataType::Uint8 | DataType::Bool => NnTensorType::U8,
        DataType::Int32 => NnTensorType::I32,
        DataType::Int64 => NnTensorType::I64,
        _ => return None,
    })
}
