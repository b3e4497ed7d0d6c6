//! What can go wrong with the wall, with the words for it. Imports nothing of its folder.

use landlock::{LandlockStatus, RulesetError};
use libc::c_long;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A layer of the wall, or what may stand beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WallLayer {
    /// The kernel ends the process with the one that started it (`PR_SET_PDEATHSIG`).
    Parent,
    /// A session of its own.
    Session,
    /// Resource limits.
    Limits,
    /// `PR_SET_NO_NEW_PRIVS`.
    Privileges,
    /// Landlock.
    Landlock,
    /// Capabilities are given up.
    Capabilities,
    /// seccomp.
    Seccomp,
    /// A cgroup of its own. It stands beside the wall and is never required.
    Cgroup,
}

impl WallLayer {
    /// Its name, in words.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Parent => "dies with its parent",
            Self::Session => "own session",
            Self::Limits => "resource limits",
            Self::Privileges => "no new privileges",
            Self::Landlock => "landlock",
            Self::Capabilities => "no capabilities",
            Self::Seccomp => "seccomp",
            Self::Cgroup => "cgroup",
        }
    }

    /// What to do where it is missing.
    pub(super) const fn remedy(self) -> &'static str {
        match self {
            Self::Landlock => {
                "use Linux 6.2 or later, with landlock among the modules of its `lsm=` boot parameter; in \
                 a container, a seccomp profile that allows landlock_create_ruleset"
            }
            Self::Seccomp => {
                "use a kernel with CONFIG_SECCOMP_FILTER, on x86_64 or aarch64; in a container, a profile \
                 that allows the seccomp call"
            }
            _ => "use a kernel, or a container, that allows it",
        }
    }
}

/// A layer that must stand and does not. For people: names the layer, the reason and the setting.
#[derive(Debug, thiserror::Error)]
#[error(
    "the wall around the processes of a job lacks a layer: {}: {source}. What to do: {}; or, \
     if you trust the entry script and its inputs, set `os_sandbox: best-effort` to go on without \
     (`sandmill doctor` shows what this machine has)",
    layer.name(),
    layer.remedy()
)]
pub struct WallError {
    /// The layer.
    pub layer: WallLayer,
    /// Why it is missing.
    pub source: LayerError,
}

/// How a layer came out: what to call it, if there is more to say than its name; or why it is missing.
pub(super) type Built = Result<Option<String>, LayerError>;

