//! Models that the host runs.

use super::element::Values;
use super::{Description, Dimension, ElementType, ErrorCode, NnError, Port, Tensor, TensorType};
use bindings::sandmill::entry::models;
use bindings::wasi::nn::graph::{Error as HostError, load_by_name};
use bindings::wasi::nn::inference::GraphExecutionContext;
use bindings::wasi::nn::{errors, tensor};

/// The bindings that wit-bindgen generates from the WIT files. A component that does not use models does not
/// import these interfaces.
mod bindings {
    wit_bindgen::generate!({ path: "wit", world: "inference", generate_all });
}

pub(super) fn names() -> Vec<String> {
    models::names()
}

/// A loaded model.
#[derive(Debug)]
pub(super) struct ModelHandle(GraphExecutionContext);

impl ModelHandle {
    pub(super) fn load(name: &str) -> Result<(Description, Self), NnError> {
        // Call `load_by_name` before `describe`: only the errors of `load_by_name` have a code for the kind
        // of failure.
        let graph = load_by_name(name).map_err(|error| lift_error(&error))?;
        let context = graph.init_execution_context().map_err(|error| lift_error(&error))?;
        let described =
            models::describe(name).map_err(|text| NnError::new(ErrorCode::RuntimeError, text))?;
        Ok((lift_description(described), ModelHandle(context)))
    }

    pub(super) fn run(&self, inputs: &[(&str, &Tensor)]) -> Result<Vec<(String, Tensor)>, NnError> {
        let lowered = inputs.iter().map(|(name, tensor)| Ok(((*name).to_owned(), lower(tensor)?)));
        let outputs = self.0.compute(lowered.collect::<Result<_, NnError>>()?);
        let outputs = outputs.map_err(|error| lift_error(&error))?;
        outputs.into_iter().map(|(name, tensor)| Ok((name, lift(&tensor)?))).collect()
    }
}

/// Converts a tensor to the type of the bindings.
fn lower(tensor: &Tensor) -> Result<tensor::Tensor, NnError> {
    let shape: Result<Vec<u32>, _> =
        tensor.shape().iter().map(|size| u32::try_from(*size)).collect();
    let shape =
        shape.map_err(|_| NnError::argument(format!("{tensor}: a dimension is too large")))?;
    let ty = match tensor.ty() {
        TensorType::F16 => tensor::TensorType::Fp16,
        TensorType::F32 => tensor::TensorType::Fp32,
        TensorType::F64 => tensor::TensorType::Fp64,
        TensorType::Bf16 => tensor::TensorType::Bf16,
        TensorType::U8 => tensor::TensorType::U8,
        TensorType::I32 => tensor::TensorType::I32,
        TensorType::I64 => tensor::TensorType::I64,
    };
    Ok(tensor::Tensor::new(&shape, ty, tensor.stored().bytes()))
}

/// Converts a tensor from the type of the bindings.
fn lift(tensor: &tensor::Tensor) -> Result<Tensor, NnError> {
    let shape = tensor.dimensions().into_iter().map(|size| size as usize).collect();
    Tensor::from_values(shape, Values::from_bytes(lift_type(tensor.ty()), tensor.data()))
}

fn lift_type(ty: tensor::TensorType) -> TensorType {
    match ty {
        tensor::TensorType::Fp16 => TensorType::F16,
        tensor::TensorType::Fp32 => TensorType::F32,
        tensor::TensorType::Fp64 => TensorType::F64,
        tensor::TensorType::Bf16 => TensorType::Bf16,
        tensor::TensorType::U8 => TensorType::U8,
        tensor::TensorType::I32 => TensorType::I32,
        tensor::TensorType::I64 => TensorType::I64,
    }
}

fn lift_description(described: models::Description) -> Description {
    Description {
        name: described.name,
        backend: described.backend,
        device: described.device,
        fell_back: described.fell_back,
        inputs: described.inputs.into_iter().map(lift_port).collect(),
        outputs: described.outputs.into_iter().map(lift_port).collect(),
    }
}

fn lift_port(port: models::Port) -> Port {
    let ty = match port.ty {
        models::ElementType::Standard(ty) => ElementType::Standard(lift_type(ty)),
        models::ElementType::Other(name) => ElementType::Other(name),
    };
    let dimension = |dimension| match dimension {
        models::Dimension::Fixed(size) => Dimension::Fixed(size),
        models::Dimension::Named(name) => Dimension::Named(name),
        models::Dimension::Unknown => Dimension::Unknown,
    };
    let shape = port.shape.map(|shape| shape.into_iter().map(dimension).collect());
    Port { name: port.name, ty, shape }
}

fn lift_error(error: &HostError) -> NnError {
    let code = match error.code() {
        errors::ErrorCode::InvalidArgument => ErrorCode::InvalidArgument,
        errors::ErrorCode::InvalidEncoding => ErrorCode::InvalidEncoding,
        errors::ErrorCode::Timeout => ErrorCode::Timeout,
        errors::ErrorCode::RuntimeError => ErrorCode::RuntimeError,
        errors::ErrorCode::UnsupportedOperation => ErrorCode::UnsupportedOperation,
        errors::ErrorCode::TooLarge => ErrorCode::TooLarge,
        errors::ErrorCode::NotFound => ErrorCode::NotFound,
        errors::ErrorCode::Security => ErrorCode::Security,
        errors::ErrorCode::Unknown => ErrorCode::Unknown,
    };
    NnError::new(code, error.data())
}
