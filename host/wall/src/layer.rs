//! The layers by name, and whether this machine has them.

use super::error::{LayerError, WallError, WallLayer};
use super::hidden::unless_hidden;
use super::landlock::{self, MIN_ABI_NUMBER};
use super::seccomp;
use sandmill_model::OsSandbox;
use std::io;

/// A layer of the wall, on this machine.
#[derive(Debug)]
pub struct Layer {
    /// Which layer.
    pub which: WallLayer,
    /// `Ok`: the layer's name, with a version if the layer has one. `Err`: why the layer is missing.
    pub found: Result<String, LayerError>,
    /// What the user can do if it is missing.
    pub remedy: &'static str,
}

/// Checks which layers this machine has. Changes nothing.
pub fn probe() -> Vec<Layer> {
    let probe_one = |layer: WallLayer| match layer {
        WallLayer::Landlock => probe_landlock(),
        WallLayer::Seccomp => seccomp::probe(),
        WallLayer::Privileges => probe_no_new_privileges(),
        other => Ok(other.name().to_owned()),
    };
    let layers = [
        WallLayer::Landlock,
        WallLayer::Seccomp,
        WallLayer::Privileges,
        WallLayer::Capabilities,
        WallLayer::Limits,
        WallLayer::Session,
        WallLayer::Parent,
    ];
    let probed = |layer: WallLayer| {
        let found = unless_hidden(layer).and_then(|()| probe_one(layer));
        Layer { which: layer, found, remedy: layer.remedy() }
    };
    layers.into_iter().map(probed).collect()
}

/// Fails if the job requires layers that this machine lacks. Called before any untrusted bytes are read.
pub fn check(mode: OsSandbox) -> Result<(), WallError> {
    if mode != OsSandbox::Required {
        return Ok(());
    }
    let missing_layer =
        |probed: Layer| Some(WallError { layer: probed.which, source: probed.found.err()? });
    probe().into_iter().find_map(missing_layer).map_or(Ok(()), Err)
}

fn probe_landlock() -> Result<String, LayerError> {
    /// Makes the syscall return the version of the Landlock interface, instead of creating a rule set.
    const LANDLOCK_CREATE_RULESET_VERSION: u32 = 1;
    // SAFETY: without a pointer the syscall only returns a number.
    let abi = unsafe {
        let nothing = std::ptr::null::<libc::c_void>();
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            nothing,
            0_usize,
            LANDLOCK_CREATE_RULESET_VERSION,
        )
    };
    let error = io::Error::last_os_error();
    match i32::try_from(abi) {
        Ok(abi) if abi >= MIN_ABI_NUMBER => Ok(landlock::name_with_version(abi)),
        Ok(abi) if abi > 0 => Err(LayerError::OldAbi { found: abi, needed: MIN_ABI_NUMBER }),
        _ => Err(match error.raw_os_error() {
            Some(libc::ENOSYS) => LayerError::NotBuiltIn,
            Some(libc::EOPNOTSUPP) => LayerError::NotTurnedOn,
            _ => LayerError::call("landlock_create_ruleset", error),
        }),
    }
}

fn probe_no_new_privileges() -> Result<String, LayerError> {
    match rustix::thread::no_new_privs() {
        Ok(_) => Ok(WallLayer::Privileges.name().to_owned()),
        Err(errno) => Err(LayerError::call("prctl", errno)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_layer_works_or_reports_a_reason() {
        let layers = probe();
        for layer in &layers {
            match &layer.found {
                Ok(name) => assert!(name.starts_with(layer.which.name()), "{layer:?}"),
                Err(reason) => assert!(!reason.to_string().is_empty(), "{layer:?}"),
            }
        }
        assert_eq!(layers.len(), 7);
        assert!(check(OsSandbox::BestEffort).is_ok() && check(OsSandbox::Off).is_ok());
        assert_eq!(check(OsSandbox::Required).is_ok(), layers.iter().all(|l| l.found.is_ok()));
    }
}
