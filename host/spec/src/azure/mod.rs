//! Files that were made for Azure's SDKs, as trees of our own keys. Every conversion is told by a
//! notice. Imports `tree`, `keys`, `error` and what they need.
//!
//! - `saved`: version 1, a saved `parallel_run_config`;
//! - `pipeline`, `job`: version 2, a parallel job, alone or in a pipeline;
//! - `data`: its inputs and outputs; `mltable`: the table files that they may name;
//! - `text`: references and command lines; `nodes`: help with trees.

mod data;
mod job;
mod mltable;
mod nodes;
mod pipeline;
mod saved;
mod text;

pub(super) use job::convert;
pub(super) use nodes::SCHEMA_KEY;
pub(super) use pipeline::{is_known_type, is_version_2, no_pipeline, pick};
pub(super) use saved::{SECTION, flatten};
