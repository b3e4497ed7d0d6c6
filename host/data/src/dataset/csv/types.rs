//! Column types: their types in Arrow, which texts they accept, and how these are parsed.

use super::numbers::float as any_float;
use crate::dataset::exact::keeps_digits;
use crate::model::{ColumnType, CsvFormat};
use arrow::array::timezone::Tz;
use arrow::array::types::{Date32Type, Int64Type, UInt64Type};
use arrow::compute::kernels::cast_utils::{Parser, string_to_datetime};
use arrow::datatypes::{DataType, TimeUnit};
use std::borrow::Cow;

/// The zone of timestamps. It is an offset, because arrow would need a database to look up a zone's name.
pub(super) const UTC: &str = "+00:00";

/// The Arrow type of a column of this kind.
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
    accepts(kind, false, text)
}

/// Like [`fits`], but a column whose kind was inferred is `exact`: it accepts a text only if the text loses
/// nothing when it becomes a value. The code `007`, for example, would lose its zeros as a number.
pub(super) fn accepts(kind: ColumnType, exact: bool, text: &str) -> bool {
    match kind {
        ColumnType::Boolean => boolean(text).is_some(),
        ColumnType::Int64 => integer(text, exact).is_some(),
        ColumnType::UInt64 => unsigned(text, exact).is_some(),
        ColumnType::Float64 => float(text, exact).is_some(),
        ColumnType::String | ColumnType::Json => true,
        ColumnType::Date => date(text, exact).is_some(),
        ColumnType::Timestamp => microseconds(text).is_some(),
    }
}

/// The text as a boolean.
pub(super) fn boolean(text: &str) -> Option<bool> {
    let is_true = text.eq_ignore_ascii_case("true");
    (is_true || text.eq_ignore_ascii_case("false")).then_some(is_true)
}

/// The text as a whole number. If `exact`, the number must [print](prints_back) as the same text.
pub(super) fn integer(text: &str, exact: bool) -> Option<i64> {
    let number = Int64Type::parse(text)?;
    (!exact || prints_back(text)).then_some(number)
}

/// The text as a whole number that is not negative. `exact` means the same as for [`integer`].
pub(super) fn unsigned(text: &str, exact: bool) -> Option<u64> {
    let number = UInt64Type::parse(text)?;
    (!exact || prints_back(text)).then_some(number)
}

/// Whether a whole number prints as its text: without a plus, without leading zeros, and not `-0`.
fn prints_back(text: &str) -> bool {
    let text = text.trim_ascii();
    let first = text.strip_prefix('-').unwrap_or(text).bytes().next();
    text.len() == 1 || !matches!(first, Some(b'0' | b'+'))
}

/// The text as a number. `None` if the number is too large. If `exact`, the text has no plus, no leading
/// zeros, and no digit that the float loses.
pub(super) fn float(text: &str, exact: bool) -> Option<f64> {
    let number = any_float(text)?;
    let has_digits = |text: &str| text.bytes().any(|byte| byte.is_ascii_digit());
    if number.is_infinite() && has_digits(text) {
        return None;
    }
    if !exact {
        return Some(number);
    }
    let text = text.trim_ascii();
    let unsigned = text.strip_prefix('-').unwrap_or(text).as_bytes();
    let is_same = match unsigned {
        [b'+', ..] => false,
        [b'0', second, ..] if second.is_ascii_digit() => false,
        whole if whole.iter().all(u8::is_ascii_digit) => holds_whole(text, number),
        _ if !number.is_finite() => true,
        _ => keeps_digits(&with_digits_at_point(text.strip_prefix('-').unwrap_or(text)), number),
    };
    is_same.then_some(number)
}

/// A number without a sign, in the form of JSON: with digits on both sides of its point, or without a point.
/// `.5`, `5.` and `5.e3` are not in that form.
fn with_digits_at_point(text: &str) -> Cow<'_, str> {
    let (mantissa, power) = text.split_at(text.find(['e', 'E']).unwrap_or(text.len()));
    match (mantissa.strip_prefix('.'), mantissa.strip_suffix('.')) {
        (Some(fraction), _) => Cow::Owned(format!("0.{fraction}{power}")),
        (None, Some(whole)) => Cow::Owned(format!("{whole}{power}")),
        (None, None) => Cow::Borrowed(text),
    }
}

/// Whether the float equals the whole number in the text.
#[expect(
    clippy::cast_possible_truncation,
    reason = "a float above all `i128` becomes `i128::MAX`, and the comparison excludes that"
)]
fn holds_whole(text: &str, number: f64) -> bool {
    text.parse::<i128>().is_ok_and(|whole| whole < i128::MAX && whole == number as i128)
}

