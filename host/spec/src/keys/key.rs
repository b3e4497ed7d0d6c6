//! What a key of a job file is.

use crate::model::{ColumnType, REGISTERED_NAME_EXPECTED};

/// A key of a job file.
#[derive(Debug)]
pub(crate) struct Key {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    /// What is allowed, for the end of a sentence that starts with "expected".
    pub(crate) expected: &'static str,
    /// One or two sentences for the schema.
    pub(crate) description: &'static str,
    /// A value in YAML.
    pub(crate) example: &'static str,
}

/// What a key's value is made of.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    /// Any text.
    Text,
    /// A name: 1-64 of `[a-z0-9_-]`, with or without a free first character.
    Name,
    /// A model's name: 1-64 of `[A-Za-z0-9._-]`, with a letter or digit first.
    ModelName,
    /// A whole number.
    Integer { min: i64, max: i64 },
    /// Seconds, more than 0.
    Seconds { max: u32 },
    /// Seconds, 0 for never.
    Interval { max: u32 },
    /// A share in percent.
    Percent,
    /// Bytes.
    Size,
    /// A number of files, bytes, or a number of rows.
    BatchSize,
    /// One of these, in any case.
    Choice(fn() -> Vec<&'static str>),
    /// `true` or `false`.
    Bool,
    /// A list of scalars, kept as written.
    Scalars,
    /// The same, or one in the place of a list.
    ScalarsOrOne,
    /// A list of texts.
    Texts,
    /// A map of scalars, kept as written.
    Variables,
    /// Names and types of columns, in order.
    Columns,
    /// A map with keys of its own.
    Group(&'static [Key]),
    /// A map of names to paths or groups, or a list of groups that have a name.
    Named(&'static [Key]),
}

pub(crate) const NAME_EXPECTED: &str = "1 to 64 of a-z, 0-9, _ and -, starting with a letter or a \
                                        digit (e.g. nightly-digits)";

pub(crate) const MODEL_NAME_EXPECTED: &str = REGISTERED_NAME_EXPECTED;

pub(super) const BOOL_EXPECTED: &str = "true or false";

/// The longest that one call may take, in seconds: three days.
pub(crate) const MAX_TIMEOUT: u32 = 259_200;
/// A year, in seconds: the longest `limits.job_time`.
pub(crate) const MAX_JOB_TIME: u32 = 31_536_000;
/// The largest number of seconds of an [`Kind::Interval`].
pub(crate) const MAX_INTERVAL: u32 = i32::MAX as u32;
/// More workers than this have no names.
pub(super) const MAX_PROCESSES: i64 = 1000;

/// Names of column types, in the order of the docs.
pub(crate) fn column_types() -> Vec<&'static str> {
    ColumnType::ALL.map(ColumnType::name).to_vec()
}

pub(super) const fn key(
    name: &'static str,
    kind: Kind,
    expected: &'static str,
    example: &'static str,
    description: &'static str,
) -> Key {
    Key { name, kind, expected, description, example }
}

pub(super) const COUNT: i64 = u32::MAX as i64;
