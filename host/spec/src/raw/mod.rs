//! A job file as written: every setting typed, optional, and with its place. Nothing is checked
//! against the machine or against other settings yet.
//!
//! `job` is the root, `models` are groups in it; `values` reads single values. Those that need no reader of their own are
//! in `crate::given`.

mod job;
mod models;
mod values;

pub(crate) use job::{RawInput, RawJob, RawSideInput, SchemaInference, read};
pub(crate) use models::{RawModel, read_ceilings};
pub(crate) use values::{choice, delimiter};
