//! The errors of the wall, with their messages.

use landlock::{LandlockStatus, RulesetError};
use libc::c_long;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A layer of the wall, or the optional cgroup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WallLayer {
    /// The kernel kills the process when its parent ends (`PR_SET_PDEATHSIG`).
    Parent,
    /// The process has its own session.
    Session,
    /// Resource limits.
    Limits,
    /// `PR_SET_NO_NEW_PRIVS`.
    Privileges,
    /// Landlock.
    Landlock,
    /// The process drops its capabilities.
    Capabilities,
    /// seccomp.
    Seccomp,
    /// The process has its own cgroup. It is an extra and never required.
    Cgroup,
}

impl WallLayer {
    /// The name of the layer, for messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Parent => "parent-death signal",
            Self::Session => "own session",
            Self::Limits => "resource limits",
            Self::Privileges => "no new privileges",
            Self::Landlock => "landlock",
            Self::Capabilities => "dropped capabilities",
            Self::Seccomp => "seccomp",
            Self::Cgroup => "cgroup",
        }
    }

    /// What the user can do if the layer is missing.
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
            _ => "use a kernel, or a container, that allows this layer",
        }
    }
}

/// A required layer that cannot be built. The message names the layer, the reason and the setting.
#[derive(Debug, thiserror::Error)]
#[error(
    "the wall around the processes of a job lacks the layer '{}': {source}. What to do: {}; or, \
     if you trust the entry script and its inputs, set `os_sandbox: best-effort` to continue without it \
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

/// The result of building a layer. `Ok`: the text to show instead of the layer's name, if there is more to
/// say. `Err`: why the layer is missing.
pub(super) type LayerResult = Result<Option<String>, LayerError>;

/// Why a layer is missing. The text is shown to users, after the layer's name.
#[derive(Debug, thiserror::Error)]
pub enum LayerError {
    /// A test hides the layer.
    #[error("{variable} hides it")]
    Hidden {
        /// The environment variable that hides it.
        variable: &'static str,
    },
    /// The kernel refused a syscall.
    #[error("{source}")]
    Call {
        /// The name of the syscall.
        call: &'static str,
        /// The kernel's error.
        source: io::Error,
    },
    /// A file or folder cannot be used.
    #[error("{}: {source}", path.display())]
    Path {
        /// The file or folder.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The parent-death signal is not the one that [`enter`](super::enter) sets.
    #[error("the process did not set it to SIGKILL")]
    NotSet,
    /// The process does not lead its session.
    #[error("the process is in another process's session")]
    OtherSession,
    /// Landlock: the kernel's version is too old.
    #[error(
        "the kernel has version {found} of the Landlock interface; version {needed} or later is needed"
    )]
    OldAbi {
        /// The version that the kernel has.
        found: i32,
        /// The oldest version that suffices.
        needed: i32,
    },
    /// Landlock: the kernel was built without it.
    #[error("the kernel was built without Landlock")]
    NotBuiltIn,
    /// Landlock: the kernel's boot parameters leave it out.
    #[error("the kernel has Landlock, but it is not turned on")]
    NotTurnedOn,
    /// Landlock: the rules cannot be made or applied.
    #[error("{0}")]
    Rules(#[source] RulesetError),
    /// Landlock: the rule for a folder cannot be added.
    #[error("{}: {source}", path.display())]
    Rule {
        /// The folder.
        path: PathBuf,
        /// The reason.
        source: RulesetError,
    },
    /// Landlock: the kernel does not enforce the rules.
    #[error("the kernel does not enforce the rules")]
    NotEnforced,
    /// Landlock: the kernel accepted the rules, but reports that it has no Landlock.
    #[error("the kernel reports that it does not enforce Landlock ({0:?})")]
    Unavailable(LandlockStatus),
    /// seccomp: there is no syscall list for this processor.
    #[error("there is no syscall list for the processor {0}")]
    NoSyscallList(&'static str),
    /// seccomp: a list has an invalid syscall number.
    #[error("{0} is not a syscall number")]
    InvalidSyscall(c_long),
    /// seccomp: the filter has more instructions than the kernel allows.
    #[error("the filter has more instructions than the kernel allows")]
    LongFilter,
    /// cgroup: the kernel has only version 1.
    #[error("the kernel has no version 2 cgroups")]
    NoHierarchy,
    /// cgroup: the cgroup file system is not mounted.
    #[error("the version 2 cgroups are not mounted")]
    NotMounted,
    /// cgroup: the cgroup of this process has no path below the mount point.
    #[error("this process's cgroup, {own}, is outside of the part that is mounted at {mounted}")]
    Outside {
        /// The cgroup of this process.
        own: String,
        /// The mount point of the cgroup file system.
        mounted: String,
    },
    /// cgroup: this process's cgroup has none of the controllers that we use.
    #[error("there is no {} and no {} controller at {}", wanted[0], wanted[1], folder.display())]
    NoControllers {
        /// The cgroup.
        folder: PathBuf,
        /// The controllers that we look for.
        wanted: [&'static str; 2],
    },
    /// cgroup: this user may not change this process's cgroup.
    #[error("{} may not be written to: it is not delegated to this user", .0.display())]
    NotDelegated(PathBuf),
    /// cgroup: other processes are in this process's cgroup.
    #[error("other processes than this one are in {}", .0.display())]
    Shared(PathBuf),
}

impl LayerError {
    /// The kernel refused a syscall.
    pub(super) fn call(call: &'static str, answer: impl Into<io::Error>) -> Self {
        Self::Call { call, source: answer.into() }
    }

    /// The kernel refused the last syscall.
    pub(super) fn last_call(call: &'static str) -> Self {
        Self::call(call, io::Error::last_os_error())
    }

    /// A file or folder cannot be used.
    pub(super) fn path(path: impl AsRef<Path>, source: io::Error) -> Self {
        Self::Path { path: path.as_ref().to_owned(), source }
    }
}

/// Why waiting for a process stopped early. The text is shown to users.
#[derive(Debug, thiserror::Error)]
pub enum WaitError {
    /// The process took too long.
    #[error("it did not finish within {} s", .0.as_secs())]
    Late(Duration),
    /// The caller stopped the process, for this reason.
    #[error("{0}")]
    Stopped(String),
    /// The kernel does not report the state of the process.
    #[error("{0}")]
    Unknown(#[source] io::Error),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_layer_is_reported_with_the_setting() {
        let error = WallError { layer: WallLayer::Landlock, source: LayerError::NotBuiltIn };
        insta::assert_snapshot!(error, @"the wall around the processes of a job lacks the layer 'landlock': the kernel was built without Landlock. What to do: use Linux 6.2 or later, with landlock among the modules of its `lsm=` boot parameter; in a container, a seccomp profile that allows landlock_create_ruleset; or, if you trust the entry script and its inputs, set `os_sandbox: best-effort` to continue without it (`sandmill doctor` shows what this machine has)");
    }

    /// The message already contains its cause, so callers need not print the cause.
    #[test]
    fn an_error_message_contains_its_cause() {
        let refused = || io::Error::from_raw_os_error(libc::EPERM);
        let syscall_error = LayerError::call("seccomp", refused());
        insta::assert_snapshot!(syscall_error, @"Operation not permitted (os error 1)");
        let path_error = LayerError::path("/proc/self/cgroup", refused());
        insta::assert_snapshot!(path_error, @"/proc/self/cgroup: Operation not permitted (os error 1)");
        for error in [syscall_error, path_error] {
            let cause = std::error::Error::source(&error).unwrap().to_string();
            assert!(error.to_string().contains(&cause), "{error}");
        }
    }
}
