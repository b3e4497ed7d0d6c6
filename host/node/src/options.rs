//! What a job may use of this machine.

use crate::cancel::Cancel;
use crate::inference::NamedLibrary;
use crate::spec::{Datastores, OperatorPolicy};
use std::path::PathBuf;

/// What a job may use of this machine, and with what.
#[derive(Clone, Debug)]
pub struct NodeOptions {
    /// The folder for compiled components; none means the user's cache folder.
    pub cache_dir: Option<PathBuf>,
    /// The `sandmill` binary, for child processes.
    pub program: PathBuf,
    /// Where ONNX Runtime's library is, for jobs with models; none if it is not known.
    pub onnxruntime: Option<NamedLibrary>,
    /// Ends the preparation early.
    pub cancel: Cancel,
    /// The stores that inputs may name, with what leads into them.
    pub datastores: Datastores,
    /// What the operator of this machine lets jobs do.
    pub policy: OperatorPolicy,
}

#[cfg(test)]
impl NodeOptions {
    /// Options with the `sandmill` binary; the rest as it mostly is.
    pub(crate) fn of(program: &str) -> Self {
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
