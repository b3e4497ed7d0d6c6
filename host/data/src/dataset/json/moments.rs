//! Parses the dates and times of JSON: texts, or whole numbers that count days or microseconds since 1970. A
//! value that cannot be kept exactly does not fit. Arrow's parsers would cut off digits finer than a
//! microsecond, and the time of a date.

use crate::dataset::exact::integer;
use arrow::array::timezone::Tz;
use arrow::compute::kernels::cast_utils::{Parser, string_to_datetime};
use arrow::datatypes::Date32Type;

/// How many fractional digits of a second are kept.
const FRACTION_DIGITS: usize = 6;
const MICROSECONDS_PER_DAY: i64 = 86_400_000_000;

/// The text as a number of days since 1970.
pub(super) fn parse_day_count(text: &str) -> Option<i32> {
    integer(text)?.try_into().ok()
}

/// The text as a date, in days since 1970. A time after the date must be midnight, and a zone must be UTC.
pub(super) fn parse_date(text: &str) -> Option<i32> {
    let text = text.trim();
    // Years of more than four digits have a sign.
    if text.len() <= "2026-11-22".len() || text.starts_with(['+', '-']) {
        return Date32Type::parse(text);
    }
    let moment = parse_timestamp(text)?;
    let time = text.get(11..)?;
    let says_midnight = time.starts_with("00:00:00") || time.starts_with("000000");
    (says_midnight && moment % MICROSECONDS_PER_DAY == 0)
        .then(|| (moment / MICROSECONDS_PER_DAY).try_into().ok())
        .flatten()
}

/// The text as a point in time, in microseconds since 1970. Without a zone it is in UTC. `None` if the text
/// is finer than a microsecond, or if its second is 60: this count has no leap seconds.
pub(super) fn parse_timestamp(text: &str) -> Option<i64> {
    let bytes = text.as_bytes();
    // Where the seconds are in `10:00:00.5` or in `100000`, after the date.
    let seconds = if bytes.get(13) == Some(&b':') { 17..19 } else { 15..17 };
    if bytes.get(seconds) == Some(b"60") {
        return None;
    }
    if let Some(places) = bytes.get(19..).and_then(|rest| rest.strip_prefix(b".")) {
        let mut finer =
            places.iter().take_while(|byte| byte.is_ascii_digit()).skip(FRACTION_DIGITS);
        if finer.any(|digit| *digit != b'0') {
            return None;
        }
    }
    let zone = "+00:00".parse::<Tz>().ok()?;
    string_to_datetime(&zone, text).ok().map(|time| time.timestamp_micros())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The days and microseconds that pyarrow and Python's datetime give.
    #[test]
    fn only_exact_times_are_parsed() {
        for (text, expected) in [
            ("1970-01-01T00:00:01Z", Some(1_000_000)),
            ("2026-11-22T10:00:00.123456+01:00", Some(1_795_338_000_123_456)),
            ("2026-11-22T10:00:00.123456000Z", Some(1_795_341_600_123_456)),
            ("2026-11-22T10:00:00.1234560000000Z", Some(1_795_341_600_123_456)),
            ("2026-11-22 10:00:00", Some(1_795_341_600_000_000)),
            ("2026-11-22", Some(1_795_305_600_000_000)),
            ("1500-01-01T00:00:00Z", Some(-14_831_769_600_000_000)),
            ("0001-01-01T00:00:00Z", Some(-62_135_596_800_000_000)),
            ("9999-12-31T23:59:59.999999Z", Some(253_402_300_799_999_999)),
            ("9999-12-31T23:59:59-05:00", Some(253_402_318_799_000_000)),
            ("10000-01-01T00:00:00Z", None),
            ("2026-11-22T10:00:00.1234567Z", None),
            ("2026-11-22T10:00:00.0000000000001Z", None),
            ("2016-12-31T23:59:60Z", None),
            ("2016-12-31 235960", None),
            ("2026-11-22T25:00:00Z", None),
            ("2026-02-30", None),
            ("now", None),
            ("", None),
        ] {
            assert_eq!(parse_timestamp(text), expected, "{text}");
        }
    }

    #[test]
    fn only_whole_days_are_parsed() {
        for (text, expected) in [
            ("2026-11-22", Some(20_779)),
            ("1500-01-01", Some(-171_664)),
            ("+10000-01-01", Some(2_932_897)),
            ("2026-11-22T00:00:00", Some(20_779)),
            ("2026-11-22T00:00:00.000Z", Some(20_779)),
            ("1969-12-31T00:00:00Z", Some(-1)),
            ("2026-11-22T00:00:00+00:00", Some(20_779)),
            ("2026-11-22T23:30:00-05:00", None),
            ("2026-11-22T00:00:00+05:00", None),
            ("2026-11-22T05:00:00+05:00", None),
            ("2026-11-22T10:00:00", None),
            ("10000-01-01", None),
            ("2026-02-30", None),
        ] {
            assert_eq!(parse_date(text), expected, "{text}");
        }
        assert_eq!(
            (parse_day_count("1e3"), parse_day_count("1.5"), parse_day_count("2147483648")),
            (Some(1000), None, None)
        );
    }
}
