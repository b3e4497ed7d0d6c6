//! Descriptions of models, and of their inputs and outputs.

use super::{Element, TensorType};
use std::fmt;

/// A model's name, inputs and outputs, and the backend and device that run it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Description {
    /// The model's name in the job file.
    pub name: String,
    /// The backend that runs the model: `tract` or `onnxruntime`; in a native test, `test`.
    pub backend: String,
    /// The device on which the model runs: `cpu`, or `gpu` with the GPU's index, as in `gpu 0`.
    pub device: String,
    /// Whether the model runs on the CPU instead of a GPU, because the job allows this fallback.
    pub fell_back: bool,
    /// Inputs, in the model's order.
    pub inputs: Vec<Port>,
    /// Outputs, in the model's order.
    pub outputs: Vec<Port>,
}

/// For models of native tests.
impl Description {
    /// A model on the CPU with unknown inputs and outputs.
    pub fn new(name: impl Into<String>) -> Self {
        Description {
            name: name.into(),
            backend: "test".to_owned(),
            device: "cpu".to_owned(),
            fell_back: false,
            inputs: Vec::new(),
            outputs: Vec::new(),
        }
    }

    /// Appends an input. `shape` has the dimensions as texts, such as `["N", "64"]` or `["?"]`.
    #[must_use]
    pub fn input<T: Element>(mut self, name: &str, shape: &[&str]) -> Self {
        self.inputs.push(Port::new(name, T::TYPE, shape));
        self
    }

    /// Appends an output. `shape` is as for `input`.
    #[must_use]
    pub fn output<T: Element>(mut self, name: &str, shape: &[&str]) -> Self {
        self.outputs.push(Port::new(name, T::TYPE, shape));
        self
    }
}

/// A model with this name and unknown inputs and outputs.
impl From<&str> for Description {
    fn from(name: &str) -> Self {
        Description::new(name)
    }
}

/// An input or output of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Port {
    /// The name of the input or output.
    pub name: String,
    /// The type of the elements.
    pub ty: ElementType,
    /// The dimensions, the outermost first. `None` if even the number of dimensions is unknown.
    pub shape: Option<Vec<Dimension>>,
}

impl Port {
    fn new(name: &str, ty: TensorType, shape: &[&str]) -> Self {
        let shape = shape.iter().map(|text| Dimension::from(*text)).collect();
        Port { name: name.to_owned(), ty: ElementType::Standard(ty), shape: Some(shape) }
    }
}

/// Writes for example `f32 [N, 64]`.
impl fmt::Display for Port {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(shape) = &self.shape else { return write!(f, "{} of any shape", self.ty) };
        let shape: Vec<String> = shape.iter().map(Dimension::to_string).collect();
        write!(f, "{} [{}]", self.ty, shape.join(", "))
    }
}

/// The element type of an input or output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ElementType {
    /// A type that a tensor can have.
    Standard(TensorType),
    /// Another type, by its name in ONNX. Such an input or output is listed, but cannot be used.
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
    /// A fixed size.
    Fixed(u32),
    /// Any size, but the same size in all dimensions of this name.
    Named(String),
    /// Any size.
    Unknown,
}

/// Parses a number, `?`, or a name.
impl From<&str> for Dimension {
    fn from(text: &str) -> Self {
        match text.parse() {
            Ok(size) => Dimension::Fixed(size),
            Err(_) if text == "?" => Dimension::Unknown,
            Err(_) => Dimension::Named(text.to_owned()),
        }
    }
}

/// Writes for example `64`, `N` or `?`.
impl fmt::Display for Dimension {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(size) => size.fmt(f),
            Self::Named(name) => f.write_str(name),
            Self::Unknown => f.write_str("?"),
        }
    }
}
