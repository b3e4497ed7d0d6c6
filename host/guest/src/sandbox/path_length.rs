//! The limit on the length of a path.

use wasmtime_wasi::p2::bindings::sync::filesystem::types::ErrorCode;

/// The longest path in bytes, as in Linux (`PATH_MAX`, without the null at its end).
pub(super) const LONGEST: usize = 4095;

/// The error for a path that is too long; `None` for other paths.
pub(super) fn refused(path: &str) -> Option<ErrorCode> {
    (path.len() > LONGEST).then_some(ErrorCode::NameTooLong)
}
