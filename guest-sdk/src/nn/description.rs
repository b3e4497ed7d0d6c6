//! What a model is.

use super::{Element, TensorType};
use std::fmt;

/// What a model is, and how it is run.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Description {
    /// Its name in the job file.
    pub name: String,
    /// What computes it: `tract` or `onnxruntime`; in a native test, `test`.
    pub backend: String,
    /// Where: `cpu`, or `gpu` with the GPU's index, as in `gpu 0`.
    pub device: String,
    /// Whether it runs on the CPU though it was meant for a GPU, because the job allows that.
    pub fell_back: bool,
    /// Inputs, in the model's order.
    pub inputs: Vec<Port>,
    /// Outputs, in the model's order.
    pub outputs: Vec<Port>,
}

/// For models of native tests.
impl Description {
    /// A model on the CPU, whose inputs and outputs are not known.
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

    /// Appends an input. Its dimensions are texts, as they are displayed: `["N", "64"]`, `["?"]`.
    #[must_use]
    pub fn input<T: Element>(mut self, name: &str, shape: &[&str]) -> Self {
        self.inputs.push(Port::new(name, T::TYPE, shape));
        self
    }

    /// Appends an output.
    #[must_use]
    pub fn output<T: Element>(mut self, name: &str, shape: &[&str]) -> Self {
        self.outputs.push(Port::new(name, T::TYPE, shape));
        self
    }
}

/// A model of which nothing but the name is known.
impl From<&str> for Description {
    fn from(name: &str) -> Self {
        Description::new(name)
    }
}

/// An input or output of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Port {
    /// Its name.
    pub name: String,
    /// What it is made of.
    pub ty: ElementType,
    /// Its dimensions, the outermost first; none where even their number is not known.
    pub shape: Option<Vec<Dimension>>,
}

impl Port {
    fn new(name: &str, ty: TensorType, shape: &[&str]) -> Self {
        let shape = shape.iter().map(|text| Dimension::from(*text)).collect();
        Port { name: name.to_owned(), ty: ElementType::Standard(ty), shape: Some(shape) }
    }
}

/// `f32 [N, 64]`.
impl fmt::Display for Port {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(shape) = &self.shape else { return write!(f, "{} of any shape", self.ty) };
        let shape: Vec<String> = shape.iter().map(Dimension::to_string).collect();
        write!(f, "{} [{}]", self.ty, shape.join(", "))
    }
}

/// What an input or output is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ElementType {
    /// A type that tensors have.
    Standard(TensorType),
    /// Another, by its name in ONNX: it can be seen and not used.
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
    /// As many as you like, and as many as in other dimensions of this name.
    Named(String),
    /// As many as you like.
    Unknown,
}

/// As it is displayed: a number, `?`, or a name.
impl From<&str> for Dimension {
    fn from(text: &str) -> Self {
        match text.parse() {
            Ok(size) => Dimension::Fixed(size),
            Err(_) if text == "?" => Dimension::Unknown,
            Err(_) => Dimension::Named(text.to_owned()),
        }
    }
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
