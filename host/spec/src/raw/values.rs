//! Values of settings.

use crate::keys;
use crate::model::ByteSize;
use std::time::Duration;

/// Reads a size of so many bytes or more.
pub(crate) fn at_least(least: u64) -> impl Fn(&keys::Key, &str) -> Option<ByteSize> {
    move |_, text| text.parse().ok().filter(|size: &ByteSize| size.0 >= least)
}

pub(super) fn name(_: &keys::Key, text: &str) -> Option<String> {
    is_name(text).then(|| text.to_owned())
}

/// Whether a text is fit for a folder's name on any machine: see [`keys::NAME_EXPECTED`].
pub(super) fn is_name(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    (1..=64).contains(&text.len())
        && text.bytes().all(|byte| plain(byte) || matches!(byte, b'-' | b'_'))
        && text.bytes().next().is_some_and(plain)
}

/// The digits alone, in lower case.
pub(crate) fn digest(_: &keys::Key, text: &str) -> Option<String> {
    let text = text.trim();
    let digits = text.strip_prefix("sha256:").unwrap_or(text);
    let fits = digits.len() == 64 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    fits.then(|| digits.to_ascii_lowercase())
}

pub(crate) fn seconds(_: &keys::Key, text: &str) -> Option<Duration> {
    let seconds: f64 = text.trim().parse().ok()?;
    if !(seconds > 0.0 && seconds <= f64::from(keys::MAX_TIMEOUT)) {
        return None;
    }
    Duration::try_from_secs_f64(seconds).ok().filter(|duration| !duration.is_zero())
}

/// None within for never.
pub(super) fn interval(_: &keys::Key, text: &str) -> Option<Option<Duration>> {
    let seconds: f64 = text.trim().parse().ok()?;
    if !(0.0..=f64::from(keys::MAX_INTERVAL)).contains(&seconds) {
        return None;
    }
    let duration = Duration::try_from_secs_f64(seconds).ok()?;
    Some((!duration.is_zero()).then_some(duration))
}

/// A character that can stand between fields.
pub(crate) fn delimiter(text: &str) -> Option<u8> {
    match text.as_bytes() {
        b"tab" | b"\\t" => Some(b'\t'),
        [byte] if byte.is_ascii() && !matches!(byte, b'"' | b'\r' | b'\n' | 0) => Some(*byte),
        _ => None,
    }
}

pub(crate) fn choice<T: Copy>(text: &str, choices: &[(&str, T)]) -> Option<T> {
    choices.iter().find(|(name, _)| name.eq_ignore_ascii_case(text.trim())).map(|(_, value)| *value)
}
