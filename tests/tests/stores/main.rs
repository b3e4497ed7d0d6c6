//! Inputs, side inputs, models and outputs in stores.

#[cfg(target_os = "linux")]
mod job_stores;
#[cfg(target_os = "linux")]
mod job_stores_seen;
mod stores;
mod stores_identities;
mod stores_kept;
mod stores_large;
mod stores_listed;
