//! The entry script's code, loaded by this worker process or by the zygote.

use crate::compile::Instrumentation;
use crate::model::{Failure, FailureKind};
use crate::protocol::Loading;
use crate::sandbox::GuestProgram;
use std::fs::File;

pub(super) enum WorkerCode {
    /// Compiled code that is still to be loaded.
    Compiled(File),
    /// The settings with which the zygote loaded the program, and the program or why loading failed.
    Loaded(Loading, Result<GuestProgram, Failure>),
}

impl WorkerCode {
    /// The program, loaded with these settings.
    pub(super) fn program(self, loading: Loading) -> Result<GuestProgram, Failure> {
        match self {
            Self::Compiled(file) => load(&file, loading),
            Self::Loaded(loaded_with, program) if loaded_with == loading => program,
            Self::Loaded(loaded_with, _) => Err(Failure::new(
                FailureKind::HostFault,
                format!(
                    "the entry script was loaded with {loaded_with:?}, but the worker needs {loading:?}"
                ),
            )),
        }
    }
}

/// Maps the compiled code into memory.
pub(super) fn load(file: &File, loading: Loading) -> Result<GuestProgram, Failure> {
    let Loading { fuel, profile, deterministic, stack, protocol: _ } = loading;
    GuestProgram::load(file, Instrumentation { fuel, profile, deterministic }, stack)
}
