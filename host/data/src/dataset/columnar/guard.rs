//! Calls of a reader that may panic over a hostile file.

use crate::dataset::{DatasetError, fail};
use std::panic::{self, AssertUnwindSafe};

/// Calls something that leaves nothing behind which is looked at after a panic. Fails as it does, or
/// with the panic's words.
pub(super) fn caught<T>(call: impl FnOnce() -> Result<T, DatasetError>) -> Result<T, DatasetError> {
    match panic::catch_unwind(AssertUnwindSafe(call)) {
        Ok(result) => result,
        Err(panic) => {
            let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
            let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
            fail!("cannot be read: {}", text.as_deref().unwrap_or("the reader gave up"))
        }
    }
}
