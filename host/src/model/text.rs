//! Text for people, of words that nobody vouches for.

use std::fmt::Write as _;
use std::io;

/// The text with a mark in the place of each character that a terminal would obey, but for line ends
/// and tabs.
pub fn printable(text: &str) -> String {
    text.chars().map(|c| if matches!(c, '\n' | '\t') { c } else { visible(c) }).collect()
}

/// A character that a terminal would obey, as a mark that it does not.
pub fn visible(c: char) -> char {
    if steers(c) { char::REPLACEMENT_CHARACTER } else { c }
}

/// Whether a character is none to see, but changes how others are shown: what terminals obey, and
/// what turns the direction of a line.
pub fn steers(c: char) -> bool {
    c.is_control() || matches!(c, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
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

/// `1797` as `1,797`.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `3` and `item` as `3 items`.
pub fn counted(number: u64, noun: &str) -> String {
    let plural = match noun {
        _ if number == 1 => "",
        _ if noun.ends_with("ch") => "es",
        _ => "s",
    };
    format!("{} {noun}{plural}", count(number))
}

/// An error of the operating system in its own words, and what to do where these do not say it: no
/// more files can be opened.
pub fn os_error(error: &io::Error) -> String {
    let remedy = match error.raw_os_error() {
        Some(libc::EMFILE) => {
            "this process may open no more; raise the limit (ulimit -n), or use fewer workers \
             (process_count_per_node)"
        }
        Some(libc::ENFILE) => "the whole machine can open no more; raise its limit (fs.file-max)",
        _ => return error.to_string(),
    };
    format!("{error}: {remedy}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_says_what_to_do() {
        let of = |code| os_error(&io::Error::from_raw_os_error(code));
        let told = of(libc::EMFILE);
        assert!(told.starts_with("Too many open files (os error 24): "), "{told}");
        assert!(told.contains("ulimit -n"), "{told}");
        assert!(of(libc::ENFILE).contains("fs.file-max"));
        assert_eq!(of(libc::EIO), io::Error::from_raw_os_error(libc::EIO).to_string());
    }

    #[test]
    fn terminals_obey_nothing() {
        assert_eq!(printable("a\tb\n\u{7}"), "a\tb\n\u{fffd}");
        // As `gpj.exe` would be shown: `exe.jpg`.
        assert_eq!(printable("\u{202e}gpj.exe"), "\u{fffd}gpj.exe");
        assert_eq!(hex([0, 10, 255]), "000aff");
    }

    #[test]
    fn numbers_read_well() {
        let counts: Vec<_> = [0, 999, 1000, 1_234_567].into_iter().map(count).collect();
        assert_eq!(counts, ["0", "999", "1,000", "1,234,567"]);
        assert_eq!(counted(1, "item"), "1 item");
        assert_eq!(counted(0, "item"), "0 items");
        assert_eq!(counted(2000, "mini-batch"), "2,000 mini-batches");
    }
}
