//! Recognizes, by their first bytes, files that hold JSON other than JSON lines: one list over many lines,
//! for example. Such a file fails once, with a command that converts it, instead of once for each line.

use crate::model::shell_word;
use serde::de::IgnoredAny;
use std::ffi::OsStr;
use std::path::Path;

/// How many bytes at the beginning of a text are inspected.
pub const INSPECTED_BYTES: usize = 256 << 10;

/// What a text is, if it is not JSON lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForeignText {
    /// A text in this encoding.
    Encoded(&'static str),
    /// One list, on one line or on several.
    List {
        /// Whether the list continues after its first line.
        is_multiline: bool,
        /// Whether its items are objects.
        of_objects: bool,
    },
    /// A list on each line.
    Lists {
        /// Whether the items of the lists are objects.
        of_objects: bool,
    },
    /// Objects that take several lines each.
    Objects,
    /// Several objects on one line.
    Joined,
    /// Objects with commas between them.
    Commas,
    /// Texts that each begin with a record separator (RFC 7464).
    Sequence,
}

/// What a text is, judged by its first bytes, `start`. `None` if it may be JSON lines. `is_all`: whether
/// `start` is the whole text. A text whose first line is wrong and whose second line is an object counts as
/// JSON lines.
pub fn foreign((start, is_all): (&[u8], bool)) -> Option<ForeignText> {
    if let Some(encoding) = encoding(start) {
        return Some(ForeignText::Encoded(encoding));
    }
    let text = match std::str::from_utf8(start) {
        Ok(text) => text,
        // The last character may be cut off.
        Err(error) => std::str::from_utf8(&start[..error.valid_up_to()]).unwrap_or_default(),
    };
    let text = text.trim_ascii_start();
    let (line, rest) = match text.find(['\n', '\r']) {
        Some(end) => (&text[..end], text[end..].trim_ascii()),
        None => (text, ""),
    };
    // Whether the first line may continue after `start`.
    let is_long = line.len() == text.len() && !is_all;
    match text.as_bytes().first()? {
        0x1e => Some(ForeignText::Sequence),
        b'[' => list(text, line, rest, is_long),
        b'{' => match first_value(line) {
            FirstValue::Whole(after) => {
                let second = second_line(rest);
                let only_first_line_is_wrong =
                    matches!(first_value(second), FirstValue::Whole("")) && second.starts_with('{');
                match after.as_bytes().first() {
                    Some(b'{') if !only_first_line_is_wrong => Some(ForeignText::Joined),
                    Some(b',') if !only_first_line_is_wrong => Some(ForeignText::Commas),
                    _ => None,
                }
            }
            FirstValue::Cut if is_long => None,
            FirstValue::Cut => continues_in(text, rest).then_some(ForeignText::Objects),
            FirstValue::Wrong => None,
        },
        _ => None,
    }
}

/// What a text is if its first line begins a list. `rest` is the text after that line. `is_long`:
/// whether the line may continue after `text`.
fn list(text: &str, line: &str, rest: &str, is_long: bool) -> Option<ForeignText> {
    // An empty list counts as a list of objects.
    let of_objects = text.get(1..)?.trim_ascii_start().starts_with(['{', ']']);
    let second = second_line(rest);
    match first_value(line) {
        FirstValue::Whole("") => match first_value(second) {
            _ if rest.is_empty() => Some(ForeignText::List { is_multiline: false, of_objects }),
            FirstValue::Whole(_) if second.starts_with('[') => {
                Some(ForeignText::Lists { of_objects })
            }
            _ => None,
        },
        FirstValue::Cut if is_long => Some(ForeignText::List { is_multiline: false, of_objects }),
        FirstValue::Cut if continues_in(text, rest) => {
            Some(ForeignText::List { is_multiline: true, of_objects })
        }
        _ => None,
    }
}

/// The encoding of a text. `None` if it looks like UTF-8.
fn encoding(start: &[u8]) -> Option<&'static str> {
    match start {
        [0xff, 0xfe, 0, 0, ..] | [0, 0, 0xfe, 0xff, ..] => Some("UTF-32"),
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => Some("UTF-16"),
        [b'{' | b'[', 0, 0, 0, ..] => Some("UTF-32LE"),
        [b'{' | b'[', 0, ..] => Some("UTF-16LE"),
        [0, 0, 0, b'{' | b'[', ..] => Some("UTF-32BE"),
        [0, b'{' | b'[', ..] => Some("UTF-16BE"),
        _ => None,
    }
}

/// The value that a text begins with.
enum FirstValue<'a> {
    /// A whole value, and the text after it, trimmed.
    Whole(&'a str),
    /// A value that continues after the text.
    Cut,
    /// No valid value.
    Wrong,
}

/// The first line of `rest`, which is the second line of the text.
fn second_line(rest: &str) -> &str {
    rest.split(['\n', '\r']).next().unwrap_or_default()
}