/// Whether a column of floats keeps the whole number in the text.
pub(super) fn is_exact_float(text: &str) -> bool {
    float(text, true).is_some()
}

/// The text as a day since 1970. A time in the text must be midnight in UTC. If `exact`, the date is written
/// in full (`2026-01-05`), without a time.
pub(super) fn date(text: &str, exact: bool) -> Option<i32> {
    let text = text.trim_ascii();
    if exact && !(text.len() == 10 && starts_with_date(text.as_bytes())) {
        return None;
    }
    let is_moment = text.len() > 10 && !text.starts_with(['+', '-']);
    if is_moment && microseconds(text)? % (24 * 60 * 60 * 1_000_000) != 0 {
        return None;
    }
    Date32Type::parse(text)
}

/// The text as a point in time, in microseconds since 1970. Also `None` if the text is finer than a
/// microsecond, or if it is in a leap second: this count has no leap seconds.
pub(super) fn microseconds(text: &str) -> Option<i64> {
    let (micros, nanos) = moment(text)?;
    let fraction = text.split_once('.').map_or("", |(_, fraction)| fraction);
    let digits = fraction.bytes().take_while(u8::is_ascii_digit);
    let is_finer = digits.skip(6).any(|digit| digit != b'0');
    let is_leap = nanos >= 1_000_000_000;
    (!is_finer && !is_leap).then_some(micros)
}

/// Microseconds since 1970, and nanoseconds since the last whole second. In a leap second the nanoseconds are
/// at least 10^9.
fn moment(text: &str) -> Option<(i64, u32)> {
    let zone = UTC.parse::<Tz>().ok()?;
    let time = string_to_datetime(&zone, text).ok()?;
    Some((time.timestamp_micros(), time.timestamp_subsec_nanos()))
}

/// Why a column of this kind does not accept the text, for a message. `exact`: whether the kind was inferred.
pub(super) fn refusal(kind: ColumnType, exact: bool, text: &str) -> String {
    match kind {
        _ if exact && fits(kind, text) => {
            format!("would not stay unchanged as {kind}; set the column's type in schema")
        }
        ColumnType::Date if moment(text).is_some() => "is more precise than a date".to_owned(),
        ColumnType::Timestamp if moment(text).is_some() => {
            "is more precise than a timestamp, which counts microseconds".to_owned()
        }
        _ => format!("is not a valid {kind}"),
    }
}

/// The kind of column that a single text suggests. Dates and times must be written in full, and a number must
/// lose nothing in a column of numbers. Whole numbers with more than 64 bits are text, because they are
/// probably names rather than quantities.
pub(super) fn guess(text: &str) -> ColumnType {
    let unsigned = text.strip_prefix('-').unwrap_or(text);
    let is_whole = !unsigned.is_empty() && unsigned.bytes().all(|byte| byte.is_ascii_digit());
    let may_be_float = (!is_whole || text == "-0") && !may_be_code(text);
    let date_or_time = match text.as_bytes() {
        bytes if bytes.len() == 10 && starts_with_date(bytes) => Some(ColumnType::Date),
        bytes if bytes.len() > 10 && starts_with_date(bytes) => Some(ColumnType::Timestamp),
        _ => None,
    };
    [
        Some(ColumnType::Boolean),
        Some(ColumnType::Int64),
        may_be_float.then_some(ColumnType::Float64),
        date_or_time,
    ]
    .into_iter()
    .flatten()
    .find(|&kind| accepts(kind, true, text))
    .unwrap_or(ColumnType::String)
}

