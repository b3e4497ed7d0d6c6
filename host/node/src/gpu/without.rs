//! Replaces NVIDIA's driver in a build without CUDA. No value of the type exists, so its methods are never
//! called.

use super::device::{Gpu, GpuUse, ReportedGpu};
use super::error::NvidiaError;
use crate::model::Feature;

/// The opened driver library, which this build does not have.
#[derive(Debug)]
pub enum Nvidia {}

impl Nvidia {
    /// Always fails.
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

    /// All GPUs that the driver reports.
    pub(super) fn devices(&self) -> Result<Vec<ReportedGpu>, NvidiaError> {
        match *self {}
    }

    /// How busy a GPU is.
    pub fn usage(&self, _gpu: &Gpu) -> GpuUse {
        match *self {}
    }

    /// Bytes of memory in use on the GPU with this value of `CUDA_VISIBLE_DEVICES`.
    pub(super) fn used(&self, _visible: &str) -> Option<u64> {
        match *self {}
    }

    /// The processes that compute on this GPU.
    pub(super) fn processes(&self, _visible: &str) -> Option<Vec<(u32, Option<u64>)>> {
        match *self {}
    }
}
