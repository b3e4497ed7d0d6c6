//! Registered datasets and models: names with versions for what jobs read, in one SQLite file for each
//! user.
//!
//! It uses `model`; only the command line uses it, which tells `spec` what a name means.
//!
//! [`Registry`] is the door, `place` where the file lies and who may write to it, `schema` its table.

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
