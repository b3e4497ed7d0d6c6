//! Converts files that were made for Azure's SDKs into trees of our own keys. Every conversion is recorded
//! for the user. Imports `tree`, `keys`, `error` and their dependencies.
//!
//! - `kind`: what a file describes, and whether it can run here; `names`: its names for our keys;
//! - `saved`: version 1, a saved `parallel_run_config`;
//! - `pipeline`, `component`: version 2: picks a job of a pipeline, and reads its component;
//! - `job`, `deployment`: a parallel job, and a batch endpoint's deployment; `settings`: their common
//!   settings;
//! - `data`: inputs and outputs; `values`: inputs as components declare them;
//! - `mltable`: the table files that inputs may name; `transformations`: the steps in them, and
//!   `step_problem` the steps that are not carried out;
//! - `text`: references and command lines; `nodes`: helpers for trees.

mod component;
mod data;
mod deployment;
mod job;
mod kind;
mod mltable;
mod names;
mod nodes;
mod pipeline;
mod saved;
mod settings;
mod step_problem;
mod text;
mod transformations;
mod values;

pub(super) use component::{KEY as COMPONENT, unfold};
pub(super) use deployment::convert as convert_deployment;
pub(super) use job::convert;
pub(super) use kind::{DocumentKind, kind_of};
pub(super) use names::is_own_key;
pub(super) use nodes::SCHEMA_KEY;
pub(super) use pipeline::{no_pipeline, pick};
pub(super) use saved::{SECTION, flatten};
pub(super) use values::DeclaredInputs;
