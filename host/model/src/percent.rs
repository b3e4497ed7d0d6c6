//! The share of failed mini-batches that a job tolerates.

use crate::number::to_f64;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// The percentage of mini-batches that may fail, from 0 to 100 (rule C11 in docs/parallel-run-step.md).
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(transparent)]
pub struct AllowedPercent(f64);

impl AllowedPercent {
    /// Tolerates all failures.
    pub const ALL: Self = Self(100.0);

    /// Whether `failed` mini-batches out of `total` are too many.
    pub fn exceeded_by(self, failed: u64, total: u64) -> bool {
        // Compare the quotient with the limit. The limit times the total would be rounded twice, but the
        // quotient is rounded once, as the limit was when it was parsed. So if the share equals the limit
        // exactly, the two floats are equal.
        to_f64(failed) * 100.0 / to_f64(total) > self.0
    }
}

impl fmt::Display for AllowedPercent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Error: the text is not a percentage.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParsePercentError {
    /// The text is not a number.
    #[error("{0:?} is not a number: write a number from 0 to 100")]
    NoNumber(String),
    /// The number is outside of the range.
    #[error("{0} is outside 0 to 100")]
    OutOfRange(String),
}

impl FromStr for AllowedPercent {
    type Err = ParsePercentError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let trimmed = text.trim();
        match trimmed.parse::<f64>() {
            Ok(percent) if (0.0..=100.0).contains(&percent) => Ok(Self(percent)),
            Ok(percent) if !percent.is_nan() => {
                Err(ParsePercentError::OutOfRange(trimmed.to_owned()))
            }
            _ => Err(ParsePercentError::NoNumber(trimmed.to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_that_is_just_reached_is_tolerated() {
        // 0.57 times 10,000 is less than 5,700 in floats, and 0.07 times 10,000 is more than 700.
        for hundredths in 0..=10_000 {
            let share = format!("{}.{:02}", hundredths / 100, hundredths % 100);
            let share: AllowedPercent = share.parse().expect("a percentage");
            for times in [1, 3, 7, 1_000_003] {
                let reached = share.exceeded_by(hundredths * times, 10_000 * times);
                let passed = share.exceeded_by(hundredths * times + 1, 10_000 * times);
                assert!(!reached && passed, "{share} of {}", 10_000 * times);
            }
        }
    }

    #[test]
    fn reads_prints_and_decides() {
        for text in ["0", "12.5", "100"] {
            assert_eq!(text.parse::<AllowedPercent>().map(|p| p.to_string()), Ok(text.into()));
        }
        for text in ["", "x", "NaN", "5%"] {
            assert!(matches!(text.parse::<AllowedPercent>(), Err(ParsePercentError::NoNumber(_))));
        }
        for text in ["-1", "100.1", "inf"] {
            let error = text.parse::<AllowedPercent>();
            assert!(matches!(error, Err(ParsePercentError::OutOfRange(_))), "{text}");
        }
        let ten: AllowedPercent = "10".parse().expect("a percentage");
        assert!(!ten.exceeded_by(1, 10) && ten.exceeded_by(2, 10) && ten.exceeded_by(1, 0));
        assert!(!AllowedPercent::ALL.exceeded_by(7, 7));
    }
}
