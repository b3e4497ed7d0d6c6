//! The state of fetching all objects of some folders: which one is next, the progress so far, and what is
//! missing.

use super::error::StoreError;
use super::fetch_queue::FetchQueue;
use crate::dataset::{Manifest, ManifestRecord};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The most folders that objects are fetched to at the same time. Each has a process.
const FOLDERS: usize = 4;

/// Goes through the lists of the folders, one after the other.
#[derive(Debug, Default)]
pub(super) struct FolderLists {
    place: usize,
    /// The list of the current folder; `None` until it is opened.
    list: Option<Manifest>,
}

impl FolderLists {
    /// The next object, with the index of its folder. `None` at the end, and while enough folders are busy.
    /// Folders that were given up are skipped. An error has the index of a folder and says why its list
    /// cannot be read.
    pub(super) fn next(
        &mut self,
        places: &[FetchQueue],
    ) -> Result<Option<(usize, ManifestRecord)>, (usize, io::Error)> {
        while let Some(place) = places.get(self.place) {
            if place.given_up().is_none() {
                let is_busy = |place: &&FetchQueue| place.is_busy();
                if self.list.is_none() && places.iter().filter(is_busy).count() >= FOLDERS {
                    return Ok(None);
                }
                let list = match self.list.take() {
                    Some(list) => Ok(list),
                    None => place.list(),
                };
                let next = list.and_then(|list| self.list.insert(list).next_object());
                if let Some(listed) = next.map_err(|error| (self.place, error))? {
                    return Ok(Some((self.place, listed)));
                }
            }
            self.place += 1;
            self.list = None;
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
    lack: Mutex<Option<MissingObject>>,
}

/// What is missing.
#[derive(Debug)]
pub(super) enum MissingObject {
    /// All objects that had not arrived by then.
    Rest(StoreError),
    /// The file of one object, and why it is missing. If several are missing, the one whose path comes first.
    Object(PathBuf, String),
}

impl FetchProgress {
    /// Marks the work as done.
    pub(super) fn end(&self) {
        self.is_done.store(true, Ordering::Release);
    }

    /// Whether the work is done.
    pub(super) fn is_done(&self) -> bool {
        self.is_done.load(Ordering::Acquire)
    }

    /// Counts an object that has arrived with this many bytes, or that failed.
    pub(super) fn count(&self, bytes: u64) {
        self.objects.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// The objects and bytes so far.
    pub(super) fn so_far(&self) -> (u64, u64) {
        (self.objects.load(Ordering::Relaxed), self.bytes.load(Ordering::Relaxed))
    }

    /// Notes that an object cannot be fetched.
    pub(super) fn lacks(&self, file: &Path, reason: &str) {
        let mut lack = self.lack();
        let is_first = match &*lack {
            Some(MissingObject::Rest(_)) => false,
            Some(MissingObject::Object(first, _)) => file < first.as_path(),
            None => true,
        };
        if is_first {
            *lack = Some(MissingObject::Object(file.to_owned(), reason.to_owned()));
        }
    }

    /// Notes that nothing more can be fetched of a folder, or of all folders.
    pub(super) fn lacks_rest(&self, error: StoreError) {
        let mut lack = self.lack();
        if !matches!(*lack, Some(MissingObject::Rest(_))) {
            *lack = Some(MissingObject::Rest(error));
        }
    }

    /// Returns what is missing, if anything is, and forgets it.
    pub(super) fn take_lack(&self) -> Option<MissingObject> {
        self.lack().take()
    }

    fn lack(&self) -> MutexGuard<'_, Option<MissingObject>> {
        self.lack.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
