//! A job file as written: every setting is typed, optional, and has its place. Settings are not yet checked
//! against the machine or against each other.
//!
//! `job` is the root, and `models` has groups below it. `values` reads single values.
//! `crate::given_settings` has the settings that need no reader of their own.

mod job;
mod models;
mod values;

pub(crate) use job::{RawInput, RawJob, RawSideInput, SchemaInference, read};
pub(crate) use models::{RawModel, read_ceilings};
pub(crate) use values::{choice, delimiter};
