//! NVIDIA GPUs: a list of them, how busy they are, and when their memory is free again.
//!
//! - `device`: a GPU, or a part of one; `inventory`: the GPUs that a job may use, and why some are missing;
//! - `nvidia`: the driver's library (NVML), which only this module calls; `without` replaces it in a build
//!   without the feature `cuda`; `error`: why the driver cannot be used;
//! - `memory`: whether a GPU's memory is free after its worker has ended;
//! - `libraries`: the folders of CUDA's libraries.
//!
//! This module does not know which job or worker has a GPU (`machine_slots` and `machine` do). A value that
//! the driver does not report is `None`, never an error. Imports only `model`.

mod device;
mod error;
mod inventory;
mod libraries;
mod memory;
#[cfg(feature = "cuda")]
mod nvidia;
#[cfg(not(feature = "cuda"))]
mod without;

pub use device::{Gpu, GpuUse};
pub use error::NvidiaError;
pub use inventory::{Inventory, count};
pub use libraries::library_folders;
pub use memory::MemoryWatch;
#[cfg(feature = "cuda")]
pub use nvidia::Nvidia;
#[cfg(not(feature = "cuda"))]
pub use without::Nvidia;
