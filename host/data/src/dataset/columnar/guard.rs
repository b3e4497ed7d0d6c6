//! Catches panics of readers that are given hostile files.

use crate::dataset::{DatasetError, fail};
use std::panic::{self, AssertUnwindSafe};

/// Calls a reader. Fails if the call fails, or with the message of its panic. Nothing that the call has
/// changed may be used after a panic.
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
