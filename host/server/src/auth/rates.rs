//! Limits how many requests each tenant makes: a tenant may make a few seconds' requests at once, and then as many in each
//! second as its rate.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The requests in a second if the tenant's quotas give no other number.
const DEFAULT_RATE: u32 = 200;
/// The seconds whose requests may come at once.
const BURST_SECONDS: u32 = 3;
/// Tokens that have made no request for longer are forgotten.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(60);
/// Beyond this number, idle tokens are forgotten.
const MOST_KNOWN: usize = 1000;

/// The requests that each token may still make.
#[derive(Debug, Default)]
pub(crate) struct Rates(Mutex<HashMap<String, Allowance>>);

#[derive(Clone, Copy, Debug)]
struct Allowance {
    /// The requests that may be made now, in millionths.
    left: u64,
    at: Instant,
}

const MILLION: u64 = 1_000_000;

impl Rates {
    /// Counts a request. An error is how long the token must wait.
    pub(crate) fn count(
        &self,
        token: &str,
        rate: Option<u32>,
        now: Instant,
    ) -> Result<(), Duration> {
        let rate = u64::from(rate.unwrap_or(DEFAULT_RATE).max(1));
        let most = rate * u64::from(BURST_SECONDS) * MILLION;
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MOST_KNOWN && !known.contains_key(token) {
            known.retain(|_, allowance| now.duration_since(allowance.at) < FORGOTTEN_AFTER);
        }
        let found =
            known.entry(token.to_owned()).or_insert_with(|| Allowance { left: most, at: now });
        let passed = u64::try_from(now.duration_since(found.at).as_micros()).unwrap_or(u64::MAX);
        found.left = found.left.saturating_add(passed.saturating_mul(rate)).min(most);
        found.at = now;
        if found.left < MILLION {
            return Err(Duration::from_micros((MILLION - found.left).div_ceil(rate)));
        }
        found.left -= MILLION;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_waits_after_a_burst_and_others_do_not() {
        let (rates, start) = (Rates::default(), Instant::now());
        for _ in 0..6 {
            rates.count("a", Some(2), start).unwrap();
        }
        assert_eq!(rates.count("a", Some(2), start), Err(Duration::from_millis(500)));
        rates.count("b", Some(2), start).unwrap();
        let later = start + Duration::from_millis(500);
        rates.count("a", Some(2), later).unwrap();
        assert!(rates.count("a", Some(2), later).is_err());
        // A long pause allows no more than a burst.
        let much_later = start + Duration::from_secs(1000);
        let allowed = (0..100).filter(|_| rates.count("a", Some(2), much_later).is_ok()).count();
        assert_eq!(allowed, 6);
    }
}
