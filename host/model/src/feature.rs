//! The parts of Sandmill that a build may leave out.

use serde::Serialize;
use std::fmt;

/// A part that a build may leave out. Each part is a cargo feature.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Feature {
    /// Running models.
    Inference,
    /// Running models on NVIDIA's GPUs.
    Cuda,
    /// Access to stores.
    Stores,
}

impl Feature {
    /// All parts.
    pub const ALL: [Self; 3] = [Self::Inference, Self::Cuda, Self::Stores];

    /// The name of the cargo feature.
    pub fn name(self) -> &'static str {
        match self {
            Self::Inference => "inference",
            Self::Cuda => "cuda",
            Self::Stores => "stores",
        }
    }

    /// The error of a build without this part.
    pub fn absence(self) -> Absence {
        Absence(self)
    }
}

/// The error of a build without a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Absence(pub Feature);

/// Prints ``this sandmill was built without CUDA (feature `cuda`)``.
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
