//! The process wall around the planner and its helper processes.

use crate::model::OsSandbox;
use crate::wall::{FolderRights, GrantedPath, ResourceLimits, Wall, WallRole};
use std::io;
use std::path::{Path, PathBuf};

/// The limit on CPU seconds, far more than any plan needs. The leader itself ends a planner that
/// sends nothing for too long.
const CPU_SECONDS: u64 = 6 * 60 * 60;
/// The largest file, in bytes: it has the rows of one bucket of an input.
const LARGEST_FILE_BYTES: u64 = 1 << 40;
/// How many files may be open at once.
const OPEN_FILES: u64 = 1024;

/// Builds the wall around a process that reads inputs and writes spill files.
pub(super) fn lock_down(
    role: WallRole,
    mode: OsSandbox,
    roots: impl Iterator<Item = PathBuf>,
    spill: &Path,
    memory: u64,
) -> io::Result<()> {
    let mut folders: Vec<_> =
        roots.map(|root| GrantedPath::real(root, FolderRights::Read)).collect();
    folders.push(GrantedPath::real(spill, FolderRights::Write));
    // Missing folders are skipped: the code that needs one reports it, and the job may have no spill folder
    // at all.
    folders.retain(|folder| folder.path.exists());
    folders.dedup();
    let bounds = ResourceLimits {
        memory: Some(memory),
        cpu_seconds: Some(CPU_SECONDS),
        largest_file: LARGEST_FILE_BYTES,
        open_files: OPEN_FILES,
    };
    Wall { role, mode, folders, bounds }.build().map(drop).map_err(io::Error::other)
}
