//! Machine-wide caps: jobs that run at the same time share the machine, so that all their workers together
//! stay within the operator's caps, and no two jobs have the same device. Of jobs and workers, this module
//! knows only how much one needs; of devices, only their names.
//!
//! - `register`: places for workers; `devices`: which job has which device;
//! - `folder`: the folder with lock files that both use.
//!
//! Imports only `model` and `files`.

mod devices;
mod folder;
mod register;

pub use devices::{Devices, TakenDevices, keep};
pub use folder::TurnsError;
pub use register::{MachineSlots, SlotLease, holders};
