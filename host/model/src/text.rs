//! Helpers for texts that users read: escaping of untrusted parts, numbers and errors.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io;

/// The text in a form that is safe to show. A character that would control a terminal, or that is invisible,
/// is replaced by its number, such as `\u{1b}`. Line ends and tabs stay.
pub fn printable(text: &str) -> Cow<'_, str> {
    escaped(
        text,
        |c| is_terminal_control(c) && !matches!(c, '\n' | '\t'),
        |clean, c| {
            clean.extend(c.escape_unicode());
        },
    )
}

/// Like [`printable`], for text that must stay on one line, such as a name or a path: line ends and tabs are
/// replaced, too.
pub fn on_one_line(text: &str) -> Cow<'_, str> {
    escaped(text, is_terminal_control, |clean, c| clean.extend(c.escape_unicode()))
}

/// The beginning of a text from another machine, as [`on_one_line`] shows it: at most so many characters.
pub fn in_short(text: &str, most: usize) -> String {
    on_one_line(text).chars().take(most).collect()
}

/// A path, quoted for a command line if necessary.
pub fn shell_word(path: &str) -> String {
    let needs_no_quotes = |c: char| c.is_alphanumeric() || "/._-+,:@%".contains(c);
    if path.chars().all(needs_no_quotes) {
        path.to_owned()
    } else {
        format!("'{}'", path.replace('\'', r"'\''"))
    }
}

/// Like [`printable`], for JSON: the characters are replaced by JSON escapes, so no value changes. Line ends
/// between the parts of the JSON stay.
pub fn printable_json(text: &str) -> Cow<'_, str> {
    escaped(
        text,
        |c| is_terminal_control(c) && c != '\n',
        |clean, c| {
            for unit in c.encode_utf16(&mut [0; 2]) {
                // Writing to a string cannot fail.
                let _ = write!(clean, "\\u{unit:04x}");
            }
        },
    )
}

/// Whether bytes are ASCII that [`printable`] does not change. Checks all bytes, because that is faster than
/// stopping at the first byte that needs an escape.
pub fn is_plain(bytes: &[u8]) -> bool {
    let needs_escape = |byte: u8| !matches!(byte, b' '..=b'~' | b'\n' | b'\t');
    !bytes.iter().fold(false, |found, byte| found | needs_escape(*byte))
}

fn escaped(
    text: &str,
    is_hidden: impl Fn(char) -> bool,
    escape: impl Fn(&mut String, char),
) -> Cow<'_, str> {
    // Most texts are plain ASCII, so check the bytes first.
    let may_hide = |byte: u8| !matches!(byte, b' '..=b'~');
    let Some(from) = text.bytes().position(may_hide) else { return Cow::Borrowed(text) };
    // All bytes before `from` are ASCII, so a character begins at `from`.
    let (plain, rest) = text.split_at(from);
    if !rest.chars().any(&is_hidden) {
        return Cow::Borrowed(text);
    }
    let mut clean = String::with_capacity(text.len() + 16);
    clean.push_str(plain);
    for c in rest.chars() {
        if is_hidden(c) { escape(&mut clean, c) } else { clean.push(c) }
    }
    Cow::Owned(clean)
}

/// Whether a character controls a terminal, changes the direction of a line, or is invisible: control
/// characters, Unicode's bidirectional controls, line separators, and the characters that Unicode calls
/// ignorable by default (zero-width characters, fillers, tags, variation selectors). The two selectors of
/// common emojis (U+FE0E, U+FE0F) do not count.
pub fn is_terminal_control(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
                | '\u{180b}'..='\u{180f}'
                | '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{3164}'
                | '\u{fe00}'..='\u{fe0d}'
                | '\u{feff}'
                | '\u{ffa0}'
                | '\u{fff0}'..='\u{fffb}'
                | '\u{1bca0}'..='\u{1bca3}'
                | '\u{1d173}'..='\u{1d17a}'
                | '\u{e0000}'..='\u{e0fff}'
        )
}

