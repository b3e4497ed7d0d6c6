//! Inference through a guest's calls, with models that tract runs.

use super::bindings::sandmill::entry::models::{Dimension, ElementType, Host as _};
use super::bindings::wasi::nn::errors::{ErrorCode, HostError};
use super::bindings::wasi::nn::graph::{ExecutionTarget, GraphEncoding, Host as _, HostGraph as _};
use super::bindings::wasi::nn::inference::HostGraphExecutionContext as _;
use super::bindings::wasi::nn::tensor::{HostTensor, TensorType};
use super::errors::Reported;
use super::resources::{Execution, Graph, GuestTensor, NnErrorResource};
use super::view::View;
use super::{CallEnd, InferenceState};
use crate::inference::{InferenceError, LoadedModels};
use crate::model::{Backend, ByteSize, FailureKind, InferenceSettings, JobModel, Limits};
use crate::sandbox::traps::{TrapContext, failure};
use prost::Message as _;
use std::sync::Arc;
use tract_onnx::pb::tensor_proto::DataType;
use tract_onnx::pb::tensor_shape_proto::{self, dimension::Value};
use tract_onnx::pb::{
    AttributeProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto, TensorShapeProto,
    TypeProto, ValueInfoProto, attribute_proto, type_proto,
};
use wasmtime::component::Resource;
use wasmtime_wasi::ResourceTable;

/// A model with an input `x` of this type and dimensions `N` and 2, and an output `y` that is twice as large:
/// in value with `Add`, in length with `Concat`.
fn double(op: &str, ty: DataType) -> Vec<u8> {
    let port = |name: &str, rows: &str| {
        let value = [Value::DimParam(rows.to_owned()), Value::DimValue(2)];
        let dim = value.map(|value| tensor_shape_proto::Dimension {
            value: Some(value),
            ..Default::default()
        });
        let tensor = type_proto::Tensor {
            elem_type: ty as i32,
            shape: Some(TensorShapeProto { dim: dim.to_vec() }),
        };
        let value = Some(type_proto::Value::TensorType(tensor));
        ValueInfoProto {
            name: name.to_owned(),
            r#type: Some(TypeProto { value, ..Default::default() }),
            ..Default::default()
        }
    };
    let axis = AttributeProto {
        name: "axis".to_owned(),
        r#type: attribute_proto::AttributeType::Int as i32,
        ..Default::default()
    };
    let node = NodeProto {
        op_type: op.to_owned(),
        input: vec!["x".to_owned(); 2],
        output: vec!["y".to_owned()],
        attribute: if op == "Concat" { vec![axis] } else { Vec::new() },
        ..Default::default()
    };
    let graph = GraphProto {
        node: vec![node],
        name: "double".to_owned(),
        input: vec![port("x", "N")],
        output: vec![port("y", if op == "Concat" { "M" } else { "N" })],
        ..Default::default()
    };
    let opset = OperatorSetIdProto { domain: String::new(), version: 18 };
    let model = ModelProto {
        ir_version: 8,
        opset_import: vec![opset],
        graph: Some(graph),
        ..Default::default()
    };
    model.encode_to_vec()
}

/// The inference state of an instance, without an instance.
struct NnFixture {
    folder: tempfile::TempDir,
    models: Arc<LoadedModels>,
    table: ResourceTable,
    inference: InferenceState,
}

impl NnFixture {
    /// Has the models `double` and `longer` of this type.
    fn new(ty: DataType, settings: &InferenceSettings, limits: &Limits) -> Self {
        let folder = tempfile::tempdir().expect("temporary folder");
        std::fs::write(folder.path().join("double.onnx"), double("Add", ty)).expect("writes");
        std::fs::write(folder.path().join("longer.onnx"), double("Concat", ty)).expect("writes");
        let model = |name: &str| JobModel {
            name: name.to_owned(),
            host: folder.path().to_owned(),
            file: format!("{name}.onnx"),
            backend: Backend::Tract,
            ..JobModel::sample()
        };
        let job_models = vec![model("longer"), model("double")];
        let models = Arc::new(LoadedModels::open(job_models, settings, None, 1, limits));
        let inference = InferenceState::new(&models, limits);
        Self { folder, models, table: ResourceTable::new(), inference }
    }

    fn plain() -> Self {
        Self::new(DataType::Float, &InferenceSettings::default(), &Limits::default())
    }

