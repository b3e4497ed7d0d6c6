//! What stands for NVIDIA's driver in a build without CUDA: it is never asked.

use super::device::{Found, Gpu, GpuUse};
use super::error::NvidiaError;
use crate::model::Feature;

/// The driver's library, opened. There is none.
#[derive(Debug)]
pub enum Nvidia {}

impl Nvidia {
    /// Opens nothing.
    ///
    /// # Errors
    /// Always.
    pub fn open() -> Result<Self, NvidiaError> {
        Err(Feature::Cuda.absence().into())
    }

    /// The versions of the driver and of CUDA.
    pub(super) fn versions(&self) -> (Option<String>, Option<String>) {
        match *self {}
    }

    /// All GPUs that the driver knows.
    pub(super) fn devices(&self) -> Result<Vec<Found>, NvidiaError> {
        match *self {}
    }

    /// How busy one is.
    pub fn usage(&self, _gpu: &Gpu) -> GpuUse {
        match *self {}
    }

    /// Bytes of memory in use on the one that `CUDA_VISIBLE_DEVICES` would name so.
    pub(super) fn used(&self, _visible: &str) -> Option<u64> {
        match *self {}
    }

    /// The processes that compute on it.
    pub(super) fn processes(&self, _visible: &str) -> Option<Vec<(u32, Option<u64>)>> {
        match *self {}
    }
}
