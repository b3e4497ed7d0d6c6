//! ONNX Runtime, from a library of the machine.

use super::{InferenceError, Loaded, ModelSource, Wanted};
use std::path::Path;

/// The library, opened.
pub enum Library {}

impl Library {
    /// Opens the library at this absolute path. Starts no thread.
    ///
    /// # Errors
    /// Why it cannot be used, in words.
    pub fn open(library: &Path) -> Result<Self, String> {
        Err(format!("this version of Sandmill cannot use {}", library.display()))
    }

    /// Its version: `1.31.1`.
    pub fn version(&self) -> &str {
        match *self {}
    }

    /// Whether it was built with CUDA.
    pub fn has_cuda(&self) -> bool {
        match *self {}
    }

    /// Loads a model.
    ///
    /// # Errors
    /// What the library says.
    pub fn load(
        &self,
        _source: ModelSource<'_>,
        _wanted: &Wanted,
    ) -> Result<Box<dyn Loaded>, InferenceError> {
        match *self {}
    }
}
