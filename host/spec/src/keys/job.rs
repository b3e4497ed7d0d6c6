//! The keys at the top level of a job file and the keys below `limits`, from the tables of `sandmill-model`.

use super::groups::{INPUT, OUTPUT_FORMAT, PYTHON, SIDE_INPUT};
use super::key::{
    BOOL_EXPECTED, COUNT, DecidesRows, Docs, Key, KeyCeiling, KeyKind, LIMIT_ROWS, MAX_INTERVAL,
    MAX_JOB_TIME, MAX_PROCESSES, MAX_TIMEOUT, NAME_EXPECTED, PrsNames,
};
use super::models::{INFERENCE, MODEL};
use crate::model::{
    LoggingLevel, OnConflict, OsSandbox, OutputAction, OutputLayout, Profiler, job_keys, limit_keys,
};

const TIMEOUT_EXPECTED: &str = "seconds, more than 0 and at most 259200 (e.g. 600)";
const TIMEOUT_CEILING: &str = "a number of seconds above 0, up to 259200";

macro_rules! keys {
    (
        $(#[$of_job:meta])* job $Job:ident;
        $(#[$of_worker:meta])* worker $Worker:ident;
        given $Given:ident below $below:literal;
        $(
            $(job $job:ident: $job_type:ty =>)?
            $(worker $worker:ident: $worker_type:ty =>)?
            $(composed $composed:ident =>)?
            {
                kind: $kind:expr,
                $(values: $values:literal,)?
                $(default: $default:literal,)?
                $(unless_given: $unless_given:literal,)?
                expected: $expected:expr,
                example: $example:literal,
                description: $description:literal,
                $(docs: $docs:literal,)?
                $(prs: $prs:expr,)?
                rows: $rows:expr,
                ceiling: $(most $most:tt)? $(no $no:literal)?,
                $(enforced: $file:literal, by $test:literal,)?
            }
        )*
    ) => {
        &[$(Key {
            name: stringify!($($job)? $($worker)? $($composed)?),
            kind: $kind,
            expected: $expected,
            description: $description,
            example: $example,
            default: given(&[$($default)?]),
            docs: Docs {
                values: given(&[$($values)?]),
                unless_given: given(&[$($unless_given)?]),
                meaning: given(&[$($docs)?]),
            },
            prs: match given(&[$($prs)?]) {
                Some(prs) => prs,
                None => PrsNames::Unknown,
            },
            rows: $rows,
            ceiling: ceiling!($(most $most)? $(no $no)?),
            enforced: given(&[$(($file, $test))?]),
        }),*]
    };
}

macro_rules! ceiling {
    (most same) => {
        KeyCeiling::Same
    };
    (most { $expected:expr, $example:literal, $description:literal }) => {
        KeyCeiling::Key($expected, $example, $description)
    };
    (no $reason:literal) => {
        KeyCeiling::No($reason)
    };
}

/// Returns the value of an optional field in a row of the table.
const fn given<T: Copy>(field: &[T]) -> Option<T> {
    match field {
        [value] => Some(*value),
        _ => None,
    }
}

/// The keys at the top level, in the order of the docs.
pub(crate) const JOB: &[Key] = job_keys!(keys);

/// The keys below `limits`.
pub(crate) const LIMITS: &[Key] = limit_keys!(keys);
