//! Checks commas, because arrow-json treats them as blanks: it accepts `{"a": 1 "b": 2}` and `[1,,2]`.

use memchr::memchr2;

/// How many bytes of a string are searched one by one before `memchr2` is called. That is faster for short
/// strings.
const SHORT_STRING_BYTES: usize = 16;

/// The last token before the current byte. Blanks are not tokens.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LastToken {
    /// The beginning of a line, a list or an object; or a colon.
    Begin,
    /// The end of a value.
    Value,
    Comma,
}

/// Whether there is a comma between any two values of lists and objects, and nowhere else. Checks only
/// commas: the result for a text with other mistakes may be true or false.
pub(super) fn has_right_commas(text: &[u8]) -> bool {
    let mut last = LastToken::Begin;
    let mut at = 0;
    while let Some(&byte) = text.get(at) {
        at += 1;
        last = match (byte, last) {
            (b' ' | b'\t', last) => last,
            (b'\n' | b'\r' | b':', _) => LastToken::Begin,
            (b',', LastToken::Value) => LastToken::Comma,
            (b',', _) | (b'}' | b']', LastToken::Comma) => return false,
            (b'}' | b']', _) => LastToken::Value,
            (_, LastToken::Value) => return false,
            (b'{' | b'[', _) => LastToken::Begin,
            (b'"', _) => {
                at = string_end(text, at);
                LastToken::Value
            }
            _ => {
                let rest = text[at..].iter();
                at += rest.take_while(|byte| is_word_byte(**byte)).count();
                LastToken::Value
            }
        };
    }
    true
}

/// Whether the byte may be part of a number or a word.
fn is_word_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'+')
}

/// The index after the quote that ends a string. `at` is the index of the string's first byte.
pub(super) fn string_end(text: &[u8], mut at: usize) -> usize {
    loop {
        let rest = text.get(at..).unwrap_or_default();
        let in_first_bytes =
            rest.iter().take(SHORT_STRING_BYTES).position(|byte| matches!(byte, b'"' | b'\\'));
        match in_first_bytes.or_else(|| memchr2(b'"', b'\\', rest)) {
            Some(index) if rest[index] == b'"' => return at + index + 1,
            Some(index) => at += index + 2,
            None => return text.len(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_must_be_separated_by_commas() {
        for text in [
            "",
            "{}\n[]\r\n{ } ",
            r#"{"a": 1, "b": [1, 2, {"c": null}], "d": {}} "#,
            r#"{"a,,b": ",]", "b\",": "\\", "c": "a long text, with \" and ,, in it"}"#,
            "{\"a\":-1.5e+3}\r{\"a\":true}\n{\"é\":\"é\"}",
        ] {
            assert!(has_right_commas(text.as_bytes()), "{text}");
        }
        for text in [
            r#"{"a": 1 "b": 2}"#,
            r#"{"a": "x" "b": 2}"#,
            r#"{"a": {} "b": 2}"#,
            "[1 2]",
            "[1,,2]",
            "[,1]",
            "[1,]",
            r#"{"a": 1,}"#,
            r#"{,"a": 1}"#,
            r#"{"a": [] []}"#,
            "{} {}",
            r#"{"a\\" "b": 1}"#,
        ] {
            assert!(!has_right_commas(text.as_bytes()), "{text}");
        }
    }
}
