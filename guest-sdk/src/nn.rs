//! The job's models: the host computes, on the CPU or on the worker's own GPU, as the job file says.
//!
//! ```
//! use sandmill_guest::nn::{Model, Tensor};
//! use sandmill_guest::{EntryScript, Files, Job, MiniBatchContext, Result, Results};
//! use std::path::PathBuf;
//!
//! struct Brightest {
//!     model: Model,
//! }
//!
//! impl EntryScript for Brightest {
//!     type Input = Files;
//!
//!     fn init(_job: &Job) -> Result<Self> {
//!         // In the job file: `models: {scores: scores.onnx}`.
//!         Ok(Brightest { model: Model::load("scores")? })
//!     }
//!
//!     fn run(&mut self, files: &[PathBuf], _context: &MiniBatchContext) -> Result<Results> {
//!         let mut images = Vec::new();
//!         for file in files {
//!             images.push(sandmill_guest::read(file)?);
//!         }
//!         // The whole mini-batch in one call.
//!         let images = Tensor::stack([16], images)?;
//!         let outputs = self.model.run(&[("image", images)])?;
//!         let scores = outputs.get("score")?.rows::<f32>()?;
//!         Ok(Results::rows(files.iter().zip(scores).map(|(f, s)| format!("{} {s:?}", f.display()))))
//!     }
//! }
//! ```
//!
//! With the feature `ndarray`, arrays of that crate become tensors, and tensors arrays.
//!
//! # In a native test
//! There is no model there: [`TestHost::model`](crate::test::TestHost::model) takes a function in its
//! place.

#[cfg(target_arch = "wasm32")]
mod component;
mod description;
pub(crate) mod element;
mod error;
#[cfg(not(target_arch = "wasm32"))]
pub(crate) mod functions;
#[cfg(feature = "ndarray")]
mod ndarray;
mod tensor;

pub use description::{Description, Dimension, ElementType, Port};
pub use element::{Bf16, Element, F16, TensorType};
pub use error::{Error, ErrorCode};
pub use tensor::{Tensor, Tensors};

#[cfg(target_arch = "wasm32")]
use component as host;
#[cfg(not(target_arch = "wasm32"))]
use functions as host;
use std::borrow::Borrow;

/// The names of the job's models, in alphabetical order.
pub fn names() -> Vec<String> {
    host::names()
}

/// A model of the job, loaded. A worker loads each once, however often it is asked for: keep it from
/// `init` on.
#[derive(Debug)]
pub struct Model {
    description: Description,
    loaded: host::TestModel,
}

impl Model {
    /// Loads the model that the job file calls so (`models`).
    ///
    /// # Errors
    /// There is none of that name, or it cannot be loaded: the text says why, and [`Error::code`] what
    /// kind of failure it is.
    pub fn load(name: &str) -> Result<Self, Error> {
        let (description, loaded) = host::TestModel::load(name)?;
        Ok(Model { description, loaded })
    }

    /// What it is, and how it is run.
    pub fn description(&self) -> &Description {
        &self.description
    }

    /// Its name in the job file.
    pub fn name(&self) -> &str {
        &self.description.name
    }

    /// What computes it: `tract` or `onnxruntime`.
    pub fn backend(&self) -> &str {
        &self.description.backend
    }

    /// Where it is computed: `cpu`, or `gpu` with the GPU's index, as in `gpu 0`.
    pub fn device(&self) -> &str {
        &self.description.device
    }

    /// What it takes, in its order.
    pub fn inputs(&self) -> &[Port] {
        &self.description.inputs
    }

    /// What it gives, in its order.
    pub fn outputs(&self) -> &[Port] {
        &self.description.outputs
    }

    /// Computes. The inputs are named, and may be tensors or references to them.
    ///
    /// Make one call for a whole mini-batch where the model's first dimension is open
    /// ([`Tensor::stack`], [`Tensor::rows`]): that is much faster than one for each item.
    ///
    /// # Errors
    /// What the host says: the text names the input, what was expected and what came.
    pub fn run<T: Borrow<Tensor>>(&self, inputs: &[(&str, T)]) -> Result<Tensors, Error> {
        let inputs: Vec<(&str, &Tensor)> =
            inputs.iter().map(|(name, tensor)| (*name, tensor.borrow())).collect();
        Ok(Tensors::new("output", self.loaded.run(&inputs)?))
    }
}
