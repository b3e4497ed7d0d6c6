//! Finds and replaces references (`${{inputs.x}}`) in texts, and splits command lines.

use crate::error::CommandLineError;

/// Whether the path is an address or a reference, and so does not name a file on this machine.
pub(super) fn is_remote(path: &str) -> bool {
    path.starts_with("azureml:") || path.contains("://") || path.contains("${{")
}

/// The name in a text that consists of exactly one reference.
pub(super) fn reference(text: &str) -> Option<&str> {
    let name = text.trim().strip_prefix("${{")?.strip_suffix("}}")?;
    (!name.contains("${{")).then_some(name.trim())
}

/// Once a text has this many bytes, its references are no longer replaced. This is high enough: on
/// Linux, one argument of a program can have 128 KB at most.
const MOST_REPLACED_BYTES: usize = 256 << 10;

/// Replaces each reference in the text by the value that `value_of` returns for its name. A reference without
/// a value stays unchanged.
pub(super) fn replace(text: &str, value_of: impl Fn(&str) -> Option<String>) -> String {
    let mut replaced = String::new();
    let mut rest = text;
    while let Some(start) = rest.find("${{") {
        let Some(length) = rest[start..].find("}}") else { break };
        let reference = &rest[start..start + length + 2];
        replaced.push_str(&rest[..start]);
        // Without this limit, a small file could fill the memory.
        let value = (replaced.len() < MOST_REPLACED_BYTES)
            .then(|| value_of(reference[3..length].trim()))
            .flatten();
        replaced.push_str(value.as_deref().unwrap_or(reference));
        rest = &rest[start + length + 2..];
    }
    replaced.push_str(rest);
    replaced
}

/// Removes the optional groups, `$[[...]]`, that refer to an absent input. Replaces all other groups by their
/// contents.
///
/// # Errors
/// A group is not closed.
pub(super) fn expand_groups(
    line: &str,
    is_absent: impl Fn(&str) -> bool,
) -> Result<String, CommandLineError> {
    let mut expanded = String::new();
    let mut rest = line;
    while let Some(start) = rest.find(GROUP_START) {
        expanded.push_str(&rest[..start]);
        let inner = &rest[start + GROUP_START.len()..];
        let length = inner.find("]]").ok_or(CommandLineError::Group)?;
        if !references(&inner[..length]).any(&is_absent) {
            expanded.push_str(&inner[..length]);
        }
        rest = &inner[length + 2..];
    }
    expanded.push_str(rest);
    Ok(expanded)
}

const GROUP_START: &str = "$[[";

/// The names in a text's references.
fn references(text: &str) -> impl Iterator<Item = &str> {
    text.split("${{").skip(1).filter_map(|rest| Some(rest.split_once("}}")?.0.trim()))
}

/// Splits a command line as a shell does: at white space, with quotes and backslashes. References are not
/// split.
///
/// # Errors
/// A quote is not closed, or the line ends with a backslash.
pub(super) fn split(line: &str) -> Result<Vec<String>, CommandLineError> {
    let mut words: Vec<String> = Vec::new();
    let mut word: Option<String> = None;
    let mut rest = line;
    while let Some(c) = rest.chars().next() {
        let mut used = c.len_utf8();
        match c {
            c if c.is_whitespace() => words.extend(word.take()),
            '\'' => {
                let end = rest[1..].find('\'').ok_or(CommandLineError::SingleQuote)?;
                word.get_or_insert_default().push_str(&rest[1..=end]);
                used = end + 2;
            }
            '"' => used = read_quoted(rest, word.get_or_insert_default())?,
            '\\' => {
                let next = rest[1..].chars().next().ok_or(CommandLineError::Backslash)?;
                // A backslash before a line end joins the lines.
                if next != '\n' {
                    word.get_or_insert_default().push(next);
                }
                used += next.len_utf8();
            }
            '$' if rest.starts_with("${{") => {
                used = rest.find("}}").map_or(rest.len(), |end| end + 2);
                word.get_or_insert_default().push_str(&rest[..used]);
            }
            c => word.get_or_insert_default().push(c),
        }
        rest = &rest[used..];
    }
    words.extend(word);
    Ok(words)
}

/// Appends the contents of a text in double quotes to the word. Returns the text's length with the quotes.
fn read_quoted(text: &str, word: &mut String) -> Result<usize, CommandLineError> {
    let mut chars = text.char_indices().skip(1);
    while let Some((index, c)) = chars.next() {
        match c {
            '"' => return Ok(index + 1),
            '\\' => match chars.next() {
                Some((_, next @ ('"' | '\\' | '$' | '`'))) => word.push(next),
                Some((_, '\n')) => {}
                Some((_, next)) => word.extend(['\\', next]),
                None => break,
            },
            c => word.push(c),
        }
    }
    Err(CommandLineError::DoubleQuote)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rule C24 in docs/parallel-run-step.md: a version 2 file gives all arguments in one text.
    #[test]
    fn command_lines_are_split_like_a_shell_does() {
        for (line, words) in [
            ("", vec![]),
            ("  --a 1\n--b=2\t", vec!["--a", "1", "--b=2"]),
            ("--a 'x y' \"p \\\"q\\\" \\n\" \\  ''", vec!["--a", "x y", "p \"q\" \\n", " ", ""]),
            ("--in ${{ inputs.a }}/x ä'ö'", vec!["--in", "${{ inputs.a }}/x", "äö"]),
            ("a\\\nb", vec!["ab"]),
        ] {
            assert_eq!(split(line).expect(line), words, "{line}");
        }
        for line in ["'a", "\"a", "\"a\\", "a\\"] {
            assert!(split(line).is_err(), "{line}");
        }
    }

    /// Azure's optional arguments: a group whose input has no value is left out.
    #[test]
    fn groups_are_kept_if_their_inputs_have_values() {
        let is_absent = |name: &str| name == "inputs.no";
        for (line, expanded) in [
            ("--a 1", "--a 1"),
            ("--a $[[--x ${{inputs.no}}]] --b", "--a  --b"),
            ("$[[--x ${{ inputs.yes }}]]", "--x ${{ inputs.yes }}"),
            ("$[[--x ${{inputs.yes}} --y ${{ inputs.no }}]]$[[--z]]", "--z"),
        ] {
            assert_eq!(expand_groups(line, is_absent).expect(line), expanded);
        }
        assert!(expand_groups("--a $[[--x ${{inputs.no}}", is_absent).is_err());
    }

    #[test]
    fn known_references_are_replaced() {
        let known = |name: &str| (name == "a.b").then(|| String::from("X"));
        assert_eq!(replace("1${{a.b}}2${{ a.b }}3${{c}}${{", known), "1X2X3${{c}}${{");
        let many = "${{a}}".repeat(100_000);
        let grown = replace(&many, |_| Some("x".repeat(1000)));
        assert!(grown.len() < MOST_REPLACED_BYTES + many.len() + 1000, "{}", grown.len());
        assert_eq!(reference(" ${{ a.b }} "), Some("a.b"));
        assert_eq!(reference("${{a}}/${{b}}"), None);
        assert_eq!(reference("x"), None);
    }
}
