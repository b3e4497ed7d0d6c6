//! Files that were made for Azure's SDKs, as trees of our own keys. Every conversion is told by a
//! notice. Imports `tree`, `keys`, `error` and what they need.
//!
//! - `kind`: what a file describes, and whether that can run here; `names`: what it calls our keys;
//! - `saved`: version 1, a saved `parallel_run_config`;
//! - `pipeline`, `component`: version 2, which job of a pipeline is meant, and what its component says;
//! - `job`, `deployment`: a parallel job, and a batch endpoint's deployment; `settings`: what they share;
//! - `data`: inputs and outputs; `values`: inputs as components declare them;
//! - `mltable`: the table files that inputs may name; `transformations`: what these say of rows,
//!   and `step_problem` what of that is not carried out;
//! - `text`: references and command lines; `nodes`: help with trees.

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
pub(super) use kind::{Kind, kind_of};
pub(super) use names::is_own_key;
pub(super) use nodes::SCHEMA_KEY;
pub(super) use pipeline::{no_pipeline, pick};
pub(super) use saved::{SECTION, flatten};
pub(super) use values::Declared;
