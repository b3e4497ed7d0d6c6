//! What stands for models in a build without inference. Jobs and entry scripts that need any are refused before they
//! begin.

use super::{ErrorCode, Facts, InferenceError, NotePlace, OwnedTensor, TensorView};
use crate::model::{Feature, InferenceSettings, InferenceStats, Limits, Model};

/// The models of a worker, none of which can be loaded.
pub struct Models {
    names: Vec<String>,
}

impl Models {
    /// Keeps the names of the job's models.
    pub fn open(
        models: Vec<Model>,
        _settings: &InferenceSettings,
        _lease: Option<u32>,
        _workers: u32,
        _limits: &Limits,
    ) -> Self {
        let mut names: Vec<String> = models.into_iter().map(|model| model.name).collect();
        names.sort();
        Self { names }
    }

    /// Nothing is ever noted.
    pub fn note_in(&self, _place: NotePlace) {}

    /// The names of the job's models, in alphabetical order.
    pub fn names(&self) -> Vec<String> {
        self.names.clone()
    }

    /// Loads nothing.
    ///
    /// # Errors
    /// Always.
    pub fn load(&self, _name: &str) -> Result<LoadedModel, InferenceError> {
        Err(refusal())
    }

    /// Loads nothing.
    ///
    /// # Errors
    /// Always.
    pub fn load_bytes(&self, _bytes: &[u8], _gpu: bool) -> Result<LoadedModel, InferenceError> {
        Err(refusal())
    }

    /// What was computed: nothing.
    pub fn take_stats(&self) -> InferenceStats {
        InferenceStats::default()
    }
}

fn refusal() -> InferenceError {
    let message = Feature::Inference.absence().to_string();
    InferenceError::refused(ErrorCode::UnsupportedOperation, message)
}

/// A model that is loaded. There is none.
#[derive(Clone)]
pub struct LoadedModel(Never);

#[derive(Clone, Copy)]
enum Never {}

impl LoadedModel {
    /// What it is.
    pub fn facts(&self) -> &Facts {
        match self.0 {}
    }

    /// Computes.
    ///
    /// # Errors
    /// What the backend says.
    pub fn run(&self, _inputs: &[TensorView<'_>]) -> Result<Vec<OwnedTensor>, InferenceError> {
        match self.0 {}
    }
}

/// There is no backend that could panic.
pub fn quiet_panics() {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_asks_for_a_model_hears_why_there_is_none() {
        let settings = InferenceSettings::default();
        let models = Models::open(Vec::new(), &settings, None, 1, &Limits::default());
        assert_eq!(models.names(), Vec::<String>::new());
        for loaded in [models.load("m"), models.load_bytes(b"", false)] {
            let Err(InferenceError::Refused { code, message }) = loaded else { panic!("loaded") };
            assert_eq!(code, ErrorCode::UnsupportedOperation);
            assert_eq!(message, "this sandmill was built without inference (feature `inference`)");
        }
    }
}
