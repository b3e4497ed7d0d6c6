//! The registry: names with versions for datasets and models that jobs use. Each user has one SQLite file.
//!
//! This crate uses `model`. Only the command line uses this crate: it looks a name up here, and passes
//! the result to `spec`.
//!
//! [`Registry`] is the entry point. `place` decides where the file is and who may write to it. `schema` has
//! the SQL table.

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
