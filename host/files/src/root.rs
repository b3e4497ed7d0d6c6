//! Looking at the files of a folder.

use super::{Found, Manifest};
use crate::opening::at_its_path;
use rustix::fs::{AtFlags, Mode, OFlags, StatxFlags};
use sandmill_model::Source;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// A folder, held open: looking at its files by their whole paths takes twice the time, and an input
/// may have millions of them.
#[derive(Debug)]
pub struct Root {
    folder: Option<OwnedFd>,
    manifest: Option<Mutex<Manifest>>,
}

impl Root {
    /// The folder at a path that was found to be without links. One that cannot be opened has no files to look at.
    pub fn open(path: &Path) -> Self {
        let flags = OFlags::PATH | OFlags::DIRECTORY;
        Self { folder: at_its_path(path, flags, Mode::empty()).ok(), manifest: None }
    }

    /// The folder of a source whose files need not be here, if they are objects of a store.
    pub fn of(source: &Source) -> Self {
        // Nobody could plan by a manifest that cannot be opened.
        let manifest = Manifest::of(source).ok().flatten().map(Mutex::new);
        Self { manifest, ..Self::open(&source.root) }
    }

    /// A file below the folder; none if it is gone.
    pub fn look_at(&self, file: &str) -> Option<Found> {
        if let Some(manifest) = &self.manifest {
            let mut manifest = manifest.lock().unwrap_or_else(PoisonError::into_inner);
            if let Ok(Some(listed)) = manifest.find(file) {
                return listed.ok();
            }
        }
        let wanted = StatxFlags::SIZE | StatxFlags::MTIME;
        let stat = rustix::fs::statx(self.folder.as_ref()?, file, AtFlags::empty(), wanted).ok()?;
        let time = stat.stx_mtime;
        Some(Found { length: stat.stx_size, seconds: time.tv_sec, nanos: time.tv_nsec })
    }
}
