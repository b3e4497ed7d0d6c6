//! GPUs of NVIDIA: which there are, how busy they are, when one is free again.
//!
//! - `device`: one of them, or a part; `inventory`: what a job may use of what the machine has, and why that is nothing;
//! - `nvidia`: the driver's library (NVML), the one place that calls it; `without`, in a build without the feature `cuda`,
//!   what stands for it; `error`: why it tells nothing;
//! - `memory`: whether a GPU's memory is back after its worker is gone;
//! - `libraries`: the folders of CUDA's libraries.
//!
//! Which job and which worker has one, is not known here (`turns`, `engine`). Whatever a driver does not
//! tell is none, never an error. Imports `model` only.

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
