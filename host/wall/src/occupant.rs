//! Who is behind a wall, and what it may use.

use std::path::PathBuf;

/// Who is behind the wall: which calls of the kernel it needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Occupant {
    /// A worker, with a guest.
    Worker,
    /// A worker with a leased GPU.
    GpuWorker,
    /// The process that workers are forked from. Each builds a wall of its own inside this one.
    Nursery,
    /// The planner, which has started its helpers before.
    Planner,
    /// A helper of the planner.
    Shuffler,
    /// Whoever looks into, or compiles, an entry script.
    Compiler,
    /// Whoever makes an output file with types.
    Finisher,
    /// Whoever fetches objects from stores, and alone may use the network.
    Fetcher,
}

#[cfg(test)]
impl Occupant {
    pub(super) const ALL: [Self; 8] = [
        Self::Worker,
        Self::GpuWorker,
        Self::Nursery,
        Self::Planner,
        Self::Shuffler,
        Self::Compiler,
        Self::Finisher,
        Self::Fetcher,
    ];
}

/// What may be done below a folder, or with a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rights {
    /// Reading and listing.
    Read,
    /// The same, and hard links to its files in a folder with [`Rights::Stage`].
    ReadAndLink,
    /// Making and removing folders and links to files, never writing one.
    Stage,
    /// Making, reading, writing and removing files, no folders and no links.
    Files,
    /// Making, reading, writing and removing files and folders, no links.
    Write,
    /// Reading, writing and controlling a device.
    Device,
}

/// A folder, or a file, that may be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Folder {
    /// Where it is. Absolute.
    pub path: PathBuf,
    /// What for.
    pub rights: Rights,
    /// Whether the path was found to be without links before. The wall then allows what lies at that very path, and
    /// is not built where a link was put there since.
    pub is_real: bool,
}

impl Folder {
    /// A folder, or a file, wherever links lead.
    pub fn new(path: impl Into<PathBuf>, rights: Rights) -> Self {
        Self { path: path.into(), rights, is_real: false }
    }

    /// One at a path without links.
    pub fn real(path: impl Into<PathBuf>, rights: Rights) -> Self {
        Self { path: path.into(), rights, is_real: true }
    }
}

/// Resource limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Bytes of memory that the process may write to and that are its own (`RLIMIT_DATA`).
    pub memory: Option<u64>,
    /// Seconds of processor time of all its threads.
    pub cpu_seconds: Option<u64>,
    /// Bytes of the largest file that it may write.
    pub largest_file: u64,
    /// Descriptors that may be open at once.
    pub open_files: u64,
}
