//! Chooses the backend and the device that run a model.

use super::error::{BackendNoGpu, LibraryError, NoGpu};
use super::onnxruntime::Library;
use super::vet::VettedModel;
use super::{
    BackendModel, InferenceError, LoadSettings, ModelSource, NnErrorCode, tract, tract_cuda,
};
use crate::model::{Backend, DeviceChoice};
use std::path::Path;

/// The backends of this process.
pub(super) struct Backends {
    /// ONNX Runtime, or why it cannot be used.
    onnxruntime: Result<Library, LibraryError>,
    /// Whether the job has a library of ONNX Runtime. If so, the leader has tested the library, and all
    /// workers use it.
    is_given: bool,
}

/// The backend and device that the job or the guest wants.
pub(super) struct RequestedBackend {
    pub(super) backend: Backend,
    pub(super) device: DeviceChoice,
    /// Whether the model may run on the CPU if there is no GPU.
    pub(super) fallback: bool,
    /// What the user can do without a GPU, for the error.
    pub(super) advice_without_gpu: &'static str,
}

/// The backend and device that were chosen.
pub(super) struct Choice<'a> {
    pub(super) engine: Engine<'a>,
    pub(super) gpu: Option<u32>,
    pub(super) fell_back: bool,
}

/// An available backend.
pub(super) enum Engine<'a> {
    Tract,
    OnnxRuntime(&'a Library),
}

impl Backends {
    /// Opens the library of ONNX Runtime, if the job has one.
    pub(super) fn open(onnxruntime: Option<&Path>) -> Self {
        let is_given = onnxruntime.is_some();
        let onnxruntime = match onnxruntime {
            Some(library) => Library::open(library),
            None => Err(LibraryError::NotFound),
        };
        Self { onnxruntime, is_given }
    }

    /// Chooses the backend and the device for a model. `lease` is the index of the worker's GPU; `None` if it
    /// has none.
    pub(super) fn choose(
        &self,
        requested: &RequestedBackend,
        lease: Option<u32>,
    ) -> Result<Choice<'_>, InferenceError> {
        let needs_gpu = requested.device == DeviceChoice::Gpu;
        let fell_back = match lease {
            Some(index) if requested.device != DeviceChoice::Cpu => {
                match self.on_gpu(requested.backend) {
                    Ok(engine) => {
                        return Ok(Choice { engine, gpu: Some(index), fell_back: false });
                    }
                    Err(reasons) if needs_gpu && !requested.fallback => {
                        let advice = requested.advice_without_gpu;
                        return Err(InferenceError::refused(
                            NnErrorCode::UnsupportedOperation,
                            format!(
                                "no backend can use GPU {index}; {advice}, or repair a backend: {reasons}"
                            ),
                        ));
                    }
                    Err(_) => needs_gpu,
                }
            }
            None if needs_gpu && !requested.fallback => {
                let advice = requested.advice_without_gpu;
                return Err(InferenceError::refused(
                    NnErrorCode::Security,
                    format!(
                        "it must run on a GPU, and no GPU is leased to this worker; give the job a GPU \
                         for each worker (gpus: N or --gpus N), or {advice}"
                    ),
                ));
            }
            _ => needs_gpu,
        };
        let engine = self.on_cpu(requested.backend)?;
        Ok(Choice { engine, gpu: None, fell_back })
    }

    fn on_cpu(&self, backend: Backend) -> Result<Engine<'_>, InferenceError> {
        match (backend, &self.onnxruntime) {
            (Backend::Tract, _) => Ok(Engine::Tract),
            (_, Ok(library)) => Ok(Engine::OnnxRuntime(library)),
            // tract replaces ONNX Runtime only if the job has no library. If the job has one, the other
            // workers use it, and this worker's rows must not come from another backend.
            (Backend::Auto, Err(_)) if !self.is_given => Ok(Engine::Tract),
            (_, Err(why)) => Err(InferenceError::refused(
                NnErrorCode::RuntimeError,
                format!("ONNX Runtime cannot run it: {why}; or write backend: tract"),
            )),
        }
    }

    /// Returns a backend that can use the GPU, or the reasons why none can.
    fn on_gpu(&self, backend: Backend) -> Result<Engine<'_>, NoGpu<'_>> {
        let mut reasons = Vec::new();
        if backend != Backend::Tract {
            match &self.onnxruntime {
                Ok(library) if library.has_cuda() => match library.try_cuda() {
                    Ok(()) => return Ok(Engine::OnnxRuntime(library)),
                    Err(why) => reasons.push(BackendNoGpu::OnnxRuntime(why)),
                },
                Ok(library) => {
                    let version = library.version();
                    reasons.push(BackendNoGpu::WithoutCuda { version });
                }
                Err(why) => reasons.push(BackendNoGpu::NoLibrary(why)),
            }
        }
        if backend != Backend::OnnxRuntime {
            match tract_cuda::check().and_then(|()| tract_cuda::has_kernels()) {
                Ok(()) => return Ok(Engine::Tract),
                Err(why) => reasons.push(BackendNoGpu::Tract(why)),
            }
        }
        Err(NoGpu(reasons))
    }
}

impl Engine<'_> {
    pub(super) fn load(
        &self,
        source: ModelSource<'_>,
        vetted: VettedModel,
        settings: &LoadSettings,
    ) -> Result<Box<dyn BackendModel>, InferenceError> {
        match self {
            Self::Tract => tract::load(source, vetted, settings),
            Self::OnnxRuntime(library) => library.load(source, vetted, settings),
        }
    }
}
