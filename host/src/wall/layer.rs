//! The layers by name, and whether this machine has them.

use super::build::WallError;
use super::files::{self, NEEDED_ABI};
use super::filter;
use crate::model::OsSandbox;
use std::io;

pub(super) const PARENT: &str = "dies with its parent";
pub(super) const SESSION: &str = "own session";
pub(super) const LIMITS: &str = "resource limits";
pub(super) const PRIVILEGES: &str = "no new privileges";
pub(super) const LANDLOCK: &str = "landlock";
pub(super) const CAPABILITIES: &str = "no capabilities";
pub(super) const SECCOMP: &str = "seccomp";

/// In builds with debug assertions, the name of a layer in this variable of the environment counts as
/// missing, for tests. Other builds do not look at it.
pub const MISSING_LAYER: &str = "SANDMILL_MISSING_LAYER";

/// A layer of the wall, on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layer {
    /// Its name, in words.
    pub name: &'static str,
    /// What to call it if it is there, with a version where it has one; or why it is not.
    pub found: Result<String, String>,
    /// What to do where it is missing.
    pub remedy: &'static str,
}

/// Looks which layers this machine has, and changes nothing.
pub fn probe() -> Vec<Layer> {
    let there = |name: &'static str| Ok(name.to_owned());
    let layers = [
        (LANDLOCK, landlock()),
        (SECCOMP, filter::probe()),
        (PRIVILEGES, no_new_privileges()),
        (CAPABILITIES, there(CAPABILITIES)),
        (LIMITS, there(LIMITS)),
        (SESSION, there(SESSION)),
        (PARENT, there(PARENT)),
    ];
    let layer = |(name, found): (&'static str, Result<String, String>)| {
        let found = unless_hidden(name).and(found);
        Layer { name, found, remedy: remedy(name) }
    };
    layers.into_iter().map(layer).collect()
}

/// Fails if the job wants layers that this machine does not have: so that this is told before
/// anything of a stranger's was looked at.
pub fn check(mode: OsSandbox) -> Result<(), WallError> {
    if mode != OsSandbox::Required {
        return Ok(());
    }
    let lacking = probe().into_iter().find_map(|layer| Some((layer.name, layer.found.err()?)));
    lacking.map_or(Ok(()), |(name, reason)| Err(missing(name, &reason)))
}

/// What is said of a layer that is missing and required.
pub(super) fn missing(name: &str, reason: &str) -> WallError {
    WallError(format!(
        "the wall around the processes of a job lacks a layer: {name}: {reason}. What to do: {}; or, \
         if you trust the entry script and its inputs, set `os_sandbox: best-effort` to go on without \
         (`sandmill doctor` shows what this machine has)",
        remedy(name)
    ))
}

fn remedy(name: &str) -> &'static str {
    match name {
        LANDLOCK => {
            "use Linux 6.2 or later, with landlock among the modules of its `lsm=` boot parameter; in \
             a container, a seccomp profile that allows landlock_create_ruleset"
        }
        SECCOMP => {
            "use a kernel with CONFIG_SECCOMP_FILTER, on x86_64 or aarch64; in a container, a profile \
             that allows the seccomp call"
        }
        _ => "use a kernel, or a container, that allows it",
    }
}

/// Fails if a test wants it missing.
pub(super) fn unless_hidden(name: &str) -> Result<(), String> {
    if cfg!(debug_assertions) && std::env::var(MISSING_LAYER).is_ok_and(|hidden| hidden == name) {
        return Err(format!("{MISSING_LAYER} counts it as missing"));
    }
    Ok(())
}

fn landlock() -> Result<String, String> {
    /// Asks for the version and makes nothing.
    const VERSION: u32 = 1;
    // SAFETY: without a pointer the call only answers.
    let abi = unsafe {
        let nothing = std::ptr::null::<libc::c_void>();
        libc::syscall(libc::SYS_landlock_create_ruleset, nothing, 0_usize, VERSION)
    };
    let error = io::Error::last_os_error();
    match i32::try_from(abi) {
        Ok(abi) if abi >= NEEDED_ABI => Ok(files::words(abi)),
        Ok(abi) if abi > 0 => Err(format!(
            "the kernel has version {abi} of its interface, and version {NEEDED_ABI} is needed"
        )),
        _ => Err(match error.raw_os_error() {
            Some(libc::ENOSYS) => "the kernel was built without it".to_owned(),
            Some(libc::EOPNOTSUPP) => "the kernel has it, but it is not turned on".to_owned(),
            _ => error.to_string(),
        }),
    }
}

fn no_new_privileges() -> Result<String, String> {
    let asked = rustix::thread::no_new_privs();
    asked.map(|_| PRIVILEGES.to_owned()).map_err(|errno| errno.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_layer_is_there_or_says_why_not() {
        let layers = probe();
        for layer in &layers {
            match &layer.found {
                Ok(words) => assert!(words.starts_with(layer.name), "{layer:?}"),
                Err(reason) => assert!(!reason.is_empty(), "{layer:?}"),
            }
        }
        assert_eq!(layers.len(), 7);
        assert!(check(OsSandbox::BestEffort).is_ok() && check(OsSandbox::Off).is_ok());
        assert_eq!(check(OsSandbox::Required).is_ok(), layers.iter().all(|l| l.found.is_ok()));
    }

    #[test]
    fn a_missing_layer_is_told_with_the_setting() {
        let text = missing(LANDLOCK, "there is none").to_string();
        assert!(text.contains("landlock: there is none"), "{text}");
        assert!(text.contains("os_sandbox: best-effort"), "{text}");
    }
}
