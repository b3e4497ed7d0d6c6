//! A GPU.

use crate::model::GpuLease;
use serde::{Deserialize, Serialize};

/// A GPU, or a part of one (MIG), that one worker can have for itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gpu {
    /// Counted in the order of the PCI bus, as `nvidia-smi` does; where a GPU is split, each part
    /// counts.
    pub index: u32,
    /// What names it for good: `GPU-...`, or `MIG-...` for a part.
    pub uuid: String,
    /// What it is, as in "NVIDIA H200".
    pub name: String,
    /// Bytes of its memory.
    pub memory: Option<u64>,
    /// The GPU that it is a part of, counted as `nvidia-smi` does.
    pub part_of: Option<u32>,
    /// The GPU itself, counted as `nvidia-smi` does.
    #[serde(skip)]
    pub(super) device: u32,
    /// The number in `/dev/nvidiaN`.
    #[serde(skip)]
    pub(super) minor: Option<u32>,
}

/// A GPU as the driver tells of it.
#[derive(Clone, Debug)]
pub(super) struct Found {
    pub(super) index: u32,
    pub(super) uuid: String,
    pub(super) name: String,
    pub(super) memory: Option<u64>,
    pub(super) minor: Option<u32>,
    /// Whether it can be used in parts alone (MIG).
    pub(super) is_split: bool,
    /// UUID, name and memory of each.
    pub(super) parts: Vec<(String, String, Option<u64>)>,
}

/// How busy a GPU is.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct GpuUse {
    /// Percent of the time since a moment ago.
    pub percent: Option<u32>,
    /// Bytes of memory in use.
    pub used: Option<u64>,
    /// Bytes of memory.
    pub total: Option<u64>,
    /// Power that it draws.
    pub watts: Option<f64>,
    /// Degrees Celsius.
    pub celsius: Option<u32>,
}

impl Gpu {
    /// What `CUDA_VISIBLE_DEVICES` has to say for a process to see this one alone.
    pub fn visible(&self) -> String {
        if self.part_of.is_some() { self.uuid.clone() } else { self.device.to_string() }
    }

    /// A lease of it, without a lock.
    pub fn lease(&self) -> GpuLease {
        GpuLease { minor: self.minor, visible: self.visible(), ..GpuLease::plain(self.index) }
    }
}
