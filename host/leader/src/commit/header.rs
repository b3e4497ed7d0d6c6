//! The beginning of the output file, and how the journal records it.

use super::error::{ColumnDifference, CommitError, Rejection};
use crate::files::common_columns;
use crate::journal::Journal;
use crate::model::{MiniBatchId, OutputHeader};

/// The prefix, before a mini-batch's id, of the journal's notes on columns whose types are not all known.
const OPEN_COLUMNS_PREFIX: &str = "store.columns.";

/// The key of the journal's note on a mini-batch's columns, if their types are not all known.
pub(super) fn open_columns_key(id: MiniBatchId) -> String {
    format!("{OPEN_COLUMNS_PREFIX}{}", id.0)
}

/// Everything that is known about the columns, as Arrow streams without rows. Used for an output with types
/// if no single table shows all types. Each worker's output file takes its types from these streams.
///
/// # Errors
/// If the journal cannot be read, or its notes are damaged.
pub(super) fn all_open_columns(journal: &Journal) -> Result<Vec<u8>, CommitError> {
    let notes = journal.notes(OPEN_COLUMNS_PREFIX)?;
    let streams = notes.iter().map(|(_, note)| hex::decode(note).ok());
    let streams: Option<Vec<_>> = streams.collect();
    streams.map(|streams| streams.concat()).ok_or(CommitError::ColumnsNote)
}

/// The columns of the output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct HeaderColumns {
    /// The columns as text, one on each line. For plain lines: the header line with its line end.
    text: String,
    /// The header as it is written to the output. Empty in an output with types, as long as each table has at
    /// least one column in which all values are null.
    pub(super) bytes: Vec<u8>,
}

impl HeaderColumns {
    /// The header of an attempt. `None` if there is nothing to write.
    pub(super) fn from_header(header: Option<&OutputHeader>) -> Option<Self> {
        let header = header?;
        let bytes = header.written()?;
        Some(Self { text: header.line().unwrap_or_else(|| header.text.clone()), bytes })
    }

    fn from_line(text: String) -> Self {
        Self { bytes: text.clone().into_bytes(), text }
    }

    /// The note for the journal: the header line, or the bytes and the text.
    pub(super) fn note(&self) -> String {
        if self.text.as_bytes() == self.bytes {
            return self.text.clone();
        }
        format!("{}\n{}", hex::encode(&self.bytes), self.text)
    }

    /// Parses the journal's note. `is_plain`: whether the output consists of plain lines of text.
    ///
    /// # Errors
    /// If the note is damaged.
    pub(super) fn from_note(note: String, is_plain: bool) -> Result<Self, CommitError> {
        if is_plain {
            return Ok(Self::from_line(note));
        }
        let parsed = note.split_once('\n').and_then(|(bytes, text)| {
            Some(Self { text: text.to_owned(), bytes: hex::decode(bytes).ok()? })
        });
        parsed.ok_or(CommitError::HeaderNote)
    }

    /// Whether rows with the header `other` can follow without a change of the header: the columns are the
    /// same, and `other` does not know more types.
    pub(super) fn fits(&self, other: &Self) -> bool {
        self.text == other.text && (!self.bytes.is_empty() || other.bytes.is_empty())
    }

    /// One header for the rows of both headers, in an output with types. `None` if the columns differ in
    /// anything but all-null columns.
    pub(super) fn joined(&self, other: &Self) -> Option<Self> {
        let text = common_columns(&self.text, &other.text)?;
        let bytes = if self.bytes.is_empty() { &other.bytes } else { &self.bytes };
        Some(Self { text, bytes: bytes.clone() })
    }

    /// Why rows with these columns cannot follow the rows of `first`. `is_lines`: whether the header is a
    /// line of text.
    pub(super) fn why_unfit(&self, first: &Self, is_lines: bool) -> Rejection {
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
                    break Rejection::OtherColumns(ColumnDifference { column, is, was });
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn coded(text: &str) -> HeaderColumns {
        HeaderColumns::from_header(Some(&OutputHeader {
            text: text.to_owned(),
            bytes: Some(vec![0, 255, 10]),
            open_columns: None,
        }))
        .unwrap()
    }

    #[test]
    fn the_journal_keeps_headers_of_every_format() {
        let line = HeaderColumns::from_header(Some(&"a b".into())).unwrap();
        assert_eq!((line.note().as_str(), line.bytes.as_slice()), ("a b\n", &b"a b\n"[..]));
        assert_eq!(HeaderColumns::from_note(line.note(), true), Ok(line));
        assert_eq!(HeaderColumns::from_header(Some(&"\n".into())), None);
        let top = coded("\"a\" Int64\n\"b\" Utf8");
        assert_eq!(HeaderColumns::from_note(top.note(), false), Ok(top));
        for damaged in ["", "00", "0\nx", "0g\nx"] {
            assert!(HeaderColumns::from_note(damaged.to_owned(), false).is_err(), "{damaged:?}");
        }
    }

    #[test]
    fn all_null_columns_get_their_type_later() {
        let open = |text: &str| {
            let text = text.to_owned();
            let bytes = Some(Vec::new());
            HeaderColumns::from_header(Some(&OutputHeader { text, bytes, open_columns: None }))
                .unwrap()
        };
        let nulls = open("\"a\" Null");
        let known = coded("\"a\" Int64");
        assert_eq!(nulls.joined(&known), Some(known.clone()));
        assert_eq!(known.joined(&nulls), Some(known.clone()));
        assert_eq!(known.joined(&coded("\"a\" Float64")), None);
        let both = open("\"a\" Null\n\"b\" Utf8").joined(&open("\"a\" Int8\n\"b\" Null"));
        assert_eq!(both, Some(open("\"a\" Int8\n\"b\" Utf8")));
        // Together, the tables show all types, but no single table does. Then a table arrives that shows all
        // types.
        let whole = coded("\"a\" Int8\n\"b\" Utf8");
        let both = both.unwrap();
        assert!(!both.fits(&whole) && whole.fits(&both));
        assert_eq!(both.joined(&whole), Some(whole));
        assert_eq!(HeaderColumns::from_note(nulls.note(), false), Ok(nulls));
    }

    #[test]
    fn the_error_names_the_first_column_that_differs() {
        let first = coded("\"a\" Int64\n\"b\" Utf8");
        let describe = |text: &str| {
            assert!(!coded(text).fits(&first));
            let reported = coded(text).why_unfit(&first, false).to_string();
            reported.split(": ").nth(1).unwrap().split(". ").next().unwrap().to_owned()
        };
        let described = [
            describe("\"a\" Int64\n\"b\" LargeUtf8"),
            describe("\"a\" Int64"),
            describe("\"a\" Int64\n\"b\" Utf8\n\"c\" Date32"),
        ];
        insta::assert_snapshot!(described.join("\n"), @r#"
        column 2 is "b" LargeUtf8, and was "b" Utf8
        column 2, "b" Utf8, is not there
        column 3, "c" Date32, was not there
        "#);
    }
}
