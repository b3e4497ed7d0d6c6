//! The kinds of processes behind a wall, and what they may use.

use std::path::PathBuf;

/// The kind of process behind the wall. The kind decides which syscalls are allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WallRole {
    /// A worker, which runs a guest.
    Worker,
    /// A worker with a leased GPU.
    GpuWorker,
    /// The process from which workers are forked. Each worker builds its own wall inside the zygote's wall.
    Zygote,
    /// The planner. It starts its helpers before it builds this wall.
    Planner,
    /// A helper of the planner, which groups rows by key.
    Shuffler,
    /// A process that inspects or compiles an entry script.
    Compiler,
    /// A process that makes an output file with column types (Parquet, Arrow).
    Finisher,
    /// A process that downloads objects from stores. Only it may use the network.
    Fetcher,
}

#[cfg(test)]
impl WallRole {
    pub(super) const ALL: [Self; 8] = [
        Self::Worker,
        Self::GpuWorker,
        Self::Zygote,
        Self::Planner,
        Self::Shuffler,
        Self::Compiler,
        Self::Finisher,
        Self::Fetcher,
    ];
}

/// What the process may do below a folder, or with a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FolderRights {
    /// Reading and listing.
    Read,
    /// [`FolderRights::Read`]. The process may also make hard links to these files, in folders with
    /// [`FolderRights::Stage`].
    ReadAndLink,
    /// Reading, and making and removing folders and hard links; no writing to files.
    Stage,
    /// Making, reading, writing and removing files; no folders and no symbolic links.
    Files,
    /// Making, reading, writing and removing files and folders; no symbolic links.
    Write,
    /// Reading, writing and controlling a device.
    Device,
}

/// A folder, or a file, that the process may use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrantedPath {
    /// The absolute path.
    pub path: PathBuf,
    /// What the process may do there.
    pub rights: FolderRights,
    /// Whether the path is known to contain no links. The wall then allows exactly this path. If a part of
    /// the path has become a link since, the wall cannot be built.
    pub is_real: bool,
}

impl GrantedPath {
    /// A folder or file; links in the path are followed.
    pub fn new(path: impl Into<PathBuf>, rights: FolderRights) -> Self {
        Self { path: path.into(), rights, is_real: false }
    }

    /// A folder or file at a path without links.
    pub fn real(path: impl Into<PathBuf>, rights: FolderRights) -> Self {
        Self { path: path.into(), rights, is_real: true }
    }
}

/// Resource limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResourceLimits {
    /// Bytes of private writable memory (`RLIMIT_DATA`). `None` if unlimited.
    pub memory: Option<u64>,
    /// Seconds of processor time of all threads together. `None` if unlimited.
    pub cpu_seconds: Option<u64>,
    /// Bytes of the largest file that the process may write.
    pub largest_file: u64,
    /// The number of descriptors that may be open at once.
    pub open_files: u64,
}
