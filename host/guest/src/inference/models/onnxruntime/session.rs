//! A model that the library has loaded.

use super::cuda;
use super::explain::{LibraryAction, OnnxRuntimeFailure};
use super::tensor::{input, output, unusable_output};
use crate::inference::models::vet::VettedModel;
use crate::inference::models::{
    BackendModel, InferenceError, LoadSettings, ModelElementType, ModelFacts, ModelPort,
    ModelSource, OwnedTensor, TensorView,
};
use crate::model::{Backend, Device};
use ort::environment::Environment;
use ort::logging::LogLevel;
use ort::session::Session;
use ort::session::builder::{GraphOptimizationLevel, SessionBuilder};
use ort::value::{TensorElementType, ValueType};
use prost::Message as _;
use std::borrow::Cow;
use std::collections::HashMap;

/// If separate files have at least this many bytes of weights, workers share the weights. Otherwise each
/// worker rearranges its weights for speed on this processor, in its own memory.
const SHARED_WEIGHTS_BYTES: u64 = 64 << 20;

pub(super) struct OnnxRuntimeModel {
    session: Session,
    facts: ModelFacts,
    /// The types of the inputs in the model, by name.
    types: HashMap<String, TensorElementType>,
}

impl OnnxRuntimeModel {
    /// Loads a model, from its file if there is one: the library then maps separate files with weights, and
    /// workers share that memory. Names and types of inputs and outputs come from the file, not from the
    /// library.
    pub(super) fn load(
        environment: &Environment,
        source: ModelSource<'_>,
        vetted: VettedModel,
        settings: &LoadSettings,
    ) -> Result<Self, InferenceError> {
        let VettedModel { proto, changed, inputs, outputs, separate_bytes, .. } = vetted;
        let encoded = changed.then(|| proto.encode_to_vec());
        // Free the decoded model. The library itself reads an unchanged model from `source`.
        drop(proto);
        let file = match source {
            ModelSource::File(path) => Some(path),
            ModelSource::Bytes(_) => None,
        };
        let action = LibraryAction { verb: "load", file, gpu: settings.gpu.is_some() };
        let session = action.guarded(|| {
            let share_weights = separate_bytes >= SHARED_WEIGHTS_BYTES;
            let mut builder = builder(environment, settings, share_weights)?;
            Ok(match (&encoded, source) {
                (Some(bytes), _) => builder.commit_from_memory(bytes)?,
                (None, ModelSource::File(path)) => builder.commit_from_file(path)?,
                (None, ModelSource::Bytes(bytes)) => builder.commit_from_memory(bytes)?,
            })
        })?;
        let facts = ModelFacts {
            inputs,
            outputs,
            backend: Backend::OnnxRuntime,
            device: settings.gpu.map_or(Device::Cpu, Device::Gpu),
            fell_back: settings.fell_back,
        };
        let types = session.inputs().iter().map(|outlet| match outlet.dtype() {
            ValueType::Tensor { ty, .. } => Some((outlet.name().to_owned(), *ty)),
            _ => None,
        });
        let types = types.flatten().collect();
        Ok(Self { session, facts, types })
    }

    fn compute(
        &mut self,
        inputs: &[TensorView<'_>],
    ) -> Result<Vec<OwnedTensor>, OnnxRuntimeFailure> {
        let outputs = &self.facts.outputs;
        let is_standard: Vec<_> =
            outputs.iter().map(|port| matches!(port.ty, ModelElementType::Standard(_))).collect();
        if let (false, Some(ModelPort { name, ty: ModelElementType::Other(ty), .. })) =
            (is_standard.contains(&true), outputs.first())
        {
            return Err(unusable_output(name, ty).into());
        }
        let mut values = Vec::with_capacity(inputs.len());
        for view in inputs {
            let ty = self.types.get(view.name).copied();
            values.push((Cow::Borrowed(view.name), input(view, view.dims, ty)?));
        }
        let outputs = self.session.run(values)?;
        let outputs = outputs.iter().zip(is_standard).filter(|(_, is_standard)| *is_standard);
        outputs.map(|((name, value), _)| output(name, &value)).collect()
    }
}

impl BackendModel for OnnxRuntimeModel {
    fn facts(&self) -> &ModelFacts {
        &self.facts
    }

    fn run(&mut self, inputs: &[TensorView<'_>]) -> Result<Vec<OwnedTensor>, InferenceError> {
        let gpu = self.facts.device != Device::Cpu;
        let action = LibraryAction { verb: "run", file: None, gpu };
        action.guarded(|| self.compute(inputs))
    }
}

fn builder(
    environment: &Environment,
    settings: &LoadSettings,
    share_weights: bool,
) -> Result<SessionBuilder, OnnxRuntimeFailure> {
    // One thread means only the calling thread.
    let threads = usize::try_from(settings.threads).unwrap_or(1).max(1);
    let builder = Session::builder(environment)?
        .with_log_level(LogLevel::Fatal)?
        .with_intra_threads(threads)?
        .with_inter_threads(1)?
        // Spinning threads would take processor time from other workers.
        .with_intra_op_spinning(false)?
        .with_inter_op_spinning(false)?
        // Memory patterns are for constant shapes, and the shapes of mini-batches vary.
        .with_memory_pattern(false)?
        .with_optimization_level(GraphOptimizationLevel::All)?
        .with_prepacking(!share_weights)?;
    match settings.gpu {
        None => Ok(builder),
        Some(_) => cuda::use_gpu(builder, settings.gpu_memory),
    }
}
