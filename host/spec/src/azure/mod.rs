//! Converts files that were made for Azure ML's SDKs into trees of our own keys. Every conversion is recorded
//! for the user. Version 1 and version 2 are the versions of the SDK that a file is for. `ours` is a Sandmill
//! key, `theirs` is Azure's name for it. Imports `tree`, `keys`, `error` and their dependencies.
//!
//! - `kind`: what a file describes, and whether it can run here; `names`: Azure's names for our keys;
//! - `saved`: version 1, a saved `parallel_run_config`;
//! - `pipeline`, `component`: version 2: picks a job of a pipeline, and reads its component;
//! - `job`, `deployment`: a parallel job, and a batch endpoint's deployment; `settings`: their common
//!   settings;
//! - `data`: inputs and outputs; `values`: inputs as components declare them;
//! - `mltable`: the `MLTable` files that inputs may name; `transformations`: their transformations, which are
//!   called steps; `step_problem`: why a step is not supported;
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

pub(super) use component::{COMPONENT_KEY, merge_component};
pub(super) use deployment::convert as convert_deployment;
pub(super) use job::convert;
pub(super) use kind::{DocumentKind, kind_of};
pub(super) use names::is_azure_key;
pub(super) use nodes::SCHEMA_KEY;
pub(super) use pipeline::{pick, report_no_pipeline};
pub(super) use saved::{SAVED_SECTION, flatten};
pub(super) use values::DeclaredInputs;
