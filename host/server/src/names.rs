//! The names of tenants, the ids of jobs and tokens, and the times beside them.

use jiff::Timestamp;
use ring::rand::{SecureRandom, SystemRandom};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The characters of ids: without I, L, O and U, which people mistake for others (Crockford's base 32). They are in the
/// order of their values, so that texts of one length sort as their numbers.
const ID_ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
/// The characters of an id of a job: 48 bits of time and 72 random bits.
const JOB_ID_CHARS: usize = 24;
/// The characters of an id of a token: 60 random bits.
const TOKEN_ID_CHARS: usize = 12;
/// What the name of a tenant may be.
pub(crate) const TENANT_NAME_EXPECTED: &str =
    "1 to 64 of a-z, 0-9, _ and -, starting with a letter or a digit";

/// The name of a tenant, as in the key `tenant` of a job file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct TenantName(String);

/// A text that cannot be the name of a tenant.
#[derive(Debug, thiserror::Error)]
#[error("expected {TENANT_NAME_EXPECTED}")]
pub struct NotATenantName;

impl TryFrom<String> for TenantName {
    type Error = NotATenantName;

    fn try_from(text: String) -> Result<Self, NotATenantName> {
        let is_allowed = |byte: u8| {
            byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_' || byte == b'-'
        };
        let starts_well = !text.starts_with(['_', '-']);
        let is_name = (1..=64).contains(&text.len()) && text.bytes().all(is_allowed) && starts_well;
        is_name.then_some(Self(text)).ok_or(NotATenantName)
    }
}

impl From<TenantName> for String {
    fn from(name: TenantName) -> Self {
        name.0
    }
}

impl TenantName {
    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for TenantName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The id of a job: 24 characters. The ids of later jobs are greater, also if a restart of the server lies between them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct JobId(String);

impl JobId {
    /// The id of a job that is submitted now.
    pub(crate) fn new() -> Self {
        let millis = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        let millis = u64::try_from(millis.as_millis()).unwrap_or(u64::MAX);
        let mut bytes = [0; 15];
        let [time, random] = [0..6, 6..15];
        bytes[time].copy_from_slice(&millis.to_be_bytes()[2..]);
        fill_with_random(&mut bytes[random]);
        Self(id_text(&bytes, JOB_ID_CHARS))
    }

    /// The id.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A text that is not the id of a job.
#[derive(Debug, thiserror::Error)]
#[error("expected the id of a job: 24 of 0-9 and a-z")]
pub struct NotAJobId;

impl TryFrom<String> for JobId {
    type Error = NotAJobId;

    fn try_from(text: String) -> Result<Self, NotAJobId> {
        is_id(&text, JOB_ID_CHARS).then_some(Self(text)).ok_or(NotAJobId)
    }
}

impl From<JobId> for String {
    fn from(id: JobId) -> Self {
        id.0
    }
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The id of a token: 12 characters. It is not secret.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct TokenId(String);

impl TokenId {
    /// A new id.
    pub(crate) fn new() -> Self {
        let mut bytes = [0; 8];
        fill_with_random(&mut bytes);
        Self(id_text(&bytes, TOKEN_ID_CHARS))
    }

    /// The id.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A text that is not the id of a token.
#[derive(Debug, thiserror::Error)]
#[error("expected the id of a token: 12 of 0-9 and a-z")]
pub struct NotATokenId;

impl TryFrom<String> for TokenId {
    type Error = NotATokenId;

    fn try_from(text: String) -> Result<Self, NotATokenId> {
        is_id(&text, TOKEN_ID_CHARS).then_some(Self(text)).ok_or(NotATokenId)
    }
}

impl From<TokenId> for String {
    fn from(id: TokenId) -> Self {
        id.0
    }
}

impl fmt::Display for TokenId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn is_id(text: &str, chars: usize) -> bool {
    text.len() == chars && text.bytes().all(|byte| ID_ALPHABET.contains(&byte))
}

/// The first bits of these bytes, five for each character.
fn id_text(bytes: &[u8], chars: usize) -> String {
    let bit = |index: usize| bytes.get(index / 8).map_or(0, |byte| byte >> (7 - index % 8) & 1);
    let value = |nth: usize| (0..5).fold(0, |value, at| value << 1 | bit(nth * 5 + at));
    (0..chars).map(|nth| char::from(ID_ALPHABET[usize::from(value(nth))])).collect()
}

/// The time now, to the millisecond: as precise as the state keeps it, so that all answers say the same.
pub(crate) fn now() -> Timestamp {
    let now = Timestamp::now();
    Timestamp::from_millisecond(now.as_millisecond()).unwrap_or(now)
}

/// Fills the bytes with random ones for secrets.
///
/// # Panics
/// If the kernel gives no random bytes. Without them, no secret would be secret.
#[expect(clippy::expect_used, reason = "a server without random bytes must not go on")]
pub(crate) fn fill_with_random(bytes: &mut [u8]) {
    SystemRandom::new().fill(bytes).expect("the kernel gives random bytes");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_later_jobs_are_greater_and_differ() {
        let first = JobId::new();
        std::thread::sleep(Duration::from_millis(2));
        let mut later: Vec<JobId> = (0..100).map(|_| JobId::new()).collect();
        assert!(later.iter().all(|id| *id > first), "{first} {later:?}");
        later.sort();
        later.dedup();
        assert_eq!(later.len(), 100);
        assert!(JobId::try_from(first.to_string()).is_ok());
    }

    #[test]
    fn the_text_of_an_id_has_five_bits_for_each_character() {
        assert_eq!(id_text(&[0, 0, 0, 0, 0], 8), "00000000");
        assert_eq!(id_text(&[0xff; 5], 8), "zzzzzzzz");
        assert_eq!(id_text(&[0b0000_1000, 0b1000_0000], 3), "120");
    }

    #[test]
    fn other_texts_are_refused() {
        for text in ["", "0", "ILOU56789012345678901234", "../../../../etc/passwd.."] {
            assert!(JobId::try_from(text.to_owned()).is_err(), "{text}");
            assert!(TokenId::try_from(text.to_owned()).is_err(), "{text}");
        }
        for text in ["", "-a", "_a", "A", "a.b", "a/b", "..", "ä"] {
            assert!(TenantName::try_from(text.to_owned()).is_err(), "{text}");
        }
        assert!(TenantName::try_from("radiology-2".to_owned()).is_ok());
    }
}
