//! The limit on the length of a path.

use wasmtime_wasi::p2::bindings::sync::filesystem::types::ErrorCode;

/// The maximum length of a path in bytes, as in Linux (`PATH_MAX`, without the null at its end).
pub(super) const MAX_PATH_BYTES: usize = 4095;

/// The error for a path that is too long; `None` for other paths.
pub(super) fn length_error(path: &str) -> Option<ErrorCode> {
    (path.len() > MAX_PATH_BYTES).then_some(ErrorCode::NameTooLong)
}
