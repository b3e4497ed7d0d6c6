//! The entry script's code, loaded by this process or by the one that it was forked from.

use crate::compile::Instrumentation;
use crate::model::{Failure, FailureKind};
use crate::protocol::Loading;
use crate::sandbox::Program;
use std::fs::File;

/// What a worker runs.
pub(super) enum Code {
    /// Compiled code, which is to be loaded.
    Compiled(File),
    /// Loaded so, or why not.
    Loaded(Loading, Result<Program, Failure>),
}

impl Code {
    /// The code, loaded so.
    pub(super) fn program(self, loading: Loading) -> Result<Program, Failure> {
        match self {
            Self::Compiled(file) => load(&file, loading),
            Self::Loaded(so, program) if so == loading => program,
            Self::Loaded(so, _) => Err(Failure::new(
                FailureKind::HostFault,
                format!(
                    "the entry script was loaded for {so:?}, and the worker is to have {loading:?}"
                ),
            )),
        }
    }
}

/// Maps compiled code.
pub(super) fn load(file: &File, loading: Loading) -> Result<Program, Failure> {
    let Loading { fuel, profile, deterministic, stack, protocol: _ } = loading;
    Program::load(file, Instrumentation { fuel, profile, deterministic }, stack)
}
