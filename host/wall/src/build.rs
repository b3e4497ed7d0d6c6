//! The wall of one process.

use super::error::{LayerResult, WallError, WallLayer};
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
    pub role: WallRole,
    /// Which of its layers are required.
    pub mode: OsSandbox,
    /// Everything that the process may open from now on.
    pub folders: Vec<GrantedPath>,
    /// The resource limits.
    pub bounds: ResourceLimits,
}

impl Wall {
    /// Builds the wall around this process, which cannot be undone. Returns the layers that were built and
    /// those that are missing. With [`OsSandbox::Required`], a layer that cannot be built is an error.
    ///
    /// Must be called after [`enter`](super::enter), on the main thread, before there are other threads.
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
        layers.add_extra(WallLayer::Cgroup, cgroup_leaf::join());
        layers.build_layer(WallLayer::Parent, start::check_parent_death_signal)?;
        layers.build_layer(WallLayer::Session, start::check_own_session)?;
        layers.build_layer(WallLayer::Limits, || limits::apply(&self.bounds, self.role))?;
        layers.build_layer(WallLayer::Privileges, capabilities::no_new_privileges)?;
        let truncation = match self.mode {
            OsSandbox::Required => TruncateGuard::Filtered,
            // The filter may be missing, so Landlock must prevent truncation.
            OsSandbox::BestEffort | OsSandbox::Off => TruncateGuard::Ruled,
        };
        let confine = || landlock::confine(&self.folders, self.role, truncation);
        layers.build_unless_off(WallLayer::Landlock, confine)?;
        layers.build_unless_off(WallLayer::Capabilities, || {
            capabilities::drop_capabilities(self.role)
        })?;
        // seccomp comes last, because it forbids the syscalls that build the other layers.
        layers.build_unless_off(WallLayer::Seccomp, || seccomp::install(self.role, logs))?;
        Ok(layers.state)
    }
}

/// The layers that were built or found missing so far.
struct BuiltLayers {
    mode: OsSandbox,
    state: WallState,
}

impl BuiltLayers {
    /// Builds a layer. Fails if the layer cannot be built and `os_sandbox` is `required`.
    fn build_layer(
        &mut self,
        layer: WallLayer,
        build: impl FnOnce() -> LayerResult,
    ) -> Result<(), WallError> {
        match unless_hidden(layer).and_then(|()| build()) {
            Err(source) if self.mode == OsSandbox::Required => Err(WallError { layer, source }),
            built => {
                self.record(layer, built);
                Ok(())
            }
        }
    }

    /// Records the cgroup, a layer that is never required. `built` is `None` if this process has no
    /// cgroup.
    fn add_extra(&mut self, layer: WallLayer, built: Option<LayerResult>) {
        if let Some(built) = built {
            self.record(layer, built);
        }
    }

    fn record(&mut self, layer: WallLayer, built: LayerResult) {
        let name = layer.name();
        match built {
            Ok(text) => self.state.active.push(text.unwrap_or_else(|| name.to_owned())),
            Err(reason) => self.state.missing.push(format!("{name}: {reason}")),
        }
    }

    /// Builds a layer, unless `os_sandbox` is `off`.
    fn build_unless_off(
        &mut self,
        layer: WallLayer,
        build: impl FnOnce() -> LayerResult,
    ) -> Result<(), WallError> {
        if self.mode == OsSandbox::Off {
            self.state.missing.push(format!("{}: os_sandbox is off", layer.name()));
            return Ok(());
        }
        self.build_layer(layer, build)
    }
}