/// Parses the value that the text begins with.
fn first_value(text: &str) -> FirstValue<'_> {
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<IgnoredAny>();
    match values.next() {
        Some(Ok(_)) => FirstValue::Whole(text[values.byte_offset()..].trim_ascii()),
        Some(Err(error)) if error.is_eof() => FirstValue::Cut,
        _ => FirstValue::Wrong,
    }
}

/// Whether the value that begins on the first line continues in `rest`, the text after that line.
fn continues_in(text: &str, rest: &str) -> bool {
    !rest.is_empty() && !matches!(first_value(text), FirstValue::Wrong)
}

impl ForeignText {
    /// Explains why the file at the path fails, and what to do. `is_packed`: whether the file is compressed.
    pub fn describe(self, path: &Path, is_packed: bool) -> String {
        let what = match self {
            Self::Encoded(encoding) => &format!("is in {encoding}"),
            Self::List { is_multiline: false, .. } => "is one JSON list on one line",
            Self::List { is_multiline: true, .. } => "is one JSON list over several lines",
            Self::Lists { .. } => "holds a JSON list on each line",
            Self::Objects => "holds JSON objects that take several lines each",
            Self::Joined => "holds several JSON objects on a line",
            Self::Commas => "has commas between its JSON objects",
            Self::Sequence => "is a sequence of JSON texts with record separators",
        };
        let lines = match self {
            Self::Encoded(_) => "and JSON lines are in UTF-8",
            _ => "and format jsonl takes one object on each line",
        };
        let name = shell_word(&path.display().to_string());
        let stem = path.file_name().map(Path::new).and_then(Path::file_stem);
        let stem = match is_packed {
            true => stem.map(Path::new).and_then(Path::file_stem),
            false => stem,
        };
        let stem = stem.unwrap_or(OsStr::new("lines")).to_string_lossy();
        let command = self.command(&match (is_packed, path.extension()) {
            (false, _) => name,
            (true, Some(ending)) if ending == "zst" => format!("<(zstd -dc {name})"),
            (true, _) => format!("<(gunzip -c < {name})"),
        });
        // The output must not have the file's own name: the shell would empty the file before the command
        // reads it.
        let output = shell_word(&format!("{stem}-lines.jsonl"));
        let jq_note =
            if command.contains("jq") { " (jq before 1.7 rounds long numbers)" } else { "" };
        format!(
            "{} {what}, {lines}; convert the file: {command} > {output}{jq_note}, and use {output} as the \
             input's path",
            path.display()
        )
    }

