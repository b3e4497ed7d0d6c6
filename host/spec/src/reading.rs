//! Reads the text of a job file, a policy file or another file of settings.

use super::error::FileError;
use crate::opening::regular;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// The maximum size of a file. Job files are written by hand or saved by a tool, and have a few kilobytes.
const MAX_BYTES: u64 = 1 << 20;

/// Reads the text of a file. `what` is the kind of file, as a word in errors.
pub(super) fn read(path: &Path, what: &'static str) -> Result<String, FileError> {
    read_opened(regular(path).map(|(file, _)| file), path, what)
}

/// [`read`] for a file that is already open.
pub(super) fn read_opened(
    opened: io::Result<File>,
    path: &Path,
    what: &'static str,
) -> Result<String, FileError> {
    let mut bytes = Vec::new();
    opened
        .and_then(|file| file.take(MAX_BYTES + 1).read_to_end(&mut bytes))
        .map_err(|error| unreadable(path, what, error))?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(FileError::TooLarge { what });
    }
    let text = String::from_utf8(bytes)
        .map_err(|error| FileError::NotUtf8 { byte: error.utf8_error().valid_up_to() + 1 })?;
    Ok(text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text))
}

/// The error for a file that cannot be opened or read.
pub(super) fn unreadable(path: &Path, what: &'static str, source: io::Error) -> FileError {
    match source.kind() {
        io::ErrorKind::NotFound => FileError::NotThere,
        _ if path.is_dir() => FileError::Folder { what },
        io::ErrorKind::Other => FileError::Special { what, source },
        _ => FileError::Unreadable(source),
    }
}
