//! Errors that end a guest's call.

use crate::model::FailureKind;
use std::fmt;

/// Why a guest's call ends, without a chance for the guest to handle the error.
#[derive(Debug)]
pub(in crate::sandbox) struct CallEnd {
    pub(in crate::sandbox) kind: FailureKind,
    /// The reason, as the second half of a sentence.
    pub(in crate::sandbox) message: String,
}

impl fmt::Display for CallEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for CallEnd {}

/// An error after which the attempt fails.
pub(super) fn ended(kind: FailureKind, message: String) -> wasmtime::Error {
    CallEnd { kind, message }.into()
}
