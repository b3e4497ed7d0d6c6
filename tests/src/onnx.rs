//! Small models in ONNX, written out byte by byte: what a test wants of one is best seen where it is made.

/// A model with one input `x` and one output `y` of `f32`, of the dimensions given: a number, or a name
/// for any number. Each node is an operator and the names of its inputs and of its output.
pub fn onnx_model(dims: [&str; 2], nodes: &[(&str, &[&str], &str)]) -> Vec<u8> {
    const FLOAT: u64 = 1;
    onnx_model_of(FLOAT, dims, nodes)
}

/// The same of another type of elements, by the number that ONNX has for it.
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

/// A field of a protobuf that is a number.
fn number(message: &mut Vec<u8>, field: u64, value: u64) {
    varint(message, field << 3);
    varint(message, value);
}

/// A field of a protobuf that is text, bytes or another message.
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
