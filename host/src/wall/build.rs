//! The wall of one process.

use super::limits;
use crate::model::{OsSandbox, WallState};
use std::path::PathBuf;

/// Who is behind the wall: which calls of the kernel it needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Occupant {
    /// A worker, with a guest.
    Worker,
    /// A worker with a leased GPU.
    GpuWorker,
    /// The planner, which has started its helpers before.
    Planner,
    /// A helper of the planner.
    Shuffler,
    /// Whoever looks into, or compiles, an entry script.
    Compiler,
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
    /// Everything but running programs and making devices.
    Write,
}

/// A folder, or a file, that may be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Folder {
    /// Where it is. Absolute.
    pub path: PathBuf,
    /// What for.
    pub rights: Rights,
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

/// A wall to be built.
#[derive(Clone, Debug)]
pub struct Wall {
    /// Around whom.
    pub occupant: Occupant,
    /// How much of it must stand.
    pub mode: OsSandbox,
    /// All that may be opened from now on.
    pub folders: Vec<Folder>,
    /// How much may be used.
    pub bounds: Bounds,
}

/// A layer that must stand and does not. For people: names the layer, the reason and the setting.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct WallError(pub String);

impl Wall {
    /// Builds it around this process, for good. Returns what stands; with
    /// [`OsSandbox::Required`] a layer that cannot be built is an error.
    ///
    /// Must be called on the main thread, before there is another one.
    pub fn build(&self) -> Result<WallState, WallError> {
        let mut state = WallState { mode: self.mode, ..WallState::default() };
        let mut layer = |name: &str, result: std::io::Result<()>| match result {
            Ok(()) => {
                state.active.push(name.to_owned());
                Ok(())
            }
            Err(error) if self.mode == OsSandbox::Required => Err(WallError(format!(
                "a layer of the wall around this process cannot be built: {name}: {error}; to do \
                 without, set os_sandbox to best-effort"
            ))),
            Err(error) => {
                state.missing.push(format!("{name}: {error}"));
                Ok(())
            }
        };
        layer(
            "no new privileges",
            rustix::thread::set_no_new_privs(true).map_err(std::io::Error::from),
        )?;
        layer("resource limits", limits::apply(&self.bounds))?;
        Ok(state)
    }
}