    fn view(&mut self) -> View<'_> {
        View { table: &mut self.table, inference: &mut self.inference }
    }

    fn tensor(&mut self, dims: &[u32], ty: TensorType, bytes: &[u8]) -> Resource<GuestTensor> {
        self.view().new(dims.to_vec(), ty, bytes.to_vec()).expect("there are handles")
    }

    /// A tensor of `f32`.
    fn floats(&mut self, rows: u32) -> Resource<GuestTensor> {
        let numbers = (0..2 * u16::try_from(rows).expect("few rows")).map(f32::from);
        let bytes: Vec<u8> = numbers.flat_map(f32::to_le_bytes).collect();
        self.tensor(&[rows, 2], TensorType::Fp32, &bytes)
    }

    fn context(&mut self, model: &str) -> Resource<Execution> {
        let loaded = self.view().load_by_name(model.to_owned());
        let graph = self.good(loaded);
        let context = self.view().init_execution_context(graph);
        self.good(context)
    }

    /// Computes with an input `x`. Returns the bytes of `y`, or the guest's error.
    fn compute(&mut self, tensor: Resource<GuestTensor>) -> Result<Vec<u8>, (ErrorCode, String)> {
        self.compute_by("double", tensor)
    }

    fn compute_by(
        &mut self,
        model: &str,
        tensor: Resource<GuestTensor>,
    ) -> Result<Vec<u8>, (ErrorCode, String)> {
        let context = self.context(model);
        let computed = self.view().compute(context, vec![("x".to_owned(), tensor)]);
        let mut outputs = self.describe(computed)?;
        assert_eq!(outputs.len(), 1);
        let (name, output) = outputs.remove(0);
        assert_eq!(name, "y");
        let data =
            HostTensor::data(&mut self.view(), Resource::new_borrow(output.rep())).expect("there");
        HostTensor::drop(&mut self.view(), output).expect("there");
        Ok(data)
    }

    fn describe<T>(&mut self, reported: Reported<T>) -> Result<T, (ErrorCode, String)> {
        reported.expect("the call does not end").map_err(|error| self.read(&error))
    }

    fn good<T>(&mut self, reported: Reported<T>) -> T {
        self.describe(reported).unwrap_or_else(|(_, text)| panic!("{text}"))
    }

    fn refused<T>(&mut self, reported: Reported<T>) -> (ErrorCode, String) {
        self.describe(reported).err().expect("it is refused")
    }

    fn read(&mut self, error: &Resource<NnErrorResource>) -> (ErrorCode, String) {
        let borrowed = || Resource::new_borrow(error.rep());
        let view = &mut self.view();
        (view.code(borrowed()).expect("there"), {
            HostError::data(view, borrowed()).expect("there")
        })
    }

    fn load(
        &mut self,
        parts: &[&[u8]],
        encoding: GraphEncoding,
        to: ExecutionTarget,
    ) -> Reported<Resource<Graph>> {
        let parts = parts.iter().map(|part| part.to_vec()).collect();
        self.view().load(parts, encoding, to)
    }
}

#[test]
fn tensors_of_each_type_are_computed() {
    let types: [(DataType, TensorType, &[u8], &[u8]); 6] = [
        (DataType::Float, TensorType::Fp32, &1.5_f32.to_le_bytes(), &3_f32.to_le_bytes()),
        (DataType::Double, TensorType::Fp64, &1e300_f64.to_le_bytes(), &2e300_f64.to_le_bytes()),
        (DataType::Float16, TensorType::Fp16, &0x3c00_u16.to_le_bytes(), &0x4000_u16.to_le_bytes()),
        (DataType::Uint8, TensorType::U8, &[100], &[200]),
        (DataType::Int32, TensorType::I32, &(-7_i32).to_le_bytes(), &(-14_i32).to_le_bytes()),
        (
            DataType::Int64,
            TensorType::I64,
            &(1_i64 << 60).to_le_bytes(),
            &(2_i64 << 60).to_le_bytes(),
        ),
    ];
    for (onnx, ty, element, expected) in types {
        let mut fixture = NnFixture::new(onnx, &InferenceSettings::default(), &Limits::default());
        let tensor = fixture.tensor(&[3, 2], ty, &element.repeat(6));
        assert_eq!(fixture.compute(tensor).expect("computes"), expected.repeat(6), "{ty:?}");
        let stats = fixture.models.take_stats();
        let bytes = 6 * element.len() as u64;
        assert_eq!((stats.calls, stats.bytes_in, stats.bytes_out), (1, bytes, bytes));
        assert_eq!(fixture.inference.allowance.held(), 0);
    }
}

