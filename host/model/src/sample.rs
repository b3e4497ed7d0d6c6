//! The share of a job's mini-batches that is run, for a first try (`sample`).

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// The share in percent, above 0 and up to 100.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Sample(f64);

impl Sample {
    /// All mini-batches.
    pub const ALL: Self = Self(100.0);

    /// Whether the mini-batch with this number, from 0, belongs to the sample. The answer is the same in each
    /// run, so that a job can be resumed. The first mini-batch always belongs to the sample, so that no
    /// sample is empty.
    pub fn has(self, index: u64) -> bool {
        index == 0 || self >= Self::ALL || random_share(index) * 100.0 < self.0
    }

    /// Whether the sample contains all mini-batches.
    pub fn is_all(self) -> bool {
        self >= Self::ALL
    }
}

/// A pseudo-random number from 0 to 1 for an index, by SplitMix64. It uses 53 bits, which fit into a float.
fn random_share(index: u64) -> f64 {
    let mut bits = index.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^= bits >> 31;
    crate::number::to_f64(bits >> 11) / crate::number::to_f64(1 << 53)
}

impl fmt::Display for Sample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Error: the text is not a share of mini-batches.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a number above 0 and up to 100, in percent")]
pub struct ParseSampleError(String);

impl FromStr for Sample {
    type Err = ParseSampleError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let number = text.trim();
        let number = number.strip_suffix('%').unwrap_or(number).trim_end();
        let percent =
            number.parse::<f64>().ok().filter(|percent| *percent > 0.0 && *percent <= 100.0);
        percent.map(Self).ok_or_else(|| ParseSampleError(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_is_about_as_large_as_it_says() {
        for (percent, range) in [("1", 900..1100), ("0.1", 60..140), ("50%", 49_500..50_500)] {
            let sample: Sample = percent.parse().unwrap();
            let count = (0..100_000).filter(|index| sample.has(*index)).count();
            assert!(range.contains(&count), "{percent}: {count}");
            // The sample is spread evenly over the input.
            let half = (0..50_000).filter(|index| sample.has(*index)).count();
            assert!(half * 5 > count * 2 && half * 5 < count * 3, "{percent}: {half} of {count}");
        }
        assert!((0..1000).all(|index| Sample::ALL.has(index)));
        let least: Sample = "0.000001".parse().unwrap();
        assert!(least.has(0));
    }

    #[test]
    fn invalid_samples_are_refused() {
        for text in ["", "x", "NaN", "0", "-1", "101", "%", "inf"] {
            assert!(text.parse::<Sample>().is_err(), "{text}");
        }
    }
}
