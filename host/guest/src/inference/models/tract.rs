//! The tract backend, which is a part of Sandmill.
//!
//! tract makes a plan for each new set of input shapes. One plan for all batch sizes would be many times
//! slower. tract panics on some bad models, so each call to it is guarded.

use super::guard::catch_panic;
use super::vet::VettedModel;
use super::{
    BackendModel, InferenceError, LoadSettings, ModelFacts, ModelSource, NnErrorCode, NnTensorType,
    OwnedTensor, TensorView, ml, onnx_facts, tract_cuda,
    tract_vet::{self, TRY_ONNXRUNTIME},
};
use crate::inference::memory::{LARGE_MODELS_BYTES, PLANS_PER_MODEL};
use crate::model::{Backend, FailureKind};
use std::collections::HashSet;
use tract_onnx::model::ParseResult;
use tract_onnx::pb::tensor_proto::DataType;
use tract_onnx::pb::{GraphProto, ModelProto, ValueInfoProto};
use tract_onnx::prelude::{DatumType, InferenceFact, InferenceModel, InferenceModelExt, Tensor};
use tract_onnx::prelude::{IntoTensor, TVec, TractResult};
use tract_onnx::tract_core::runtime::{Runnable, runtime_for_name};

struct TractModel {
    facts: ModelFacts,
    /// The model before its input shapes are known.
    model: InferenceModel,
    input_types: Vec<DatumType>,
    /// The outputs that tract computes, with their types in the file; `None` for outputs that are left out.
    outputs: Vec<(String, Option<DatumType>)>,
    /// tract's name of the runtime: `cpu` or `cuda`.
    runtime: &'static str,
    /// The plans for recently used input shapes. The most recently used plan is the last.
    plans: Vec<TractPlan>,
    max_plans: usize,
}

/// The model prepared for certain input shapes.
struct TractPlan {
    shapes: Vec<Vec<usize>>,
    runnable: Box<dyn Runnable>,
}

/// Why tract cannot run a model, as far as the file shows; `None` if tract can run the model.
pub(super) fn refusal(proto: &mut ModelProto) -> Option<InferenceError> {
    keep_supported_outputs(proto);
    let refused = tract_vet::check(proto).err();
    refused.or_else(|| input_types(proto.graph.as_ref()?).err())
}

pub(super) fn load(
    source: ModelSource<'_>,
    vetted: VettedModel,
    settings: &LoadSettings,
) -> Result<Box<dyn BackendModel>, InferenceError> {
    let VettedModel { mut proto, inputs, outputs, bytes, .. } = vetted;
    keep_supported_outputs(&mut proto);
    tract_vet::check(&proto)?;
    let graph = proto.graph.as_ref().ok_or_else(|| failed("there is no graph in it"))?;
    let folder = match source {
        ModelSource::File(path) => path.parent().and_then(|folder| folder.to_str()),
        ModelSource::Bytes(_) => None,
    };
    let input_types = input_types(graph)?;
    let output_types = graph
        .output
        .iter()
        .map(|output| (output.name.clone(), onnx_facts::data_type(output).and_then(datum_type)));
    let output_types = output_types.collect();
    let model = guarded(settings.gpu.is_some(), || {
        // The sizes in `value_info` are for any batch, and would contradict the sizes of a plan.
        let mut onnx = tract_onnx::onnx().with_ignore_value_info(true);
        ml::register(&mut onnx);
        let ParseResult { model, unresolved_inputs, .. } = onnx.parse(&proto, folder)?;
        match unresolved_inputs.first() {
            Some(name) => Err(anyhow::anyhow!("nothing in the model makes {name:?}")),
            None => Ok(model),
        }
    })?;
    let device = settings.device();
    let backend = Backend::Tract;
    let fell_back = settings.fell_back;
    let facts = ModelFacts { inputs, outputs, backend, device, fell_back };
    Ok(Box::new(TractModel {
        facts,
        model,
        input_types,
        outputs: output_types,
        runtime: if settings.gpu.is_some() { "cuda" } else { "cpu" },
        plans: Vec::new(),
        max_plans: if settings.loaded_bytes.saturating_add(bytes) > LARGE_MODELS_BYTES {
            1
        } else {
            PLANS_PER_MODEL
        },
    }))
}

impl BackendModel for TractModel {
    fn facts(&self) -> &ModelFacts {
        &self.facts
    }

