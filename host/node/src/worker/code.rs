//! The entry script's code, loaded by this process or by the process from which it was forked.

use crate::compile::Instrumentation;
use crate::model::{Failure, FailureKind};
use crate::protocol::Loading;
use crate::sandbox::GuestProgram;
use std::fs::File;

/// The code that a worker runs.
pub(super) enum WorkerCode {
    /// Compiled code that is still to be loaded.
    Compiled(File),
    /// The program as loaded with these settings, or why loading failed.
    Loaded(Loading, Result<GuestProgram, Failure>),
}

impl WorkerCode {
    /// The program, loaded with these settings.
    pub(super) fn program(self, loading: Loading) -> Result<GuestProgram, Failure> {
        match self {
            Self::Compiled(file) => load(&file, loading),
            Self::Loaded(so, program) if so == loading => program,
            Self::Loaded(so, _) => Err(Failure::new(
                FailureKind::HostFault,
                format!(
                    "the entry script was loaded for {so:?}, and the worker should have {loading:?}"
                ),
            )),
        }
    }
}

/// Maps compiled code.
pub(super) fn load(file: &File, loading: Loading) -> Result<GuestProgram, Failure> {
    let Loading { fuel, profile, deterministic, stack, protocol: _ } = loading;
    GuestProgram::load(file, Instrumentation { fuel, profile, deterministic }, stack)
}
