//! The job's models (inference). The host runs them, on the CPU or on the worker's GPU, as the job file says.
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
//! The feature `ndarray` adds conversions between tensors and arrays of the `ndarray` crate.
//!
//! # In a native test
//! A native test has no host that runs models. Instead, pass a function to
//! [`TestHost::model`](crate::test::TestHost::model).

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
pub use error::{ErrorCode, NnError};
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

/// A loaded model of the job. Load it in `init`, and keep it in the instance. A worker loads each model once,
/// even if it calls [`Model::load`] several times.
#[derive(Debug)]
pub struct Model {
    description: Description,
    loaded: host::ModelHandle,
}

impl Model {
    /// Loads the model that has this name in the job file (`models`).
    ///
    /// # Errors
    /// There is no model of that name, or the model cannot be loaded. The text says why, and [`NnError::code`]
    /// is the kind of failure.
    pub fn load(name: &str) -> Result<Self, NnError> {
        let (description, loaded) = host::ModelHandle::load(name)?;
        Ok(Model { description, loaded })
    }

    /// The description of the model: inputs, outputs, backend and device.
    pub fn description(&self) -> &Description {
        &self.description
    }

    /// The model's name in the job file.
    pub fn name(&self) -> &str {
        &self.description.name
    }

    /// The backend that runs the model: `tract` or `onnxruntime`.
    pub fn backend(&self) -> &str {
        &self.description.backend
    }

    /// The device on which the model runs: `cpu`, or `gpu` with the GPU's index, as in `gpu 0`.
    pub fn device(&self) -> &str {
        &self.description.device
    }

    /// The inputs, in the model's order.
    pub fn inputs(&self) -> &[Port] {
        &self.description.inputs
    }

    /// The outputs, in the model's order.
    pub fn outputs(&self) -> &[Port] {
        &self.description.outputs
    }

    /// Runs the model. Each input is a name with a tensor, or with a reference to a tensor.
    ///
    /// If the model's first dimension may have any size, make one call for a whole mini-batch
    /// ([`Tensor::stack`], [`Tensor::rows`]). This is much faster than a call for each item.
    ///
    /// # Errors
    /// Returns the host's error. For a wrong input, the text names the input, and says what was expected and
    /// what was found.
    pub fn run<T: Borrow<Tensor>>(&self, inputs: &[(&str, T)]) -> Result<Tensors, NnError> {
        let inputs: Vec<(&str, &Tensor)> =
            inputs.iter().map(|(name, tensor)| (*name, tensor.borrow())).collect();
        Ok(Tensors::new("output", self.loaded.run(&inputs)?))
    }
}
