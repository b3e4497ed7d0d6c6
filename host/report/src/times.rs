//! Writes times fast. The files that have a line for each mini-batch need this, because each microsecond
//! counts there.

use crate::model::whole;
use jiff::Timestamp;
use std::fmt::Write;

/// Writes times. The writer keeps the text of the last second, because many lines share it.
#[derive(Debug)]
pub(super) struct TimeWriter {
    /// The character between date and time.
    separator: char,
    /// The second that `text` shows.
    last_second: i64,
    text: String,
}

impl TimeWriter {
    /// A writer of times such as `2026-11-21T10:00:00.500000Z`, with [`TimeWriter::micros`].
    pub(super) fn iso() -> Self {
        Self { separator: 'T', last_second: i64::MIN, text: String::new() }
    }

    /// A writer of times such as `2026-11-21 10:00:00,500`, with [`TimeWriter::millis`].
    pub(super) fn log() -> Self {
        Self { separator: ' ', ..Self::iso() }
    }

    /// Appends the time with microseconds.
    pub(super) fn micros(&mut self, line: &mut String, at: Timestamp) {
        let (text, nanos) = self.split_second(at);
        line.push_str(text);
        line.push('.');
        push_padded(line, u64::from(nanos / 1000), 6);
        line.push('Z');
    }

    /// Appends the time with milliseconds, after a comma.
    pub(super) fn millis(&mut self, line: &mut String, at: Timestamp) {
        let (text, nanos) = self.split_second(at);
        line.push_str(text);
        line.push(',');
        push_padded(line, u64::from(nanos / 1_000_000), 3);
    }

    /// The text of the time to the second, and the nanoseconds after it.
    fn split_second(&mut self, at: Timestamp) -> (&str, u32) {
        // Before 1970, the fraction is negative, too.
        let mut second = at.as_second();
        let mut nanos = at.subsec_nanosecond();
        if nanos < 0 {
            (second, nanos) = (second - 1, nanos + 1_000_000_000);
        }
        let nanos = nanos.unsigned_abs();
        if second != self.last_second {
            self.last_second = second;
            self.text.clear();
            let separator = self.separator;
            let format = format!("%Y-%m-%d{separator}%H:%M:%S");
            // The start of the second, also before 1970. Writing to a string cannot fail.
            let whole = Timestamp::from_second(second).unwrap_or(at);
            let _ = write!(self.text, "{}", whole.strftime(&format));
        }
        (&self.text, nanos)
    }
}

/// Appends seconds with microseconds. Negative values and NaN become zero.
pub(super) fn span_micros(line: &mut String, seconds: f64) {
    let micros = whole((seconds.max(0.0) * 1e6).round());
    number(line, micros / 1_000_000);
    line.push('.');
    push_padded(line, micros % 1_000_000, 6);
}

/// Appends seconds with milliseconds.
pub(super) fn span_millis(line: &mut String, seconds: f64) {
    let millis = whole((seconds.max(0.0) * 1e3).round());
    number(line, millis / 1000);
    line.push('.');
    push_padded(line, millis % 1000, 3);
}

pub(super) fn number(line: &mut String, number: u64) {
    line.push_str(itoa::Buffer::new().format(number));
}

/// Appends a number with leading zeros.
fn push_padded(line: &mut String, number: u64, width: usize) {
    let mut buffer = itoa::Buffer::new();
    let text = buffer.format(number);
    line.extend(std::iter::repeat_n('0', width.saturating_sub(text.len())));
    line.push_str(text);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_the_slow_formatter() {
        let mut iso = TimeWriter::iso();
        let mut log = TimeWriter::log();
        for text in [
            "2026-11-21T10:00:00Z",
            "2026-11-21T10:00:00.0456789Z",
            "2026-11-21T10:00:01.999999999Z",
            "1969-12-31T23:59:59.25Z",
        ] {
            let at: Timestamp = text.parse().unwrap();
            let mut a = String::new();
            let mut b = String::new();
            iso.micros(&mut a, at);
            log.millis(&mut b, at);
            assert_eq!(a[..19], b.replace(' ', "T")[..19]);
            assert_eq!(a[..23].replace('.', ","), b.replace(' ', "T"));
            let whole: Timestamp = a.parse().unwrap();
            assert_eq!(
                whole,
                at.round(
                    jiff::TimestampRound::new()
                        .smallest(jiff::Unit::Microsecond)
                        .mode(jiff::RoundMode::Floor)
                )
                .unwrap()
            );
        }
        let mut line = String::new();
        for seconds in [0.0, -1.0, f64::NAN, 0.25, 61.0000015] {
            span_micros(&mut line, seconds);
            line.push(' ');
            span_millis(&mut line, seconds);
            line.push(' ');
        }
        assert_eq!(
            line,
            "0.000000 0.000 0.000000 0.000 0.000000 0.000 0.250000 0.250 61.000002 61.000 "
        );
    }
}
