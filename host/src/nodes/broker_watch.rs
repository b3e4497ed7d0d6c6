//! Notices when the broker is out of reach, and when it is back, so that people learn why nothing seems to happen.

use std::time::Duration;

/// A shorter interruption is not worth a word.
const SAY_AFTER: Duration = Duration::from_secs(5);

/// Follows whether the broker is reachable.
#[derive(Debug, Default)]
pub(super) struct BrokerWatch {
    /// Since when it is out of reach. `None` if it is reachable.
    since: Option<Duration>,
    was_said: bool,
}

impl BrokerWatch {
    /// What to say now, if anything. `now`: the time since any moment.
    pub(super) fn look(&mut self, is_connected: bool, now: Duration) -> Option<String> {
        if is_connected {
            let since = self.since.take()?;
            let gone = now.saturating_sub(since).as_secs();
            let was_said = std::mem::take(&mut self.was_said);
            return was_said.then(|| format!("the broker is reachable again, after {gone} s"));
        }
        let since = *self.since.get_or_insert(now);
        if self.was_said || now.saturating_sub(since) < SAY_AFTER {
            return None;
        }
        self.was_said = true;
        Some(
            "the broker is not reachable: what runs goes on, nothing new begins, and nothing is lost; all goes on when the \
             broker is back"
                .to_owned(),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_long_interruptions_are_reported_and_each_once() {
        let mut watch = BrokerWatch::default();
        let mut said = Vec::new();
        let gone = |second: u64| (10..13).contains(&second) || (20..40).contains(&second);
        for second in 0..60 {
            let word = watch.look(!gone(second), Duration::from_secs(second));
            said.extend(word.map(|word| (second, word)));
        }
        assert_eq!(said.len(), 2, "{said:?}");
        assert_eq!((said[0].0, said[1].0), (25, 40));
        assert_eq!(said[1].1, "the broker is reachable again, after 20 s");
    }
}
