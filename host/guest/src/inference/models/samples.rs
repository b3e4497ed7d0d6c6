//! Small models for tests.

use prost::Message as _;
use tract_onnx::pb::attribute_proto::AttributeType;
use tract_onnx::pb::tensor_proto::DataType;
use tract_onnx::pb::tensor_shape_proto::{Dimension, dimension::Value};
use tract_onnx::pb::{
    AttributeProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto, TensorProto,
    TensorShapeProto, TypeProto, ValueInfoProto, type_proto,
};

/// A model of opset 17 with these parts.
pub(super) fn model(
    nodes: Vec<NodeProto>,
    inputs: Vec<ValueInfoProto>,
    outputs: Vec<ValueInfoProto>,
    weights: Vec<TensorProto>,
) -> ModelProto {
    let opset = |domain: &str, version| OperatorSetIdProto { domain: domain.to_owned(), version };
    ModelProto {
        ir_version: 8,
        opset_import: vec![opset("", 17), opset("ai.onnx.ml", 3)],
        graph: Some(graph(nodes, inputs, outputs, weights)),
        ..ModelProto::default()
    }
}

pub(super) fn graph(
    node: Vec<NodeProto>,
    input: Vec<ValueInfoProto>,
    output: Vec<ValueInfoProto>,
    initializer: Vec<TensorProto>,
) -> GraphProto {
    GraphProto { name: "g".to_owned(), node, input, output, initializer, ..GraphProto::default() }
}

/// The content of the model's file.
pub(super) fn bytes(model: &ModelProto) -> Vec<u8> {
    model.encode_to_vec()
}

/// A node without attributes.
pub(super) fn node(op_type: &str, input: &[&str], output: &[&str]) -> NodeProto {
    let texts = |list: &[&str]| list.iter().map(|text| (*text).to_owned()).collect();
    NodeProto {
        op_type: op_type.to_owned(),
        input: texts(input),
        output: texts(output),
        ..NodeProto::default()
    }
}

