//! The wall around processes that see what nobody vouches for, in words. `crate::wall` builds it.

use super::few::few;
use serde::{Deserialize, Serialize};
use std::fmt;

/// How much a job insists on the process wall (`os_sandbox`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OsSandbox {
    /// Without any one layer the job does not start.
    #[default]
    Required,
    /// What the machine has; what is missing is told.
    BestEffort,
    /// None but what costs nothing and is always there. For finding faults.
    Off,
}

impl OsSandbox {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Required, Self::BestEffort, Self::Off];

    /// As in a job file.
    pub fn name(self) -> &'static str {
        match self {
            Self::Required => "required",
            Self::BestEffort => "best-effort",
            Self::Off => "off",
        }
    }
}

/// What of the wall stands around a process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WallState {
    /// What was asked for.
    pub mode: OsSandbox,
    /// The layers that are active, in words: `landlock (ABI 7)`.
    #[serde(deserialize_with = "few::<_, _, 64>")]
    pub active: Vec<String>,
    /// The layers that are missing, with the reason: `landlock: the kernel has none`.
    #[serde(deserialize_with = "few::<_, _, 64>")]
    pub missing: Vec<String>,
}

/// `required: landlock (ABI 7), seccomp`, and what is missing.
impl fmt::Display for WallState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.mode.name(), self.active.join(", "))?;
        if self.missing.is_empty() {
            return Ok(());
        }
        write!(f, "; without {}", self.missing.join("; "))
    }
}
