//! The models of a job: from keys to ONNX files that exist. This folder is part of `spec` because it uses
//! the keys, the parser and the error texts of job files.
//!
//! - `check`: turns typed, optional settings into the models of a job;
//! - `find`: finds the ONNX file for a path.

mod check;
mod find;

pub(super) use check::{check, settings};