    /// The command that prints the file as JSON lines.
    fn command(self, name: &str) -> String {
        match self {
            Self::Encoded(encoding) => format!("iconv -f {encoding} -t UTF-8 {name}"),
            Self::List { of_objects: true, .. } | Self::Lists { of_objects: true } => {
                format!("jq -c '.[]' {name}")
            }
            Self::List { of_objects: false, .. } => format!("jq -c '.[] | {{value: .}}' {name}"),
            Self::Lists { of_objects: false } => format!("jq -c '{{value: .}}' {name}"),
            Self::Objects | Self::Joined => format!("jq -c . {name}"),
            Self::Commas => {
                format!("(echo '['; sed '$s/,[[:space:]]*$//' {name}; echo ']') | jq -c '.[]'")
            }
            Self::Sequence => format!("tr -d '\\036' < {name}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use insta::assert_snapshot;

    fn detect(text: impl AsRef<[u8]>) -> Option<ForeignText> {
        foreign((text.as_ref(), true))
    }

    #[test]
    fn documents_are_distinguished_from_json_lines() {
        use ForeignText::{Commas, Encoded, Joined, List, Lists, Objects, Sequence};
        let multiline = Some(List { is_multiline: true, of_objects: true });
        let single_line = Some(List { is_multiline: false, of_objects: true });
        for (text, expected) in [
            ("[\n  {\"a\": 1},\n  {\"a\": 2}\n]\n", multiline),
            ("\r\n[{\"a\": 1},\r\n {\"a\": 2}]", multiline),
            ("[\n  {\"a\": 1},\n  {\"a\":", multiline),
            ("[{\"a\": 1}, {\"a\": 2}]\n\n", single_line),
            ("[]", single_line),
            ("[1, 2]\n", Some(List { is_multiline: false, of_objects: false })),
            ("[\n 1,\n 2\n]\n", Some(List { is_multiline: true, of_objects: false })),
            ("[1, \"x\"]\n[2, \"y\"]\n", Some(Lists { of_objects: false })),
            ("[{}]\r\n[{}]", Some(Lists { of_objects: true })),
            ("{\n  \"a\": 1\n}", Some(Objects)),
            ("{\n  \"a\": 1\n}\n{\n  \"a\": 2\n}\n", Some(Objects)),
            ("{\"a\":\n  \"text\"", Some(Objects)),
            ("{\"a\": 1}{\"a\": 2}", Some(Joined)),
            ("{\"a\": 1} {\"a\": 2}\n{\"a\": 3} {\"a\": 4}", Some(Joined)),
            ("{\"a\": 1},\n{\"a\": 2},\n{\"a\": 3}\n", Some(Commas)),
            ("{\"a\": 1}, {\"a\": 2}", Some(Commas)),
            ("\u{1e}{\"a\": 1}\n\u{1e}{\"a\": 2}\n", Some(Sequence)),
            // JSON lines, some of which are wrong.
            ("", None),
            (" \n\n", None),
            ("{\"a\": 1}\n[\n", None),
            ("{\"a\": 1}\n", None),
            ("\n\r\n{\"a\": 1}\r\n\r\n{\"a\": 2}\r\n", None),
            ("[1]\n{\"a\": 1}\n", None),
            ("[1]\n2\n", None),
            ("[1\n{\"a\": 1}\n", None),
            ("{\"a\": 1\n{\"a\": 2}\n", None),
            ("{\"a\": 1\n", None),
            ("{\"a\": \"text\n{\"a\": 2}\n", None),
            ("{\"a\": 1}{\"a\": 2}\n{\"a\": 3} \n", None),
            ("{\"a\": 1}{\"a\": 2}\r{\"a\": 3}\r{\"a\": 4}", None),
            ("{\"a\": 1},\n{\"a\": 2}\n", None),
            ("{a: 1}\n", None),
            ("id,name\n1,x\n", None),
        ] {
            assert_eq!(detect(text), expected, "{text:?}");
        }
        let utf16 = |text: &str| text.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<_>>();
        assert_eq!(detect(utf16("\u{feff}{\"a\": 1}\n")), Some(Encoded("UTF-16")));
        assert_eq!(detect(utf16("{\"a\": 1}\n")), Some(Encoded("UTF-16LE")));
        // Only the beginning of the text is known.
        let long = format!("[{}", "{\"a\": \"é\"}, ".repeat(1000));
        for cut in 2..40 {
            assert_eq!(foreign((&long.as_bytes()[..cut], false)), single_line, "{cut}");
        }
        assert_eq!(foreign((b"{\"a\": \"a long line", false)), None);
    }

    #[test]
    fn messages_name_a_command_that_converts_the_file() {
        use ForeignText::{Commas, Encoded, List, Lists, Objects, Sequence};
        let reported = [
            List { is_multiline: true, of_objects: true }
                .describe(Path::new("/in/a b.json"), false),
            List { is_multiline: false, of_objects: false }
                .describe(Path::new("/in/a.json"), false),
            Lists { of_objects: false }.describe(Path::new("/in/a.json"), false),
            Objects.describe(Path::new("/in/a.json.gz"), true),
            Commas.describe(Path::new("/in/a.txt"), false),
            Sequence.describe(Path::new("/in/a.geojsons"), false),
            Encoded("UTF-16").describe(Path::new("/in/a.jsonl"), false),
        ];
        assert_snapshot!(reported.join("\n"), @r"
        /in/a b.json is one JSON list over several lines, and format jsonl takes one object on each line; convert the file: jq -c '.[]' '/in/a b.json' > 'a b-lines.jsonl' (jq before 1.7 rounds long numbers), and use 'a b-lines.jsonl' as the input's path
        /in/a.json is one JSON list on one line, and format jsonl takes one object on each line; convert the file: jq -c '.[] | {value: .}' /in/a.json > a-lines.jsonl (jq before 1.7 rounds long numbers), and use a-lines.jsonl as the input's path
        /in/a.json holds a JSON list on each line, and format jsonl takes one object on each line; convert the file: jq -c '{value: .}' /in/a.json > a-lines.jsonl (jq before 1.7 rounds long numbers), and use a-lines.jsonl as the input's path
        /in/a.json.gz holds JSON objects that take several lines each, and format jsonl takes one object on each line; convert the file: jq -c . <(gunzip -c < /in/a.json.gz) > a-lines.jsonl (jq before 1.7 rounds long numbers), and use a-lines.jsonl as the input's path
        /in/a.txt has commas between its JSON objects, and format jsonl takes one object on each line; convert the file: (echo '['; sed '$s/,[[:space:]]*$//' /in/a.txt; echo ']') | jq -c '.[]' > a-lines.jsonl (jq before 1.7 rounds long numbers), and use a-lines.jsonl as the input's path
        /in/a.geojsons is a sequence of JSON texts with record separators, and format jsonl takes one object on each line; convert the file: tr -d '\036' < /in/a.geojsons > a-lines.jsonl, and use a-lines.jsonl as the input's path
        /in/a.jsonl is in UTF-16, and JSON lines are in UTF-8; convert the file: iconv -f UTF-16 -t UTF-8 /in/a.jsonl > a-lines.jsonl, and use a-lines.jsonl as the input's path
        ");
    }
}
