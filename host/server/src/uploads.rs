//! Files that are being received.

use crate::folders::StateFolder;
use crate::names::fill_with_random;
use crate::problem::{Problem, blocking};
use crate::state::ScriptDigest;
use axum::body::Bytes;
use sandmill_model::hex;
use sha2::{Digest, Sha256};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// So many bytes are written at once.
const WRITTEN_AT_ONCE: usize = 1 << 20;

/// A file that is being received. It is removed on drop, unless it was kept. No thread waits for the sender.
#[derive(Debug)]
pub(crate) struct Upload {
    path: PathBuf,
    /// `None` while it is written.
    file: Option<File>,
    digest: Sha256,
    waiting: Vec<u8>,
    received: u64,
}

/// A file that was received as a whole.
#[derive(Debug)]
pub(crate) struct Received {
    path: PathBuf,
    pub(crate) digest: ScriptDigest,
    pub(crate) bytes: u64,
}

impl Upload {
    /// Begins a file in the folder for uploads.
    ///
    /// # Errors
    /// If it cannot be made.
    pub(crate) async fn begin(folders: &StateFolder) -> Result<Self, Problem> {
        let mut random = [0; 16];
        fill_with_random(&mut random);
        let path = folders.uploads().join(hex(random));
        blocking(move || {
            let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
            let file = Some(file.map_err(|error| Problem::internal(&error))?);
            Ok(Self { path, file, digest: Sha256::new(), waiting: Vec::new(), received: 0 })
        })
        .await
    }

    /// How many bytes have come so far.
    pub(crate) fn received(&self) -> u64 {
        self.received
    }

    /// Adds the next bytes.
    ///
    /// # Errors
    /// If they cannot be written.
    pub(crate) async fn add(&mut self, chunk: &Bytes) -> Result<(), Problem> {
        self.received += chunk.len() as u64;
        self.digest.update(chunk);
        self.waiting.extend_from_slice(chunk);
        if self.waiting.len() >= WRITTEN_AT_ONCE { self.write(false).await } else { Ok(()) }
    }

    async fn write(&mut self, is_last: bool) -> Result<(), Problem> {
        let Some(mut file) = self.file.take() else {
            return Err(Problem::internal(&io::Error::other("an earlier write failed")));
        };
        let bytes = std::mem::take(&mut self.waiting);
        let written = blocking(move || {
            let written = file.write_all(&bytes);
            let written = written.and_then(|()| if is_last { file.sync_all() } else { Ok(()) });
            written.map_err(|error| Problem::internal(&error))?;
            Ok(file)
        });
        self.file = Some(written.await?);
        Ok(())
    }

    /// Ends the file. It is on the disk then.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(crate) async fn end(mut self) -> Result<Received, Problem> {
        self.write(true).await?;
        let digest = std::mem::take(&mut self.digest);
        let digest = ScriptDigest::from_bytes(&digest.finalize());
        let path = std::mem::take(&mut self.path);
        Ok(Received { path, digest, bytes: self.received })
    }
}

impl Received {
    /// Moves the file to this place, durably.
    ///
    /// # Errors
    /// If it cannot be moved.
    pub(crate) fn keep(self, place: &Path) -> io::Result<()> {
        std::fs::rename(&self.path, place)?;
        sync_folder(place.parent())
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        remove(&self.path);
    }
}

impl Drop for Received {
    fn drop(&mut self) {
        remove(&self.path);
    }
}

/// Removes a file that was not kept. If this fails, the next server removes it.
fn remove(path: &Path) {
    if path != Path::new("") {
        let _ = std::fs::remove_file(path);
    }
}

/// Makes the names in a folder durable.
///
/// # Errors
/// If the folder cannot be opened or written.
pub(crate) fn sync_folder(folder: Option<&Path>) -> io::Result<()> {
    folder.map_or(Ok(()), |folder| File::open(folder)?.sync_all())
}

/// Writes a new file, durably. Its folder must be made durable, too.
///
/// # Errors
/// If it cannot be written.
pub(crate) fn write_new(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_not_kept_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let folders = StateFolder::open(&folder.path().join("state")).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let uploads = || std::fs::read_dir(folders.uploads()).unwrap().count();
        runtime.block_on(async {
            let mut aborted = Upload::begin(&folders).await.unwrap();
            aborted.add(&Bytes::from(vec![1; 3 << 20])).await.unwrap();
            assert_eq!(uploads(), 1);
            drop(aborted);
            assert_eq!(uploads(), 0);
            let mut kept = Upload::begin(&folders).await.unwrap();
            kept.add(&Bytes::from_static(b"abc")).await.unwrap();
            let received = kept.end().await.unwrap();
            assert!(received.digest.as_str().starts_with("ba7816bf"), "{}", received.digest);
            let place = folder.path().join("kept");
            received.keep(&place).unwrap();
            assert_eq!((std::fs::read(place).unwrap(), uploads()), (b"abc".to_vec(), 0));
        });
    }
}
