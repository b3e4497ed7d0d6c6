//! Writes the files of a folder to a store. An object appears in the store when its file has been sent
//! completely.

use super::error_text::{FetchError, StoreAction};
use super::listing::Report;
use super::open::OpenStore;
use crate::model::LOCK_FILE;
use crate::protocol::store::{FetchRequest, Fetched, FromFetcher};
use object_store::path::Path as Key;
use object_store::{
    Error, GetOptions, ObjectMeta, PutMode, PutOptions, UpdateVersion, WriteMultipart,
};
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe::Receiver;
use tokio::task::JoinSet;
use walkdir::WalkDir;

/// The size of a part of an upload, and of the largest file that is sent in one request, in bytes.
pub(super) const PART_BYTES: u64 = 8 << 20;
/// The maximum number of parts of an object (S3 allows 10,000).
const MAX_PARTS: u64 = 9000;
/// The maximum number of parts that are sent at the same time.
const PARALLEL_PARTS: usize = 4;

/// How many objects are asked for at the same time.
const PARALLEL_HEADS: usize = 64;

/// Why a file could not be sent.
pub(super) enum UploadFailure {
    Store(Error),
    Disk(io::Error),
    Leader(FetchError),
    /// Another process has written the object meanwhile.
    Replaced,
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

/// A file to upload.
#[derive(Clone)]
pub(super) struct FileToSend {
    pub(super) path: PathBuf,
    pub(super) key: Key,
    /// What it may replace.
    pub(super) replaces: Replaces,
    /// The content that it must have. `None` if any will do.
    pub(super) expected: Option<ExpectedContent>,
}

/// The content that a file must have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ExpectedContent {
    pub(super) length: u64,
    pub(super) sha256: [u8; 32],
}

impl FileToSend {
    /// Why it could not be sent, for users.
    pub(super) fn explain(&self, failure: UploadFailure, request: &FetchRequest) -> FetchError {
        let shown = || request.shown.clone();
        match failure {
            UploadFailure::Store(error) => {
                let action = StoreAction::Write(self.key.to_string(), shown());
                FetchError::store(error, action, &request.store)
            }
            UploadFailure::Disk(source) => FetchError::Read { path: self.path.clone(), source },
            UploadFailure::Leader(error) => error,
            UploadFailure::Replaced => FetchError::Replaced(shown(), self.key.to_string()),
            UploadFailure::Changed => FetchError::FileChanged(self.path.clone()),
        }
    }
}

/// Which object a file may replace.
#[derive(Clone, Debug)]
pub(super) enum Replaces {
    /// Any.
    Any,
    /// There must be none.
    None,
    /// The one with this version.
    Version(UpdateVersion),
}

/// Uploads all files of the request's folder. With `go_on`, first notes which objects the files would replace, and waits
/// until the leader has sent a message. Then the files replace no other objects. The error is shown to users.
pub(super) async fn upload_folder(
    request: &FetchRequest,
    go_on: Option<Receiver>,
    report: &mut dyn FnMut(FromFetcher) -> Result<(), FetchError>,
) -> Result<Fetched, FetchError> {
    let config = &request.store;
    let shown = &request.shown;
    let opened = OpenStore::open(config);
    let store = opened
        .map_err(|error| FetchError::store(error, StoreAction::Open(shown.clone()), config))?;
    if matches!(store, OpenStore::Http(_)) {
        return Err(FetchError::NoResults(shown.clone()));
    }
    let store = Arc::new(store);
    let mut files = files_in(request)?;
    if let Some(mut go_on) = go_on {
        for files in files.chunks_mut(PARALLEL_HEADS) {
            let noted = note_replaced(&store, files).await;
            noted.map_err(|(file, error)| file.explain(UploadFailure::Store(error), request))?;
            report(FromFetcher::Progress(Fetched::default()))?;
        }
        report(FromFetcher::Noted)?;
        if go_on.read(&mut [0; 64]).await.map_err(FetchError::Requests)? == 0 {
            // The leader is gone.
            return Ok(Fetched::default());
        }
    }
    let mut so_far = Fetched::default();
    let mut progress = |so_far| report(FromFetcher::Progress(so_far));
    for file in files {
        so_far.objects += 1;
        let uploaded = upload_file(&store, &file, &mut so_far, &mut progress).await;
        uploaded.map_err(|failure| file.explain(failure, request))?;
        progress(so_far)?;
    }
    Ok(so_far)
}

/// The files of the request's folder.
fn files_in(request: &FetchRequest) -> Result<Vec<FileToSend>, FetchError> {
    let mut files = Vec::new();
    for entry in WalkDir::new(&request.folder).sort_by_file_name() {
        let entry = entry.map_err(FetchError::Results)?;
        // A job that writes to this folder again may have locked it.
        if !entry.file_type().is_file() || entry.file_name() == LOCK_FILE {
            continue;
        }
        let path = entry.into_path();
        let name = path.strip_prefix(&request.folder).ok().and_then(Path::to_str);
        let key = name.and_then(|name| Key::parse(format!("{}{name}", request.prefix)).ok());
        let Some(key) = key else {
            return Err(FetchError::OddName(path));
        };
        files.push(FileToSend { path, key, replaces: Replaces::Any, expected: None });
    }
    Ok(files)
}

