//! Tests with the real library, from the Python package.

use super::Library;
use crate::inference::NamedLibrary;
use crate::inference::models::samples::is_alone;
use crate::inference::models::vet;
use crate::inference::models::{
    BackendModel, InferenceError, LoadSettings, ModelDimension, ModelElementType, ModelPort,
    ModelSource, NnErrorCode, NnTensorType, OwnedTensor, TensorView,
};
use crate::model::{Backend, Device};
use std::fs;
use std::path::Path;

fn library() -> Library {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
    let named = NamedLibrary { by: "the test", path: root.join("target/venv") };
    let file = named.find().unwrap_or_else(|why| {
        panic!("{why}\n`make python-env` installs onnxruntime there");
    });
    Library::open(&file).unwrap_or_else(|why| panic!("{why}"))
}

fn settings(threads: u32) -> LoadSettings {
    LoadSettings {
        threads,
        gpu: None,
        gpu_memory: None,
        fell_back: false,
        limit: 1 << 30,
        loaded_bytes: 0,
    }
}

fn load(model: &[u8]) -> Result<Box<dyn BackendModel>, InferenceError> {
    load_from(ModelSource::Bytes(model), 1)
}

/// Loads a model as a worker does.
fn load_from(
    source: ModelSource<'_>,
    threads: u32,
) -> Result<Box<dyn BackendModel>, InferenceError> {
    let settings = settings(threads);
    library().load(source, vet::read(source, settings.limit)?, &settings)
}

/// A varint of the protobuf encoding.
fn varint(mut value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value > 127 {
        bytes.push(value.to_le_bytes()[0] | 128);
        value >>= 7;
    }
    bytes.push(value.to_le_bytes()[0]);
    bytes
}

/// A numeric field of a protobuf message. Field numbers are those of onnx.proto.
fn number(tag: u64, value: u64) -> Vec<u8> {
    [varint(tag << 3), varint(value)].concat()
}

/// A protobuf field with bytes or a message.
fn field(tag: u64, content: impl AsRef<[u8]>) -> Vec<u8> {
    let content = content.as_ref();
    [varint(tag << 3 | 2), varint(content.len() as u64), content.to_vec()].concat()
}

/// The codes of element types in ONNX.
const FLOAT: u64 = 1;
const STRING: u64 = 8;
const BOOL: u64 = 9;

/// An input or output; a dimension is a number or a name.
fn port(name: &str, ty: u64, dims: &[&str]) -> Vec<u8> {
    let dims = dims.iter().map(|dim| match dim.parse() {
        Ok(size) => field(1, number(1, size)),
        Err(_) => field(1, field(2, dim)),
    });
    let shape: Vec<u8> = dims.flatten().collect();
    let tensor = [number(1, ty), field(2, shape)].concat();
    [field(1, name), field(2, field(1, tensor))].concat()
}

/// A model with one node, of opset 17 and IR version 8.
fn model(node: &[u8], initializer: &[u8], input: &[u8], output: &[u8]) -> Vec<u8> {
    let mut graph = [field(1, node), field(2, "g")].concat();
    if !initializer.is_empty() {
        graph.extend(field(5, initializer));
    }
    graph.extend([field(11, input), field(12, output)].concat());
    let opset = [field(1, ""), number(2, 17)].concat();
    [number(1, 8), field(7, graph), field(8, opset)].concat()
}

/// A node whose output is `y`.
fn node(operation: &str, inputs: &[&str]) -> Vec<u8> {
    let inputs: Vec<u8> = inputs.iter().flat_map(|input| field(1, input)).collect();
    [inputs, field(2, "y"), field(4, operation)].concat()
}

fn doubling() -> Vec<u8> {
    let x = port("x", FLOAT, &["n", "2"]);
    let y = port("y", FLOAT, &["n", "2"]);
    model(&node("Add", &["x", "x"]), &[], &x, &y)
}

fn view<'a>(ty: NnTensorType, dims: &'a [u32], bytes: &'a [u8]) -> TensorView<'a> {
    TensorView { name: "x", ty, dims, bytes }
}

