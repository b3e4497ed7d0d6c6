//! The wall of one process.

use super::error::{Built, WallError, WallLayer};
use super::hidden::unless_hidden;
use super::landlock::TruncateGuard;
use super::role::{GrantedPath, ResourceLimits, WallRole};
use super::{capabilities, cgroup_leaf, landlock, limits, seccomp, start};
use sandmill_model::{OsSandbox, WallState};
use std::os::fd::RawFd;

/// A wall to be built.
#[derive(Clone, Debug)]
pub struct Wall {
    /// The kind of process that it encloses.
    pub occupant: WallRole,
    /// Which of its layers are required.
    pub mode: OsSandbox,
    /// Everything that the process may open from now on.
    pub folders: Vec<GrantedPath>,
    /// The resource limits.
    pub bounds: ResourceLimits,
}

impl Wall {
    /// Builds the wall around this process, for good. Returns the layers that were built and those that are
    /// missing. With [`OsSandbox::Required`], a layer that cannot be built is an error.
    ///
    /// Must be called after [`enter`](super::enter), on the main thread, before there is another one.
    pub fn build(&self) -> Result<WallState, WallError> {
        self.build_around_logs(&[])
    }

    /// Like [`build`](Self::build). `logs`: descriptors that are open for appending and not for reading. The
    /// process can append to these files, and cannot remove anything from them.
    pub fn build_around_logs(&self, logs: &[RawFd]) -> Result<WallState, WallError> {
        let mut layers = BuiltLayers {
            mode: self.mode,
            state: WallState { mode: self.mode, ..WallState::default() },
        };
        layers.extra(WallLayer::Cgroup, cgroup_leaf::join());
        layers.always(WallLayer::Parent, start::dies_with_parent)?;
        layers.always(WallLayer::Session, start::has_own_session)?;
        layers.always(WallLayer::Limits, || limits::apply(&self.bounds, self.occupant))?;
        layers.always(WallLayer::Privileges, capabilities::no_new_privileges)?;
        let truncation = match self.mode {
            OsSandbox::Required => TruncateGuard::Filtered,
            // The filter may turn out to be missing.
            OsSandbox::BestEffort | OsSandbox::Off => TruncateGuard::Ruled,
        };
        let confine = || landlock::confine(&self.folders, self.occupant, truncation);
        layers.unless_off(WallLayer::Landlock, confine)?;
        layers.unless_off(WallLayer::Capabilities, || {
            capabilities::drop_capabilities(self.occupant)
        })?;
        // seccomp comes last, because it forbids the syscalls that build the others.
        layers.unless_off(WallLayer::Seccomp, || seccomp::install(self.occupant, logs))?;
        Ok(layers.state)
    }
}

/// The layers so far.
struct BuiltLayers {
    mode: OsSandbox,
    state: WallState,
}

impl BuiltLayers {
    /// A layer that is built in any mode.
    fn always(&mut self, layer: WallLayer, build: impl FnOnce() -> Built) -> Result<(), WallError> {
        match unless_hidden(layer).and_then(|()| build()) {
            Err(source) if self.mode == OsSandbox::Required => Err(WallError { layer, source }),
            built => {
                self.note(layer, built);
                Ok(())
            }
        }
    }

    /// An optional extra (a cgroup), never required. `None` means that it does not apply to this process.
    fn extra(&mut self, layer: WallLayer, built: Option<Built>) {
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

    /// A layer that `os_sandbox: off` leaves out.
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
