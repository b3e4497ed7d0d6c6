//! The wall of one process.

use super::error::{Built, WallError, WallLayer};
use super::files::Cuts;
use super::{files, filter, layer, leaf, limits, powers, start};
use sandmill_model::{OsSandbox, WallState};
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
        standing.beside(WallLayer::Cgroup, leaf::join());
        standing.always(WallLayer::Parent, start::dies_with_parent)?;
        standing.always(WallLayer::Session, start::has_own_session)?;
        standing.always(WallLayer::Limits, || limits::apply(&self.bounds, self.occupant))?;
        standing.always(WallLayer::Privileges, powers::no_new_privileges)?;
        let cuts = match self.mode {
            OsSandbox::Required => Cuts::Filtered,
            // The filter may come to be missing.
            OsSandbox::BestEffort | OsSandbox::Off => Cuts::Ruled,
        };
        let confine = || files::confine(&self.folders, self.occupant, cuts);
        standing.unless_off(WallLayer::Landlock, confine)?;
        standing
            .unless_off(WallLayer::Capabilities, || powers::drop_capabilities(self.occupant))?;
        // The last one, because it forbids what makes the others.
        standing.unless_off(WallLayer::Seccomp, || filter::install(self.occupant, logs))?;
        Ok(standing.state)
    }
}

/// What stands so far.
struct Standing {
    mode: OsSandbox,
    state: WallState,
}

impl Standing {
    /// A layer that is there in any mode.
    fn always(&mut self, layer: WallLayer, build: impl FnOnce() -> Built) -> Result<(), WallError> {
        match layer::unless_hidden(layer).and_then(|()| build()) {
            Err(source) if self.mode == OsSandbox::Required => Err(WallError { layer, source }),
            built => {
                self.note(layer, built);
                Ok(())
            }
        }
    }

    /// What is no layer of its own, and never required; none if it is nobody's business here.
    fn beside(&mut self, layer: WallLayer, built: Option<Built>) {
        if let Some(built) = built {
            self.note(layer, built);
        }
    }

    fn note(&mut self, layer: WallLayer, built: Built) {
        let name = layer.name();
        match built {
            Ok(words) => self.state.active.push(words.unwrap_or_else(|| name.to_owned())),
            Err(reason) => self.state.missing.push(format!("{name}: {reason}")),
        }
    }

    /// A layer that can be left out.
    fn unless_off(
        &mut self,
        layer: WallLayer,
        build: impl FnOnce() -> Built,
    ) -> Result<(), WallError> {
        if self.mode == OsSandbox::Off {
            self.state.missing.push(format!("{}: os_sandbox is off", layer.name()));
            return Ok(());
        }
        self.always(layer, build)
    }
}
