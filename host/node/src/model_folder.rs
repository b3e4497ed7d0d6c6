//! The files of the folder that belongs to a model.

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

/// More files than this are hardly one model.
const FILES: u64 = 10_000;

/// The digest of a folder, its files and their bytes.
pub(super) fn of_folder(
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
        if files > FILES {
            let why =
                format!("it holds more than {FILES} files; put the model into a folder of its own");
            return Err(failed(folder, io::Error::other(why)));
        }
        let path = entry.path();
        bytes += add(&entry, folder, &mut digest, stop).map_err(|error| failed(path, error))?;
    }
    Ok((hex(digest.finalize()), files, bytes))
}

/// What the files of a folder are at this moment, by their paths in it; none if there are more than a model has,
/// or if they cannot be looked at: then nobody can say of one whether it changed.
pub(super) fn stamps(folder: &Path) -> Option<Vec<(String, FileStamp)>> {
    let mut stamps = Vec::new();
    for entry in WalkDir::new(folder).sort_by_file_name() {
        let entry = entry.ok()?;
        let path = entry.path();
        // What a link leads to counts.
        let Ok(metadata) = path.metadata() else { continue };
        if metadata.is_file() {
            let name = path.strip_prefix(folder).unwrap_or(path).to_str()?;
            stamps.push((name.to_owned(), FileStamp::of(&metadata)));
        }
        if stamps.len() as u64 > FILES {
            return None;
        }
    }
    Some(stamps)
}

/// Adds a file: its path below the folder, what it is, and its content or, of a link, where it leads.
/// Returns its bytes.
fn add(
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
