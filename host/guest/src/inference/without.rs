//! Replaces `models` in a build without inference. Jobs and entry scripts that need models are refused before
//! they start.

use super::{InferenceError, ModelFacts, NnErrorCode, NotePlace, OwnedTensor, TensorView};
use crate::model::{Feature, InferenceSettings, InferenceStats, JobModel, Limits};

/// The models of a worker. None of them can be loaded.
pub struct LoadedModels {
    names: Vec<String>,
}

impl LoadedModels {
    /// Keeps the names of the job's models.
    pub fn open(
        models: Vec<JobModel>,
        _settings: &InferenceSettings,
        _lease: Option<u32>,
        _workers: u32,
        _limits: &Limits,
    ) -> Self {
        let mut names: Vec<String> = models.into_iter().map(|model| model.name).collect();
        names.sort();
        Self { names }
    }

    /// Ignores the place: there is nothing to record.
    pub fn note_in(&self, _place: NotePlace) {}

    /// The names of the job's models, in alphabetical order.
    pub fn names(&self) -> Vec<String> {
        self.names.clone()
    }

    /// Refuses to load a model.
    ///
    /// # Errors
    /// Always.
    pub fn load(&self, _name: &str) -> Result<LoadedModel, InferenceError> {
        Err(refusal())
    }

    /// Refuses to load a model.
    ///
    /// # Errors
    /// Always.
    pub fn load_bytes(&self, _bytes: &[u8], _gpu: bool) -> Result<LoadedModel, InferenceError> {
        Err(refusal())
    }

    /// Always empty.
    pub fn take_stats(&self) -> InferenceStats {
        InferenceStats::default()
    }
}

fn refusal() -> InferenceError {
    let message = Feature::Inference.absence().to_string();
    InferenceError::refused(NnErrorCode::UnsupportedOperation, message)
}

/// A loaded model, which cannot exist.
#[derive(Clone)]
pub struct LoadedModel(Never);

#[derive(Clone, Copy)]
enum Never {}

impl LoadedModel {
    /// What is known about the model.
    pub fn facts(&self) -> &ModelFacts {
        match self.0 {}
    }

    /// Computes the outputs.
    ///
    /// # Errors
    /// If the backend fails.
    pub fn run(&self, _inputs: &[TensorView<'_>]) -> Result<Vec<OwnedTensor>, InferenceError> {
        match self.0 {}
    }
}

/// Does nothing: there is no backend that could panic.
pub fn quiet_panics() {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loading_a_model_fails_with_the_reason() {
        let settings = InferenceSettings::default();
        let models = LoadedModels::open(Vec::new(), &settings, None, 1, &Limits::default());
        assert_eq!(models.names(), Vec::<String>::new());
        for loaded in [models.load("m"), models.load_bytes(b"", false)] {
            let Err(InferenceError::Refused { code, message }) = loaded else { panic!("loaded") };
            assert_eq!(code, NnErrorCode::UnsupportedOperation);
            assert_eq!(message, "this sandmill was built without inference (feature `inference`)");
        }
    }
}
