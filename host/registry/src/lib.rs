//! Registered datasets and models: names with versions for the inputs of jobs, in one SQLite file for each
//! user.
//!
//! This crate uses `model`. Only the command line uses it, and passes the meaning of a name to `spec`.
//!
//! [`Registry`] is the entry point. `place` decides where the file is and who may write to it; `schema` has
//! its table.

mod error;
mod place;
mod schema;
mod settings;
mod store;
#[cfg(test)]
mod tests;

pub use error::RegistryError;
pub use place::default_file;
pub use store::{NewVersion, Registry};
