//! The public key of a signer of jobs.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// The text before the digits of a public key.
const PREFIX: &str = "sandmill-signer:";

/// The public key of a signer of jobs, for Ed25519. As text, it is `sandmill-signer:` and 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SignerKey(pub [u8; 32]);

impl SignerKey {
    /// The text before the digits of a private key.
    pub const PRIVATE_PREFIX: &str = "sandmill-signing-key:";
}

impl fmt::Display for SignerKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}{}", hex::encode(self.0))
    }
}

impl fmt::Debug for SignerKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Why a text is not the public key of a signer. The text is a clause without the key, which may be a private one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseSignerKeyError {
    /// It is a private key.
    #[error(
        "it is a private key, which must stay secret; `sandmill signer show FILE` prints the public key"
    )]
    Private,
    /// It is anything else.
    #[error(
        "a public key is sandmill-signer: and 64 hexadecimal digits, as `sandmill signer show FILE` prints it"
    )]
    Malformed,
}

impl FromStr for SignerKey {
    type Err = ParseSignerKeyError;

    fn from_str(text: &str) -> Result<Self, ParseSignerKeyError> {
        if text.starts_with(Self::PRIVATE_PREFIX) {
            return Err(ParseSignerKeyError::Private);
        }
        let digits = text.strip_prefix(PREFIX).ok_or(ParseSignerKeyError::Malformed)?;
        let mut key = [0; 32];
        hex::decode_to_slice(digits, &mut key).map_err(|_| ParseSignerKeyError::Malformed)?;
        Ok(Self(key))
    }
}

impl TryFrom<String> for SignerKey {
    type Error = ParseSignerKeyError;

    fn try_from(text: String) -> Result<Self, ParseSignerKeyError> {
        text.parse()
    }
}

impl From<SignerKey> for String {
    fn from(key: SignerKey) -> Self {
        key.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_public_key_is_read_back_from_its_text() {
        let key = SignerKey([0xa5; 32]);
        let text = key.to_string();
        assert_eq!(text, format!("sandmill-signer:{}", "a5".repeat(32)));
        assert_eq!(text.parse(), Ok(key));
        assert_eq!(serde_json::to_string(&key).unwrap(), format!("\"{text}\""));
    }

    #[test]
    fn other_texts_are_refused() {
        let digits = "a5".repeat(32);
        let private = format!("sandmill-signing-key:{digits}").parse::<SignerKey>();
        assert_eq!(private, Err(ParseSignerKeyError::Private));
        for text in ["", &digits, &format!("sandmill-signer:{digits}0"), "sandmill-signer:xy"] {
            assert_eq!(text.parse::<SignerKey>(), Err(ParseSignerKeyError::Malformed), "{text}");
        }
    }
}
