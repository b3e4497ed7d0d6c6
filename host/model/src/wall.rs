//! Settings and reports of the process wall, with which the kernel isolates processes that handle
//! untrusted data. The crate `sandmill-wall` builds the wall.

use super::bounded_vec::bounded_vec;
use serde::{Deserialize, Serialize};
use std::fmt;

/// How strictly a job requires the process wall (`os_sandbox`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OsSandbox {
    /// The job does not start if any layer is missing.
    #[default]
    Required,
    /// The job uses all layers that the machine has. Missing layers are reported.
    BestEffort,
    /// Only the layers that cost nothing and are always available. For debugging.
    Off,
}

impl OsSandbox {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Required, Self::BestEffort, Self::Off];

    /// The name in a job file.
    pub fn name(self) -> &'static str {
        match self {
            Self::Required => "required",
            Self::BestEffort => "best-effort",
            Self::Off => "off",
        }
    }
}

/// Which layers the wall around a process has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WallState {
    /// The requested mode.
    pub mode: OsSandbox,
    /// The active layers, as text for the user: `landlock (ABI 7)`.
    #[serde(deserialize_with = "bounded_vec::<_, _, 64>")]
    pub active: Vec<String>,
    /// The missing layers, with the reason: `landlock: the kernel has none`.
    #[serde(deserialize_with = "bounded_vec::<_, _, 64>")]
    pub missing: Vec<String>,
}

/// Prints `required: landlock (ABI 7), seccomp`, and the missing layers.
impl fmt::Display for WallState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.mode.name(), self.active.join(", "))?;
        if self.missing.is_empty() {
            return Ok(());
        }
        write!(f, "; without {}", self.missing.join("; "))
    }
}
