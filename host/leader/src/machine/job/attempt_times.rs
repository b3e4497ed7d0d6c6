//! How long attempts take, from which the state machine sees which one is slow.

use std::collections::VecDeque;
use std::time::Duration;

/// How long recent successful attempts took.
#[derive(Debug, Default)]
pub(super) struct AttemptTimes {
    recent: VecDeque<Duration>,
    /// How many attempts succeeded.
    pub(super) count: usize,
}

impl AttemptTimes {
    /// The most attempts that the median takes into account.
    const RECENT: usize = 1000;

    pub(super) fn add(&mut self, time: Duration) {
        if self.recent.len() == Self::RECENT {
            self.recent.pop_front();
        }
        self.recent.push_back(time);
        self.count += 1;
    }

    /// The median. `None` before the first attempt has succeeded.
    pub(super) fn median(&self) -> Option<Duration> {
        let mut times: Vec<Duration> = self.recent.iter().copied().collect();
        let middle = times.len() / 2;
        (!times.is_empty()).then(|| *times.select_nth_unstable(middle).1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_that_of_recent_attempts() {
        let mut times = AttemptTimes::default();
        assert_eq!(times.median(), None);
        for seconds in [9, 1, 5] {
            times.add(Duration::from_secs(seconds));
        }
        assert_eq!(times.median(), Some(Duration::from_secs(5)));
        for _ in 0..AttemptTimes::RECENT {
            times.add(Duration::from_secs(2));
        }
        assert_eq!((times.median(), times.count), (Some(Duration::from_secs(2)), 1003));
    }
}
