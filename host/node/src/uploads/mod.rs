//! Uploads what only the submitter's machine has of a job into the job's store, so that all machines can read it there.
//!
//! The files of each path of the job file go to a folder that is named by a digest of their names, lengths and contents. So
//! the job does not depend on where the files are on this machine, and an upload that was interrupted continues.

mod find;
mod hashing;
mod into_folder;
mod unfinished;

use super::error::NodeError;
use super::options::NodeOptions;
use super::staging::stager;
use super::upload_error::UploadError;
use crate::model::{Address, ByteSize, UploadedData, UploadedFolder};
use crate::protocol::store::FileToPut;
use crate::spec::{JobSpec, JobStorePlace};
use crate::store::Watch;
use find::LocalFolder;
use hashing::{HashedFile, content_of, hash_all};
use std::path::{Path, PathBuf};

/// Uploads the inputs, side inputs and models of a job that are on this machine, into its store. Returns what replaces them.
/// Files that are in the store already are not sent again. `job_dir`: the directory in which the job would run on this
/// machine. `say` gets lines for the user.
///
/// # Errors
/// If the policy forbids the store, if the job would read what it writes, if a file cannot be read or changes meanwhile, or if the store cannot be written.
pub fn upload_data(
    spec: &JobSpec,
    (place, job_dir): (&JobStorePlace, &Path),
    options: &NodeOptions,
    say: &mut dyn FnMut(&str),
) -> Result<Vec<UploadedData>, NodeError> {
    options.policy.check_stores(spec)?;
    let is_in_store = place.address().is_some();
    if place.to_string().contains(['*', '?', '[', '{']) {
        return Err(UploadError::Wildcard(place.to_string()).into());
    }
    let mut uploaded = Vec::new();
    for data in find::find(spec, job_dir, say)? {
        let mut folders = Vec::new();
        for folder in data.folders {
            if folder.files.is_empty() && is_in_store {
                return Err(UploadError::Empty { key: data.key, path: folder.path }.into());
            }
            folders.push(upload(spec, (place, options), (&data.key, folder), say)?);
        }
        let partition_format = data.partition_format;
        let named = spec.named_data.get(&data.key).cloned().unwrap_or_default();
        uploaded.push(UploadedData { key: data.key, folders, named, partition_format });
    }
    Ok(uploaded)
}

/// Uploads the files of one path.
fn upload(
    spec: &JobSpec,
    (place, options): (&JobStorePlace, &NodeOptions),
    (key, local): (&str, LocalFolder),
    say: &mut dyn FnMut(&str),
) -> Result<UploadedFolder, NodeError> {
    let stop = || options.cancel.reason().is_some();
    let stopped = || options.cancel.reason().map(NodeError::Cancelled);
    let count = local.files.len();
    let files = hash_all(&local.files, &stop)?;
    if let Some(stopped) = stopped() {
        return Err(stopped);
    }
    let content = content_of(&files);
    let noun = if count == 1 { "file" } else { "files" };
    let bytes = ByteSize(content.bytes).rounded();
    say(&format!("{key}: uploading {count} {noun}, {bytes}, unless the job store has them"));
    let uploaded = UploadedFolder { content, files: count as u64, means: local.means };
    match place {
        JobStorePlace::Folder(store) => {
            let real = |path: &Path| {
                let source = |source| UploadError::Write { path: path.to_owned(), source };
                path.canonicalize().map_err(source)
            };
            into_folder::copy_all(&real(store)?.join(&spec.name), &uploaded.name(), &files, &stop)?;
        }
        JobStorePlace::Address(address) => {
            let folder = below(address, &format!("{}/{}/", spec.name, uploaded.name()));
            let files: Vec<FileToPut> = files.into_iter().map(file_to_put).collect();
            let mut watch = Watch { stop: &stop, say };
            stager(spec, options, Path::new("")).put_files(&files, &folder, &mut watch)?;
        }
    }
    match stopped() {
        Some(stopped) => Err(stopped),
        None => Ok(uploaded),
    }
}

fn file_to_put(file: HashedFile) -> FileToPut {
    let HashedFile { name, path, length, sha256 } = file;
    FileToPut { name, path, length, sha256 }
}

/// A place below an address.
fn below(address: &Address, path: &str) -> Address {
    let key = match address.key.trim_end_matches('/') {
        "" => path.to_owned(),
        key => format!("{key}/{path}"),
    };
    Address { key, place: address.place.clone() }
}

/// A file of this machine that is uploaded.
#[derive(Clone, Debug, PartialEq, Eq)]
struct LocalFile {
    /// Its path below the folder, as the entry script sees it.
    name: String,
    /// Where it is. It may be a link to a file in the folder.
    path: PathBuf,
}
