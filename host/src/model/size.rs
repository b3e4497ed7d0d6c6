//! Sizes in bytes, as people write them.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// A number of bytes. Reads `1024`, `10KB`, `1mb`, `2 GB`: K, M and G are powers of 1024
/// (prs-semantics C7), case does not matter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ByteSize(pub u64);

/// The text was no size in bytes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no size: write bytes (1024) or a number with KB, MB or GB (10MB)")]
pub struct ParseByteSizeError(String);

impl FromStr for ByteSize {
    type Err = ParseByteSizeError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = || ParseByteSizeError(text.to_owned());
        let trimmed = text.trim();
        let digits = trimmed.bytes().take_while(u8::is_ascii_digit).count();
        let number: u64 = trimmed[..digits].parse().map_err(|_| error())?;
        let factor: u64 = match trimmed[digits..].trim_start().to_ascii_lowercase().as_str() {
            "" => 1,
            "kb" => 1 << 10,
            "mb" => 1 << 20,
            "gb" => 1 << 30,
            _ => return Err(error()),
        };
        number.checked_mul(factor).map(ByteSize).ok_or_else(error)
    }
}

impl ByteSize {
    /// As people read it: with one decimal where no unit divides it, as `1023.1 MB`.
    pub fn rounded(self) -> String {
        let units = [(30, "GB"), (20, "MB"), (10, "KB")];
        match units.into_iter().find(|(shift, _)| self.0 >= 1 << shift) {
            Some((shift, unit)) if !self.0.is_multiple_of(1 << shift) => {
                format!("{:.1} {unit}", self.0 as f64 / f64::from(1 << shift))
            }
            Some((shift, unit)) => format!("{} {unit}", self.0 >> shift),
            None => self.to_string(),
        }
    }
}

/// Prints the largest unit that divides the size: `1 GB`, `1536 KB`, `1000 bytes`.
impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [(30, "GB"), (20, "MB"), (10, "KB")];
        for (shift, unit) in units {
            if self.0 > 0 && self.0.is_multiple_of(1 << shift) {
                return write!(f, "{} {unit}", self.0 >> shift);
            }
        }
        write!(f, "{} bytes", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// C7.
    #[test]
    fn reads_and_prints_sizes() {
        for (text, bytes, printed) in [
            ("1024", 1024, "1 KB"),
            ("10kb", 10 << 10, "10 KB"),
            ("1 MB", 1 << 20, "1 MB"),
            ("2Gb", 2 << 30, "2 GB"),
            ("1000", 1000, "1000 bytes"),
            ("0", 0, "0 bytes"),
        ] {
            let size: ByteSize = text.parse().expect(text);
            assert_eq!(size.0, bytes, "{text}");
            assert_eq!(size.to_string(), printed);
        }
        let rounded = [999, 1 << 20, (1 << 20) + 1, 1_072_760_088].map(|n| ByteSize(n).rounded());
        assert_eq!(rounded, ["999 bytes", "1 MB", "1.0 MB", "1023.1 MB"]);
        for text in ["", "MB", "10kbmb", "-1", "1.5MB", "99999999999999GB", "10 T"] {
            assert!(text.parse::<ByteSize>().is_err(), "{text}");
        }
    }
}
