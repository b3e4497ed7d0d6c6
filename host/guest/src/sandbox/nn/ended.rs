//! What ends a call of a guest.

use crate::model::FailureKind;
use std::fmt;

/// Why a call of the guest ends, whatever it would make of an error.
#[derive(Debug)]
pub(in crate::sandbox) struct Ended {
    pub(in crate::sandbox) kind: FailureKind,
    /// What happened, as the second half of a sentence.
    pub(in crate::sandbox) message: String,
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Ended {}

/// After this the attempt fails.
pub(super) fn ended(kind: FailureKind, message: String) -> wasmtime::Error {
    Ended { kind, message }.into()
}
