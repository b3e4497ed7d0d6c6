//! The models of a job: from keys to ONNX files that are there. Part of `spec`, as it has the keys, the
//! parser and the words of a job file.
//!
//! - `check`: typed, optional settings to models of a job;
//! - `find`: the ONNX file that a path means.

mod check;
mod find;

pub(super) use check::{check, settings};
