//! Calendar months in UTC, from the time since 1970-01-01.

use serde::{Deserialize, Serialize};
use std::time::Duration;

const DAY: u64 = 24 * 60 * 60;

/// A calendar month, as the number of months since January of the year 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Month(u64);

impl Month {
    /// The month in which this time is.
    pub(crate) fn of(now: Duration) -> Self {
        // This is the algorithm `civil_from_days` of Howard Hinnant. Its years begin in March, and its eras have
        // 400 years.
        let days = now.as_secs() / DAY + 719_468;
        let era = days / 146_097;
        let day = days % 146_097;
        let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
        let day = day - (365 * year + year / 4 - year / 100);
        let march_month = (5 * day + 2) / 153;
        Self((era * 400 + year) * 12 + march_month + 2)
    }

    /// When the next month begins, as the time since 1970-01-01.
    pub(crate) fn end(self) -> Duration {
        let march_month = (self.0 + 1).saturating_sub(2);
        let year = march_month / 12;
        let month = march_month % 12;
        let era = year / 400;
        let year = year % 400;
        let day = (153 * month + 2) / 5 + year * 365 + year / 4 - year / 100;
        Duration::from_secs((era * 146_097 + day).saturating_sub(719_468) * DAY)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn months_follow_each_other_without_gaps() {
        let mut begin = Duration::ZERO;
        let mut lengths = Vec::new();
        for count in 0..12 * 500 {
            let month = Month::of(begin);
            assert_eq!(month.0, 1970 * 12 + count);
            assert_eq!(Month::of(month.end() - Duration::from_nanos(1)), month);
            lengths.push((month.end() - begin).as_secs() / DAY);
            begin = month.end();
        }
        assert_eq!(lengths[..12], [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]);
        assert_eq!(lengths[2 * 12 + 1], 29, "1972");
        assert_eq!(lengths[130 * 12 + 1], 28, "2100");
        assert_eq!(lengths[30 * 12 + 1], 29, "2000");
        // `date -u -d 2026-12-01 +%s`
        assert_eq!(Month::of(Duration::from_secs(1_795_966_028)).end().as_secs(), 1_796_083_200);
    }
}
