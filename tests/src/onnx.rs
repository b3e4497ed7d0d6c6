//! Builds small ONNX models byte by byte, so that each test shows what its model contains.

/// A model with one `f32` input `x` and one `f32` output `y`, both of these dimensions. A dimension is a
/// number, or a name for any size. Each node has an operator, the names of its inputs and the name of its
/// output.
pub fn onnx_model(dims: [&str; 2], nodes: &[(&str, &[&str], &str)]) -> Vec<u8> {
    const FLOAT: u64 = 1;
    onnx_model_of(FLOAT, dims, nodes)
}

/// As [`onnx_model`], with elements of another type, given by ONNX's number for it.
pub fn onnx_model_of(element: u64, dims: [&str; 2], nodes: &[(&str, &[&str], &str)]) -> Vec<u8> {
    let mut graph = Vec::new();
    for (op, inputs, output) in nodes {
        let mut node = Vec::new();
        inputs.iter().for_each(|input| bytes(&mut node, 1, input.as_bytes()));
        bytes(&mut node, 2, output.as_bytes());
        bytes(&mut node, 4, op.as_bytes());
        bytes(&mut graph, 1, &node);
    }
    bytes(&mut graph, 2, b"test");
    bytes(&mut graph, 11, &value("x", element, dims));
    bytes(&mut graph, 12, &value("y", element, dims));
    let mut opset = Vec::new();
    number(&mut opset, 2, 18);
    let mut model = Vec::new();
    number(&mut model, 1, 8);
    bytes(&mut model, 7, &graph);
    bytes(&mut model, 8, &opset);
    model
}

/// A `ValueInfoProto`.
fn value(name: &str, element: u64, dims: [&str; 2]) -> Vec<u8> {
    let mut shape = Vec::new();
    for dim in dims {
        let mut dimension = Vec::new();
        match dim.parse() {
            Ok(size) => number(&mut dimension, 1, size),
            Err(_) => bytes(&mut dimension, 2, dim.as_bytes()),
        }
        bytes(&mut shape, 1, &dimension);
    }
    let mut tensor = Vec::new();
    number(&mut tensor, 1, element);
    bytes(&mut tensor, 2, &shape);
    let mut kind = Vec::new();
    bytes(&mut kind, 1, &tensor);
    let mut value = Vec::new();
    bytes(&mut value, 1, name.as_bytes());
    bytes(&mut value, 2, &kind);
    value
}

/// Appends a protobuf field that holds a number.
fn number(message: &mut Vec<u8>, field: u64, value: u64) {
    varint(message, field << 3);
    varint(message, value);
}

/// Appends a protobuf field that holds text, bytes or another message.
fn bytes(message: &mut Vec<u8>, field: u64, value: &[u8]) {
    varint(message, field << 3 | 2);
    varint(message, value.len() as u64);
    message.extend(value);
}

fn varint(message: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        message.push(value.to_le_bytes()[0] | 0x80);
        value >>= 7;
    }
    message.push(value.to_le_bytes()[0]);
}
