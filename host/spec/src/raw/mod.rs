//! A job file as written: every setting typed, optional, and with its place. Nothing is checked
//! against the machine or against other settings yet.
//!
//! `job` is the root, `limits` and `models` are groups in it; `values` reads single values.

mod job;
mod limits;
mod models;
mod values;

pub(crate) use job::{Format, RawInput, RawJob, RawSideInput, SchemaInference, read};
pub(crate) use limits::{RawLimits, read as read_limits};
pub(crate) use models::{RawModel, read_ceilings};
pub(crate) use values::{at_least, choice, delimiter, seconds};
