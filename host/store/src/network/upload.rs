//! Writes the files of a folder to a store. An object appears in the store when its file has been sent
//! completely.

use super::error_text::{FetchError, StoreAction};
use super::listing::Report;
use super::open::OpenStore;
use crate::model::LOCK_FILE;
use crate::protocol::store::{FetchRequest, Fetched};
use object_store::path::Path as Key;
use object_store::{Error, PutOptions, WriteMultipart};
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use walkdir::WalkDir;

/// The size of a part of an upload, and of the largest file that is sent in one request, in bytes.
pub(super) const PART_BYTES: u64 = 8 << 20;
/// The maximum number of parts of an object (S3 allows 10,000).
const MAX_PARTS: u64 = 9000;
/// The maximum number of parts that are sent at the same time.
const PARALLEL_PARTS: usize = 4;

/// Why a file could not be sent.
pub(super) enum UploadFailure {
    Store(Error),
    Disk(io::Error),
    Leader(FetchError),
    /// The file does not have the expected content.
    Changed,
}

impl From<Error> for UploadFailure {
    fn from(error: Error) -> Self {
        Self::Store(error)
    }
}

impl From<io::Error> for UploadFailure {
    fn from(error: io::Error) -> Self {
        Self::Disk(error)
    }
}

/// Uploads all files of the request's folder. The error is shown to users.
pub(super) async fn upload_folder(
    request: &FetchRequest,
    report: &mut Report<'_>,
) -> Result<Fetched, FetchError> {
    let config = &request.store;
    let shown = &request.shown;
    let opened = OpenStore::open(config);
    let store = opened
        .map_err(|error| FetchError::store(error, StoreAction::Open(shown.clone()), config))?;
    if matches!(store, OpenStore::Http(_)) {
        return Err(FetchError::NoResults(shown.clone()));
    }
    let mut so_far = Fetched::default();
    for entry in WalkDir::new(&request.folder).sort_by_file_name() {
        let entry = entry.map_err(FetchError::Results)?;
        // A job that writes to this folder again may have locked it.
        if !entry.file_type().is_file() || entry.file_name() == LOCK_FILE {
            continue;
        }
        let path = entry.path();
        let name = path.strip_prefix(&request.folder).ok().and_then(Path::to_str);
        let key = name.and_then(|name| Key::parse(format!("{}{name}", request.prefix)).ok());
        let Some(key) = key else {
            return Err(FetchError::OddName(path.to_owned()));
        };
        so_far.objects += 1;
        let content = (path, None);
        upload_file(&store, &key, content, &mut so_far, report).await.map_err(|failure| {
            match failure {
                UploadFailure::Store(error) => FetchError::store(
                    error,
                    StoreAction::Write(key.to_string(), shown.clone()),
                    config,
                ),
                UploadFailure::Disk(source) => FetchError::Read { path: path.to_owned(), source },
                UploadFailure::Leader(error) => error,
                UploadFailure::Changed => FetchError::FileChanged(path.to_owned()),
            }
        })?;
        report(so_far)?;
    }
    Ok(so_far)
}

/// Uploads a file. With `expected`, its content must have this SHA-256: otherwise there is no new object.
pub(super) async fn upload_file(
    store: &OpenStore,
    key: &Key,
    (path, expected): (&Path, Option<&[u8; 32]>),
    so_far: &mut Fetched,
    report: &mut Report<'_>,
) -> Result<(), UploadFailure> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    if length <= PART_BYTES {
        so_far.bytes += put_whole(store, key, file, expected).await?;
        return Ok(());
    }
    let part_bytes = usize::try_from(PART_BYTES.max(length / MAX_PARTS)).unwrap_or(usize::MAX);
    let parts = store.objects().put_multipart_opts(key, Default::default()).await?;
    let mut upload = WriteMultipart::new_with_chunk_size(parts, part_bytes);
    let sent = send(&mut file, part_bytes, &mut upload, so_far, report).await;
    let sent = sent.and_then(|found| match expected {
        Some(expected) if *expected != found => Err(UploadFailure::Changed),
        _ => Ok(()),
    });
    match sent {
        Ok(()) => upload.finish().await.map(drop)?,
        Err(failure) => {
            // The parts so far are useless. If aborting fails, the store removes them sooner or later.
            let _ = upload.abort().await;
            return Err(failure);
        }
    }
    Ok(())
}

/// Uploads a file in one request. Returns its length.
async fn put_whole(
    store: &OpenStore,
    key: &Key,
    file: File,
    expected: Option<&[u8; 32]>,
) -> Result<u64, UploadFailure> {
    let mut bytes = Vec::new();
    // The file may grow meanwhile.
    file.take(PART_BYTES + 1).read_to_end(&mut bytes)?;
    if expected.is_some_and(|expected| *expected != <[u8; 32]>::from(Sha256::digest(&bytes))) {
        return Err(UploadFailure::Changed);
    }
    let length = bytes.len() as u64;
    store.objects().put_opts(key, bytes.into(), PutOptions::default()).await?;
    Ok(length)
}

/// As [`upload_file`], for a file that is small and must have this SHA-256. Returns its length.
pub(super) async fn upload_small(
    store: &OpenStore,
    key: &Key,
    (path, expected): (&Path, &[u8; 32]),
) -> Result<u64, UploadFailure> {
    put_whole(store, key, File::open(path)?, Some(expected)).await
}

/// Sends a file in parts. Returns the SHA-256 of what was sent.
async fn send(
    file: &mut File,
    part_bytes: usize,
    upload: &mut WriteMultipart,
    so_far: &mut Fetched,
    report: &mut Report<'_>,
) -> Result<[u8; 32], UploadFailure> {
    let mut digest = Sha256::new();
    let mut buffer = vec![0; part_bytes];
    loop {
        let mut read = 0;
        while let Some(rest @ [_, ..]) = buffer.get_mut(read..) {
            match file.read(rest)? {
                0 => break,
                more => read += more,
            }
        }
        if read == 0 {
            return Ok(digest.finalize().into());
        }
        upload.wait_for_capacity(PARALLEL_PARTS).await?;
        let part = buffer.get(..read).unwrap_or_default();
        digest.update(part);
        upload.write(part);
        so_far.bytes += read as u64;
        report(*so_far).map_err(UploadFailure::Leader)?;
    }
}
