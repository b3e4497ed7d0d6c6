//! Column types in Arrow's terms: what they become and which texts they accept, exactly as
//! arrow-csv does.

use crate::model::{ColumnType, CsvFormat};
use arrow::array::timezone::Tz;
use arrow::array::types::{Date32Type, Float64Type, Int64Type, UInt64Type};
use arrow::compute::kernels::cast_utils::{Parser, string_to_datetime};
use arrow::datatypes::{DataType, TimeUnit};

/// The zone of timestamps. As an offset, because arrow knows zones by name only with a database of
/// them.
pub(super) const UTC: &str = "+00:00";

/// What a column of this kind is in Arrow.
pub fn arrow_type(kind: ColumnType) -> DataType {
    match kind {
        ColumnType::Boolean => DataType::Boolean,
        ColumnType::Int64 => DataType::Int64,
        ColumnType::UInt64 => DataType::UInt64,
        ColumnType::Float64 => DataType::Float64,
        ColumnType::String | ColumnType::Json => DataType::Utf8,
        ColumnType::Date => DataType::Date32,
        ColumnType::Timestamp => DataType::Timestamp(TimeUnit::Microsecond, Some(UTC.into())),
    }
}

/// Whether the text means null.
pub(super) fn is_null(text: &str, format: &CsvFormat) -> bool {
    text.is_empty() || format.null_values.iter().any(|null| null == text)
}

/// Whether a column of this kind accepts the text.
pub fn fits(kind: ColumnType, text: &str) -> bool {
    match kind {
        ColumnType::Boolean => boolean(text).is_some(),
        ColumnType::Int64 => Int64Type::parse(text).is_some(),
        ColumnType::UInt64 => UInt64Type::parse(text).is_some(),
        ColumnType::Float64 => Float64Type::parse(text).is_some(),
        ColumnType::String | ColumnType::Json => true,
        ColumnType::Date => Date32Type::parse(text).is_some(),
        ColumnType::Timestamp => microseconds(text).is_some(),
    }
}

/// The text as a truth value.
pub(super) fn boolean(text: &str) -> Option<bool> {
    let is_true = text.eq_ignore_ascii_case("true");
    (is_true || text.eq_ignore_ascii_case("false")).then_some(is_true)
}

/// The text as a point in time, in microseconds since 1970.
pub(super) fn microseconds(text: &str) -> Option<i64> {
    let zone = UTC.parse::<Tz>().ok()?;
    string_to_datetime(&zone, text).ok().map(|time| time.timestamp_micros())
}

/// The kind of column that a single text suggests. Dates and times only where they are written out
/// in full; whole numbers too long for 64 bits are rather names than quantities, so text.
pub(super) fn guess(text: &str) -> ColumnType {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let all_digits = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let by_look = match text.as_bytes() {
        bytes if bytes.len() == 10 && starts_with_date(bytes) => Some(ColumnType::Date),
        bytes if bytes.len() > 10 && starts_with_date(bytes) => Some(ColumnType::Timestamp),
        _ => None,
    };
    [
        Some(ColumnType::Boolean),
        Some(ColumnType::Int64),
        (!all_digits).then_some(ColumnType::Float64),
        by_look,
    ]
    .into_iter()
    .flatten()
    .find(|&kind| fits(kind, text))
    .unwrap_or(ColumnType::String)
}

/// The kind of column that holds texts of both kinds.
pub(super) fn join(one: ColumnType, other: ColumnType) -> ColumnType {
    use ColumnType::{Date, Float64, Int64, String, Timestamp};
    match (one, other) {
        _ if one == other => one,
        (Int64, Float64) | (Float64, Int64) => Float64,
        (Date, Timestamp) | (Timestamp, Date) => Timestamp,
        _ => String,
    }
}

fn starts_with_date(bytes: &[u8]) -> bool {
    let form = b"dddd-dd-dd";
    bytes.len() >= form.len()
        && bytes.iter().zip(form).all(|(byte, form)| match form {
            b'd' => byte.is_ascii_digit(),
            _ => byte == form,
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_suggest_kinds() {
        use ColumnType::{Boolean, Date, Float64, Int64, String, Timestamp};
        for (text, kind) in [
            ("TRUE", Boolean),
            ("0", Int64),
            ("-12", Int64),
            ("9223372036854775807", Int64),
            ("9223372036854775808", String),
            ("1.5", Float64),
            ("-2e9", Float64),
            ("NaN", Float64),
            ("2026-11-21", Date),
            ("2026-13-21", String),
            ("2026-11-21T10:00:00Z", Timestamp),
            ("2026-11-21 10:00:00.123456", Timestamp),
            ("2026-11-21T10:00:00+02:00", Timestamp),
            ("2026-11-21 later", String),
            ("abc", String),
            ("1,5", String),
            ("-", String),
        ] {
            assert_eq!(guess(text), kind, "{text}");
        }
    }

    #[test]
    fn kinds_join() {
        use ColumnType::{Boolean, Date, Float64, Int64, String, Timestamp};
        assert_eq!(join(Int64, Float64), Float64);
        assert_eq!(join(Timestamp, Date), Timestamp);
        assert_eq!(join(Boolean, Int64), String);
        assert_eq!(join(Date, Date), Date);
    }
}
