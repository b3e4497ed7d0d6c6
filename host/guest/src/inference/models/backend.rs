//! What a backend is.

use super::{Facts, InferenceError, OwnedTensor, TensorView};
use crate::model::{ByteSize, Device};
use std::path::Path;

/// Where a model's bytes are.
#[derive(Clone, Copy, Debug)]
pub(super) enum ModelSource<'a> {
    /// An ONNX file. Weights may lie in other files of its folder.
    File(&'a Path),
    /// An ONNX file's content.
    Bytes(&'a [u8]),
}

/// How a model is to be loaded.
#[derive(Clone, Debug)]
pub(super) struct Wanted {
    /// Threads that compute on the CPU, the caller's included.
    pub(super) threads: u32,
    /// The GPU to run on, by the index to report; none means the CPU. For CUDA it is device 0, the only
    /// one that the worker sees.
    pub(super) gpu: Option<u32>,
    /// Bytes of the GPU's memory to take at most, where the backend can say so.
    pub(super) gpu_memory: Option<ByteSize>,
    /// Whether it runs on the CPU though it was meant for a GPU.
    pub(super) fell_back: bool,
    /// Bytes that file and weights may have.
    pub(super) limit: u64,
    /// Bytes of the models that are loaded already.
    pub(super) others: u64,
}

impl Wanted {
    /// Where the model is to run.
    pub(super) fn device(&self) -> Device {
        self.gpu.map_or(Device::Cpu, Device::Gpu)
    }
}

/// A model that can compute.
pub(super) trait Loaded: Send {
    /// What it is.
    fn facts(&self) -> &Facts;

    /// Computes. `inputs` have been compared with the facts and stand in their order: each is there once,
    /// with the right type and a shape that fits, scalars with no dimensions. The outputs come back in the
    /// order of the facts, but for those of types that `wasi:nn` does not have, which are left out.
    ///
    /// # Errors
    /// What the backend says.
    fn run(&mut self, inputs: &[TensorView<'_>]) -> Result<Vec<OwnedTensor>, InferenceError>;
}