/// Notes which objects are there. Any may be replaced if the user may only write.
async fn note_replaced(
    store: &Arc<OpenStore>,
    files: &mut [FileToSend],
) -> Result<(), (FileToSend, Error)> {
    let mut heads = JoinSet::new();
    for (index, file) in files.iter().enumerate() {
        let store = Arc::clone(store);
        let key = file.key.clone();
        heads.spawn(async move { (index, find(&store, &key).await) });
    }
    for (index, head) in heads.join_all().await {
        let Some(file) = files.get_mut(index) else { continue };
        file.replaces = match head {
            Ok(None) => Replaces::None,
            Ok(Some(found)) => Replaces::Version(version(found)),
            Err(Error::PermissionDenied { .. } | Error::Unauthenticated { .. }) => Replaces::Any,
            Err(error) => return Err((file.clone(), error)),
        };
    }
    Ok(())
}

/// Looks whether there is an object.
pub(super) async fn find(store: &OpenStore, key: &Key) -> Result<Option<ObjectMeta>, Error> {
    let head = GetOptions { head: true, ..Default::default() };
    match store.objects().get_opts(key, head).await {
        Ok(found) => Ok(Some(found.meta)),
        Err(Error::NotFound { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

pub(super) fn version(found: ObjectMeta) -> UpdateVersion {
    UpdateVersion { e_tag: found.e_tag, version: found.version }
}

/// Uploads a file.
pub(super) async fn upload_file(
    store: &OpenStore,
    file: &FileToSend,
    so_far: &mut Fetched,
    report: &mut Report<'_>,
) -> Result<(), UploadFailure> {
    let mut content = File::open(&file.path)?;
    let length = content.metadata()?.len();
    if length <= PART_BYTES {
        so_far.bytes += upload_small(store, file).await?;
        return Ok(());
    }
    let part_bytes = usize::try_from(PART_BYTES.max(length / MAX_PARTS)).unwrap_or(usize::MAX);
    let parts = store.objects().put_multipart_opts(&file.key, Default::default()).await?;
    let mut upload = WriteMultipart::new_with_chunk_size(parts, part_bytes);
    let sent = send(&mut content, part_bytes, &mut upload, so_far, report).await;
    let sent = match sent {
        Ok(found) if file.expected.is_some_and(|expected| expected.sha256 != found) => {
            Err(UploadFailure::Changed)
        }
        // Stores have no condition for large objects, so this must come directly before the end.
        Ok(_) => is_written(store, file).await,
        Err(failure) => Err(failure),
    };
    if let Ok(false) = sent {
        return Ok(upload.finish().await.map(drop)?);
    }
    // The parts so far are useless. If aborting fails, the store removes them sooner or later.
    let _ = upload.abort().await;
    sent.map(drop)
}

/// Uploads a file in one request. Returns its length.
pub(super) async fn upload_small(
    store: &OpenStore,
    file: &FileToSend,
) -> Result<u64, UploadFailure> {
    let mut bytes = Vec::new();
    // The file may grow meanwhile.
    File::open(&file.path)?.take(PART_BYTES + 1).read_to_end(&mut bytes)?;
    let sha256 = <[u8; 32]>::from(Sha256::digest(&bytes));
    if file.expected.is_some_and(|expected| expected.sha256 != sha256) {
        return Err(UploadFailure::Changed);
    }
    let length = bytes.len() as u64;
    put(store, file, bytes).await?;
    Ok(length)
}

/// Writes an object, if it replaces only what it may.
async fn put(store: &OpenStore, file: &FileToSend, bytes: Vec<u8>) -> Result<(), UploadFailure> {
    let mode = match &file.replaces {
        Replaces::Any => PutMode::Overwrite,
        Replaces::None => PutMode::Create,
        Replaces::Version(version) => PutMode::Update(version.clone()),
    };
    let put = |mode: PutMode| {
        let options = PutOptions { mode, ..Default::default() };
        store.objects().put_opts(&file.key, bytes.clone().into(), options)
    };
    match put(mode).await {
        Ok(_) => Ok(()),
        // The answer to an earlier try of this request may have been lost. Another leader of the run may write the same.
        Err(Error::AlreadyExists { .. } | Error::Precondition { .. }) => {
            let there = store.objects().get_opts(&file.key, GetOptions::default()).await?;
            let is_same = there.bytes().await? == bytes;
            if is_same { Ok(()) } else { Err(UploadFailure::Replaced) }
        }
        Err(error) if is_unsupported(&error) => {
            check_replaced(store, file).await?;
            put(PutMode::Overwrite).await?;
            Ok(())
        }
        Err(error) => Err(error.into()),
    }
}

/// Whether the store does not know conditions.
fn is_unsupported(error: &Error) -> bool {
    matches!(error, Error::NotImplemented { .. } | Error::NotSupported { .. })
        || error.to_string().contains("NotImplemented")
}

/// Whether another process has written the object of a file with its expected length meanwhile. Fails if it is no longer the
/// one that the file may replace.
async fn is_written(store: &OpenStore, file: &FileToSend) -> Result<bool, UploadFailure> {
    if let (Some(expected), Replaces::None | Replaces::Version(_)) = (file.expected, &file.replaces)
    {
        let found = find(store, &file.key).await?;
        if found.is_some_and(|found| found.size == expected.length) {
            return Ok(true);
        }
    }
    check_replaced(store, file).await.map(|()| false)
}

/// Checks that an object is still the one that a file may replace.
async fn check_replaced(store: &OpenStore, file: &FileToSend) -> Result<(), UploadFailure> {
    let is_same = match (&file.replaces, find(store, &file.key).await) {
        (Replaces::Any, _) => true,
        (Replaces::None, found) => found?.is_none(),
        (Replaces::Version(before), found) => found?
            .map(version)
            .is_some_and(|now| (&now.e_tag, &now.version) == (&before.e_tag, &before.version)),
    };
    if is_same { Ok(()) } else { Err(UploadFailure::Replaced) }
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
