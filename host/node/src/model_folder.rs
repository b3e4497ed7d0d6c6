//! The files of a model's folder.

use super::model_error::{ModelError, io_error};
use crate::compile::hash_until;
use crate::model::{FileStamp, hex};
use crate::opening::regular;
use crate::spec::ModelSpec;
use sha2::{Digest, Sha256};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use walkdir::{DirEntry, WalkDir};

/// A model's folder may not have more files: a folder with more is probably not one model.
const MAX_FILES: u64 = 10_000;

/// The digest of a model's folder, the number of its files, and their bytes.
pub(super) fn folder_digest(
    model: &ModelSpec,
    folder: &Path,
    stop: &dyn Fn() -> bool,
) -> Result<(String, u64, u64), ModelError> {
    let failed = |path: &Path, error| io_error(model, "cannot be read", path, error);
    let mut digest = Sha256::new();
    let mut files = 0;
    let mut bytes = 0;
    for entry in WalkDir::new(folder).sort_by_file_name() {
        let entry = entry.map_err(|error| {
            let path = error.path().unwrap_or(folder).to_owned();
            failed(&path, error.into())
        })?;
        if entry.file_type().is_dir() {
            continue;
        }
        files += 1;
        if files > MAX_FILES {
            let why = format!(
                "it holds more than {MAX_FILES} files; put the model into a separate folder"
            );
            return Err(failed(folder, io::Error::other(why)));
        }
        let path = entry.path();
        bytes +=
            add_file(&entry, folder, &mut digest, stop).map_err(|error| failed(path, error))?;
    }
    Ok((hex(digest.finalize()), files, bytes))
}

/// The paths below the folder and the current stamps of its files. `None` if there are too many files, or if
/// they cannot be read: then changes cannot be detected.
pub(super) fn file_stamps(folder: &Path) -> Option<Vec<(String, FileStamp)>> {
    let mut stamps = Vec::new();
    for entry in WalkDir::new(folder).sort_by_file_name() {
        let entry = entry.ok()?;
        let path = entry.path();
        // A link is stamped by its target.
        let Ok(metadata) = path.metadata() else { continue };
        if metadata.is_file() {
            let name = path.strip_prefix(folder).unwrap_or(path).to_str()?;
            stamps.push((name.to_owned(), FileStamp::from_metadata(&metadata)));
        }
        if stamps.len() as u64 > MAX_FILES {
            return None;
        }
    }
    Some(stamps)
}

/// Adds a file to the digest: its path below the folder, its kind, and its content or, for a link, its
/// target. Returns the size of the file in bytes.
fn add_file(
    entry: &DirEntry,
    folder: &Path,
    digest: &mut Sha256,
    stop: &dyn Fn() -> bool,
) -> io::Result<u64> {
    let path = entry.path();
    let name = path.strip_prefix(folder).unwrap_or(path).as_os_str().as_bytes();
    let (kind, content, bytes) = if entry.file_type().is_file() {
        let (mut file, metadata) = regular(path)?;
        (b'f', hash_until(&mut file, stop)?, metadata.len())
    } else if entry.file_type().is_symlink() {
        let target = fs::read_link(path)?;
        (b'l', Sha256::digest(target.as_os_str().as_bytes()).into(), 0)
    } else {
        return Err(io::Error::other("it is neither a file nor a link; move it away"));
    };
    digest.update((name.len() as u64).to_le_bytes());
    digest.update(name);
    digest.update([kind]);
    digest.update(content);
    Ok(bytes)
}
