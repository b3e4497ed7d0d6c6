//! The entry scripts that tenants have uploaded.

use crate::names::TenantName;
use jiff::Timestamp;
use sandmill_model::hex;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The SHA-256 of an entry script's bytes, as 64 hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct ScriptDigest(String);

/// A text that is not a digest.
#[derive(Debug, thiserror::Error)]
#[error("expected the SHA-256 of the entry script: 64 of 0-9 and a-f")]
pub(crate) struct NotADigest;

impl TryFrom<String> for ScriptDigest {
    type Error = NotADigest;

    fn try_from(text: String) -> Result<Self, NotADigest> {
        let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        let is_digest = text.len() == 64 && text.bytes().all(is_digit);
        is_digest.then_some(Self(text)).ok_or(NotADigest)
    }
}

impl From<ScriptDigest> for String {
    fn from(digest: ScriptDigest) -> Self {
        digest.0
    }
}

impl ScriptDigest {
    /// The digest with these bytes.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Self {
        Self(hex(bytes))
    }

    /// The digits.
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ScriptDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// An entry script that a tenant has uploaded: a component, a core module, or a script in Python or JavaScript.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ScriptRecord {
    /// The tenant to which it belongs.
    pub(crate) tenant: TenantName,
    /// The digest of its bytes.
    pub(crate) digest: ScriptDigest,
    /// The name of its file, such as `score.py`. The ending decides how the file is run.
    pub(crate) name: String,
    /// Its length in bytes.
    pub(crate) bytes: u64,
    /// When it was uploaded first.
    pub(crate) uploaded: Timestamp,
}