fn floats(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

fn refused<T>(result: Result<T, InferenceError>) -> (NnErrorCode, String) {
    match result.err() {
        Some(InferenceError::Refused { code, message }) => (code, message),
        other => panic!("not refused: {other:?}"),
    }
}

#[test]
fn a_model_is_described_and_computes() {
    let mut model = load(&doubling()).unwrap();
    let port = |name: &str| ModelPort {
        name: name.to_owned(),
        ty: ModelElementType::Standard(NnTensorType::F32),
        shape: Some(vec![ModelDimension::Named("n".to_owned()), ModelDimension::Fixed(2)]),
    };
    let facts = model.facts();
    assert_eq!((&facts.inputs, &facts.outputs), (&vec![port("x")], &vec![port("y")]));
    assert_eq!((facts.backend, facts.device), (Backend::OnnxRuntime, Device::Cpu));
    let y = OwnedTensor {
        name: "y".to_owned(),
        ty: NnTensorType::F32,
        dims: vec![2, 2],
        bytes: floats(&[2.0, -4.0, 6.0, 0.5]),
    };
    let bytes = floats(&[1.0, -2.0, 3.0, 0.25]);
    assert_eq!(model.run(&[view(NnTensorType::F32, &[2, 2], &bytes)]), Ok(vec![y.clone()]));
    // Unaligned bytes work too.
    let shifted = [&[0][..], &bytes].concat();
    assert_eq!(model.run(&[view(NnTensorType::F32, &[2, 2], &shifted[1..])]), Ok(vec![y]));
    // An empty tensor works too.
    let empty = model.run(&[view(NnTensorType::F32, &[0, 2], &[])]).unwrap();
    assert_eq!((&empty[0].dims[..], &empty[0].bytes[..]), (&[0, 2][..], &[][..]));
    let bytes = floats(&[1.0; 3]);
    let (code, text) = refused(model.run(&[view(NnTensorType::F32, &[1, 3], &bytes)]));
    assert_eq!(code, NnErrorCode::InvalidArgument);
    assert!(text.starts_with("onnxruntime cannot run it: ") && text.contains("Got: 3"), "{text}");
}

/// Covers all types of `wasi:nn`, also bf16, which tract does not support.
#[test]
fn all_number_types_are_supported() {
    use NnTensorType::{Bf16, F16, F32, F64, I32, I64, U8};
    // Each type with its code in ONNX.
    for (number, ty) in [(1, F32), (2, U8), (6, I32), (7, I64), (10, F16), (11, F64), (16, Bf16)] {
        let x = port("x", number, &["n"]);
        let y = port("y", number, &["n"]);
        let mut same = load(&model(&node("Identity", &["x"]), &[], &x, &y)).unwrap();
        assert_eq!(same.facts().inputs[0].ty, ModelElementType::Standard(ty));
        let bytes: Vec<u8> = (1..=3 * ty.size()).map(|n| n.to_le_bytes()[0]).collect();
        let outputs = same.run(&[view(ty, &[3], &bytes)]).unwrap();
        assert_eq!((outputs[0].ty, &outputs[0].bytes), (ty, &bytes));
    }
}

#[test]
fn booleans_are_bytes_and_scalars_have_one_element() {
    let x = port("x", BOOL, &["n"]);
    let y = port("y", BOOL, &["n"]);
    let mut not = load(&model(&node("Not", &["x"]), &[], &x, &y)).unwrap();
    let ty = ModelElementType::Standard(NnTensorType::U8);
    assert!(not.facts().inputs[0].ty == ty && not.facts().outputs[0].ty == ty);
    let outputs = not.run(&[view(NnTensorType::U8, &[3], &[0, 1, 7])]).unwrap();
    assert_eq!(outputs[0].bytes, [1, 0, 0]);

    let x = port("x", FLOAT, &[]);
    let y = port("y", FLOAT, &[]);
    let mut scalar = load(&model(&node("Neg", &["x"]), &[], &x, &y)).unwrap();
    let outputs = scalar.run(&[view(NnTensorType::F32, &[], &floats(&[2.0]))]).unwrap();
    assert_eq!((&outputs[0].dims[..], &outputs[0].bytes), (&[1][..], &floats(&[-2.0])));
}

#[test]
fn unusable_models_are_refused_with_a_reason() {
    // The attribute `to`, whose type is INT (2).
    let to_string = [field(1, "to"), number(20, 2), number(3, STRING)].concat();
    let cast = [node("Cast", &["x"]), field(5, to_string)].concat();
    let x = port("x", FLOAT, &["n"]);
    let y = port("y", STRING, &["n"]);
    let mut strings = load(&model(&cast, &[], &x, &y)).unwrap();
    assert_eq!(strings.facts().outputs[0].ty, ModelElementType::Other("string".to_owned()));
    let (code, text) = refused(strings.run(&[view(NnTensorType::F32, &[1], &floats(&[2.0]))]));
    assert_eq!(code, NnErrorCode::UnsupportedOperation);
    assert!(text.contains("output \"y\" is string"), "{text}");

    let y = port("y", FLOAT, &["n"]);
    let (code, text) = refused(load(&model(&node("Frobnicate", &["x"]), &[], &x, &y)));
    assert_eq!(code, NnErrorCode::UnsupportedOperation, "{text}");
    assert!(text.contains("Frobnicate"), "{text}");
    assert_eq!(refused(load(b"no model at all")).0, NnErrorCode::InvalidEncoding);
    let cut = doubling();
    assert_eq!(refused(load(&cut[..cut.len() / 2])).0, NnErrorCode::InvalidEncoding);
}

fn threads() -> usize {
    fs::read_dir("/proc/self/task").unwrap().count()
}

/// The calling thread is one of the computing threads.
#[test]
fn the_requested_number_of_threads_computes() {
    let _library = library();
    let model = doubling();
    let before = threads();
    let _one = load_from(ModelSource::Bytes(&model), 1).unwrap();
    assert_eq!(threads(), before);
    let _three = load_from(ModelSource::Bytes(&model), 3).unwrap();
    assert_eq!(threads(), before + 2);
}

/// Large weights in a separate file stay mapped from it, so all workers share the memory.
#[test]
fn large_weights_are_mapped() {
    const SIZE: u64 = 4096 * 5120 * 4;
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path();
    fs::File::create(folder.join("w.bin")).unwrap().set_len(SIZE).unwrap();
    let location = [field(1, "location"), field(2, "w.bin")].concat();
    let dims = [number(1, 4096), number(1, 5120)].concat();
    // The data location 1 is EXTERNAL.
    let external = [field(13, location), number(14, 1)].concat();
    let weights = [dims, number(2, FLOAT), field(8, "w"), external].concat();
    let x = port("x", FLOAT, &["n", "4096"]);
    let y = port("y", FLOAT, &["n", "5120"]);
    let path = folder.join("model.onnx");
    fs::write(&path, model(&node("MatMul", &["x", "w"]), &weights, &x, &y)).unwrap();

    let mut model = load_from(ModelSource::File(&path), 1).unwrap();
    let input = floats(&[1.0; 4096]);
    let outputs = model.run(&[view(NnTensorType::F32, &[1, 4096], &input)]).unwrap();
    assert_eq!(outputs[0].dims, [1, 5120]);
    let maps = fs::read_to_string("/proc/self/smaps").unwrap();
    let map = maps.split("VmFlags").find(|map| map.contains("/w.bin\n")).expect("mapped");
    let kilobytes = |name: &str| {
        let line = map.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap()
    };
    assert!(kilobytes("Rss:") * 1024 >= SIZE / 2, "{map}");
    assert_eq!(kilobytes("Anonymous:"), 0, "{map}");
}

#[test]
fn a_file_that_is_not_onnxruntime_is_refused() {
    if !is_alone("inference::models::onnxruntime::tests::a_file_that_is_not_onnxruntime_is_refused")
    {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("libonnxruntime.so");
    fs::write(&path, "text").unwrap();
    let error = Library::open(&path).unwrap_err().to_string();
    assert!(error.contains("cannot be opened as a library"), "{error}");
    // A library that every program has open.
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let mut files = maps.lines().filter_map(|line| line.split_whitespace().nth(5));
    let other = files.find(|path| path.contains("libc.so")).expect("a C library");
    let error = Library::open(Path::new(other)).unwrap_err().to_string();
    assert!(error.contains("not ONNX Runtime's"), "{error}");
}
