//! From a job file to a checked job: YAML -> `RawJob` -> [`JobSpec`], all errors at once. Imports
//! `model` only; touches the file system just to see whether what a job names is there.
//!
//! - `tree`: YAML text to a small tree that knows its lines;
//! - `import`: a saved `parallel_run_config` to keys of our own;
//! - `overrides`: `--set key=value`;
//! - `keys`: the one table of all keys, which drives suggestions and the JSON schema;
//! - `scope`, `raw`: the tree to typed, optional settings;
//! - `check`, `inputs`, `mounts`, `arguments`: typed settings to a [`JobSpec`].

mod arguments;
mod check;
mod error;
mod import;
mod inputs;
mod job;
mod keys;
mod load;
mod mounts;
mod overrides;
mod raw;
mod schema;
mod scope;
mod tree;

#[cfg(test)]
mod tests;

pub use error::{Origin, SpecError, SpecErrors};
pub use job::{JobSpec, Parent};
pub use load::{DEFAULT_JOB, load};
pub use schema::schema;
