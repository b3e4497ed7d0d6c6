//! Objects whose names only one process uses.

use super::commit_log::{PAUSES, is_final};
use super::error::LogError;
use super::log_store::LogStore;
use std::io;

/// Creates an object whose name no other process uses, and repeats tries that fail. When this returns, the object
/// is durable.
///
/// # Errors
/// If the store fails for too long.
pub fn create_own(store: &dyn LogStore, name: &str, bytes: &[u8]) -> Result<(), LogError> {
    let failed = |source| LogError::Unavailable { name: name.to_owned(), source };
    let mut last = io::Error::other("it reports a conflict, although no such object exists");
    for pause in PAUSES {
        std::thread::sleep(pause);
        match store.create(name, bytes) {
            Ok(true) => return Ok(()),
            Err(source) if is_final(&source) => return Err(failed(source)),
            Err(source) => last = source,
            // An earlier try may have succeeded, although its reply was lost.
            Ok(false) => match store.read(name) {
                Ok(Some(found)) if found == bytes => match store.make_durable(name) {
                    Ok(()) => return Ok(()),
                    Err(source) => last = source,
                },
                Ok(Some(_)) => {
                    return Err(failed(io::Error::other("another object has this name")));
                }
                Ok(None) => {}
                Err(source) => last = source,
            },
        }
    }
    Err(failed(last))
}
