//! The values of some settings: thresholds, output action, logging level, profiler.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Error: the text is not a value of the setting. The message lists the values.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{found:?} is not one of the allowed values: write {allowed}")]
pub struct ParsePolicyError {
    found: String,
    allowed: &'static str,
}

impl ParsePolicyError {
    fn new(found: &str, allowed: &'static str) -> Self {
        Self { found: found.to_owned(), allowed }
    }
}

/// How many failed items a job tolerates (rule C9 in docs/parallel-run-step.md).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ErrorThreshold {
    /// `-1`: any number.
    Ignore,
    /// The job fails as soon as more items than this have failed.
    AtMost(u64),
}

impl ErrorThreshold {
    /// Whether this number of failed items ends the job.
    pub fn exceeded_by(self, failed: u64) -> bool {
        match self {
            Self::Ignore => false,
            Self::AtMost(limit) => failed > limit,
        }
    }
}

impl fmt::Display for ErrorThreshold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ignore => f.write_str("-1"),
            Self::AtMost(limit) => limit.fmt(f),
        }
    }
}

/// Reads `-1` or a number from 0 up.
impl FromStr for ErrorThreshold {
    type Err = ParsePolicyError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.trim() {
            "-1" => Ok(Self::Ignore),
            number => number
                .parse()
                .map(Self::AtMost)
                .map_err(|_| ParsePolicyError::new(text, "a whole number from 0 up, or -1")),
        }
    }
}

/// What is done with the rows that `run` returns (rule C13 in docs/parallel-run-step.md).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutputAction {
    /// All rows go to one file.
    AppendRow,
    /// Rows are counted and dropped. The entry script writes its results to files.
    SummaryOnly,
}

impl OutputAction {
    /// All values, in the order of the docs.
    pub const ALL: [Self; 2] = [Self::AppendRow, Self::SummaryOnly];

    /// The name in a job file.
    pub fn name(self) -> &'static str {
        match self {
            Self::AppendRow => "append_row",
            Self::SummaryOnly => "summary_only",
        }
    }
}

impl fmt::Display for OutputAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Reads the name in any case.
impl FromStr for OutputAction {
    type Err = ParsePolicyError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|action| action.name().eq_ignore_ascii_case(text.trim()))
            .ok_or_else(|| ParsePolicyError::new(text, "append_row or summary_only"))
    }
}

/// The least important level that is still logged. Ordered from quiet to verbose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum LoggingLevel {
    /// Errors and warnings.
    Warning,
    /// Also informational messages. The default.
    Info,
    /// Everything.
    Debug,
}

impl LoggingLevel {
    /// All levels, from quiet to verbose.
    pub const ALL: [Self; 3] = [Self::Warning, Self::Info, Self::Debug];

    /// The name in a job file.
    pub fn name(self) -> &'static str {
        match self {
            Self::Warning => "WARNING",
            Self::Info => "INFO",
            Self::Debug => "DEBUG",
        }
    }
}

impl fmt::Display for LoggingLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Reads the name in any case.
impl FromStr for LoggingLevel {
    type Err = ParsePolicyError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|level| level.name().eq_ignore_ascii_case(text.trim()))
            .ok_or_else(|| ParsePolicyError::new(text, "WARNING, INFO or DEBUG"))
    }
}

/// The values of `profiling_module`. `CProfile` and `Profile` are Azure's words: for a Python script they
/// mean a profiler of Python. For other scripts, all three mean Sandmill's own profiler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Profiler {
    /// Python's `cProfile`.
    CProfile,
    /// Python's `profile`.
    Profile,
    /// A profile of the guest, by Sandmill.
    Guest,
}

impl Profiler {
    /// All values, in the order of the docs.
    pub const ALL: [Self; 3] = [Self::CProfile, Self::Profile, Self::Guest];

    /// The name in a job file.
    pub fn name(self) -> &'static str {
        match self {
            Self::CProfile => "cProfile",
            Self::Profile => "profile",
            Self::Guest => "guest",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thresholds_read_print_and_decide() {
        for (text, expected) in [
            ("-1", ErrorThreshold::Ignore),
            ("0", ErrorThreshold::AtMost(0)),
            (" 17 ", ErrorThreshold::AtMost(17)),
        ] {
            let threshold: ErrorThreshold = text.parse().expect(text);
            assert_eq!(threshold, expected);
            assert_eq!(threshold.to_string(), text.trim());
        }
        for text in ["", "-2", "1.5", "all", "5%"] {
            assert!(text.parse::<ErrorThreshold>().is_err(), "{text}");
        }
        assert!(!ErrorThreshold::Ignore.exceeded_by(u64::MAX));
        assert!(!ErrorThreshold::AtMost(2).exceeded_by(2));
        assert!(ErrorThreshold::AtMost(2).exceeded_by(3));
    }

    #[test]
    fn names_read_in_any_case_and_print_as_written() {
        for action in OutputAction::ALL {
            assert_eq!(action.to_string().to_uppercase().parse(), Ok(action));
        }
        for level in LoggingLevel::ALL {
            assert_eq!(level.to_string().to_lowercase().parse(), Ok(level));
        }
        insta::assert_snapshot!(
            "append".parse::<OutputAction>().expect_err("unknown"),
            @r#""append" is not one of the allowed values: write append_row or summary_only"#
        );
        insta::assert_snapshot!(
            "loud".parse::<LoggingLevel>().expect_err("unknown"),
            @r#""loud" is not one of the allowed values: write WARNING, INFO or DEBUG"#
        );
    }

    #[test]
    fn quiet_levels_come_first() {
        assert!(LoggingLevel::Warning < LoggingLevel::Info);
        assert!(LoggingLevel::Info < LoggingLevel::Debug);
    }
}
