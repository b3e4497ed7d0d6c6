//! Builds small ONNX models byte by byte, so that each test shows what its model contains.

// The versions of the operators and of the file format.
const OPSET: u64 = 18;
const IR_VERSION: u64 = 8;

// Field numbers of the messages in onnx.proto.
const NODE_INPUT: u64 = 1;
const NODE_OUTPUT: u64 = 2;
const NODE_OP_TYPE: u64 = 4;
const GRAPH_NODE: u64 = 1;
const GRAPH_NAME: u64 = 2;
const GRAPH_INPUT: u64 = 11;
const GRAPH_OUTPUT: u64 = 12;
const OPSET_VERSION: u64 = 2;
const MODEL_IR_VERSION: u64 = 1;
const MODEL_GRAPH: u64 = 7;
const MODEL_OPSET_IMPORT: u64 = 8;
const DIMENSION_VALUE: u64 = 1;
const DIMENSION_PARAM: u64 = 2;
const SHAPE_DIMENSION: u64 = 1;
const TENSOR_ELEMENT_TYPE: u64 = 1;
const TENSOR_SHAPE: u64 = 2;
const TYPE_TENSOR: u64 = 1;
const VALUE_NAME: u64 = 1;
const VALUE_TYPE: u64 = 2;

/// A model with one `f32` input `x` and one `f32` output `y`. Both have the dimensions `dims`. A dimension is
/// a number, or a name for any size. Each node has an operator, the names of its inputs and the name of its
/// output.
pub fn onnx_model(dims: [&str; 2], nodes: &[(&str, &[&str], &str)]) -> Vec<u8> {
    const FLOAT: u64 = 1;
    onnx_model_of(FLOAT, dims, nodes)
}

/// As [`onnx_model`], with elements of another type: a number of ONNX's `TensorProto.DataType`.
pub fn onnx_model_of(element: u64, dims: [&str; 2], nodes: &[(&str, &[&str], &str)]) -> Vec<u8> {
    let mut graph = Vec::new();
    for (op, inputs, output) in nodes {
        let mut node = Vec::new();
        inputs.iter().for_each(|input| bytes(&mut node, NODE_INPUT, input.as_bytes()));
        bytes(&mut node, NODE_OUTPUT, output.as_bytes());
        bytes(&mut node, NODE_OP_TYPE, op.as_bytes());
        bytes(&mut graph, GRAPH_NODE, &node);
    }
    bytes(&mut graph, GRAPH_NAME, b"test");
    bytes(&mut graph, GRAPH_INPUT, &value("x", element, dims));
    bytes(&mut graph, GRAPH_OUTPUT, &value("y", element, dims));
    let mut opset = Vec::new();
    number(&mut opset, OPSET_VERSION, OPSET);
    let mut model = Vec::new();
    number(&mut model, MODEL_IR_VERSION, IR_VERSION);
    bytes(&mut model, MODEL_GRAPH, &graph);
    bytes(&mut model, MODEL_OPSET_IMPORT, &opset);
    model
}

/// A `ValueInfoProto`, which describes an input or an output.
fn value(name: &str, element: u64, dims: [&str; 2]) -> Vec<u8> {
    let mut shape = Vec::new();
    for dim in dims {
        let mut dimension = Vec::new();
        match dim.parse() {
            Ok(size) => number(&mut dimension, DIMENSION_VALUE, size),
            Err(_) => bytes(&mut dimension, DIMENSION_PARAM, dim.as_bytes()),
        }
        bytes(&mut shape, SHAPE_DIMENSION, &dimension);
    }
    let mut tensor = Vec::new();
    number(&mut tensor, TENSOR_ELEMENT_TYPE, element);
    bytes(&mut tensor, TENSOR_SHAPE, &shape);
    let mut kind = Vec::new();
    bytes(&mut kind, TYPE_TENSOR, &tensor);
    let mut value = Vec::new();
    bytes(&mut value, VALUE_NAME, name.as_bytes());
    bytes(&mut value, VALUE_TYPE, &kind);
    value
}

/// Appends a protobuf field that holds a number.
fn number(message: &mut Vec<u8>, field: u64, value: u64) {
    // The lowest three bits are the wire type: 0, a varint.
    varint(message, field << 3);
    varint(message, value);
}

/// Appends a protobuf field that holds text, bytes or another message.
fn bytes(message: &mut Vec<u8>, field: u64, value: &[u8]) {
    const WIRE_TYPE_LENGTH: u64 = 2;
    varint(message, field << 3 | WIRE_TYPE_LENGTH);
    varint(message, value.len() as u64);
    message.extend(value);
}

/// Appends a number in protobuf's variable length: 7 bits in each byte, the lowest bits first.
fn varint(message: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        message.push(value.to_le_bytes()[0] | 0x80);
        value >>= 7;
    }
    message.push(value.to_le_bytes()[0]);
}
