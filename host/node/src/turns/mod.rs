//! Machine-wide caps: jobs that run at the same time take turns, so that all their workers together
//! keep to what the operator gives them, and no two have the same device. Knows nothing of jobs and
//! workers but how much one needs, and nothing of devices but their names.
//!
//! - `register`: places for workers; `devices`: who has which device;
//! - `folder`: the folder of locked files that both are counted in.
//!
//! Imports `model` only.

mod devices;
mod folder;
mod register;

pub use devices::{Devices, Taken, keep};
pub use folder::TurnsError;
pub use register::{Place, Turns, holders};