/// Why a layer is missing. For people; follows the layer's name.
#[derive(Debug, thiserror::Error)]
pub enum LayerError {
    /// A test hides it.
    #[error("{variable} counts it as missing")]
    Hidden {
        /// The variable of the environment that says so.
        variable: &'static str,
    },
    /// The kernel refused a call.
    #[error("{source}")]
    Call {
        /// The call, by its name.
        call: &'static str,
        /// The kernel's answer.
        source: io::Error,
    },
    /// A file or folder cannot be used.
    #[error("{}: {source}", path.display())]
    Path {
        /// Which one.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// The signal that comes with the parent's end is not the one that [`enter`](super::enter) asks for.
    #[error("the process did not ask for it")]
    NotAsked,
    /// The process does not lead its session.
    #[error("the process is in another's session")]
    OtherSession,
    /// Landlock: the kernel knows too old a version.
    #[error("the kernel has version {found} of its interface, and version {needed} is needed")]
    OldAbi {
        /// The kernel's version.
        found: i32,
        /// The oldest version that does.
        needed: i32,
    },
    /// Landlock: not a part of the kernel.
    #[error("the kernel was built without it")]
    NotBuiltIn,
    /// Landlock: a part of the kernel that its boot parameters leave out.
    #[error("the kernel has it, but it is not turned on")]
    NotTurnedOn,
    /// Landlock: the rules cannot be made, or not be applied.
    #[error("{0}")]
    Rules(#[source] RulesetError),
    /// Landlock: a folder cannot have its rule.
    #[error("{}: {source}", path.display())]
    Rule {
        /// The folder.
        path: PathBuf,
        /// Why.
        source: RulesetError,
    },
    /// Landlock: the rules do not hold.
    #[error("the kernel did not take the rules")]
    NotEnforced,
    /// Landlock: the rules hold, but the kernel has no Landlock.
    #[error("{0:?}")]
    Unavailable(LandlockStatus),
    /// seccomp: this processor has no list of calls.
    #[error("there is no list of calls for {0}")]
    NoCalls(&'static str),
    /// seccomp: a list names what is no call.
    #[error("there is no call {0}")]
    NoCall(c_long),
    /// seccomp: more instructions than the kernel takes.
    #[error("the filter is too long")]
    LongFilter,
    /// cgroup: the kernel has version 1 only.
    #[error("the kernel has no version 2 hierarchy")]
    NoHierarchy,
    /// cgroup: there is no path to the hierarchy.
    #[error("the version 2 hierarchy is not mounted")]
    NotMounted,
    /// cgroup: that of this process has no path.
    #[error("{own} is outside of what is mounted at {mounted}")]
    Outside {
        /// The cgroup of this process.
        own: String,
        /// Where the hierarchy is mounted.
        mounted: String,
    },
    /// cgroup: nothing can be limited there.
    #[error("there is no {} and no {} controller at {}", wanted[0], wanted[1], folder.display())]
    NoControllers {
        /// The cgroup.
        folder: PathBuf,
        /// What is looked for.
        wanted: [&'static str; 2],
    },
    /// cgroup: this user may not change it.
    #[error("{} may not be written to: it is not delegated", .0.display())]
    NotDelegated(PathBuf),
    /// cgroup: it is not this process's alone.
    #[error("other processes than this one are in {}", .0.display())]
    Shared(PathBuf),
}

impl LayerError {
    /// The kernel refused a call.
    pub(super) fn call(call: &'static str, answer: impl Into<io::Error>) -> Self {
        Self::Call { call, source: answer.into() }
    }

    /// The kernel refused the call that was made last.
    pub(super) fn last_call(call: &'static str) -> Self {
        Self::call(call, io::Error::last_os_error())
    }

    /// A file or folder cannot be used.
    pub(super) fn path(path: impl AsRef<Path>, source: io::Error) -> Self {
        Self::Path { path: path.as_ref().to_owned(), source }
    }
}

/// Why the end of a process was not waited for. For people.
#[derive(Debug, thiserror::Error)]
pub enum WaitError {
    /// It took too long.
    #[error("it was not done after {} s", .0.as_secs())]
    Late(Duration),
    /// It is not wanted any more, for this reason.
    #[error("{0}")]
    Stopped(String),
    /// The kernel does not tell how it is.
    #[error("{0}")]
    Unknown(#[source] io::Error),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_layer_is_told_with_the_setting() {
        let error = WallError { layer: WallLayer::Landlock, source: LayerError::NotBuiltIn };
        insta::assert_snapshot!(error, @"the wall around the processes of a job lacks a layer: landlock: the kernel was built without it. What to do: use Linux 6.2 or later, with landlock among the modules of its `lsm=` boot parameter; in a container, a seccomp profile that allows landlock_create_ruleset; or, if you trust the entry script and its inputs, set `os_sandbox: best-effort` to go on without (`sandmill doctor` shows what this machine has)");
    }

    /// Causes are shown only where they say more.
    #[test]
    fn what_says_a_reason_says_its_cause() {
        let refused = || io::Error::from_raw_os_error(libc::EPERM);
        let of_call = LayerError::call("seccomp", refused());
        insta::assert_snapshot!(of_call, @"Operation not permitted (os error 1)");
        let of_path = LayerError::path("/proc/self/cgroup", refused());
        insta::assert_snapshot!(of_path, @"/proc/self/cgroup: Operation not permitted (os error 1)");
        for error in [of_call, of_path] {
            let cause = std::error::Error::source(&error).unwrap().to_string();
            assert!(error.to_string().contains(&cause), "{error}");
        }
    }
}
