//! How long a path may be.

use wasmtime_wasi::p2::bindings::sync::filesystem::types::ErrorCode;

/// Bytes of a path, as Linux has it (`PATH_MAX`, without the null at its end).
pub(super) const LONGEST: usize = 4095;

/// What is said of a path that is too long; none of others.
pub(super) fn refused(path: &str) -> Option<ErrorCode> {
    (path.len() > LONGEST).then_some(ErrorCode::NameTooLong)
}
