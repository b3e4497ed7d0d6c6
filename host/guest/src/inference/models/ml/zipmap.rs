//! `ZipMap`, which scikit-learn's exporter puts at the end of a classifier. Its output is a list
//! with one map for each row. The map gives the score of each label. No tensor can represent this list. The
//! scores themselves are a tensor, so we replace the list by the scores.

use crate::inference::models::onnx_facts::attribute;
use tract_onnx::pb::tensor_proto::DataType;
use tract_onnx::pb::tensor_shape_proto::{Dimension, dimension::Value};
use tract_onnx::pb::{
    GraphProto, NodeProto, TensorShapeProto, TypeProto, ValueInfoProto, type_proto,
};

/// Replaces each output of the graph that comes from a `ZipMap` by the `ZipMap`'s scores, under the
/// same name. Keeps a `ZipMap` if other nodes use its maps. Returns whether it replaced any output.
pub(in super::super) fn replace_zipmaps(graph: &mut GraphProto) -> bool {
    let mut replaced = false;
    for index in 0..graph.node.len() {
        let node = &graph.node[index];
        if node.op_type != "ZipMap" || node.domain != "ai.onnx.ml" {
            continue;
        }
        let ([scores], [maps]) = (node.input.as_slice(), node.output.as_slice()) else { continue };
        let (scores, maps) = (scores.clone(), maps.clone());
        let is_used = graph.node.iter().any(|node| node.input.contains(&maps));
        let Some(output) = graph.output.iter_mut().find(|output| output.name == maps) else {
            continue;
        };
        if is_used {
            continue;
        }
        *output = score_output(maps.clone(), label_count(&graph.node[index]));
        graph.node[index] = NodeProto {
            op_type: "Identity".to_owned(),
            name: graph.node[index].name.clone(),
            input: vec![scores],
            output: vec![maps],
            ..NodeProto::default()
        };
        replaced = true;
    }
    replaced
}

fn label_count(node: &NodeProto) -> usize {
    let numbers = attribute(node, "classlabels_int64s").map_or(0, |found| found.ints.len());
    let texts = attribute(node, "classlabels_strings").map_or(0, |found| found.strings.len());
    numbers.max(texts)
}

/// An output of type `f32 [?, labels]`.
fn score_output(name: String, labels: usize) -> ValueInfoProto {
    let labels = i64::try_from(labels).ok().filter(|labels| *labels > 0).map(Value::DimValue);
    let dim = [None, labels].map(|value| Dimension { value, ..Dimension::default() });
    let shape = Some(TensorShapeProto { dim: dim.to_vec() });
    let tensor = type_proto::Tensor { elem_type: DataType::Float as i32, shape };
    let value = Some(type_proto::Value::TensorType(tensor));
    let r#type = Some(TypeProto { value, ..TypeProto::default() });
    ValueInfoProto { name, r#type, ..ValueInfoProto::default() }
}
