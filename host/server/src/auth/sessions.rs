//! The people who have signed in with a browser. Sessions are kept in memory: when the server starts again, people sign in
//! again.

use super::secret::{hash, random_text};
use crate::names::TokenId;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A session ends after so long, also if it is used.
const LONGEST: Duration = Duration::from_secs(12 * 3600);
/// A session ends after so long without a request.
const LONGEST_PAUSE: Duration = Duration::from_secs(2 * 3600);
/// The most sessions of one token. Beyond them, the one that was used least recently ends.
const MOST_OF_TOKEN: usize = 20;
/// The most sessions of all tokens.
const MOST: usize = 10_000;

/// The sessions, by the digests of their secrets.
#[derive(Debug, Default)]
pub(crate) struct Sessions(Mutex<HashMap<[u8; 32], Kept>>);

#[derive(Debug)]
struct Kept {
    session: Session,
    began: Instant,
    used: Instant,
}

impl Kept {
    fn counts_at(&self, now: Instant) -> bool {
        now.duration_since(self.began) < LONGEST && now.duration_since(self.used) < LONGEST_PAUSE
    }
}

/// A session.
#[derive(Clone, Debug)]
pub(crate) struct Session {
    /// The token with which its user signed in.
    pub(crate) token: TokenId,
    /// The text that each form of the session sends, and that no other site knows.
    pub(crate) form_secret: String,
}

impl Sessions {
    /// Begins a session. Returns its secret, for a cookie.
    pub(crate) fn begin(&self, token: TokenId, now: Instant) -> String {
        let secret = random_text();
        let session = Session { token, form_secret: random_text() };
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|_, kept| kept.counts_at(now));
        let of_token = all.values().filter(|kept| kept.session.token == session.token).count();
        if of_token >= MOST_OF_TOKEN {
            end_oldest(&mut all, |kept| kept.session.token == session.token);
        }
        if all.len() >= MOST {
            end_oldest(&mut all, |_| true);
        }
        all.insert(hash(&secret), Kept { session, began: now, used: now });
        secret
    }

    /// The session with this secret. `None` if there is none, or if it has ended.
    pub(crate) fn find(&self, secret: &str, now: Instant) -> Option<Session> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = all.get_mut(&hash(secret)).filter(|kept| kept.counts_at(now))?;
        kept.used = now;
        Some(kept.session.clone())
    }

    /// Ends a session.
    pub(crate) fn end(&self, secret: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&hash(secret));
    }
}

/// Ends the session that was used least recently, among those that match.
fn end_oldest(all: &mut HashMap<[u8; 32], Kept>, matches: impl Fn(&Kept) -> bool) {
    let matching = all.iter().filter(|(_, kept)| matches(kept));
    let oldest = matching.min_by_key(|(_, kept)| kept.used).map(|(hash, _)| *hash);
    if let Some(oldest) = oldest {
        all.remove(&oldest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_ends_after_a_pause_and_after_its_longest_time() {
        let sessions = Sessions::default();
        let start = Instant::now();
        let token = TokenId::new();
        let secret = sessions.begin(token.clone(), start);
        let at = |minutes: u64| start + Duration::from_secs(minutes * 60);
        let found = sessions.find(&secret, at(1)).unwrap();
        assert_eq!(found.token, token);
        assert_ne!(found.form_secret, secret);
        assert!(sessions.find(&format!("{secret} "), at(1)).is_none());
        // Each use lets it go on, but not for ever.
        for minutes in (100..720).step_by(100) {
            assert!(sessions.find(&secret, at(minutes)).is_some(), "{minutes}");
        }
        assert!(sessions.find(&secret, at(720)).is_none());
        let unused = sessions.begin(token.clone(), start);
        assert!(sessions.find(&unused, at(121)).is_none());
        let ended = sessions.begin(token, start);
        sessions.end(&ended);
        assert!(sessions.find(&ended, start).is_none());
    }

    #[test]
    fn a_token_has_a_bounded_number_of_sessions() {
        let sessions = Sessions::default();
        let start = Instant::now();
        let token = TokenId::new();
        let other = TokenId::new();
        let kept = sessions.begin(other, start);
        let at = |second: usize| start + Duration::from_secs(second as u64);
        let secrets: Vec<String> =
            (0..=MOST_OF_TOKEN).map(|nth| sessions.begin(token.clone(), at(nth))).collect();
        assert!(sessions.find(&secrets[0], at(30)).is_none());
        assert!(secrets[1..].iter().all(|secret| sessions.find(secret, at(30)).is_some()));
        assert!(sessions.find(&kept, at(30)).is_some());
    }
}
