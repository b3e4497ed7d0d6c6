//! The inputs and outputs of a model, and tensors, in the terms of `wasi:nn`.

use crate::model::{Backend, Device};
use std::fmt;

/// The element types of tensors in `wasi:nn`. Elements are little-endian.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NnTensorType {
    /// IEEE 754, 2 bytes.
    F16,
    /// IEEE 754, 4 bytes.
    F32,
    /// IEEE 754, 8 bytes.
    F64,
    /// The upper half of an `f32`, 2 bytes.
    Bf16,
    /// 1 byte. Booleans have this type too, as 0 and 1.
    U8,
    /// Signed, 4 bytes.
    I32,
    /// Signed, 8 bytes.
    I64,
}

impl NnTensorType {
    /// The size of an element, in bytes.
    pub fn size(self) -> usize {
        match self {
            Self::U8 => 1,
            Self::F16 | Self::Bf16 => 2,
            Self::F32 | Self::I32 => 4,
            Self::F64 | Self::I64 => 8,
        }
    }
}

/// Prints for example `f32` or `i64`.
impl fmt::Display for NnTensorType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::F16 => "f16",
            Self::F32 => "f32",
            Self::F64 => "f64",
            Self::Bf16 => "bf16",
            Self::U8 => "u8",
            Self::I32 => "i32",
            Self::I64 => "i64",
        })
    }
}

/// The element type of an input or output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ModelElementType {
    /// A type that `wasi:nn` has.
    Standard(NnTensorType),
    /// Another type, by its name in ONNX, for example `string` or `uint16`. A description of the model shows
    /// such an input or output, but callers cannot use it.
    Other(String),
}

impl fmt::Display for ModelElementType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Standard(ty) => ty.fmt(f),
            Self::Other(name) => f.write_str(name),
        }
    }
}

/// One dimension of an input or output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ModelDimension {
    /// Fixed by the model.
    Fixed(u32),
    /// Chosen by the caller; dimensions with the same name must be equal.
    Named(String),
    /// Chosen by the caller.
    Unknown,
}

/// Prints for example `64`, `N` or `?`.
impl fmt::Display for ModelDimension {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(size) => size.fmt(f),
            Self::Named(name) => f.write_str(name),
            Self::Unknown => f.write_str("?"),
        }
    }
}

/// An input or output of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelPort {
    /// The name in the model.
    pub name: String,
    /// The element type.
    pub ty: ModelElementType,
    /// The dimensions; `None` if even their number is unknown.
    pub shape: Option<Vec<ModelDimension>>,
}

/// Prints for example `f32 [N, 64]` or `f32 of any shape`.
impl fmt::Display for ModelPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.shape {
            Some(shape) => write!(f, "{} {}", self.ty, ModelShape(shape)),
            None => write!(f, "{} of any shape", self.ty),
        }
    }
}

/// Prints for example `[256, 64]`.
pub(super) struct ModelShape<'a, T>(pub(super) &'a [T]);

impl<T: fmt::Display> fmt::Display for ModelShape<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[")?;
        for (index, dimension) in self.0.iter().enumerate() {
            let comma = if index > 0 { ", " } else { "" };
            write!(f, "{comma}{dimension}")?;
        }
        f.write_str("]")
    }
}

/// What is known about a loaded model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelFacts {
    /// The inputs, in the model's order. Inputs with a default value in the model are left out.
    pub inputs: Vec<ModelPort>,
    /// The outputs, in the model's order.
    pub outputs: Vec<ModelPort>,
    /// The backend that runs the model; never `auto`.
    pub backend: Backend,
    /// The device that the model runs on.
    pub device: Device,
    /// Whether the model runs on the CPU although the job requests a GPU (`fallback: cpu`).
    pub fell_back: bool,
}

/// An input tensor, in borrowed memory.
#[derive(Clone, Copy, Debug)]
pub struct TensorView<'a> {
    /// The input's name.
    pub name: &'a str,
    /// The type of its elements.
    pub ty: NnTensorType,
    /// The dimensions, the outermost first; empty for a scalar.
    pub dims: &'a [u32],
    /// The elements, row-major. Their length follows from the type and the dimensions.
    pub bytes: &'a [u8],
}

/// An output tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnedTensor {
    /// The output's name.
    pub name: String,
    /// The type of its elements.
    pub ty: NnTensorType,
    /// The dimensions, the outermost first. A scalar has `[1]`, as `wasi:nn` requires.
    pub dims: Vec<u32>,
    /// The elements, row-major.
    pub bytes: Vec<u8>,
}
