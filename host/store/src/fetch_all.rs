//! The state of fetching all objects of some folders: which one is next, the progress so far, and what is
//! missing.

use super::error::StoreError;
use super::fetch_queue::FetchQueue;
use crate::dataset::{Manifest, ManifestRecord};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The maximum number of folders whose objects are fetched at the same time. Each folder has a fetcher process.
const MAX_BUSY_FOLDERS: usize = 4;

/// Reads the manifests of the folders, one after the other.
#[derive(Debug, Default)]
pub(super) struct FolderLists {
    /// The index of the current folder.
    index: usize,
    /// The manifest of the current folder; `None` until it is opened.
    manifest: Option<Manifest>,
}

impl FolderLists {
    /// The next object, with the index of its folder. `None` at the end, and while
    /// [`MAX_BUSY_FOLDERS`] folders are busy. Folders that were given up are skipped. An error has
    /// the index of a folder and says why its manifest cannot be read.
    pub(super) fn next(
        &mut self,
        queues: &[FetchQueue],
    ) -> Result<Option<(usize, ManifestRecord)>, (usize, io::Error)> {
        while let Some(queue) = queues.get(self.index) {
            if queue.given_up().is_none() {
                let is_busy = |queue: &&FetchQueue| queue.is_busy();
                if self.manifest.is_none()
                    && queues.iter().filter(is_busy).count() >= MAX_BUSY_FOLDERS
                {
                    return Ok(None);
                }
                let manifest = match self.manifest.take() {
                    Some(manifest) => Ok(manifest),
                    None => queue.open_manifest(),
                };
                let next =
                    manifest.and_then(|manifest| self.manifest.insert(manifest).next_object());
                if let Some(listed) = next.map_err(|error| (self.index, error))? {
                    return Ok(Some((self.index, listed)));
                }
            }
            self.index += 1;
            self.manifest = None;
        }
        Ok(None)
    }
}

/// The progress, for other threads.
#[derive(Debug, Default)]
pub(super) struct FetchProgress {
    is_done: AtomicBool,
    objects: AtomicU64,
    bytes: AtomicU64,
    missing: Mutex<Option<MissingObject>>,
}

/// What is missing.
#[derive(Debug)]
pub(super) enum MissingObject {
    /// All objects that had not arrived before this error.
    Rest(StoreError),
    /// The file of one object, and why it is missing. If several objects are missing, the one whose path
    /// sorts first.
    Object(PathBuf, String),
}

impl FetchProgress {
    /// Marks the work as done.
    pub(super) fn end(&self) {
        self.is_done.store(true, Ordering::Release);
    }

    pub(super) fn is_done(&self) -> bool {
        self.is_done.load(Ordering::Acquire)
    }

    /// Counts an object that has arrived with this many bytes, or that failed (0 bytes).
    pub(super) fn count(&self, bytes: u64) {
        self.objects.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// The objects and bytes so far.
    pub(super) fn so_far(&self) -> (u64, u64) {
        (self.objects.load(Ordering::Relaxed), self.bytes.load(Ordering::Relaxed))
    }

    /// Notes that an object cannot be fetched.
    pub(super) fn note_missing(&self, file: &Path, reason: &str) {
        let mut missing = self.missing();
        let is_first = match &*missing {
            Some(MissingObject::Rest(_)) => false,
            Some(MissingObject::Object(first, _)) => file < first.as_path(),
            None => true,
        };
        if is_first {
            *missing = Some(MissingObject::Object(file.to_owned(), reason.to_owned()));
        }
    }

    /// Notes that the remaining objects of a folder, or of all folders, cannot be fetched.
    pub(super) fn note_rest_missing(&self, error: StoreError) {
        let mut missing = self.missing();
        if !matches!(*missing, Some(MissingObject::Rest(_))) {
            *missing = Some(MissingObject::Rest(error));
        }
    }

    /// Returns what is missing, and forgets it. `None` if nothing is missing.
    pub(super) fn take_missing(&self) -> Option<MissingObject> {
        self.missing().take()
    }

    fn missing(&self) -> MutexGuard<'_, Option<MissingObject>> {
        self.missing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
