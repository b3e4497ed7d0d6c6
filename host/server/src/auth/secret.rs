//! The texts of tokens: `sm_`, the id, `_`, and 256 random bits. The prefix lets scanners find tokens that were published
//! by mistake.

use crate::names::{TokenId, fill_with_random};
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

const PREFIX: &str = "sm_";

/// A new token. Its text is shown once, and kept nowhere.
pub(crate) struct NewSecret {
    pub(crate) id: TokenId,
    pub(crate) text: String,
    pub(crate) hash: [u8; 32],
}

/// A text with 256 random bits.
pub(crate) fn random_text() -> String {
    let mut secret = [0; 32];
    fill_with_random(&mut secret);
    BASE64_URL_SAFE_NO_PAD.encode(secret)
}

/// Whether two secret texts are the same. Takes the same time for all texts.
pub(crate) fn same(one: &str, other: &str) -> bool {
    hash(one).ct_eq(&hash(other)).into()
}

/// Makes a token.
pub(crate) fn new_secret() -> NewSecret {
    let id = TokenId::new();
    let text = format!("{PREFIX}{id}_{}", random_text());
    let hash = hash(&text);
    NewSecret { id, text, hash }
}

/// The SHA-256 of a secret text. The text has 256 random bits, so a slow hash would protect nothing.
pub(super) fn hash(text: &str) -> [u8; 32] {
    Sha256::digest(text.as_bytes()).into()
}

/// The id in the text of a token. `None` if the text is not that of a token.
pub(crate) fn id_in(text: &str) -> Option<TokenId> {
    let (id, _) = text.strip_prefix(PREFIX)?.split_once('_')?;
    TokenId::try_from(id.to_owned()).ok()
}

/// Whether a token with this hash has this text. Takes the same time for all texts of one length.
pub(crate) fn matches(text: &str, expected: &[u8; 32]) -> bool {
    hash(text).ct_eq(expected).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_whole_text_matches() {
        let made = new_secret();
        assert_eq!(id_in(&made.text), Some(made.id));
        assert!(matches(&made.text, &made.hash));
        assert!(!matches(&made.text[..made.text.len() - 1], &made.hash));
        assert!(!matches(&format!("{} ", made.text), &made.hash));
        assert_ne!(new_secret().text, made.text);
        for text in ["", "sm_", "sm_abc_def", "Bearer sm_000000000000_x"] {
            assert_eq!(id_in(text), None, "{text}");
        }
    }
}
