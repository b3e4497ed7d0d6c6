//! The models of a job: from keys to ONNX files that are there. Part of `spec`, as it has the keys, the
//! parser and the words of a job file.
//!
//! - `raw`: typed, optional settings;
//! - `check`: those to models of a job;
//! - `find`: the ONNX file that a path means.

mod check;
mod find;
mod raw;

pub(super) use check::{check, settings};
pub(super) use raw::{RawInference, RawModel, read, read_ceilings, read_inference};
