//! What a model takes and gives, in the words of `wasi:nn`.

use crate::model::{Backend, Device};
use std::fmt;

/// The element types of tensors in `wasi:nn`. Elements lie in little-endian order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TensorType {
    /// IEEE 754, 2 bytes.
    F16,
    /// IEEE 754, 4 bytes.
    F32,
    /// IEEE 754, 8 bytes.
    F64,
    /// The upper half of an `f32`, 2 bytes.
    Bf16,
    /// Also booleans, as 0 and 1.
    U8,
    /// 4 bytes.
    I32,
    /// 8 bytes.
    I64,
}

impl TensorType {
    /// Bytes of an element.
    pub fn size(self) -> usize {
        match self {
            Self::U8 => 1,
            Self::F16 | Self::Bf16 => 2,
            Self::F32 | Self::I32 => 4,
            Self::F64 | Self::I64 => 8,
        }
    }
}

/// `f32`, `i64`.
impl fmt::Display for TensorType {
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

/// What a model's input or output is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ElementType {
    /// A type that `wasi:nn` has.
    Standard(TensorType),
    /// Another, by its name in ONNX: `string`, `uint16`, `map`. It can be seen and not used.
    Other(String),
}

impl fmt::Display for ElementType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Standard(ty) => ty.fmt(f),
            Self::Other(name) => f.write_str(name),
        }
    }
}

/// One dimension of an input or output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Dimension {
    /// Always so many.
    Fixed(u32),
    /// As many as whoever calls likes; dimensions of the same name are alike.
    Named(String),
    /// As many as whoever calls likes.
    Unknown,
}

/// `64`, `N`, `?`.
impl fmt::Display for Dimension {
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
pub struct Port {
    /// Its name in the model.
    pub name: String,
    /// What it is made of.
    pub ty: ElementType,
    /// Its dimensions; none if even their number is not known.
    pub shape: Option<Vec<Dimension>>,
}

/// `f32 [N, 64]`, `f32 of any shape`.
impl fmt::Display for Port {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.shape {
            Some(shape) => write!(f, "{} {}", self.ty, Shape(shape)),
            None => write!(f, "{} of any shape", self.ty),
        }
    }
}

/// `[256, 64]`, for texts.
pub(super) struct Shape<'a, T>(pub(super) &'a [T]);

impl<T: fmt::Display> fmt::Display for Shape<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[")?;
        for (index, dimension) in self.0.iter().enumerate() {
            let comma = if index > 0 { ", " } else { "" };
            write!(f, "{comma}{dimension}")?;
        }
        f.write_str("]")
    }
}

/// What a loaded model is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Inputs, in the model's order. Those with a default value in the model are left out.
    pub inputs: Vec<Port>,
    /// Outputs, in the model's order.
    pub outputs: Vec<Port>,
    /// What runs it; never `auto`.
    pub backend: Backend,
    /// Where it runs.
    pub device: Device,
    /// Whether it runs on the CPU though it was meant for a GPU, as the job allows.
    pub fell_back: bool,
}

/// An input tensor, in somebody else's memory.
#[derive(Clone, Copy, Debug)]
pub struct TensorView<'a> {
    /// The input's name.
    pub name: &'a str,
    /// The type of its elements.
    pub ty: TensorType,
    /// Its dimensions, the outermost first; empty for a scalar.
    pub dims: &'a [u32],
    /// The elements, row-major. As many bytes as type and dimensions say.
    pub bytes: &'a [u8],
}

/// An output tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnedTensor {
    /// The output's name.
    pub name: String,
    /// The type of its elements.
    pub ty: TensorType,
    /// Its dimensions, the outermost first. A scalar has `[1]`, as `wasi:nn` wants it.
    pub dims: Vec<u32>,
    /// The elements, row-major.
    pub bytes: Vec<u8>,
}
