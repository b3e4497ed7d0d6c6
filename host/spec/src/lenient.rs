//! Accepts YAML that PyYAML, and thus Azure's tools, accept although the YAML standard forbids it:
//! continuation lines of a quoted text that are not indented further than their key.

/// The spaces that are put before continuation lines. They are more than the indentation of any key in a
/// file.
const EXTRA_INDENT: &str = "                                                                ";

/// Indents all continuation lines of quoted texts, which does not change their meaning. Line numbers stay the
/// same. `None` if there are no such lines.
pub(super) fn indented(text: &str) -> Option<String> {
    let mut indented = String::with_capacity(text.len());
    let mut quote = None;
    // The indentation of the key of a block scalar (`|` or `>`). In a block scalar, quotes are ordinary
    // characters.
    let mut block: Option<usize> = None;
    let mut is_changed = false;
    for line in text.split_inclusive('\n') {
        let indent = line.len() - line.trim_start_matches(' ').len();
        let is_blank = line.trim().is_empty();
        if quote.is_some() {
            if !is_blank {
                indented.push_str(EXTRA_INDENT);
                is_changed = true;
            }
        } else if block.is_some_and(|key| is_blank || indent > key) {
            indented.push_str(line);
            continue;
        } else {
            block = None;
        }
        indented.push_str(line);
        let end = follow_quotes(line, &mut quote);
        if quote.is_none() && begins_block(&line[..end]) {
            block = Some(indent);
        }
    }
    is_changed.then_some(indented)
}

/// Reads a line, and updates `quote`, the quote that is open at the end of the line. Returns the
/// length of the line without its comment.
fn follow_quotes(line: &str, quote: &mut Option<u8>) -> usize {
    let bytes = line.as_bytes();
    let mut index = 0;
    // Whether a value may begin here.
    let mut is_start = quote.is_none();
    while let Some(&byte) = bytes.get(index) {
        match (*quote, byte) {
            (Some(b'"'), b'\\') => index += 1,
            (Some(b'\''), b'\'') if bytes.get(index + 1) == Some(&b'\'') => index += 1,
            (Some(open), _) if byte == open => *quote = None,
            (Some(_), _) => {}
            (None, b'"' | b'\'') if is_start => *quote = Some(byte),
            (None, b'#') if index == 0 || bytes[index - 1].is_ascii_whitespace() => return index,
            (None, b' ' | b'\t') => {}
            (None, b'[' | b'{' | b',') => is_start = true,
            (None, b':' | b'-' | b'?') => {
                is_start = (is_start || byte == b':')
                    && bytes.get(index + 1).is_none_or(u8::is_ascii_whitespace);
            }
            (None, _) => is_start = false,
        }
        index += 1;
    }
    line.len()
}

/// Whether a block scalar follows: the line ends with `|` or `>`, perhaps with an indicator such as `-` or
/// `2`.
fn begins_block(line: &str) -> bool {
    let last = line.split_ascii_whitespace().next_back().unwrap_or_default();
    last.strip_prefix(['|', '>'])
        .is_some_and(|indicators| indicators.chars().all(|c| matches!(c, '+' | '-' | '1'..='9')))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorReport;
    use crate::tree;

    fn read(text: &str) -> Option<String> {
        let report = ErrorReport::default();
        let node = tree::parse(text, &report)?;
        report.is_clean().then(|| format!("{node:?}"))
    }

    #[test]
    fn quoted_text_may_have_its_keys_indentation() {
        let strict = "a:\n  b: \"one\\n\\\n    two: three # four\n\n    five\"\n  c: 'it''s\n    so'\nd: 1\n";
        let loose = "a:\n  b: \"one\\n\\\n  two: three # four\n\n five\"\n  c: 'it''s\nso'\nd: 1\n";
        assert!(read(strict).is_some());
        assert_eq!(read(loose), read(strict));
    }

    /// Quotes within words, in comments and in blocks of text do not open a text.
    #[test]
    fn valid_text_is_not_changed() {
        for text in [
            "a: it's\nb: 5\" wide\nc: 1\n",
            "a: 1 # don't\nb: |\n  it's \"so\n  'and so\nc: >-\n  \"x\nd: 'e'\n",
            "a: {b: 'x', c: \"y\"}\nd: [\"1\", '2']\n- 'z'\n",
            "url: http://x/'y\n",
        ] {
            assert_eq!(indented(text), None, "{text}");
        }
    }
}
