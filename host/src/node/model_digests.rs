//! What a model is made of, as digests: what it is registered with, and is held against when a job
//! begins.

use super::models::{ModelError, io_error, look_at};
use crate::compile::hash_until;
use crate::model::{ByteSize, FileStamp, hex};
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

/// The SHA-256 of a model, in hexadecimal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelDigests {
    /// Of the ONNX file.
    pub file: String,
    /// Over all of the folder that belongs to the model; none if the file alone does.
    pub folder: Option<String>,
    /// Files.
    pub files: u64,
    /// Bytes in them.
    pub bytes: u64,
}

/// Reads all of a model.
///
/// # Errors
/// If a file cannot be read, or the folder holds too much for a model.
pub fn model_digests(model: &ModelSpec) -> Result<ModelDigests, ModelError> {
    // The command that asks for them ends with Ctrl-C.
    let go_on = || false;
    let file = look_at(model, ByteSize(u64::MAX), &go_on)?.sha256;
    let Some(folder) = &model.folder else {
        return Ok(ModelDigests { file, folder: None, files: 1, bytes: model.bytes });
    };
    let (folder, files, bytes) = of_folder(model, folder, &go_on)?;
    Ok(ModelDigests { file, folder: Some(folder), files, bytes })
}

/// The digest of a folder, its files and their bytes.
pub(super) fn of_folder(
    model: &ModelSpec,
    folder: &Path,
    stop: &dyn Fn() -> bool,
) -> Result<(String, u64, u64), ModelError> {
    let failed = |path: &Path, error| io_error(model, "cannot be read", path, error);
    let (mut digest, mut files, mut bytes) = (Sha256::new(), 0, 0);
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Names, contents and links count; times do not.
    #[test]
    fn a_folder_has_a_digest() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path();
        fs::create_dir(folder.join("sub")).unwrap();
        fs::write(folder.join("model.onnx"), "1").unwrap();
        fs::write(folder.join("sub/weights.bin"), "22").unwrap();
        let model = ModelSpec::at("m", folder).unwrap();
        let digests = || model_digests(&model).unwrap();
        let first = digests();
        assert_eq!((first.files, first.bytes), (2, 3));
        fs::write(folder.join("sub/weights.bin"), "22").unwrap();
        assert_eq!(digests(), first);
        fs::write(folder.join("sub/weights.bin"), "2x").unwrap();
        let second = digests();
        assert_eq!((&second.file, second.folder == first.folder), (&first.file, false));
        fs::rename(folder.join("sub/weights.bin"), folder.join("weights.bin")).unwrap();
        assert_ne!(digests().folder, second.folder);
        std::os::unix::fs::symlink("weights.bin", folder.join("link")).unwrap();
        let linked = digests();
        assert_eq!((linked.files, linked.bytes), (3, 3));
        fs::remove_file(folder.join("link")).unwrap();
        std::os::unix::fs::symlink("model.onnx", folder.join("link")).unwrap();
        assert_ne!(digests().folder, linked.folder);
    }
}
