//! Catches panics of readers: a hostile file may cause one.

use crate::dataset::{DatasetError, err};
use std::panic::{self, AssertUnwindSafe};

/// Calls a reader. Turns a panic into an error with the panic's message. After a panic, the caller must not
/// use what the call may have changed.
pub(super) fn caught<T>(call: impl FnOnce() -> Result<T, DatasetError>) -> Result<T, DatasetError> {
    match panic::catch_unwind(AssertUnwindSafe(call)) {
        Ok(result) => result,
        Err(panic) => {
            let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
            let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
            err!("cannot be read: {}", text.as_deref().unwrap_or("the reader gave up"))
        }
    }
}
