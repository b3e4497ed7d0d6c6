//! What stands at the top of the output file, and how the journal notes it.

use super::error::{CommitError, Difference, Rejection};
use crate::files::common_columns;
use crate::journal::Journal;
use crate::model::{Header, MiniBatchId};

/// Before a mini-batch's id in the journal's notes of columns whose types are not all known.
const OPEN_COLUMNS: &str = "store.columns.";

/// The journal's note of what a mini-batch's table says of columns whose types are not all known.
pub(super) fn open_columns(id: MiniBatchId) -> String {
    format!("{OPEN_COLUMNS}{}", id.0)
}

/// All that is known of the columns where no table of an output with types knows them all: streams without rows. The
/// output of each worker takes its types from them.
///
/// # Errors
/// If the journal cannot be read, or has something else.
pub(super) fn all_open_columns(journal: &Journal) -> Result<Vec<u8>, CommitError> {
    let notes = journal.notes(OPEN_COLUMNS)?;
    let all = notes.iter().map(|(_, note)| hex::decode(note).ok());
    let all: Option<Vec<_>> = all.collect();
    all.map(|all| all.concat()).ok_or(CommitError::ColumnsNote)
}

/// The columns of the output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Top {
    /// In words; of plain lines, the first one with its end.
    text: String,
    /// As it is written. Nothing as long as every table of an output with types had a column of nulls alone.
    pub(super) bytes: Vec<u8>,
}

impl Top {
    /// What an attempt brings; none if there is nothing to write.
    pub(super) fn of(header: Option<&Header>) -> Option<Self> {
        let header = header?;
        let bytes = header.written()?;
        Some(Self { text: header.line().unwrap_or_else(|| header.text.clone()), bytes })
    }

    fn line(text: String) -> Self {
        Self { bytes: text.clone().into_bytes(), text }
    }

    /// For the journal: the line, or bytes and words.
    pub(super) fn note(&self) -> String {
        if self.text.as_bytes() == self.bytes {
            return self.text.clone();
        }
        format!("{}\n{}", hex::encode(&self.bytes), self.text)
    }

    /// What the journal has. `is_plain`: whether the output is lines of text, as they are.
    ///
    /// # Errors
    /// If it is no such note.
    pub(super) fn noted(note: String, is_plain: bool) -> Result<Self, CommitError> {
        if is_plain {
            return Ok(Self::line(note));
        }
        let parsed = note.split_once('\n').and_then(|(bytes, text)| {
            Some(Self { text: text.to_owned(), bytes: hex::decode(bytes).ok()? })
        });
        parsed.ok_or(CommitError::HeaderNote)
    }

    /// Whether rows of the same columns follow, and all that these bring to the top is there.
    pub(super) fn fits(&self, other: &Self) -> bool {
        self.text == other.text && (!self.bytes.is_empty() || other.bytes.is_empty())
    }

    /// The top for rows of either columns, of an output with types. `None`: they differ in more than columns
    /// of nulls alone.
    pub(super) fn joined(&self, other: &Self) -> Option<Self> {
        let text = common_columns(&self.text, &other.text)?;
        let bytes = if self.bytes.is_empty() { &other.bytes } else { &self.bytes };
        Some(Self { text, bytes: bytes.clone() })
    }

    /// Why rows of these columns cannot follow those of `first`. `is_lines`: whether the header is a line.
    pub(super) fn unfit(&self, first: &Self, is_lines: bool) -> Rejection {
        let is = self.text.trim_end();
        let was = first.text.trim_end();
        if is_lines {
            return Rejection::OtherHeader { is: is.to_owned(), was: was.to_owned() };
        }
        let mut is = is.lines();
        let mut was = was.lines();
        let mut column = 0;
        loop {
            column += 1;
            match (is.next(), was.next()) {
                (Some(is), Some(was)) if is == was => {}
                (is, was) => {
                    let [is, was] = [is, was].map(|text| text.map(str::to_owned));
                    break Rejection::OtherColumns(Difference { column, is, was });
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn coded(text: &str) -> Top {
        Top::of(Some(&Header {
            text: text.to_owned(),
            bytes: Some(vec![0, 255, 10]),
            open_columns: None,
        }))
        .unwrap()
    }

    #[test]
    fn the_journal_keeps_a_header_whatever_its_form() {
        let line = Top::of(Some(&"a b".into())).unwrap();
        assert_eq!((line.note().as_str(), line.bytes.as_slice()), ("a b\n", &b"a b\n"[..]));
        assert_eq!(Top::noted(line.note(), true), Ok(line));
        assert_eq!(Top::of(Some(&"\n".into())), None);
        let top = coded("\"a\" Int64\n\"b\" Utf8");
        assert_eq!(Top::noted(top.note(), false), Ok(top));
        for damaged in ["", "00", "0\nx", "0g\nx"] {
            assert!(Top::noted(damaged.to_owned(), false).is_err(), "{damaged:?}");
        }
    }

    #[test]
    fn columns_of_nulls_alone_wait_for_a_type() {
        let open = |text: &str| {
            let text = text.to_owned();
            let bytes = Some(Vec::new());
            Top::of(Some(&Header { text, bytes, open_columns: None })).unwrap()
        };
        let nulls = open("\"a\" Null");
        let known = coded("\"a\" Int64");
        assert_eq!(nulls.joined(&known), Some(known.clone()));
        assert_eq!(known.joined(&nulls), Some(known.clone()));
        assert_eq!(known.joined(&coded("\"a\" Float64")), None);
        let both = open("\"a\" Null\n\"b\" Utf8").joined(&open("\"a\" Int8\n\"b\" Null"));
        assert_eq!(both, Some(open("\"a\" Int8\n\"b\" Utf8")));
        // All is known of the columns, though by no table; then one comes that knows all.
        let whole = coded("\"a\" Int8\n\"b\" Utf8");
        let both = both.unwrap();
        assert!(!both.fits(&whole) && whole.fits(&both));
        assert_eq!(both.joined(&whole), Some(whole));
        assert_eq!(Top::noted(nulls.note(), false), Ok(nulls));
    }

    #[test]
    fn other_columns_are_named() {
        let first = coded("\"a\" Int64\n\"b\" Utf8");
        let told = |text: &str| {
            assert!(!coded(text).fits(&first));
            let told = coded(text).unfit(&first, false).to_string();
            told.split(": ").nth(1).unwrap().split(". ").next().unwrap().to_owned()
        };
        let all = [
            told("\"a\" Int64\n\"b\" LargeUtf8"),
            told("\"a\" Int64"),
            told("\"a\" Int64\n\"b\" Utf8\n\"c\" Date32"),
        ];
        insta::assert_snapshot!(all.join("\n"), @r#"
        column 2 is "b" LargeUtf8, and was "b" Utf8
        column 2, "b" Utf8, is not there
        column 3, "c" Date32, was not there
        "#);
    }
}