/// An input or output. `shape` has numbers, names or `?`, separated by spaces.
pub(super) fn port(name: &str, ty: DataType, shape: &str) -> ValueInfoProto {
    let dim = shape.split_whitespace().map(|text| {
        let value = match (text, text.parse()) {
            ("?", _) => None,
            (_, Ok(size)) => Some(Value::DimValue(size)),
            (_, Err(_)) => Some(Value::DimParam(text.to_owned())),
        };
        Dimension { value, ..Dimension::default() }
    });
    let shape = TensorShapeProto { dim: dim.collect() };
    let tensor = type_proto::Tensor { elem_type: ty as i32, shape: Some(shape) };
    let value = Some(type_proto::Value::TensorType(tensor));
    let r#type = Some(TypeProto { value, ..TypeProto::default() });
    ValueInfoProto { name: name.to_owned(), r#type, ..ValueInfoProto::default() }
}

/// A weight of f32, as raw data.
pub(super) fn floats(name: &str, dims: &[i64], values: &[f32]) -> TensorProto {
    let raw_data = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    weight(name, DataType::Float, dims, raw_data)
}

/// A weight of int64, as raw data.
pub(super) fn longs(name: &str, dims: &[i64], values: &[i64]) -> TensorProto {
    let raw_data = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    weight(name, DataType::Int64, dims, raw_data)
}

fn weight(name: &str, ty: DataType, dims: &[i64], raw_data: Vec<u8>) -> TensorProto {
    TensorProto {
        name: name.to_owned(),
        data_type: ty as i32,
        dims: dims.to_vec(),
        raw_data,
        ..TensorProto::default()
    }
}

/// `y = relu(x W + b)` for `x` of `[N, 2]` and `y` of `[N, 3]`.
pub(super) fn layer() -> ModelProto {
    model(
        vec![
            node("MatMul", &["x", "W"], &["a"]),
            node("Add", &["a", "b"], &["c"]),
            node("Relu", &["c"], &["y"]),
        ],
        vec![port("x", DataType::Float, "N 2")],
        vec![port("y", DataType::Float, "N 3")],
        vec![
            floats("W", &[2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]),
            floats("b", &[3], &[0.5, -100.0, 0.0]),
        ],
    )
}

/// A model with one node, from `x` to `y`.
pub(super) fn one(op_type: &str, ty: DataType, to: DataType, shape: &str) -> ModelProto {
    model(
        vec![node(op_type, &["x"], &["y"])],
        vec![port("x", ty, shape)],
        vec![port("y", to, shape)],
        Vec::new(),
    )
}

/// The attributes of a tree with three classes. It votes 2.5 for class 0 if the first of four features is at
/// most 0, else 1.5 for class 1.
pub(super) fn tree() -> Vec<AttributeProto> {
    vec![
        ints("classlabels_int64s", &[10, 20, 30]),
        ints("class_ids", &[0, 1]),
        ints("class_nodeids", &[1, 2]),
        ints("class_treeids", &[0, 0]),
        reals("class_weights", &[2.5, 1.5]),
        ints("nodes_falsenodeids", &[2, 0, 0]),
        ints("nodes_featureids", &[0, 0, 0]),
        texts("nodes_modes", &["BRANCH_LEQ", "LEAF", "LEAF"]),
        ints("nodes_nodeids", &[0, 1, 2]),
        ints("nodes_treeids", &[0, 0, 0]),
        ints("nodes_truenodeids", &[1, 0, 0]),
        reals("nodes_values", &[0.0, 0.0, 0.0]),
        AttributeProto {
            name: "post_transform".to_owned(),
            r#type: AttributeType::String as i32,
            s: b"NONE".to_vec(),
            ..AttributeProto::default()
        },
    ]
}

/// A model of trees. `other` replaces the attributes of [`tree`] with the same names.
pub(super) fn trees(other: Vec<AttributeProto>) -> ModelProto {
    let mut node = node("TreeEnsembleClassifier", &["x"], &["label", "votes"]);
    node.domain = "ai.onnx.ml".to_owned();
    node.attribute = tree();
    node.attribute.retain(|old| other.iter().all(|new| new.name != old.name));
    node.attribute.extend(other);
    model(
        vec![node],
        vec![port("x", DataType::Float, "N 4")],
        vec![port("label", DataType::Int64, "N"), port("votes", DataType::Float, "N 3")],
        Vec::new(),
    )
}

pub(super) fn int(name: &str, value: i64) -> AttributeProto {
    AttributeProto {
        name: name.to_owned(),
        r#type: AttributeType::Int as i32,
        i: value,
        ..AttributeProto::default()
    }
}

pub(super) fn ints(name: &str, values: &[i64]) -> AttributeProto {
    AttributeProto {
        name: name.to_owned(),
        r#type: AttributeType::Ints as i32,
        ints: values.to_vec(),
        ..AttributeProto::default()
    }
}

pub(super) fn reals(name: &str, values: &[f32]) -> AttributeProto {
    AttributeProto {
        name: name.to_owned(),
        r#type: AttributeType::Floats as i32,
        floats: values.to_vec(),
        ..AttributeProto::default()
    }
}

pub(super) fn texts(name: &str, values: &[&str]) -> AttributeProto {
    AttributeProto {
        name: name.to_owned(),
        r#type: AttributeType::Strings as i32,
        strings: values.iter().map(|text| text.as_bytes().to_vec()).collect(),
        ..AttributeProto::default()
    }
}

/// An attribute with a graph.
pub(super) fn inner(name: &str, graph: GraphProto) -> AttributeProto {
    AttributeProto {
        name: name.to_owned(),
        r#type: AttributeType::Graph as i32,
        g: Some(graph),
        ..AttributeProto::default()
    }
}

/// Whether this test runs in its own process. If not, runs the test in a new process. A process can hold only
/// one ONNX Runtime, and another test may have opened one.
pub(super) fn is_alone(test: &str) -> bool {
    /// Set in the test's own process.
    const ALONE: &str = "SANDMILL_TEST_ALONE";
    if std::env::var_os(ALONE).is_some() {
        return true;
    }
    let mut again = std::process::Command::new(std::env::current_exe().expect("a test's program"));
    let ran = again.args([test, "--exact"]).env(ALONE, "1").output().expect("runs");
    let output_text = String::from_utf8_lossy(&ran.stdout);
    assert!(ran.status.success() && output_text.contains("1 passed"), "{output_text}");
    false
}
