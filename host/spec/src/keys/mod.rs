//! The table of all keys of a job file. It drives the reader, suggestions for misspelled keys, the JSON
//! schema and the docs. Also the keys of the operator's policy file, of the file of datastores and of the
//! user's config file. Imports `model` only.
//!
//! - `key`: the description of one key;
//! - `job`: the keys of the top level and below `limits`, from the tables of `sandmill-model`; `groups` and
//!   `models`: the keys of the other groups;
//! - `format`: the formats of inputs; `names`: other systems' names for our keys;
//! - `policy`: the keys of the operator's policy file; `datastores`: the keys of the file of datastores;
//! - `user_config`: the keys of the user's config file.

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
pub(super) use format::InputFormat;
pub(super) use groups::{INPUT, OUTPUT_FORMAT, PYTHON, SIDE_INPUT};
pub(super) use job::{JOB, LIMITS};
pub(super) use key::{
    DecidesRows, Key, KeyCeiling, KeyKind, LIMIT_ROWS, MODEL_NAME_EXPECTED, NAME_EXPECTED,
    PrsNames, column_types, is_name,
};
pub(super) use models::{INFERENCE, MODEL};
pub(super) use names::{ALIASES, IGNORED, NO_ENVIRONMENT, RENAMED, top_level};
pub(super) use policy::policy;
pub(super) use user_config::USER_CONFIG;

/// The keys at the top level of a job file that affect the job's rows.
#[cfg(any(test, feature = "testing"))]
pub fn keys_that_decide_rows() -> impl Iterator<Item = &'static str> {
    JOB.iter().filter(|key| !matches!(key.rows, DecidesRows::Not(_))).map(|key| key.name)
}
