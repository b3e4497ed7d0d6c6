//! Texts on pages. Characters that are invisible, or that change the order of a text, are shown by their numbers.

use jiff::{SignedDuration, Timestamp};
use maud::{Markup, html};
use sandmill_model::{on_one_line, printable};

/// The longest name on a page, in characters.
const MOST_NAME: usize = 300;
/// The longest message on a page, in characters.
const MOST_MESSAGE: usize = 4000;

/// A name that a stranger has chosen, on one line.
pub(super) fn name(text: &str) -> String {
    shortened(&on_one_line(text), MOST_NAME)
}

/// A message that a stranger has written. It may have several lines.
pub(super) fn message(text: &str) -> String {
    shortened(&printable(text), MOST_MESSAGE)
}

/// The beginning of a text.
pub(super) fn shortened(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}

/// A time, in UTC.
pub(super) fn time(at: Timestamp) -> Markup {
    let exact = at.to_string();
    let shown: String = exact.replace('T', " ").chars().take(19).collect();
    html! { time datetime=(exact) { (shown) " UTC" } }
}

/// A time that may be missing.
pub(super) fn time_or(at: Option<Timestamp>, missing: &str) -> Markup {
    match at {
        Some(at) => time(at),
        None => html! { (missing) },
    }
}

/// How long ago this was, as in `3 s ago`.
pub(super) fn age(at: Timestamp, now: Timestamp) -> String {
    let passed = now.duration_since(at).max(SignedDuration::ZERO);
    format!("{} ago", seconds(passed.as_secs_f64()))
}

/// A time with its age.
pub(super) fn aged(at: Timestamp, now: Timestamp) -> Markup {
    html! { span.aged title=(at.to_string()) { (age(at, now)) } }
}

/// Seconds, as in `1.5 s` or `2 h 5 min`.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the number is not negative, and people need no more"
)]
pub(super) fn seconds(number: f64) -> String {
    let whole = number.max(0.0).round() as u64;
    match whole {
        _ if number < 1.0 => format!("{:.3} s", number.max(0.0)),
        0..60 => format!("{number:.1} s"),
        60..3600 => format!("{} min {} s", whole / 60, whole % 60),
        3600..86_400 => format!("{} h {} min", whole / 3600, whole % 3600 / 60),
        _ => format!("{} d {} h", whole / 86_400, whole % 86_400 / 3600),
    }
}

/// A number of bytes, as in `1.2 MB`.
#[expect(clippy::cast_precision_loss, reason = "two digits are shown")]
pub(super) fn bytes(number: u64) -> String {
    let mut value = number as f64;
    for unit in ["B", "kB", "MB", "GB"] {
        if value < 1000.0 {
            let digits = usize::from(unit != "B" && value < 10.0);
            return format!("{value:.digits$} {unit}");
        }
        value /= 1000.0;
    }
    format!("{value:.1} TB")
}

/// A value in the query of a link, or one part of its path.
pub(super) fn encoded(text: &str) -> String {
    encoded_except(text, b"-._~")
}

/// A path below a folder, for a link. Its slashes stay.
pub(super) fn encoded_path(text: &str) -> String {
    encoded_except(text, b"-._~/")
}

fn encoded_except(text: &str, kept: &[u8]) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            byte if byte.is_ascii_alphanumeric() || kept.contains(&byte) => {
                encoded.push(char::from(byte));
            }
            byte => encoded += &format!("%{byte:02X}"),
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_characters_are_shown() {
        assert_eq!(name("a\u{202e}b\n\u{1b}[31m"), "a\\u{202e}b\\u{a}\\u{1b}[31m");
        assert_eq!(message("a\nb\u{200b}"), "a\nb\\u{200b}");
        assert_eq!(name(&"é".repeat(400)).chars().count(), MOST_NAME + 1);
    }

    #[test]
    fn links_have_only_plain_characters() {
        assert_eq!(encoded("a/b c&d=\"é"), "a%2Fb%20c%26d%3D%22%C3%A9");
        assert_eq!(encoded_path("user/a b?.txt"), "user/a%20b%3F.txt");
    }

    #[test]
    fn amounts_read_well() {
        let shown: Vec<String> = [0.0, 0.25, 1.5, 61.0, 3725.0, 90_000.0].map(seconds).into();
        assert_eq!(shown, ["0.000 s", "0.250 s", "1.5 s", "1 min 1 s", "1 h 2 min", "1 d 1 h"]);
        let shown: Vec<String> = [0, 999, 1500, 12_345_678, 5_000_000_000_000].map(bytes).into();
        assert_eq!(shown, ["0 B", "999 B", "1.5 kB", "12 MB", "5.0 TB"]);
        let now: Timestamp = "2026-11-01T00:01:00Z".parse().unwrap();
        assert_eq!(age("2026-11-01T00:00:57Z".parse().unwrap(), now), "3.0 s ago");
        assert_eq!(age("2026-11-01T00:02:00Z".parse().unwrap(), now), "0.000 s ago");
        assert_eq!(
            time(now).into_string(),
            "<time datetime=\"2026-11-01T00:01:00Z\">2026-11-01 00:01:00 UTC</time>"
        );
    }
}
