//! Reads an ONNX file: the inputs and outputs of its model, and its parts.

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
    fn inside(nodes: &[NodeProto]) -> impl Iterator<Item = &GraphProto> {
        let attributes = nodes.iter().flat_map(|node| &node.attribute);
        attributes.flat_map(|attribute| attribute.g.iter().chain(&attribute.graphs))
    }
    let mut all: Vec<&GraphProto> = proto.graph.iter().collect();
    all.extend(proto.functions.iter().flat_map(|function| inside(&function.node)));
    let mut at = 0;
    while let Some(graph) = all.get(at) {
        all.extend(inside(&graph.node));
        at += 1;
    }
    all
}

/// All nodes of a model, including those of functions.
pub(super) fn nodes(proto: &ModelProto) -> impl Iterator<Item = &NodeProto> {
    let functions = proto.functions.iter().flat_map(|function| &function.node);
    graphs(proto).into_iter().flat_map(|graph| &graph.node).chain(functions)
}

/// The names that a node uses, including the inputs and outputs of graphs inside it.
pub(super) fn used(node: &NodeProto) -> Vec<&str> {
    let mut names = Vec::new();
    let mut nodes = vec![node];
    while let Some(node) = nodes.pop() {
        names.extend(node.input.iter().map(String::as_str));
        for graph in node.attribute.iter().flat_map(|it| it.g.iter().chain(&it.graphs)) {
            names.extend(graph.output.iter().map(|output| output.name.as_str()));
            nodes.extend(&graph.node);
        }
    }
    names
}

/// An attribute of a node.
pub(super) fn attribute<'a>(node: &'a NodeProto, name: &str) -> Option<&'a AttributeProto> {
    node.attribute.iter().find(|attribute| attribute.name == name)
}

/// The inputs without a default value in the model.
pub(super) fn inputs(graph: &GraphProto) -> Result<Vec<ModelPort>, InferenceError> {
    free_inputs(graph).map(port).collect()
}

/// The outputs.
pub(super) fn outputs(graph: &GraphProto) -> Result<Vec<ModelPort>, InferenceError> {
    graph.output.iter().map(port).collect()
}

/// The inputs that a caller must give.
pub(super) fn free_inputs(graph: &GraphProto) -> impl Iterator<Item = &ValueInfoProto> {
    let dense = graph.initializer.iter().map(|tensor| tensor.name.as_str());
    let sparse = graph.sparse_initializer.iter().filter_map(|tensor| tensor.values.as_ref());
    let with_default: HashSet<&str> =
        dense.chain(sparse.map(|tensor| tensor.name.as_str())).collect();
    graph.input.iter().filter(move |input| !with_default.contains(input.name.as_str()))
}

/// The element type in ONNX; `None` if it is not a tensor, or the type is unknown to this version.
pub(super) fn data_type(info: &ValueInfoProto) -> Option<DataType> {
    DataType::try_from(tensor(info)?.elem_type).ok()
}

fn tensor(info: &ValueInfoProto) -> Option<&type_proto::Tensor> {
    let type_proto::Value::TensorType(tensor) = info.r#type.as_ref()?.value.as_ref()?;
    Some(tensor)
}

fn port(info: &ValueInfoProto) -> Result<ModelPort, InferenceError> {
    let name = info.name.clone();
    let Some(tensor) = tensor(info) else {
        // Types of sequences and maps are not read.
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
                        format!("{name:?} has a dimension of {size}; {} is the most", u32::MAX),
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
    match standard(ty) {
        Some(ty) => ModelElementType::Standard(ty),
        None => ModelElementType::Other(ty.as_str_name().to_ascii_lowercase()),
    }
}

/// The type in `wasi:nn`.
pub(super) fn standard(ty: DataType) -> Option<NnTensorType> {
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
