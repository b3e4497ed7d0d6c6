//! The objects that requests need, and the requests, as the thread that fetches sees them.

use super::error::StoreError;
use crate::dataset::ManifestObject;
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat, openat2};
use rustix::io::Errno;
use std::fs;
use std::io::{self, ErrorKind};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

/// An object that a request needs.
#[derive(Debug)]
pub(super) struct NeededObject {
    pub(super) bytes: u64,
    /// How many requests need the object. If this number becomes 0 during the download, the object
    /// is removed when it has arrived.
    pub(super) users: usize,
    /// Whether it is among the [`IdleObjects`](super::idle_objects::IdleObjects). It may be needed again by now.
    pub(super) is_listed: bool,
    pub(super) state: HeldState,
}

impl NeededObject {
    /// Whether it is here, and no request needs it.
    pub(super) fn is_idle(&self) -> bool {
        self.users == 0 && matches!(self.state, HeldState::Here)
    }
}

#[derive(Debug)]
pub(super) enum HeldState {
    /// The object is being fetched; the requests with these numbers wait for it.
    Coming(Vec<u64>),
    Here,
    Failed(FailedFetch),
}

/// Why an object cannot be fetched.
#[derive(Clone, Debug)]
pub(super) struct FailedFetch {
    pub(super) reason: String,
    /// See [`UnfetchedObject::is_final`](crate::protocol::store::UnfetchedObject::is_final).
    pub(super) is_final: bool,
}

impl From<&StoreError> for FailedFetch {
    fn from(error: &StoreError) -> Self {
        Self { reason: error.to_string(), is_final: error.kind().is_final() }
    }
}

/// A request that waits for room.
#[derive(Debug)]
pub(super) struct WaitingObject {
    pub(super) number: u64,
    pub(super) files: Vec<PathBuf>,
    /// The objects among the files; `None` until they have been looked up.
    pub(super) objects: Option<Vec<NewObject>>,
}

/// An object that may have to be fetched.
#[derive(Debug)]
pub(super) struct NewObject {
    pub(super) file: PathBuf,
    /// The index of the object's folder.
    pub(super) folder_index: usize,
    /// The manifest's record of the object, or why it cannot be fetched.
    pub(super) known: Result<ManifestObject, String>,
}

impl NewObject {
    pub(super) fn bytes(&self) -> u64 {
        self.known.as_ref().map_or(0, |object| object.found.length)
    }
}

/// A request that has been admitted: there is room for its objects.
#[derive(Debug)]
pub(super) struct PrefetchGroup {
    pub(super) files: Vec<PathBuf>,
    /// How many of its objects are still being fetched.
    pub(super) coming: usize,
}

/// Removes an object. A file that cannot be removed now is removed later with the whole folder.
pub(super) fn remove_file(file: &Path) {
    let _ = open_without_links(file).and_then(|(_folder, file)| fs::remove_file(file));
}

/// Opens the folder of a file without following links. Returns the open folder, and a path to the
/// file through this folder. A compromised fetcher process could have replaced a folder by a link.
pub(super) fn open_without_links(file: &Path) -> io::Result<(OwnedFd, PathBuf)> {
    let (Some(folder), Some(name)) = (file.parent(), file.file_name()) else {
        return Err(ErrorKind::InvalidInput.into());
    };
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let folder = match openat2(CWD, folder, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS) {
        // Old kernels do not have openat2, and some containers block it.
        Err(Errno::NOSYS | Errno::PERM) => {
            let root = rustix::fs::open("/", flags, Mode::empty())?;
            let mut parts = folder.components().skip(1);
            parts.try_fold(root, |folder, part| {
                openat(&folder, part.as_os_str(), flags | OFlags::NOFOLLOW, Mode::empty())
            })?
        }
        opened => opened?,
    };
    let path = Path::new("/proc/self/fd").join(folder.as_raw_fd().to_string()).join(name);
    Ok((folder, path))
}
