//! A GPU, or a part of one.

use crate::model::GpuLease;
use serde::{Deserialize, Serialize};

/// A GPU, or a part of one (MIG), that one worker can have for itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gpu {
    /// The number in the order of the PCI bus, as in `nvidia-smi`. If a GPU is split, each of its parts is
    /// counted instead.
    pub index: u32,
    /// The permanent name: `GPU-...`, or `MIG-...` for a part.
    pub uuid: String,
    /// The model, such as "NVIDIA H200".
    pub name: String,
    /// Bytes of memory. `None` if unknown.
    pub memory: Option<u64>,
    /// The number of the whole GPU, as in `nvidia-smi`. `None` if this is not a part.
    pub part_of: Option<u32>,
    /// The number in `nvidia-smi`; for a part, the number of the GPU that it is a part of.
    #[serde(skip)]
    pub(super) device: u32,
    /// N of the device file `/dev/nvidiaN`. `None` if unknown.
    #[serde(skip)]
    pub(super) minor: Option<u32>,
}

/// A GPU as the driver reports it.
#[derive(Clone, Debug)]
pub(super) struct ReportedGpu {
    pub(super) index: u32,
    pub(super) uuid: String,
    pub(super) name: String,
    pub(super) memory: Option<u64>,
    pub(super) minor: Option<u32>,
    /// Whether the GPU is split (MIG), so that only its parts can be used.
    pub(super) is_split: bool,
    /// UUID, name and memory of each part.
    pub(super) parts: Vec<(String, String, Option<u64>)>,
}

/// How busy a GPU is.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct GpuUse {
    /// How much of the driver's last sample period the GPU was busy, in percent.
    pub percent: Option<u32>,
    /// Bytes of memory in use.
    pub used: Option<u64>,
    /// Bytes of memory.
    pub total: Option<u64>,
    /// The power draw.
    pub watts: Option<f64>,
    /// Degrees Celsius.
    pub celsius: Option<u32>,
}

impl Gpu {
    /// The value of `CUDA_VISIBLE_DEVICES` with which a process sees only this GPU.
    pub fn visible(&self) -> String {
        if self.part_of.is_some() { self.uuid.clone() } else { self.device.to_string() }
    }

    /// A lease of this GPU, without a lock file.
    pub fn lease(&self) -> GpuLease {
        GpuLease { minor: self.minor, visible: self.visible(), ..GpuLease::plain(self.index) }
    }
}
