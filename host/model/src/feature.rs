//! The parts of Sandmill that a build may leave out.

use serde::Serialize;
use std::fmt;

/// A part that a build may leave out, as a feature of cargo.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Feature {
    /// Computing with models.
    Inference,
    /// The same on NVIDIA's GPUs.
    Cuda,
    /// Objects of stores.
    Stores,
}

impl Feature {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Inference, Self::Cuda, Self::Stores];

    /// The name that cargo has for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Inference => "inference",
            Self::Cuda => "cuda",
            Self::Stores => "stores",
        }
    }

    /// Says that a build does not have it.
    pub fn absence(self) -> Absence {
        Absence(self)
    }
}

/// A build does not have a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Absence(pub Feature);

/// ``this sandmill was built without CUDA (feature `cuda`)``.
impl fmt::Display for Absence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let part = match self.0 {
            Feature::Inference => "inference",
            Feature::Cuda => "CUDA",
            Feature::Stores => "stores",
        };
        write!(f, "this sandmill was built without {part} (feature `{}`)", self.0.name())
    }
}
