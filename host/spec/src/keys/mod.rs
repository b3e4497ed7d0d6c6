//! The one table of all keys of a job file: it drives reading, suggestions and the JSON schema. And
//! the table of the operator's policy file. Imports `model` only.
//!
//! - `key`: what a key is;
//! - `job`: those of the top level; `groups` and `models`: those below them;
//! - `names`: what other descriptions of such a job call things;
//! - `policy`: the keys of the operator's policy file; `datastores`: those of the file of datastores.

mod datastores;
mod groups;
mod job;
mod key;
mod models;
mod names;
mod policy;

pub(super) use datastores::DATASTORES;
#[cfg(test)]
pub(super) use groups::{INPUT, LIMITS, OUTPUT_FORMAT, SIDE_INPUT};
pub(super) use job::JOB;
pub(super) use key::{
    Key, Kind, MAX_INTERVAL, MAX_JOB_TIME, MAX_TIMEOUT, MODEL_NAME_EXPECTED, NAME_EXPECTED,
    column_types,
};
#[cfg(test)]
pub(super) use models::INFERENCE;
pub(super) use models::MODEL;
pub(super) use names::{ALIASES, IGNORED, RENAMED, top_level};
pub(super) use policy::POLICY;
