//! Reads values of settings.

use crate::keys;
use crate::model::CsvFormat;

/// Reads a digest. Returns only the digits, in lower case.
pub(crate) fn digest(_: &keys::Key, text: &str) -> Option<String> {
    let text = text.trim();
    let digits = text.strip_prefix("sha256:").unwrap_or(text);
    let is_valid = digits.len() == 64 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_valid.then(|| digits.to_ascii_lowercase())
}

/// Reads a character that can separate fields.
pub(crate) fn delimiter(text: &str) -> Option<u8> {
    match text.as_bytes() {
        b"tab" | b"\\t" => Some(b'\t'),
        [byte] if byte.is_ascii() && !matches!(byte, b'"' | b'\r' | b'\n' | 0) => Some(*byte),
        _ => None,
    }
}

/// Reads a character that can quote fields, escape another character, or begin a comment.
pub(crate) fn mark(text: &str) -> Option<u8> {
    match text.as_bytes() {
        [byte] if CsvFormat::can_mark(*byte) => Some(*byte),
        _ => None,
    }
}

/// Like [`mark`], or `none`.
pub(crate) fn mark_or_none(text: &str) -> Option<Option<u8>> {
    if text.trim().eq_ignore_ascii_case("none") { Some(None) } else { mark(text).map(Some) }
}

/// Finds the value of the choice with this name, in upper or lower case.
pub(crate) fn choice<T: Copy>(text: &str, choices: &[(&str, T)]) -> Option<T> {
    choices.iter().find(|(name, _)| name.eq_ignore_ascii_case(text.trim())).map(|(_, value)| *value)
}
