//! The wall around the processes that plan.

use crate::model::OsSandbox;
use crate::wall::{Bounds, Folder, Occupant, Rights, Wall};
use std::io;
use std::path::{Path, PathBuf};

/// CPU seconds. Far more than a plan takes; whoever asked for it ends a planner that says nothing.
const CPU_SECONDS: u64 = 6 * 60 * 60;
/// Bytes of the largest file, which takes the rows of one part of an input's groups.
const LARGEST_FILE: u64 = 1 << 40;
/// Files open at once.
const OPEN_FILES: u64 = 1024;

/// The wall around a process that reads inputs and writes rows on their way.
pub(super) fn lock_down(
    occupant: Occupant,
    mode: OsSandbox,
    roots: impl Iterator<Item = PathBuf>,
    spill: &Path,
    memory: u64,
) -> io::Result<()> {
    let mut folders: Vec<_> = roots.map(|root| Folder::real(root, Rights::Read)).collect();
    folders.push(Folder::real(spill, Rights::Write));
    // What is not there is told by whoever misses it, and there may be no folder for rows at all.
    folders.retain(|folder| folder.path.exists());
    folders.dedup();
    let bounds = Bounds {
        memory: Some(memory),
        cpu_seconds: Some(CPU_SECONDS),
        largest_file: LARGEST_FILE,
        open_files: OPEN_FILES,
    };
    Wall { occupant, mode, folders, bounds }.build().map(drop).map_err(io::Error::other)
}
