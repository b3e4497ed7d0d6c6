//! What a guest is told of an error, and what ends its call.

use super::bindings::wasi::nn::errors::{ErrorCode, Host, HostError};
use super::view::View;
use crate::inference::{self, InferenceError};
use crate::model::FailureKind;
use std::fmt;
use wasmtime::Result;
use wasmtime::component::Resource;

/// The resource `error`. A guest may hold many: its text is short (see [`InferenceError::refused`]), and
/// takes no more than its length.
#[expect(unreachable_pub, reason = "generated code exports it again")]
pub struct NnError {
    code: inference::ErrorCode,
    text: Box<str>,
}

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

impl View<'_> {
    /// Tells the guest, or ends its call where it is not the guest's to decide.
    pub(super) fn refuse<T>(&mut self, error: InferenceError) -> Told<T> {
        match error {
            InferenceError::Refused { code, message } => {
                Ok(Err(self.table.push(NnError { code, text: message.into() })?))
            }
            InferenceError::Ends { kind, message } => Err(ended(kind, message)),
        }
    }
}

/// What functions give back: the outer error ends the guest's call.
pub(super) type Told<T> = Result<Result<T, Resource<NnError>>>;

/// After this the attempt fails.
pub(super) fn ended(kind: FailureKind, message: String) -> wasmtime::Error {
    Ended { kind, message }.into()
}

impl Host for View<'_> {}

impl HostError for View<'_> {
    fn code(&mut self, error: Resource<NnError>) -> Result<ErrorCode> {
        Ok(match self.table.get(&error)?.code {
            inference::ErrorCode::InvalidArgument => ErrorCode::InvalidArgument,
            inference::ErrorCode::InvalidEncoding => ErrorCode::InvalidEncoding,
            inference::ErrorCode::RuntimeError => ErrorCode::RuntimeError,
            inference::ErrorCode::UnsupportedOperation => ErrorCode::UnsupportedOperation,
            inference::ErrorCode::TooLarge => ErrorCode::TooLarge,
            inference::ErrorCode::NotFound => ErrorCode::NotFound,
            inference::ErrorCode::Security => ErrorCode::Security,
        })
    }

    fn data(&mut self, error: Resource<NnError>) -> Result<String> {
        Ok(self.table.get(&error)?.text.to_string())
    }

    fn drop(&mut self, error: Resource<NnError>) -> Result<()> {
        self.table.delete(error)?;
        Ok(())
    }
}
