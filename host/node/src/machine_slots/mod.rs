//! Machine-wide caps: jobs that run at the same time share the machine, so that all their workers together
//! stay within the operator's caps, and no two jobs have the same device. This module knows a job only by its
//! tenant and the memory of its workers, and a device only by its name.
//!
//! - `register`: slots for workers; `turns`: which of them each job may have; `devices`: devices, such as GPUs;
//! - `folder`: the folder of lock files, which both use.
//!
//! Imports only `model` and `files`, and the crate `shares`.

mod devices;
mod folder;
mod register;
mod turns;

pub use devices::{Devices, LeasedDevices, keep};
pub use folder::SlotsError;
pub use register::{MachineSlots, SlotLease, holders};