/// A text for a cell of a CSV file that users may open with a spreadsheet program. A text that the program
/// would read as a formula gets a `'` in front. Numbers are not changed.
pub fn text_cell(text: &str) -> Cow<'_, str> {
    let is_formula =
        text.starts_with(['=', '+', '-', '@', '\t', '\r', '\n', '＝', '＋', '－', '＠']);
    let is_in_number = |byte: u8| byte.is_ascii_digit() || b".eE+-".contains(&byte);
    let is_number = || text.bytes().all(is_in_number) && text.parse::<f64>().is_ok();
    if is_formula && !is_number() { Cow::Owned(format!("'{text}")) } else { Cow::Borrowed(text) }
}

/// Prints a number with commas: `1797` as `1,797`.
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

/// Prints a number with a noun, in the plural if necessary: `3` and `item` as `3 items`.
pub fn counted(number: u64, noun: &str) -> String {
    let plural = match noun {
        _ if number == 1 => "",
        _ if noun.ends_with("ch") => "es",
        _ => "s",
    };
    format!("{} {noun}{plural}", count(number))
}

/// The message of an error of the operating system. If too many files are open, the message also says what to
/// do.
pub fn os_error(error: &io::Error) -> String {
    let remedy = match error.raw_os_error() {
        Some(libc::EMFILE) => {
            "this process may not open any further file; raise the limit (ulimit -n), or use fewer \
             workers (process_count_per_node)"
        }
        Some(libc::ENFILE) => {
            "all processes of this machine together may not open any further file; raise the limit \
             (fs.file-max)"
        }
        _ => return error.to_string(),
    };
    format!("{error}: {remedy}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_of_too_many_files_says_what_to_do() {
        let message = |code| os_error(&io::Error::from_raw_os_error(code));
        let reported = message(libc::EMFILE);
        assert!(reported.starts_with("Too many open files (os error 24): "), "{reported}");
        assert!(reported.contains("ulimit -n"), "{reported}");
        assert!(message(libc::ENFILE).contains("fs.file-max"));
        assert_eq!(message(libc::EIO), io::Error::from_raw_os_error(libc::EIO).to_string());
    }

    #[test]
    fn printable_text_cannot_control_a_terminal() {
        assert_eq!(printable("a\tb\n\u{7}"), "a\tb\n\\u{7}");
        assert_eq!(on_one_line("a\tb\n\u{7}"), "a\\u{9}b\\u{a}\\u{7}");
        assert!(is_plain(b"a b~\t\n") && !is_plain(b"a\x1b") && !is_plain(b"\r"));
        assert!(!is_plain(b"\x7f") && !is_plain("\u{e9}".as_bytes()));
        // A terminal would show `gpj.exe` here as `exe.jpg`.
        assert_eq!(printable("\u{202e}gpj.exe"), "\\u{202e}gpj.exe");
        for hidden in ["\r", "\u{9b}", "\u{61c}", "\u{200e}", "\u{200d}", "\u{feff}", "\u{2066}"] {
            assert_ne!(printable(hidden), hidden);
        }
        for plain in ["", "a b~", "é ü 中文 \u{2764}\u{fe0f} \u{1f600}", "\u{5d0}\u{5d1}"] {
            assert!(matches!(on_one_line(plain), Cow::Borrowed(same) if same == plain), "{plain}");
        }
    }

    /// The escaped text has no effect on a terminal, and a program reads the same values from it.
    #[test]
    fn escaped_json_keeps_its_values() {
        let value = serde_json::json!({"a\u{9b}2J": "\u{1b}\u{7f}\u{202e}\u{e0041}\n é"});
        let text = format!("{value:#}\n");
        let clean = printable_json(&text);
        assert_eq!(serde_json::from_str::<serde_json::Value>(&clean).unwrap(), value);
        assert!(!clean.chars().any(|c| is_terminal_control(c) && c != '\n'), "{clean}");
        assert!(clean.contains(r"\u007f\u202e\udb40\udc41\n é"), "{clean}");
    }

    #[test]
    fn no_cell_is_a_formula() {
        for formula in
            ["=1+1", "+A1", "-A1", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "＝1", "-1+1", "-inf"]
        {
            assert_eq!(text_cell(formula), format!("'{formula}"));
        }
        for plain in ["", "-5", "+0.5", "-1e-7", "a=b", "/data/-x", "12", "'=1"] {
            assert_eq!(text_cell(plain), plain);
        }
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
