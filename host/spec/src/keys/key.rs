//! What a key of a job file is.

use crate::model::{ByteSize, ColumnType, REGISTERED_NAME_EXPECTED};
use std::time::Duration;

/// A key of a job file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Key {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    /// What is allowed, for the end of a sentence that starts with "expected".
    pub(crate) expected: &'static str,
    /// One or two sentences for the schema. What is quoted stands in backquotes.
    pub(crate) description: &'static str,
    /// A value in YAML.
    pub(crate) example: &'static str,
    /// What holds where a file does not have the key, in YAML.
    pub(crate) default: Option<&'static str>,
    /// Words for the docs, where they differ from the fields above.
    pub(crate) docs: Docs,
    pub(crate) prs: Prs,
    pub(crate) rows: Rows,
    pub(crate) ceiling: Ceiling,
    /// Of a limit: the file that enforces it, and a test that holds it.
    pub(crate) enforced: Option<(&'static str, &'static str)>,
}

/// Words for the docs, in Markdown. `None` means that they follow from the key's other fields.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Docs {
    /// Which values there are.
    pub(crate) values: Option<&'static str>,
    /// What holds where a file does not have the key.
    pub(crate) unless_given: Option<&'static str>,
    /// The description.
    pub(crate) meaning: Option<&'static str>,
}

/// What ParallelRunStep calls a setting: cells of the docs' table of names, of version 1 and of version 2.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Prs {
    /// It does not have it.
    Unknown,
    /// A key or a parameter of its own.
    Key(&'static str, &'static str),
    /// The same, which it also passes to the entry script as an option (E11): among the arguments of a job it is
    /// refused (C24).
    Setting(&'static str, &'static str),
    /// An option of its driver (A1 to A9, C26), which is taken from among the arguments.
    Option,
}

/// Whether a setting decides what rows a job has: then the job is resumed, and an earlier result reused, only if the
/// setting is the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rows {
    /// It does.
    Decide,
    /// It does. Earlier versions did not have it, and did what its default does: their jobs can be resumed.
    DecideUnlessDefault,
    /// It does not, for this reason.
    Not(&'static str),
}

/// Of every limit (C25).
pub(crate) const LIMIT_ROWS: Rows =
    Rows::Not("what goes beyond a limit fails, and gives no rows; it may be raised");

/// What the operator's policy has for a setting.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Ceiling {
    /// The highest that a job may ask for: a key of the same name that is as this one.
    Same,
    /// The same, and what is expected of the key there, an example, and its description.
    Key(&'static str, &'static str, &'static str),
    /// It needs none, for this reason.
    No(&'static str),
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
    Size { min: u64, max: u64 },
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

impl Kind {
    /// Whether a value lies within the bounds of the kind. A kind without bounds takes every value.
    pub(crate) fn takes(self, text: &str) -> bool {
        let seconds = || text.trim().parse::<f64>().ok();
        match self {
            Self::Name => is_name(text),
            Self::Integer { min, max } => {
                text.trim().parse::<i64>().is_ok_and(|number| (min..=max).contains(&number))
            }
            Self::Size { min, max } => {
                text.parse::<ByteSize>().is_ok_and(|size| (min..=max).contains(&size.0))
            }
            Self::Seconds { max } => seconds().is_some_and(|seconds| {
                let time = Duration::try_from_secs_f64(seconds);
                seconds <= f64::from(max) && time.is_ok_and(|time| !time.is_zero())
            }),
            Self::Interval { max } => {
                seconds().is_some_and(|seconds| (0.0..=f64::from(max)).contains(&seconds))
            }
            _ => true,
        }
    }
}

/// Whether a text is fit for a folder's name on any machine: see [`NAME_EXPECTED`].
pub(crate) fn is_name(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    (1..=64).contains(&text.len())
        && text.bytes().all(|byte| plain(byte) || matches!(byte, b'-' | b'_'))
        && text.bytes().next().is_some_and(plain)
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

/// A key below a composed one, or of another file than a job's.
pub(super) const fn key(
    name: &'static str,
    kind: Kind,
    expected: &'static str,
    example: &'static str,
    description: &'static str,
) -> Key {
    Key {
        name,
        kind,
        expected,
        description,
        example,
        default: None,
        docs: Docs { values: None, unless_given: None, meaning: None },
        prs: Prs::Unknown,
        rows: Rows::Not("the key that it belongs to says it"),
        ceiling: Ceiling::No("the key that it belongs to says it"),
        enforced: None,
    }
}

impl Key {
    /// The same key, with this default.
    pub(super) const fn or(self, default: &'static str) -> Self {
        Self { default: Some(default), ..self }
    }

    /// The same key, with what it decides and what bounds it.
    pub(super) const fn flagged(self, rows: Rows, ceiling: Ceiling) -> Self {
        Self { rows, ceiling, ..self }
    }

    /// The same key, with these words for the docs; an empty text is none.
    pub(super) const fn told(
        self,
        values: &'static str,
        unless_given: &'static str,
        meaning: &'static str,
    ) -> Self {
        const fn some(text: &'static str) -> Option<&'static str> {
            if text.is_empty() { None } else { Some(text) }
        }
        let docs =
            Docs { values: some(values), unless_given: some(unless_given), meaning: some(meaning) };
        Self { docs, ..self }
    }
}

pub(super) const COUNT: i64 = u32::MAX as i64;