/// Whether the text is a number that may also be a code, such as `12E4`. In a column of other floats it
/// counts as a number.
pub(super) fn may_be_code(text: &str) -> bool {
    let count_digits = |bytes: &[u8]| bytes.iter().take_while(|byte| byte.is_ascii_digit()).count();
    // Stops at the first byte that is not a digit, to be fast for long texts.
    let (mantissa, rest) = text.as_bytes().split_at(count_digits(text.as_bytes()));
    match rest {
        [b'e' | b'E', exponent @ ..] => {
            !mantissa.is_empty() && !exponent.is_empty() && count_digits(exponent) == exponent.len()
        }
        _ => false,
    }
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

/// Whether the text starts with a date in full. Does not check the month and the day.
fn starts_with_date(bytes: &[u8]) -> bool {
    let pattern = b"dddd-dd-dd";
    bytes.len() >= pattern.len()
        && bytes.iter().zip(pattern).all(|(byte, expected)| match expected {
            b'd' => byte.is_ascii_digit(),
            _ => byte == expected,
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exact_float_keeps_the_last_digit_of_the_largest_whole_number() {
        // The float nearest to 2^127 - 1 is 2^127, which is beyond `i128`.
        assert_eq!(float("170141183460469231731687303715884105727", true), None);
        let smallest = "-170141183460469231731687303715884105728";
        assert_eq!(float(smallest, true), Some(-(2_f64.powi(127))));
    }

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
            ("2e-9", Float64),
            ("NaN", Float64),
            (".5", Float64),
            ("1.10", Float64),
            ("0.0", Float64),
            ("-0", Float64),
            ("1e400", String),
            ("1e-400", String),
            ("2e9", String),
            ("12E4", String),
            ("007", String),
            ("00", String),
            ("-01", String),
            ("+5", String),
            ("+1.5", String),
            ("007.5", String),
            ("1_000", String),
            ("0x10", String),
            ("2026-11-21", Date),
            ("2026-13-21", String),
            ("2026-11-21T10:00:00Z", Timestamp),
            ("2026-11-21 10:00:00.123456", Timestamp),
            ("2026-11-21T10:00:00+02:00", Timestamp),
            ("2026-11-21 later", String),
            ("2026-11-21T10:00:00.123456000", Timestamp),
            ("2026-11-21T10:00:00.123456789", String),
            ("2026-11-21T10:00:00.1234560000000001", String),
            ("2016-12-31T23:59:60Z", String),
            ("1500-01-02T03:04:05", Timestamp),
            ("10000-01-01", String),
            ("2026-1-5", String),
            ("20261121", Int64),
            ("abc", String),
            ("1,5", String),
            ("-", String),
        ] {
            assert_eq!(guess(text), kind, "{text}");
        }
    }

    #[test]
    fn columns_accept_only_texts_of_their_kind() {
        use ColumnType::{Date, Float64, Int64, Timestamp};
        for (kind, text, given, inferred) in [
            (Int64, "007", true, false),
            (Int64, "+7", true, false),
            (Int64, "-0", true, false),
            (Int64, " 7 ", true, true),
            (Int64, "0", true, true),
            (Int64, "9223372036854775808", false, false),
            (Float64, "007.5", true, false),
            (Float64, "0.5", true, true),
            (Float64, "-0", true, true),
            (Float64, "+.5", true, false),
            (Float64, "2e9", true, true),
            (Float64, "1e400", false, false),
            (Float64, "1e-400", true, false),
            (Float64, "0e-400", true, true),
            (Float64, "inf", true, true),
            (Float64, "9007199254740992", true, true),
            (Float64, "9007199254740993", true, false),
            (Float64, "-73.98215484619140625", true, true),
            (Float64, "0.1234567890123456789", true, false),
            (Float64, "-12345678901234567.89", true, false),
            (Float64, "9007199254740992.0", true, true),
            (Float64, "9007199254740993.0", true, false),
            (Float64, "9007199254740993.", true, false),
            (Float64, ".1234567890123456789", true, false),
            (Float64, "-.1234567890123456", true, true),
            (Float64, "5.", true, true),
            (Float64, "5.e3", true, true),
            (Float64, ".5E-3", true, true),
            (Float64, "5e-324", true, true),
            (Float64, "NaN", true, true),
            (Date, "2026-1-5", true, false),
            (Date, "20260105", true, false),
            (Date, "2026-01-05", true, true),
            (Date, "2026-01-05T00:00:00Z", true, false),
            (Date, "2026-01-05T10:00:00Z", false, false),
            (Date, "2026-01-05T00:00:00+02:00", false, false),
            (Date, "+10000-01-01", true, false),
            (Date, "10000-01-01", false, false),
            (Timestamp, "2026-01-05T10:00:00.123456789Z", false, false),
            (Timestamp, "2026-01-05", true, true),
        ] {
            let found = [false, true].map(|exact| accepts(kind, exact, text));
            assert_eq!(found, [given, inferred], "{kind} {text}");
        }
    }

    #[test]
    fn times_and_dates_are_parsed_exactly() {
        // The values are those of Python's datetime.datetime.
        assert_eq!(microseconds("1500-01-02T03:04:05"), Some(-14_831_672_155_000_000));
        assert_eq!(microseconds("9999-12-31T23:59:59.999999Z"), Some(253_402_300_799_999_999));
        assert_eq!(microseconds("2026-11-21T10:00:00+02:00"), Some(1_795_248_000_000_000));
        assert_eq!(date("1500-01-02", true), Some(-171_663));
        assert_eq!(date("+10000-01-01", false), Some(2_932_897));
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
