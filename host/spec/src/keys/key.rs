//! The description of one key of a job file.

use crate::model::{ByteSize, ColumnType, REGISTERED_NAME_EXPECTED};
use std::time::Duration;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Key {
    pub(crate) name: &'static str,
    pub(crate) kind: KeyKind,
    /// What is allowed, as a phrase after "expected".
    pub(crate) expected: &'static str,
    /// One or two sentences for the schema. Quoted text is in backquotes.
    pub(crate) description: &'static str,
    /// A value in YAML.
    pub(crate) example: &'static str,
    /// The default, in YAML: the value if a file does not have the key.
    pub(crate) default: Option<&'static str>,
    /// Texts for the docs, if they differ from the fields above.
    pub(crate) docs: Docs,
    pub(crate) prs: PrsNames,
    pub(crate) rows: DecidesRows,
    pub(crate) ceiling: KeyCeiling,
    /// For a limit: the file that enforces it, and a test that covers it.
    pub(crate) enforced: Option<(&'static str, &'static str)>,
}

/// Texts for the docs, in Markdown. `None` means that the text is derived from the key's other fields.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Docs {
    /// The allowed values.
    pub(crate) values: Option<&'static str>,
    /// What applies if a file does not have the key.
    pub(crate) unless_given: Option<&'static str>,
    /// The text that replaces `description`.
    pub(crate) meaning: Option<&'static str>,
}

/// ParallelRunStep's names for a setting: cells of the docs' table of names, for version 1 and version 2.
#[derive(Clone, Copy, Debug)]
pub(crate) enum PrsNames {
    /// ParallelRunStep does not have this setting.
    Unknown,
    /// ParallelRunStep has a key or a parameter for the setting.
    Key(&'static str, &'static str),
    /// Like `Key`, but ParallelRunStep also passes the setting to the entry script as an option (rule E11 in
    /// docs/parallel-run-step.md). A job must not have this option among its arguments (rule C24).
    Setting(&'static str, &'static str),
    /// An option of ParallelRunStep's driver (A1 to A9, C26). Sandmill reads the option from the
    /// arguments, and leaves it there.
    Option,
}

/// Whether a setting affects a job's rows. If so, a job is resumed, and an earlier result is reused, only if
/// the setting is unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DecidesRows {
    /// The setting affects rows.
    Decide,
    /// The setting affects rows. Earlier versions did not have the setting and behaved like its default, so
    /// their jobs can be resumed.
    DecideUnlessDefault,
    /// The setting does not affect rows, for the given reason.
    Not(&'static str),
}

/// Whether a limit on the work of a job affects rows (rule C25).
pub(crate) const LIMIT_ROWS: DecidesRows =
    DecidesRows::Not("work beyond a limit fails and gives no rows, so the limit may be raised");

/// The rule of the operator's policy for a setting.
#[derive(Clone, Copy, Debug)]
pub(crate) enum KeyCeiling {
    /// The policy has a key with the same name and the same description. Its value is the highest that a
    /// job may request.
    Same,
    /// Like `Same`, but the policy's key has its own expected value, example and description.
    Key(&'static str, &'static str, &'static str),
    /// The setting needs no ceiling, for the given reason.
    No(&'static str),
}

/// The kind of a key's value.
#[derive(Clone, Copy, Debug)]
pub(crate) enum KeyKind {
    /// Any text.
    Text,
    /// A name: 1-64 of `[a-z0-9_-]`, with a letter or digit first.
    Name,
    /// A model's name: 1-64 of `[A-Za-z0-9._-]`, with a letter or digit first.
    ModelName,
    /// A whole number.
    Integer { min: i64, max: i64 },
    /// Seconds, more than 0.
    Seconds { max: u32 },
    /// Seconds. 0 means never.
    Interval { max: u32 },
    /// A share in percent.
    Percent,
    /// Bytes.
    Size { min: u64, max: u64 },
    /// A number of files, a number of bytes, or a number of rows.
    BatchSize,
    /// One of these names, in upper or lower case.
    Choice(fn() -> Vec<&'static str>),
    /// `true` or `false`.
    Bool,
    /// A list of scalars, kept as written.
    Scalars,
    /// A list of scalars or a single scalar, kept as written.
    ScalarsOrOne,
    /// A list of texts.
    Texts,
    /// A map of scalars, kept as written.
    Variables,
    /// Names and types of columns, in file order.
    Columns,
    /// A map with these keys.
    Group(&'static [Key]),
    /// A map of names to paths or groups, or a list of groups that each have a name.
    Named(&'static [Key]),
}

impl KeyKind {
    /// Whether a value is within the bounds of its kind. A kind without bounds accepts every value.
    pub(crate) fn accepts(self, text: &str) -> bool {
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

/// Whether a text can be a folder's name on any machine: see [`NAME_EXPECTED`].
pub(crate) fn is_name(text: &str) -> bool {
    let is_alphanumeric = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    (1..=64).contains(&text.len())
        && text.bytes().all(|byte| is_alphanumeric(byte) || matches!(byte, b'-' | b'_'))
        && text.bytes().next().is_some_and(is_alphanumeric)
}

pub(crate) const NAME_EXPECTED: &str = "1 to 64 of a-z, 0-9, _ and -, starting with a letter or a \
                                        digit (e.g. nightly-digits)";

pub(crate) const MODEL_NAME_EXPECTED: &str = REGISTERED_NAME_EXPECTED;

pub(super) const BOOL_EXPECTED: &str = "true or false";

/// The longest time for one call, in seconds: three days.
pub(crate) const MAX_TIMEOUT: u32 = 259_200;
/// The longest `limits.job_time`, in seconds: a year.
pub(crate) const MAX_JOB_TIME: u32 = 31_536_000;
/// The largest value of a [`KeyKind::Interval`], in seconds.
pub(crate) const MAX_INTERVAL: u32 = i32::MAX as u32;
/// The maximum number of workers. It follows from the names of workers, which have three digits.
pub(super) const MAX_PROCESSES: i64 = 1000;

/// Names of column types, in the order of the docs.
pub(crate) fn column_types() -> Vec<&'static str> {
    ColumnType::ALL.map(ColumnType::name).to_vec()
}

/// Makes a key of a group, or of a file that is not a job file.
pub(super) const fn key(
    name: &'static str,
    kind: KeyKind,
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
        prs: PrsNames::Unknown,
        rows: DecidesRows::Not("the key of its group decides"),
        ceiling: KeyCeiling::No("the key of its group decides"),
        enforced: None,
    }
}

impl Key {
    /// Returns the key with this default.
    pub(super) const fn or(self, default: &'static str) -> Self {
        Self { default: Some(default), ..self }
    }

    /// Returns the key with this effect on rows and this ceiling.
    pub(super) const fn flagged(self, rows: DecidesRows, ceiling: KeyCeiling) -> Self {
        Self { rows, ceiling, ..self }
    }

    /// Returns the key with these texts for the docs. An empty text means that the text is derived.
    pub(super) const fn describe(
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

/// The maximum value of keys that count something. The tables in `sandmill-model` use this name, too.
pub(super) const COUNT: i64 = u32::MAX as i64;
