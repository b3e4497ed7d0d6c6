//! The wall of one process.

use super::files::Cuts;
use super::{cgroup, files, filter, layer, leaf, limits, powers, start};
use crate::model::{OsSandbox, WallState};
use std::os::fd::RawFd;
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
    /// The same, and symbolic links. Never where a guest writes.
    WriteAndLink,
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
    /// Must be called after [`enter`](super::enter), on the main thread, before there is another one.
    pub fn build(&self) -> Result<WallState, WallError> {
        self.build_around_logs(&[])
    }

    /// As [`build`](Self::build). `logs`: descriptors that are open for appending and not for reading. The process can
    /// add to these files, and take nothing from them again.
    pub fn build_around_logs(&self, logs: &[RawFd]) -> Result<WallState, WallError> {
        let mut standing = Standing {
            mode: self.mode,
            state: WallState { mode: self.mode, ..WallState::default() },
        };
        standing.beside(cgroup::CGROUP, leaf::join());
        standing.always(layer::PARENT, start::dies_with_parent)?;
        standing.always(layer::SESSION, start::has_own_session)?;
        standing.always(layer::LIMITS, || limits::apply(&self.bounds, self.occupant))?;
        standing.always(layer::PRIVILEGES, powers::no_new_privileges)?;
        let cuts = match self.mode {
            OsSandbox::Required => Cuts::Filtered,
            // The filter may come to be missing.
            OsSandbox::BestEffort | OsSandbox::Off => Cuts::Ruled,
        };
        let confine = || files::confine(&self.folders, self.occupant, cuts);
        standing.unless_off(layer::LANDLOCK, confine)?;
        standing.unless_off(layer::CAPABILITIES, || powers::drop_capabilities(self.occupant))?;
        // The last one, because it forbids what makes the others.
        standing.unless_off(layer::SECCOMP, || filter::install(self.occupant, logs))?;
        Ok(standing.state)
    }
}

/// How a layer came out: what to call it, if there is more to say than its name; or why it is missing.
pub(super) type Built = Result<Option<String>, String>;

/// What stands so far.
struct Standing {
    mode: OsSandbox,
    state: WallState,
}

impl Standing {
    /// A layer that is there in any mode.
    fn always(&mut self, name: &str, build: impl FnOnce() -> Built) -> Result<(), WallError> {
        let built = layer::unless_hidden(name).and_then(|()| build());
        match built {
            Ok(words) => self.state.active.push(words.unwrap_or_else(|| name.to_owned())),
            Err(reason) if self.mode == OsSandbox::Required => {
                return Err(layer::missing(name, &reason));
            }
            Err(reason) => self.state.missing.push(format!("{name}: {reason}")),
        }
        Ok(())
    }

    /// What is no layer of its own, and never required; none if it is nobody's business here.
    fn beside(&mut self, name: &str, built: Option<Built>) {
        match built {
            Some(Ok(words)) => self.state.active.push(words.unwrap_or_else(|| name.to_owned())),
            Some(Err(reason)) => self.state.missing.push(format!("{name}: {reason}")),
            None => {}
        }
    }

    /// A layer that can be left out.
    fn unless_off(&mut self, name: &str, build: impl FnOnce() -> Built) -> Result<(), WallError> {
        if self.mode == OsSandbox::Off {
            self.state.missing.push(format!("{name}: os_sandbox is off"));
            return Ok(());
        }
        self.always(name, build)
    }
}
