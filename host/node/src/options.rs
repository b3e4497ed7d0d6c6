//! What this machine offers to a job.

use crate::cancel::Cancel;
use crate::inference::NamedLibrary;
use crate::spec::{Datastores, OperatorPolicy};
use std::path::PathBuf;

/// What this machine offers to a job, and the policy of its operator.
#[derive(Clone, Debug)]
pub struct NodeOptions {
    /// The folder for compiled components. `None` means the user's cache folder.
    pub cache_dir: Option<PathBuf>,
    /// The `sandmill` binary, for child processes.
    pub program: PathBuf,
    /// ONNX Runtime's library, for jobs with models. `None` if it is not known.
    pub onnxruntime: Option<NamedLibrary>,
    /// Cancels slow steps, such as preparing the job.
    pub cancel: Cancel,
    /// The stores that inputs may name, with their credentials.
    pub datastores: Datastores,
    /// The policy of this machine's operator.
    pub policy: OperatorPolicy,
}

#[cfg(test)]
impl NodeOptions {
    /// Options with this `sandmill` binary, and defaults for the rest.
    pub(crate) fn for_program(program: &str) -> Self {
        Self {
            cache_dir: None,
            program: program.into(),
            onnxruntime: None,
            cancel: Cancel::new(),
            datastores: Datastores::default(),
            policy: OperatorPolicy::default(),
        }
    }
}
