//! Finds columns that fit two tables, if a column is all null in one of them. The columns are given as text.
//! A column that is all null in one mini-batch has the type `Null` there, and it may have another type in the
//! next mini-batch. The same holds for the values of a list and the fields of a struct.

/// The type of an all-null column, as text.
const NULL: &str = "Null";
/// The prefix of a type whose values are never null.
const NON_NULL: &str = "non-null ";

/// The columns that fit both tables. Arguments and result are in the text form of `columns_text` in
/// `sandmill-data`: a line with name and type for each column. `None` if the tables differ in anything but
/// all-null columns.
pub fn common_columns(one: &str, other: &str) -> Option<String> {
    let mut one = one;
    let mut other = other;
    let mut common = String::new();
    let mut quotes = QuoteTracker::default();
    loop {
        let equal = one.bytes().zip(other.bytes()).take_while(|(one, other)| one == other).count();
        // If the texts differ within a character, this character is in a name.
        let equal = one.floor_char_boundary(equal).min(other.floor_char_boundary(equal));
        one[..equal].bytes().for_each(|byte| quotes.pass(byte));
        common.push_str(&one[..equal]);
        (one, other) = (&one[equal..], &other[equal..]);
        if one.is_empty() && other.is_empty() {
            return Some(common);
        }
        if quotes.are_open {
            return None;
        }
        let (null, known) = match (after_null(one), after_null(other)) {
            (Some(rest), None) => (rest, other),
            (None, Some(rest)) => (rest, one),
            _ => return None,
        };
        let known = known.strip_prefix(NON_NULL).unwrap_or(known);
        let length = type_length(known)?;
        common.push_str(&known[..length]);
        let known = &known[length..];
        (one, other) = (null, known);
    }
}

/// The text after a `Null` type; `None` if the text does not begin with a `Null` type.
fn after_null(text: &str) -> Option<&str> {
    let rest = text.strip_prefix(NON_NULL).unwrap_or(text).strip_prefix(NULL)?;
    let continues = rest.starts_with(|next: char| next.is_ascii_alphanumeric());
    (!continues).then_some(rest)
}

/// The length in bytes of the type at the beginning of a text: a word, and its parentheses.
fn type_length(text: &str) -> Option<usize> {
    let word_length = text.find(|next: char| !next.is_ascii_alphanumeric()).unwrap_or(text.len());
    if word_length == 0 {
        return None;
    }
    if !text[word_length..].starts_with('(') {
        return Some(word_length);
    }
    let mut depth = 0_usize;
    let mut quotes = QuoteTracker::default();
    for (index, byte) in text.bytes().enumerate().skip(word_length) {
        quotes.pass(byte);
        match byte {
            b'(' if !quotes.are_open => depth += 1,
            b')' if !quotes.are_open => depth = depth.checked_sub(1)?,
            _ => {}
        }
        if depth == 0 {
            return Some(index + 1);
        }
    }
    None
}

/// Tracks whether the next byte is inside quotes.
#[derive(Default)]
struct QuoteTracker {
    are_open: bool,
    is_escaped: bool,
}

impl QuoteTracker {
    fn pass(&mut self, byte: u8) {
        match byte {
            _ if self.is_escaped => self.is_escaped = false,
            b'\\' if self.are_open => self.is_escaped = true,
            b'"' => self.are_open = !self.are_open,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_null_columns_take_the_type_of_other_tables() {
        let both = |one: &str, other: &str| {
            let found = common_columns(one, other);
            assert_eq!(found, common_columns(other, one));
            found.unwrap_or_else(|| "none".to_owned())
        };
        let cases = [
            (r#""x" Null"#, r#""x" Int64"#),
            ("\"x\" Null\n\"y\" Utf8", "\"x\" Int64\n\"y\" Null"),
            ("\"x\" Null\n\"y\" Utf8", "\"x\" Null\n\"y\" Utf8"),
            (r#""x" List(Null)"#, r#""x" List(Struct("a)": Utf8, "b": Null))"#),
            (
                r#""x" Struct("a": Null, "b": Utf8)"#,
                r#""x" Struct("a": Timestamp(µs, "UTC"), "b": Null)"#,
            ),
            (r#""x" FixedSizeList(2 x Null)"#, r#""x" FixedSizeList(2 x non-null Int8)"#),
            (
                r#""x" Null"#,
                r#""x" Map("entries": non-null Struct("k": non-null Utf8, "v": Null), unsorted)"#,
            ),
        ];
        insta::assert_snapshot!(cases.map(|(one, other)| both(one, other)).join("\n--\n"), @r#"
        "x" Int64
        --
        "x" Int64
        "y" Utf8
        --
        "x" Null
        "y" Utf8
        --
        "x" List(Struct("a)": Utf8, "b": Null))
        --
        "x" Struct("a": Timestamp(µs, "UTC"), "b": Utf8)
        --
        "x" FixedSizeList(2 x Int8)
        --
        "x" Map("entries": non-null Struct("k": non-null Utf8, "v": Null), unsorted)
        "#);
        for (one, other) in [
            (r#""x" Int64"#, r#""x" Float64"#),
            (r#""x" Null"#, r#""y" Null"#),
            (r#""Null" Int64"#, r#""Int64" Int64"#),
            (r#""Null" Int64"#, r#""Utf8" Null"#),
            ("\"x\" Null", "\"x\" Null\n\"y\" Null"),
            (r#""x" Nullable"#, r#""x" Int8"#),
            (r#""x" Null"#, r#""x" "#),
            (r#""x" Null"#, r#""x" List(Int8"#),
            (r#""é" Null"#, r#""è" Null"#),
        ] {
            assert_eq!(common_columns(one, other), None, "{one} {other}");
        }
    }
}
