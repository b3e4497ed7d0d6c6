//! Text for people, of words that nobody vouches for.

use std::fmt::Write as _;

/// The text with a mark in the place of each character that a terminal would obey, but for line ends
/// and tabs.
pub fn printable(text: &str) -> String {
    text.chars().map(|c| if matches!(c, '\n' | '\t') { c } else { visible(c) }).collect()
}

/// A character that a terminal would obey, as a mark that it does not.
pub fn visible(c: char) -> char {
    if c.is_control() { char::REPLACEMENT_CHARACTER } else { c }
}

/// Bytes in hexadecimal, two lower-case digits each.
pub fn hex(bytes: impl AsRef<[u8]>) -> String {
    let mut text = String::new();
    for byte in bytes.as_ref() {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terminals_obey_nothing() {
        assert_eq!(printable("a\tb\n\u{7}"), "a\tb\n\u{fffd}");
        assert_eq!(hex([0, 10, 255]), "000aff");
    }
}
