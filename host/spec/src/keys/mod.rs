//! The one table of all keys of a job file: it drives reading, suggestions, the JSON schema and the docs. And
//! the table of the operator's policy file. Imports `model` only.
//!
//! - `key`: what a key is;
//! - `job`: those of the top level and below `limits`, from the tables of `sandmill-model`; `groups` and `models`: those
//!   below others;
//! - `format`: the formats of inputs; `names`: what other descriptions of such a job call things;
//! - `policy`: the keys of the operator's policy file; `datastores`: those of the file of datastores.

mod datastores;
mod format;
mod groups;
mod job;
mod key;
mod models;
mod names;
mod policy;
mod user_config;

pub(super) use datastores::DATASTORES;
pub(super) use format::Format;
pub(super) use groups::{INPUT, OUTPUT_FORMAT, PYTHON, SIDE_INPUT};
pub(super) use job::{JOB, LIMITS};
pub(super) use key::{
    Ceiling, Key, Kind, LIMIT_ROWS, MODEL_NAME_EXPECTED, NAME_EXPECTED, Prs, Rows, column_types,
    is_name,
};
pub(super) use models::{INFERENCE, MODEL};
pub(super) use names::{ALIASES, IGNORED, NO_ENVIRONMENT, RENAMED, top_level};
pub(super) use policy::policy;
pub(super) use user_config::USER_CONFIG;

/// The keys at the top level of a job file that decide what rows the job has.
#[cfg(any(test, feature = "testing"))]
pub fn keys_that_decide_rows() -> impl Iterator<Item = &'static str> {
    JOB.iter().filter(|key| !matches!(key.rows, Rows::Not(_))).map(|key| key.name)
}
