//! A job file as written: every setting is typed and optional, and knows its line. Settings are not yet
//! checked against the machine or against each other.
//!
//! `job` is the root, and `models` reads the groups `models` and `inference`. `values` reads single values.
//! `crate::given_settings` has the settings that are single values in the tables of `sandmill-model`.

mod job;
mod models;
mod values;

pub(crate) use job::{RawInput, RawJob, RawSideInput, SchemaInference, read};
pub(crate) use models::{RawModel, read_ceilings};
pub(crate) use values::{choice, delimiter};
