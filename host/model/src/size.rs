//! Sizes in bytes or rows, as job files write them.

use crate::number::to_f64;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// A number of bytes. [`FromStr`] reads `1024`, `10KB`, `1mb`, `2 GB`, `16M`, `4 MiB`. K, M, G and T are
/// powers of 1024 (rule C7 in docs/parallel-run-step.md), and case is ignored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ByteSize(pub u64);

/// Error: the text is not a size in bytes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a size: write bytes (1024), or a number with a unit (10 MB); {UNITS}", UNITS = ByteSize::UNITS)]
pub struct ParseByteSizeError(String);

impl FromStr for ByteSize {
    type Err = ParseByteSizeError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = || ParseByteSizeError(text.to_owned());
        let trimmed = text.trim();
        let digits = trimmed.bytes().take_while(u8::is_ascii_digit).count();
        let number: u64 = trimmed[..digits].parse().map_err(|_| error())?;
        let factor: u64 = match trimmed[digits..].trim_start().to_ascii_lowercase().as_str() {
            "" | "b" | "byte" | "bytes" => 1,
            "k" | "kb" | "kib" => 1 << 10,
            "m" | "mb" | "mib" => 1 << 20,
            "g" | "gb" | "gib" => 1 << 30,
            "t" | "tb" | "tib" => 1 << 40,
            _ => return Err(error()),
        };
        number.checked_mul(factor).map(ByteSize).ok_or_else(error)
    }
}

impl ByteSize {
    /// The allowed units, for the end of an error message.
    pub const UNITS: &str = "units are KB, MB, GB and TB (powers of 1024), also written K or KiB";

    /// The size as text with one decimal, unless it is a whole number of the unit: `1023.1 MB`, `1 GB`.
    pub fn rounded(self) -> String {
        let units = [(30, "GB"), (20, "MB"), (10, "KB")];
        match units.into_iter().find(|(shift, _)| self.0 >= 1 << shift) {
            Some((shift, unit)) if !self.0.is_multiple_of(1 << shift) => {
                format!("{:.1} {unit}", to_f64(self.0) / f64::from(1 << shift))
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

/// How much of a table is one mini-batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SliceSize {
    /// About this many bytes of text, at least 1.
    Bytes(u64),
    /// Exactly this many rows, at least 1. The last mini-batch of a file may have fewer.
    Rows(u64),
}

impl SliceSize {
    /// Reads `10000 rows`, `1 row` or a [`ByteSize`]. `None` for any other text, and for zero.
    pub fn parse(text: &str) -> Option<Self> {
        let lower = text.trim().to_ascii_lowercase();
        let rows = lower.strip_suffix("rows").or_else(|| lower.strip_suffix("row"));
        let size = match rows {
            Some(number) => Self::Rows(unsigned_number(number.trim_end())?),
            None => Self::Bytes(lower.parse::<ByteSize>().ok()?.0),
        };
        (!matches!(size, Self::Bytes(0) | Self::Rows(0))).then_some(size)
    }
}

/// A number without a sign.
fn unsigned_number(text: &str) -> Option<u64> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

/// Prints what [`SliceSize::parse`] reads: `1 row`, `10000 rows`, or the size in bytes.
impl fmt::Display for SliceSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes(bytes) => ByteSize(*bytes).fmt(f),
            Self::Rows(1) => f.write_str("1 row"),
            Self::Rows(rows) => write!(f, "{rows} rows"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_and_prints_rows() {
        for (text, size, printed) in [
            ("10000 rows", SliceSize::Rows(10_000), "10000 rows"),
            (" 1Row ", SliceSize::Rows(1), "1 row"),
            ("1rows", SliceSize::Rows(1), "1 row"),
            ("1 MB", SliceSize::Bytes(1 << 20), "1 MB"),
            ("7", SliceSize::Bytes(7), "7 bytes"),
        ] {
            assert_eq!(SliceSize::parse(text), Some(size), "{text}");
            assert_eq!(size.to_string(), printed);
        }
        let wrong =
            ["0 rows", "rows", "-1 rows", "+1 rows", "1.5 rows", "1 k rows", "0", "1 rowss"];
        for text in wrong {
            assert_eq!(SliceSize::parse(text), None, "{text}");
        }
    }

    /// Rule C7.
    #[test]
    fn reads_and_prints_sizes() {
        for (text, bytes, printed) in [
            ("1024", 1024, "1 KB"),
            ("10kb", 10 << 10, "10 KB"),
            ("1 MB", 1 << 20, "1 MB"),
            ("2Gb", 2 << 30, "2 GB"),
            ("1000", 1000, "1000 bytes"),
            ("16M", 16 << 20, "16 MB"),
            ("4MiB", 4 << 20, "4 MB"),
            ("3 k", 3 << 10, "3 KB"),
            ("1gib", 1 << 30, "1 GB"),
            ("1 TB", 1 << 40, "1024 GB"),
            ("2t", 2 << 40, "2048 GB"),
            ("2 TiB", 2 << 40, "2048 GB"),
            ("7 bytes", 7, "7 bytes"),
            ("7B", 7, "7 bytes"),
            ("0", 0, "0 bytes"),
        ] {
            let size: ByteSize = text.parse().expect(text);
            assert_eq!(size.0, bytes, "{text}");
            assert_eq!(size.to_string(), printed);
        }
        let rounded = [999, 1 << 20, (1 << 20) + 1, 1_072_760_088].map(|n| ByteSize(n).rounded());
        assert_eq!(rounded, ["999 bytes", "1 MB", "1.0 MB", "1023.1 MB"]);
        for text in
            ["", "MB", "10kbmb", "-1", "1.5MB", "99999999999999GB", "10 P", "1 MBB", "20000000 TB"]
        {
            assert!(text.parse::<ByteSize>().is_err(), "{text}");
        }
    }
}
