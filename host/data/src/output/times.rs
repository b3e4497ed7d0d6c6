//! Dates, times, durations and intervals as ISO 8601 text, for every value that their types can hold.

use arrow::array::{Array, AsArray};
use arrow::datatypes::{
    DataType, Date32Type, Date64Type, DurationMicrosecondType, DurationMillisecondType,
    DurationNanosecondType, DurationSecondType, IntervalDayTime, IntervalDayTimeType,
    IntervalMonthDayNano, IntervalMonthDayNanoType, IntervalUnit, IntervalYearMonthType,
    Time32MillisecondType, Time32SecondType, Time64MicrosecondType, Time64NanosecondType, TimeUnit,
    TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType,
    TimestampSecondType,
};
use arrow::error::ArrowError;

const DAY_SECONDS: i64 = 86_400;
pub(super) const DAY_MILLIS: i64 = DAY_SECONDS * 1000;
const NANOS_PER_SECOND: i64 = 1_000_000_000;

/// A column of dates, times, durations or intervals. In the variants with an `i64`, this number says how many
/// units of the values make a second.
pub(super) enum TimeColumn<'a> {
    /// Days.
    Date32(&'a [i32]),
    /// Milliseconds.
    Date64(&'a [i64]),
    Timestamp(&'a [i64], i64, TimeSuffix),
    Time32(&'a [i32], i64),
    Time64(&'a [i64], i64),
    Duration(&'a [i64], i64),
    Months(&'a [i32]),
    DaysAndMillis(&'a [IntervalDayTime]),
    MonthsDaysNanos(&'a [IntervalMonthDayNano]),
}

/// The suffix of a printed time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TimeSuffix {
    /// No suffix: the time has no zone.
    None,
    /// `Z`: the time is converted to UTC. Times in a zone with a name, such as `Europe/Berlin`, are printed
    /// this way, too.
    Utc,
    /// An offset such as `+01:00`, given in seconds to add to UTC.
    Offset(i64),
}

impl<'a> TimeColumn<'a> {
    /// Returns `None` if the column has another type. Fails if its time zone is invalid.
    pub(super) fn from_array(array: &'a dyn Array) -> Result<Option<Self>, ArrowError> {
        use TimeUnit::{Microsecond, Millisecond, Nanosecond, Second};
        let per_second = |unit: &TimeUnit| per_second(*unit);
        Ok(Some(match array.data_type() {
            DataType::Date32 => Self::Date32(array.as_primitive::<Date32Type>().values()),
            DataType::Date64 => Self::Date64(array.as_primitive::<Date64Type>().values()),
            DataType::Timestamp(unit, zone) => {
                let values = match unit {
                    Second => array.as_primitive::<TimestampSecondType>().values(),
                    Millisecond => array.as_primitive::<TimestampMillisecondType>().values(),
                    Microsecond => array.as_primitive::<TimestampMicrosecondType>().values(),
                    Nanosecond => array.as_primitive::<TimestampNanosecondType>().values(),
                };
                Self::Timestamp(values, per_second(unit), TimeSuffix::parse(zone.as_deref())?)
            }
            DataType::Time32(unit) => {
                let values = match unit {
                    Second => array.as_primitive::<Time32SecondType>().values(),
                    _ => array.as_primitive::<Time32MillisecondType>().values(),
                };
                Self::Time32(values, per_second(unit))
            }
            DataType::Time64(unit) => {
                let values = match unit {
                    Microsecond => array.as_primitive::<Time64MicrosecondType>().values(),
                    _ => array.as_primitive::<Time64NanosecondType>().values(),
                };
                Self::Time64(values, per_second(unit))
            }
            DataType::Duration(unit) => {
                let values = match unit {
                    Second => array.as_primitive::<DurationSecondType>().values(),
                    Millisecond => array.as_primitive::<DurationMillisecondType>().values(),
                    Microsecond => array.as_primitive::<DurationMicrosecondType>().values(),
                    Nanosecond => array.as_primitive::<DurationNanosecondType>().values(),
                };
                Self::Duration(values, per_second(unit))
            }
            DataType::Interval(IntervalUnit::YearMonth) => {
                Self::Months(array.as_primitive::<IntervalYearMonthType>().values())
            }
            DataType::Interval(IntervalUnit::DayTime) => {
                Self::DaysAndMillis(array.as_primitive::<IntervalDayTimeType>().values())
            }
            DataType::Interval(IntervalUnit::MonthDayNano) => {
                Self::MonthsDaysNanos(array.as_primitive::<IntervalMonthDayNanoType>().values())
            }
            _ => return Ok(None),
        }))
    }

    /// Appends a row's value. Fails for a time of day beyond 24 hours.
    pub(super) fn write(&self, row: usize, out: &mut Vec<u8>) -> Result<(), ArrowError> {
        match self {
            Self::Date32(days) => push_date(i64::from(days[row]), out),
            Self::Date64(millis) => {
                let day = millis[row].div_euclid(DAY_MILLIS);
                let rest = millis[row].rem_euclid(DAY_MILLIS);
                push_date(day, out);
                if rest > 0 {
                    out.push(b'T');
                    push_time_of_day(rest, 1000, out);
                }
            }
            Self::Timestamp(values, per_second, zone) => {
                push_timestamp(values[row], *per_second, *zone, out);
            }
            Self::Time32(values, per_second) => {
                return push_checked_time(i64::from(values[row]), *per_second, out);
            }
            Self::Time64(values, per_second) => {
                return push_checked_time(values[row], *per_second, out);
            }
            Self::Duration(values, per_second) => {
                let sign: &[u8] = if values[row] < 0 { b"-P" } else { b"P" };
                out.extend_from_slice(sign);
                let is_zero = !push_seconds(values[row].unsigned_abs(), *per_second, "", out);
                out.extend_from_slice(if is_zero { b"0D" } else { b"" });
            }
            Self::Months(months) => push_interval(months[row], 0, (0, 1), out),
            Self::DaysAndMillis(values) => {
                let IntervalDayTime { days, milliseconds } = values[row];
                push_interval(0, days, (i64::from(milliseconds), 1000), out);
            }
            Self::MonthsDaysNanos(values) => {
                let IntervalMonthDayNano { months, days, nanoseconds } = values[row];
                push_interval(months, days, (nanoseconds, NANOS_PER_SECOND), out);
            }
        }
        Ok(())
    }
}

impl TimeSuffix {
    fn parse(zone: Option<&str>) -> Result<Self, ArrowError> {
        let Some(zone) = zone.filter(|zone| !zone.is_empty()) else { return Ok(Self::None) };
        let Some(offset) = zone.strip_prefix(['+', '-']) else { return Ok(Self::Utc) };
        let (hours, minutes) = match offset.len() {
            2 => (Some(offset), "00"),
            4 => (offset.get(..2), offset.get(2..).unwrap_or_default()),
            5 => (
                offset.get(..2),
                offset.get(2..).and_then(|rest| rest.strip_prefix(':')).unwrap_or(""),
            ),
            _ => (None, ""),
        };
        let number = |text: &str, below: i64| {
            let is_plain = text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit());
            is_plain.then(|| text.parse::<i64>().ok()).flatten().filter(|number| *number < below)
        };
        let parsed = hours.and_then(|hours| number(hours, 24)).zip(number(minutes, 60));
        let Some((hours, minutes)) = parsed else {
            let text = format!("{zone:?} is not a time zone: write it as +01:00 or by its name");
            return Err(ArrowError::ParseError(text));
        };
        let seconds = hours * 3600 + minutes * 60;
        Ok(match (seconds, zone.starts_with('-')) {
            (0, _) => Self::Utc,
            (seconds, true) => Self::Offset(-seconds),
            (seconds, false) => Self::Offset(seconds),
        })
    }
}

/// How many of the unit make a second.
pub(super) fn per_second(unit: TimeUnit) -> i64 {
    match unit {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => 1000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => NANOS_PER_SECOND,
    }
}

fn push_timestamp(value: i64, per_second: i64, zone: TimeSuffix, out: &mut Vec<u8>) {
    let seconds = value.div_euclid(per_second);
    let fraction = value.rem_euclid(per_second);
    let offset = if let TimeSuffix::Offset(offset) = zone { offset } else { 0 };
    // Split off the days first: adding the offset to the last seconds of 64 bits would overflow.
    let second = seconds.rem_euclid(DAY_SECONDS) + offset;
    push_date(seconds.div_euclid(DAY_SECONDS) + second.div_euclid(DAY_SECONDS), out);
    out.push(b'T');
    push_time_of_day(second.rem_euclid(DAY_SECONDS) * per_second + fraction, per_second, out);
    match zone {
        TimeSuffix::None => {}
        TimeSuffix::Utc => out.push(b'Z'),
        TimeSuffix::Offset(offset) => {
            out.push(if offset < 0 { b'-' } else { b'+' });
            push_two_digits(offset.abs() / 3600, out);
            out.push(b':');
            push_two_digits(offset.abs() / 60 % 60, out);
        }
    }
}

/// Appends the date that is this number of days after 1970-01-01, in the proleptic Gregorian calendar.
fn push_date(days: i64, out: &mut Vec<u8>) {
    // The calculation up to the month uses years that begin in March, so that the leap day is the last day of
    // a year. An era has 400 years.
    const DAYS_OF_400_YEARS: i64 = 146_097;
    // From 0000-03-01 to 1970-01-01.
    const DAYS_BEFORE_1970: i64 = 719_468;
    let since_year_0 = days + DAYS_BEFORE_1970;
    let day_of_era = since_year_0.rem_euclid(DAYS_OF_400_YEARS);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year =
        since_year_0.div_euclid(DAYS_OF_400_YEARS) * 400 + year_of_era + i64::from(month <= 2);
    // A year outside of 0 to 9999 has a sign.
    if !(0..=9999).contains(&year) {
        out.push(if year < 0 { b'-' } else { b'+' });
    }
    match year.unsigned_abs() {
        year @ ..=9999 => push_digits::<4>(year, out),
        year => out.extend_from_slice(itoa::Buffer::new().format(year).as_bytes()),
    }
    out.push(b'-');
    push_two_digits(month, out);
    out.push(b'-');
    push_two_digits(day, out);
}

fn push_time_of_day(value: i64, per_second: i64, out: &mut Vec<u8>) {
    let second = value / per_second;
    push_two_digits(second / 3600, out);
    out.push(b':');
    push_two_digits(second / 60 % 60, out);
    out.push(b':');
    push_two_digits(second % 60, out);
    let nanos = value % per_second * (NANOS_PER_SECOND / per_second);
    // The fraction has three, six or nine digits.
    match nanos.unsigned_abs() {
        0 => {}
        nanos if nanos.is_multiple_of(1_000_000) => {
            out.push(b'.');
            push_digits::<3>(nanos / 1_000_000, out);
        }
        nanos if nanos.is_multiple_of(1000) => {
            out.push(b'.');
            push_digits::<6>(nanos / 1000, out);
        }
        nanos => {
            out.push(b'.');
            push_digits::<9>(nanos, out);
        }
    }
}

fn push_checked_time(value: i64, per_second: i64, out: &mut Vec<u8>) -> Result<(), ArrowError> {
    if !(0..DAY_SECONDS * per_second).contains(&value) {
        let unit = match per_second {
            1 => "s",
            1000 => "ms",
            1_000_000 => "µs",
            _ => "ns",
        };
        let text = format!("{value} {unit} is not a time of day");
        return Err(ArrowError::InvalidArgumentError(text));
    }
    push_time_of_day(value, per_second, out);
    Ok(())
}

/// Appends seconds as `T1.5S`, without trailing zeros. If `value` is zero, appends nothing and returns
/// `false`.
fn push_seconds(value: u64, per_second: i64, sign: &str, out: &mut Vec<u8>) -> bool {
    if value == 0 {
        return false;
    }
    let per_second = per_second.unsigned_abs();
    out.push(b'T');
    out.extend_from_slice(sign.as_bytes());
    out.extend_from_slice(itoa::Buffer::new().format(value / per_second).as_bytes());
    let nanos = value % per_second * (NANOS_PER_SECOND.unsigned_abs() / per_second);
    if nanos > 0 {
        out.push(b'.');
        push_digits::<9>(nanos, out);
        while out.last() == Some(&b'0') {
            out.pop();
        }
    }
    out.push(b'S');
    true
}

/// Appends an interval. Each part has its own sign. `seconds` is a pair: a number, and how many of the
/// number's units make a second.
fn push_interval(months: i32, days: i32, seconds: (i64, i64), out: &mut Vec<u8>) {
    out.push(b'P');
    let start = out.len();
    for (number, unit) in [(months, b'M'), (days, b'D')] {
        if number != 0 {
            out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
            out.push(unit);
        }
    }
    push_seconds(seconds.0.unsigned_abs(), seconds.1, if seconds.0 < 0 { "-" } else { "" }, out);
    if out.len() == start {
        out.extend_from_slice(b"0D");
    }
}

fn push_two_digits(number: i64, out: &mut Vec<u8>) {
    push_digits::<2>(number.unsigned_abs(), out);
}

/// Appends the last `N` digits of a number, with leading zeros.
fn push_digits<const N: usize>(number: u64, out: &mut Vec<u8>) {
    let mut text = [b'0'; N];
    let mut rest = number;
    for digit in text.iter_mut().rev() {
        *digit += (rest % 10) as u8;
        rest /= 10;
    }
    out.extend_from_slice(&text);
}

#[cfg(test)]
#[path = "times_tests.rs"]
mod tests;