    fn run(&mut self, inputs: &[TensorView<'_>]) -> Result<Vec<OwnedTensor>, InferenceError> {
        let cuda = self.runtime == "cuda";
        let plan = self.plan_for(inputs)?;
        let types = &self.input_types;
        let tensors = guarded(cuda, || {
            let tensors = inputs.iter().zip(types).map(|(view, ty)| Ok(tensor(view, *ty)?.into()));
            let outputs = plan.runnable.run(tensors.collect::<TractResult<TVec<_>>>()?)?;
            outputs.into_iter().map(|output| output.into_tensor().into_plain_ram()).collect()
        });
        let tensors: Vec<Tensor> = tensors?;
        // Only a plan that succeeded is kept: after a failure, its state is unknown.
        self.plans.push(plan);
        let declared = self.outputs.iter().zip(tensors);
        declared
            .filter_map(|((name, ty), tensor)| Some((name.clone(), (*ty)?, tensor)))
            .map(|(name, ty, tensor)| guarded(cuda, || owned_tensor(name, ty, &tensor)))
            .collect()
    }
}

impl TractModel {
    /// Takes the plan for these shapes out of `plans`, or makes one.
    fn plan_for(&mut self, inputs: &[TensorView<'_>]) -> Result<TractPlan, InferenceError> {
        let shapes: Vec<Vec<usize>> = inputs
            .iter()
            .map(|view| view.dims.iter().map(|size| *size as usize).collect())
            .collect();
        if let Some(index) = self.plans.iter().position(|plan| plan.shapes == shapes) {
            return Ok(self.plans.remove(index));
        }
        // Free memory before the new plan is made.
        while self.plans.len() >= self.max_plans {
            self.plans.remove(0);
        }
        let runnable = guarded(self.runtime == "cuda", || {
            let mut model = self.model.clone();
            for (index, (shape, ty)) in shapes.iter().zip(&self.input_types).enumerate() {
                model.set_input_fact(index, InferenceFact::dt_shape(*ty, shape.as_slice()))?;
            }
            let runtime = runtime_for_name(self.runtime)?
                .ok_or_else(|| anyhow::anyhow!("it has no runtime {:?}", self.runtime))?;
            runtime.prepare(model.into_typed()?)
        })?;
        Ok(TractPlan { shapes, runnable })
    }
}

/// Removes the outputs that callers do not receive, and the nodes that only these outputs need. For example,
/// some of tract's operators do not support outputs with string labels. If no output would be left, the model
/// stays unchanged.
fn keep_supported_outputs(proto: &mut ModelProto) {
    let Some(graph) = &mut proto.graph else { return };
    let is_supported =
        |output: &ValueInfoProto| onnx_facts::data_type(output).and_then(datum_type).is_some();
    if graph.output.iter().all(is_supported) || !graph.output.iter().any(is_supported) {
        return;
    }
    graph.output.retain(is_supported);
    let mut needed: HashSet<&str> =
        graph.output.iter().map(|output| output.name.as_str()).collect();
    // The nodes are in the order of computation.
    let mut kept = vec![false; graph.node.len()];
    for (node, kept) in graph.node.iter().zip(&mut kept).rev() {
        *kept = node.output.iter().any(|name| needed.contains(name.as_str()));
        if *kept {
            needed.extend(onnx_facts::used_names(node));
        }
    }
    let mut kept = kept.into_iter();
    graph.node.retain(|_| kept.next().unwrap_or(true));
}

/// tract's type for each type of `wasi:nn`, and for booleans.
fn datum_type(ty: DataType) -> Option<DatumType> {
    Some(match ty {
        DataType::Bool => DatumType::Bool,
        DataType::Uint8 => DatumType::U8,
        DataType::Int32 => DatumType::I32,
        DataType::Int64 => DatumType::I64,
        DataType::Float16 => DatumType::F16,
        DataType::Float => DatumType::F32,
        DataType::Double => DatumType::F64,
        _ => return None,
    })
}

fn input_types(graph: &GraphProto) -> Result<Vec<DatumType>, InferenceError> {
    onnx_facts::free_inputs(graph)
        .map(|input| {
            onnx_facts::data_type(input).and_then(datum_type).ok_or_else(|| {
                let ty = onnx_facts::data_type(input)
                    .map_or("not a tensor".to_owned(), |ty| ty.as_str_name().to_ascii_lowercase());
                InferenceError::refused(
                    NnErrorCode::UnsupportedOperation,
                    format!(
                        "its input {:?} is {ty}, which tract cannot take; {TRY_ONNXRUNTIME}",
                        input.name
                    ),
                )
            })
        })
        .collect()
}

fn tensor(view: &TensorView<'_>, ty: DatumType) -> TractResult<Tensor> {
    let shape: TVec<usize> = view.dims.iter().map(|size| *size as usize).collect();
    let booleans: Vec<u8>;
    let bytes = if ty == DatumType::Bool {
        // A boolean with any other byte would be invalid.
        booleans = view.bytes.iter().map(|byte| u8::from(*byte != 0)).collect();
        &booleans
    } else {
        view.bytes
    };
    // SAFETY: the types are numbers, for which all bytes are valid, and booleans, whose bytes are 0 or 1 (see
    // above). The call compares the length with the shape.
    unsafe { Tensor::from_raw_dt(ty, &shape, bytes) }
}

fn owned_tensor(name: String, ty: DatumType, tensor: &Tensor) -> TractResult<OwnedTensor> {
    // tract may use another type than the file declares, for example its dimension type instead of `int64`.
    let tensor = tensor.cast_to_dt(ty)?;
    let dims: Result<Vec<u32>, _> =
        tensor.shape().iter().map(|size| u32::try_from(*size)).collect();
    let mut dims = dims?;
    if dims.is_empty() {
        dims.push(1);
    }
    let ty = match ty {
        DatumType::Bool | DatumType::U8 => NnTensorType::U8,
        DatumType::I32 => NnTensorType::I32,
        DatumType::I64 => NnTensorType::I64,
        DatumType::F16 => NnTensorType::F16,
        DatumType::F64 => NnTensorType::F64,
        _ => NnTensorType::F32,
    };
    Ok(OwnedTensor { name, ty, dims, bytes: tensor.as_bytes().to_vec() })
}

/// Calls tract, and turns a panic into an error.
fn guarded<T>(cuda: bool, call: impl FnOnce() -> TractResult<T>) -> Result<T, InferenceError> {
    let text = match catch_panic(call) {
        Ok(Ok(value)) => return Ok(value),
        Ok(Err(error)) => format!("{error:#}"),
        Err(panic) => panic.0,
    };
    if cuda && tract_cuda::is_device_full(&text) {
        let message = format!("the memory of the GPU is full: {text}");
        return Err(InferenceError::ends(FailureKind::DeviceOutOfMemory, message));
    }
    if text.contains("failed to allocate") || text.contains(" is too large") {
        return Err(InferenceError::no_memory(&format!("tract: {text}")));
    }
    Err(failed(&text))
}

fn failed(text: &str) -> InferenceError {
    InferenceError::refused(NnErrorCode::RuntimeError, format!("tract: {text}"))
}
