//! The objects that no request needs, and that stay in the cache until others need their room.

use crate::protocol::store::FetchRequest;
use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use walkdir::WalkDir;

/// The most idle objects of a job.
const MAX_RELEASED: usize = 200_000;

/// Objects that may be removed when there is no room.
#[derive(Debug, Default)]
pub(super) struct IdleObjects {
    /// What earlier jobs have left, with the lengths in bytes. These objects may be outdated.
    leftovers: BTreeMap<PathBuf, u64>,
    /// Objects of this job, in the order in which they became idle. Some may be needed again by now.
    released: VecDeque<PathBuf>,
}

impl IdleObjects {
    /// Finds what earlier jobs have left in the folders of these requests. Returns its size, too.
    pub(super) fn find(requests: &[FetchRequest]) -> (Self, u64) {
        let mut found = Self::default();
        let folders = requests.iter().map(|request| request.folder.join("data"));
        for entry in folders.flat_map(|folder| WalkDir::new(folder).into_iter().flatten()) {
            // Empty files take no room.
            if let Ok(metadata) = entry.metadata()
                && metadata.is_file()
                && metadata.len() > 0
            {
                found.leftovers.insert(entry.into_path(), metadata.len());
            }
        }
        let bytes = found.leftovers.values().sum();
        (found, bytes)
    }

    /// Notes that this job may use a leftover. Returns how much room it took, in bytes.
    pub(super) fn claim(&mut self, file: &Path) -> u64 {
        self.leftovers.remove(file).unwrap_or_default()
    }

    /// Notes that no request needs this object any longer. Returns another one that must be removed, if there are too
    /// many.
    pub(super) fn release(&mut self, file: PathBuf) -> Option<PathBuf> {
        self.released.push_back(file);
        if self.released.len() > MAX_RELEASED { self.released.pop_front() } else { None }
    }

    /// Puts back objects that were taken, as those that have been idle for the longest time.
    pub(super) fn put_back(&mut self, files: Vec<PathBuf>) {
        files.into_iter().rev().for_each(|file| self.released.push_front(file));
    }

    /// Takes a leftover, with its length.
    pub(super) fn take_leftover(&mut self) -> Option<(PathBuf, u64)> {
        self.leftovers.pop_first()
    }

    /// Takes the object that has been idle for the longest time. It may be needed again by now.
    pub(super) fn take_released(&mut self) -> Option<PathBuf> {
        self.released.pop_front()
    }
}
