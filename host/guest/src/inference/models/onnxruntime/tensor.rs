//! Converts tensors to the library's types, and back.

use super::explain::OnnxRuntimeFailure;
use crate::inference::models::{
    InferenceError, NnErrorCode, NnTensorType, OwnedTensor, TensorView,
};
use half::{bf16, f16};
use ort::session::SessionInputValue;
use ort::value::{
    DynValue, PrimitiveTensorElementType, Shape, Tensor, TensorElementType, TensorRef, ValueType,
};
use std::fmt::Debug;
use std::slice;

fn onnx_name(ty: TensorElementType) -> String {
    let name = match ty {
        TensorElementType::String => "string",
        TensorElementType::Int8 => "int8",
        TensorElementType::Int16 => "int16",
        TensorElementType::Uint16 => "uint16",
        TensorElementType::Uint32 => "uint32",
        TensorElementType::Uint64 => "uint64",
        TensorElementType::Complex64 => "complex64",
        TensorElementType::Complex128 => "complex128",
        other => return other.to_string(),
    };
    name.to_owned()
}

/// Makes an input for the library. The input borrows the caller's memory if that memory is aligned.
/// `model_type` is the type of the model's input, which may be bool; `wasi:nn` has no booleans.
pub(super) fn input<'a>(
    view: &TensorView<'a>,
    dims: &[u32],
    model_type: Option<TensorElementType>,
) -> Result<SessionInputValue<'a>, OnnxRuntimeFailure> {
    let shape = Shape::new(dims.iter().map(|size| i64::from(*size)));
    let bytes = view.bytes;
    match view.ty {
        NnTensorType::U8 if model_type == Some(TensorElementType::Bool) => {
            let elements: Vec<bool> = bytes.iter().map(|byte| *byte != 0).collect();
            Ok(Tensor::from_array((shape, elements))?.into())
        }
        NnTensorType::U8 => Ok(TensorRef::from_array_view((shape, bytes))?.into()),
        NnTensorType::F16 => number_input::<f16, 2>(bytes, shape, f16::from_le_bytes),
        NnTensorType::Bf16 => number_input::<bf16, 2>(bytes, shape, bf16::from_le_bytes),
        NnTensorType::F32 => number_input::<f32, 4>(bytes, shape, f32::from_le_bytes),
        NnTensorType::F64 => number_input::<f64, 8>(bytes, shape, f64::from_le_bytes),
        NnTensorType::I32 => number_input::<i32, 4>(bytes, shape, i32::from_le_bytes),
        NnTensorType::I64 => number_input::<i64, 8>(bytes, shape, i64::from_le_bytes),
    }
}

fn number_input<T, const SIZE: usize>(
    bytes: &[u8],
    shape: Shape,
    read: fn([u8; SIZE]) -> T,
) -> Result<SessionInputValue<'_>, OnnxRuntimeFailure>
where
    T: PrimitiveTensorElementType + Copy + Debug + 'static,
{
    // SAFETY: every bit pattern is valid for the number types that this function is called with.
    let (before, elements, after) = unsafe { bytes.align_to::<T>() };
    if cfg!(target_endian = "little") && before.is_empty() && after.is_empty() {
        return Ok(TensorRef::from_array_view((shape, elements))?.into());
    }
    let (elements, _) = bytes.as_chunks::<SIZE>();
    let elements: Vec<T> = elements.iter().map(|element| read(*element)).collect();
    Ok(Tensor::from_array((shape, elements))?.into())
}

/// Copies an output of the library.
pub(super) fn output(name: &str, value: &DynValue) -> Result<OwnedTensor, OnnxRuntimeFailure> {
    let ValueType::Tensor { ty, shape, .. } = value.dtype() else {
        return Err(unusable_output(name, &value.dtype().to_string()).into());
    };
    let (ty, bytes) = match ty {
        TensorElementType::Float16 => (NnTensorType::F16, bytes::<f16>(value)?),
        TensorElementType::Bfloat16 => (NnTensorType::Bf16, bytes::<bf16>(value)?),
        TensorElementType::Float32 => (NnTensorType::F32, bytes::<f32>(value)?),
        TensorElementType::Float64 => (NnTensorType::F64, bytes::<f64>(value)?),
        TensorElementType::Int32 => (NnTensorType::I32, bytes::<i32>(value)?),
        TensorElementType::Int64 => (NnTensorType::I64, bytes::<i64>(value)?),
        TensorElementType::Uint8 => (NnTensorType::U8, bytes::<u8>(value)?),
        TensorElementType::Bool => {
            let mut bytes = bytes::<bool>(value)?;
            bytes.iter_mut().for_each(|byte| *byte = u8::from(*byte != 0));
            (NnTensorType::U8, bytes)
        }
        other => return Err(unusable_output(name, &onnx_name(*other)).into()),
    };
    let mut dims = Vec::with_capacity(shape.len().max(1));
    for size in shape.iter() {
        dims.push(u32::try_from(*size).map_err(|_| too_large(name, *size))?);
    }
    if dims.is_empty() {
        // A scalar.
        dims.push(1);
    }
    Ok(OwnedTensor { name: name.to_owned(), ty, dims, bytes })
}

fn bytes<T: PrimitiveTensorElementType>(value: &DynValue) -> Result<Vec<u8>, OnnxRuntimeFailure> {
    let (_, elements) = value.try_extract_tensor::<T>()?;
    // SAFETY: the elements, of any type, are contiguous and have this many bytes.
    let bytes =
        unsafe { slice::from_raw_parts(elements.as_ptr().cast::<u8>(), size_of_val(elements)) };
    Ok(bytes.to_vec())
}

/// The error for an output whose type `wasi:nn` does not have.
pub(super) fn unusable_output(name: &str, ty: &str) -> InferenceError {
    InferenceError::refused(
        NnErrorCode::UnsupportedOperation,
        format!(
            "output \"{name}\" is {ty}, which no tensor of wasi:nn can hold: make a model whose \
             outputs are f16, f32, f64, bf16, u8, bool, i32 or i64"
        ),
    )
}

fn too_large(name: &str, size: i64) -> InferenceError {
    let text = format!("output \"{name}\" has a dimension of {size}, and at most 4294967295 fits");
    InferenceError::refused(NnErrorCode::TooLarge, text)
}
