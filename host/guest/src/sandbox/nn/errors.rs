//! The errors that a guest receives.

use super::bindings::wasi::nn::errors::{ErrorCode, Host, HostError};
use super::ended::ended;
use super::resources::NnErrorResource;
use super::view::View;
use crate::inference::{self, InferenceError};
use wasmtime::Result;
use wasmtime::component::Resource;

impl View<'_> {
    /// Returns the error to the guest. Ends the call if the guest cannot handle the error.
    pub(super) fn refuse<T>(&mut self, error: InferenceError) -> Reported<T> {
        match error {
            InferenceError::Refused { code, message } => {
                Ok(Err(self.table.push(NnErrorResource { code, text: message.into() })?))
            }
            InferenceError::Ends { kind, message } => Err(ended(kind, message)),
        }
    }
}

/// The result of a function. The outer error ends the guest's call.
pub(super) type Reported<T> = Result<Result<T, Resource<NnErrorResource>>>;

impl Host for View<'_> {}

impl HostError for View<'_> {
    fn code(&mut self, error: Resource<NnErrorResource>) -> Result<ErrorCode> {
        Ok(match self.table.get(&error)?.code {
            inference::NnErrorCode::InvalidArgument => ErrorCode::InvalidArgument,
            inference::NnErrorCode::InvalidEncoding => ErrorCode::InvalidEncoding,
            inference::NnErrorCode::RuntimeError => ErrorCode::RuntimeError,
            inference::NnErrorCode::UnsupportedOperation => ErrorCode::UnsupportedOperation,
            inference::NnErrorCode::TooLarge => ErrorCode::TooLarge,
            inference::NnErrorCode::NotFound => ErrorCode::NotFound,
            inference::NnErrorCode::Security => ErrorCode::Security,
        })
    }

    fn data(&mut self, error: Resource<NnErrorResource>) -> Result<String> {
        Ok(self.table.get(&error)?.text.to_string())
    }

    fn drop(&mut self, error: Resource<NnErrorResource>) -> Result<()> {
        self.table.delete(error)?;
        Ok(())
    }
}