#[test]
fn wrong_inputs_of_a_guest_are_explained() {
    let mut fixture = NnFixture::plain();
    let mut text = String::new();
    let mut note =
        |(code, reported): (ErrorCode, String)| text += &format!("{code:?}: {reported}\n");
    for (dims, ty, bytes) in [
        (&[3, 2][..], TensorType::Fp32, 23),
        (&[3, 2], TensorType::Fp64, 48),
        (&[3, 3], TensorType::Fp32, 36),
        (&[6], TensorType::Fp32, 24),
        (&[u32::MAX; 3], TensorType::Fp32, 4),
        (&[1; 65], TensorType::U8, 1),
    ] {
        let tensor = fixture.tensor(dims, ty, &vec![0; bytes]);
        note(fixture.compute(tensor).expect_err("wrong"));
        assert_eq!(
            fixture.inference.allowance.held(),
            0,
            "inputs are consumed even if computing fails"
        );
    }
    let one = fixture.floats(1);
    let two = fixture.floats(1);
    let context = fixture.context("double");
    let inputs = vec![("x".to_owned(), one), ("\u{1b}".to_owned(), two)];
    let computed = fixture.view().compute(context, inputs);
    note(fixture.refused(computed));
    let context = fixture.context("double");
    let computed = fixture.view().compute(context, Vec::new());
    note(fixture.refused(computed));
    let loaded = fixture.view().load_by_name("../double".to_owned());
    note(fixture.refused(loaded));
    insta::assert_snapshot!(text, @r#"
    ErrorCode::InvalidArgument: input "x": f32 [3, 2] takes 24 bytes of data, and got 23
    ErrorCode::InvalidArgument: input "x": expected f32 [N, 2], got f64 [3, 2]
    ErrorCode::InvalidArgument: input "x": expected f32 [N, 2], got f32 [3, 3]
    ErrorCode::InvalidArgument: input "x": expected f32 [N, 2], got f32 [6]
    ErrorCode::InvalidArgument: input "x": f32 [4294967295, 4294967295, 4294967295] is larger than any memory; got 4 bytes of data
    ErrorCode::InvalidArgument: input "x": a tensor has at most 64 dimensions, and got 65
    ErrorCode::InvalidArgument: there is no input "\u{1b}"; the model takes "x" (f32 [N, 2])
    ErrorCode::InvalidArgument: input "x" is missing; the model takes "x" (f32 [N, 2])
    ErrorCode::NotFound: there is no model "../double"; the job's models are "double", "longer"
    "#);
    let tensor = fixture.floats(2);
    fixture.compute(tensor).expect("nothing is broken");
}

#[test]
fn a_guests_tensors_are_limited() {
    // Room for two tensors with 10 rows and 8 bytes of dimensions each, and a little more.
    let limits = Limits { tensors: ByteSize(200), ..Limits::default() };
    let mut fixture = NnFixture::new(DataType::Float, &InferenceSettings::default(), &limits);
    let first = fixture.floats(10);
    let second = fixture.floats(10);
    let third = fixture.floats(10);
    assert_eq!(fixture.inference.allowance.held(), 176);
    let error =
        fixture.view().dimensions(Resource::new_borrow(third.rep())).expect_err("not there");
    let ended = failure(&error, &TrapContext::sample(&limits));
    assert_eq!(ended.kind, FailureKind::OverLimit);
    insta::assert_snapshot!(ended, @"inference failed in run: the tensor could not be kept: limits.tensors allows 200 bytes of tensors at a time, including 4 bytes for each dimension; the entry script holds 176 bytes, and this tensor takes 88 bytes more. Drop tensors that are no longer needed, give the model less at a time, or raise the limit");
    let (code, text) = fixture.compute(third).expect_err("not there");
    assert_eq!(code, ErrorCode::TooLarge);
    insta::assert_snapshot!(text, @r#"input "x" was dropped when the entry script created it: limits.tensors allows 200 bytes of tensors at a time, including 4 bytes for each dimension; the entry script holds 176 bytes, and this tensor takes 88 bytes more. Drop tensors that are no longer needed, give the model less at a time, or raise the limit"#);
    // Inputs are dropped before outputs are counted, so there is room without the third tensor.
    fixture.compute(second).expect("there is room");
    let second = fixture.floats(10);
    let (code, text) = fixture.compute_by("longer", second).expect_err("88 + 168 are too many");
    assert_eq!(code, ErrorCode::TooLarge);
    insta::assert_snapshot!(text, @"limits.tensors allows 200 bytes of tensors at a time, including 4 bytes for each dimension; the entry script holds 88 bytes, and the outputs take 168 bytes more. Drop tensors that are no longer needed, give the model less at a time, or raise the limit");
    assert_eq!(fixture.inference.allowance.held(), 88);
    fixture.compute(first).expect("there is room");
}

#[test]
fn models_from_bytes_are_off_until_the_job_allows_them() {
    let bytes = double("Add", DataType::Float);
    let onnx = GraphEncoding::Onnx;
    let cpu = ExecutionTarget::Cpu;
    let mut fixture = NnFixture::plain();
    let loaded = fixture.load(&[&bytes], onnx, cpu);
    let mut text = String::new();
    let mut note =
        |(code, reported): (ErrorCode, String)| text += &format!("{code:?}: {reported}\n");
    note(fixture.refused(loaded));
    let settings = InferenceSettings { allow_guest_models: true, ..Default::default() };
    let mut fixture = NnFixture::new(DataType::Float, &settings, &Limits::default());
    for encoding in [onnx, GraphEncoding::Autodetect] {
        let loaded = fixture.load(&[&bytes], encoding, cpu);
        let graph = fixture.good(loaded);
        let context = fixture.view().init_execution_context(graph);
        let context = fixture.good(context);
        let x = fixture.floats(1);
        let computed = fixture.view().compute(context, vec![("x".to_owned(), x)]);
        assert_eq!(fixture.good(computed).len(), 1);
    }
    let wrong: [(&[&[u8]], GraphEncoding, ExecutionTarget); 4] = [
        (&[&bytes], GraphEncoding::Openvino, cpu),
        (&[&bytes, &bytes], onnx, cpu),
        (&[&bytes], onnx, ExecutionTarget::Tpu),
        (&[&bytes], onnx, ExecutionTarget::Gpu),
    ];
    for (parts, encoding, target) in wrong {
        let loaded = fixture.load(parts, encoding, target);
        note(fixture.refused(loaded));
    }
    insta::assert_snapshot!(text, @r#"
    ErrorCode::Security: models from bytes are off; load one of the job's models by name, or set inference.allow_guest_models: true in the job file
    ErrorCode::InvalidEncoding: the encoding is openvino, but only onnx is supported: convert the model to ONNX
    ErrorCode::InvalidArgument: a model in ONNX is one list of bytes, and 2 were given
    ErrorCode::UnsupportedOperation: the target is tpu, and models run on cpu or gpu: choose one of them
    ErrorCode::Security: the model from bytes: it must run on a GPU, and no GPU is leased to this worker; give the job a GPU for each worker (gpus: N or --gpus N), or load it for the CPU
    "#);
}

#[test]
fn models_are_described() {
    let mut fixture = NnFixture::plain();
    assert_eq!(fixture.view().names().expect("there"), ["double", "longer"]);
    let reported = fixture
        .view()
        .describe("double".to_owned())
        .expect("the call does not end")
        .expect("it loads");
    assert_eq!((reported.name.as_str(), reported.backend.as_str()), ("double", "tract"));
    assert_eq!((reported.device.as_str(), reported.fell_back), ("cpu", false));
    assert_eq!((reported.inputs.len(), reported.outputs.len()), (1, 1));
    let x = &reported.inputs[0];
    assert_eq!(x.name, "x");
    assert!(matches!(x.ty, ElementType::Standard(TensorType::Fp32)), "{x:?}");
    let shape = x.shape.as_deref().expect("known");
    let [Dimension::Named(batch), Dimension::Fixed(2)] = shape else { panic!("{shape:?}") };
    assert_eq!(batch, "N");
    let reported = fixture
        .view()
        .describe("x".repeat(9999))
        .expect("the call does not end")
        .expect_err("unknown");
    assert!(reported.starts_with("there is no model") && reported.len() < 2100, "{reported}");
}

/// A new instance, after a trap or in a deterministic job, finds the models that an earlier one has loaded.
#[test]
fn models_outlive_instances() {
    let mut fixture = NnFixture::plain();
    fixture.context("double");
    std::fs::remove_file(fixture.folder.path().join("double.onnx")).expect("removes");
    fixture.table = ResourceTable::new();
    fixture.inference = InferenceState::new(&fixture.models, &Limits::default());
    let x = fixture.floats(1);
    fixture.compute(x).expect("it is loaded");
}

#[test]
fn a_full_gpu_ends_the_call() {
    let mut fixture = NnFixture::plain();
    let kind = FailureKind::DeviceOutOfMemory;
    let full = InferenceError::ends(kind, "the memory of gpu 0 is full");
    let error = fixture.view().refuse::<()>(full).expect_err("it ends");
    assert!(error.downcast_ref::<CallEnd>().is_some());
    let limits = Limits::default();
    let failure = failure(&error, &TrapContext::sample(&limits));
    assert_eq!(failure.kind, FailureKind::DeviceOutOfMemory);
    assert_eq!(failure.message, "inference failed in run: the memory of gpu 0 is full");
}
