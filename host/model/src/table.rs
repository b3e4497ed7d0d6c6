//! How an input table is read.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// The type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ColumnType {
    /// `true` or `false`, in any case.
    Boolean,
    /// 64-bit signed integers.
    Int64,
    /// 64-bit integers that are not negative.
    UInt64,
    /// 64-bit floating-point numbers.
    Float64,
    /// Text in UTF-8.
    String,
    /// Days, such as `2026-11-21`.
    Date,
    /// Points in time in ISO 8601, with microseconds. UTC if no offset is given.
    Timestamp,
    /// Any JSON value, as its text. Only for JSON lines.
    Json,
}

impl ColumnType {
    /// All values, in the order of the docs.
    pub const ALL: [Self; 8] = [
        Self::Boolean,
        Self::Int64,
        Self::UInt64,
        Self::Float64,
        Self::String,
        Self::Date,
        Self::Timestamp,
        Self::Json,
    ];

    /// The name in a job file.
    pub fn name(self) -> &'static str {
        match self {
            Self::Boolean => "boolean",
            Self::Int64 => "int64",
            Self::UInt64 => "uint64",
            Self::Float64 => "float64",
            Self::String => "string",
            Self::Date => "date",
            Self::Timestamp => "timestamp",
            Self::Json => "json",
        }
    }
}

impl fmt::Display for ColumnType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Error: the text is not the name of a column type.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is not a column type: write boolean, int64, uint64, float64, string, date, timestamp or json"
)]
pub struct ParseColumnTypeError(String);

/// Reads the name in any case.
impl FromStr for ColumnType {
    type Err = ParseColumnTypeError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|kind| kind.name().eq_ignore_ascii_case(text.trim()))
            .ok_or_else(|| ParseColumnTypeError(text.to_owned()))
    }
}

/// One column of a table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// Its type. Every column may hold nulls.
    pub kind: ColumnType,
}

/// The dialect of a CSV input.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CsvFormat {
    /// The character between fields. One ASCII character.
    pub delimiter: u8,
    /// Whether the first line of each file has the names of the columns.
    pub header: bool,
    /// Field texts that mean null, besides the empty field.
    pub null_values: Vec<String>,
    /// Whether a quoted field may hold line ends. If not, each line is a record.
    pub quoted_newlines: bool,
    /// The character around fields that contain delimiters or line ends. One ASCII character. `None` if
    /// quotes are part of the text.
    pub quote: Option<u8>,
    /// The character that makes the next one literal, inside and outside of quotes. One ASCII character.
    pub escape: Option<u8>,
    /// The character that begins a comment line. One ASCII character.
    pub comment: Option<u8>,
    /// How many lines to skip at the start of each file, before its header.
    pub skip_lines: u32,
    /// Whether columns of the same name get numbers (`name_1`). Otherwise such a header is an error.
    pub rename_duplicates: bool,
}

impl Default for CsvFormat {
    fn default() -> Self {
        Self {
            delimiter: b',',
            header: true,
            null_values: Vec::new(),
            quoted_newlines: true,
            quote: Some(b'"'),
            escape: None,
            comment: None,
            skip_lines: 0,
            rename_duplicates: false,
        }
    }
}

impl CsvFormat {
    /// Whether a character can be a quote, an escape or the start of a comment. Characters of numbers and
    /// words cannot.
    pub fn can_mark(byte: u8) -> bool {
        let is_plain = byte.is_ascii_alphanumeric() || byte.is_ascii_whitespace();
        byte.is_ascii() && !is_plain && !matches!(byte, b'+' | b'-' | b'.' | 0)
    }

    /// Finds a key whose character is not allowed, or two keys with the same character. Returns the name of
    /// the key and, in the second case, the name of the other key. `None` if all characters are allowed.
    pub fn conflict(&self) -> Option<(&'static str, Option<&'static str>)> {
        let is_bad = |byte: u8| !byte.is_ascii() || matches!(byte, b'\r' | b'\n' | 0);
        let marks = [("quote", self.quote), ("escape", self.escape), ("comment", self.comment)];
        let mut used = vec![("delimiter", self.delimiter)];
        if is_bad(self.delimiter) {
            return Some(("delimiter", None));
        }
        for (key, byte) in marks {
            let Some(byte) = byte else { continue };
            if !Self::can_mark(byte) {
                return Some((key, None));
            }
            if let Some((other, _)) = used.iter().find(|(_, used)| *used == byte) {
                return Some((key, Some(other)));
            }
            used.push((key, byte));
        }
        None
    }

    /// Whether records of this dialect must be rewritten when rows of several files are gathered into one
    /// file, because that file has another dialect ([`gathered`](Self::gathered)).
    pub fn is_rewritten(&self) -> bool {
        self.quote.is_none() || self.escape.is_some()
    }

    /// The dialect of a file of rows that were gathered from files of this dialect.
    #[must_use]
    pub fn gathered(&self) -> Self {
        Self {
            quoted_newlines: true,
            quote: if self.is_rewritten() { Some(b'"') } else { self.quote },
            escape: None,
            comment: None,
            skip_lines: 0,
            ..self.clone()
        }
    }
}

/// The format of a tabular input's files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TableKind {
    /// Text with a delimiter, also TSV.
    #[default]
    Csv,
    /// A JSON object on each line.
    Jsonl,
    /// Parquet.
    Parquet,
    /// Arrow IPC, as a file or as a stream.
    Arrow,
    /// SQLite databases. The query, run on each database, makes a table.
    Sqlite,
}

/// The properties of a format of tables. The methods of [`TableKind`] explain them.
#[derive(Clone, Copy, Debug, Default)]
struct TableFacts {
    name: &'static str,
    is_text: bool,
    is_whole: bool,
    is_database: bool,
    may_have_log: bool,
}

impl TableKind {
    /// All values, in the order of the docs.
    pub const ALL: [Self; 5] = [Self::Csv, Self::Jsonl, Self::Parquet, Self::Arrow, Self::Sqlite];

    /// The properties of this format. A new format also needs a reader (for columns with types, a
    /// `TypedFile` of `sandmill-data`) and an entry in the table of keys of `sandmill-spec`.
    fn facts(self) -> TableFacts {
        let typed = TableFacts::default();
        match self {
            Self::Csv => TableFacts { name: "csv", is_text: true, ..typed },
            Self::Jsonl => TableFacts { name: "jsonl", is_text: true, ..typed },
            Self::Parquet => TableFacts { name: "parquet", may_have_log: true, ..typed },
            Self::Arrow => TableFacts { name: "arrow", ..typed },
            Self::Sqlite => {
                TableFacts { name: "sqlite", is_whole: true, is_database: true, ..typed }
            }
        }
    }

    /// The name in a job file.
    pub fn name(self) -> &'static str {
        self.facts().name
    }

    /// Whether its files are text, in which columns have no types.
    pub fn is_text(self) -> bool {
        self.facts().is_text
    }

    /// Whether the whole content of a file is one mini-batch. Otherwise, the planner cuts the rows
    /// into mini-batches by size.
    pub fn is_whole(self) -> bool {
        self.facts().is_whole
    }

    /// Whether the files are databases: the rows of each file come from a query, or from one of its tables.
    pub fn is_database(self) -> bool {
        self.facts().is_database
    }

    /// Whether its files may belong to a table with a log that determines the table's rows (Delta Lake,
    /// Iceberg, Hudi).
    pub fn may_have_log(self) -> bool {
        self.facts().may_have_log
    }
}

/// The job file's settings for one tabular input.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableInput {
    /// The format of its files.
    pub kind: TableKind,
    /// The dialect, for CSV.
    pub csv: CsvFormat,
    /// The columns in the files with their types, for text. `None` if they are to be inferred.
    pub schema: Option<Vec<Column>>,
    /// The columns of the files that the guest gets, in that order. `None` means all columns.
    pub columns: Option<Vec<String>>,
    /// Columns of text files that the guest does not get.
    #[serde(default)]
    pub dropped: Vec<String>,
    /// The types of some columns of text files. The types of other columns are inferred.
    #[serde(default)]
    pub types: Vec<Column>,
    /// Whether folders named `key=value` make columns. `None` means that they do if the first file is in such
    /// a folder.
    pub hive: Option<bool>,
    /// For databases: the query, a select statement.
    pub query: Option<String>,
    /// Whether to read the files even if they belong to a table whose log determines its rows.
    pub files: bool,
}

/// Everything that a worker needs to decode a tabular input.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableFormat {
    /// The format of its files.
    pub kind: TableKind,
    /// The dialect.
    pub csv: CsvFormat,
    /// The columns of text files, inferred or given, in file order. The columns of `path` follow
    /// them.
    pub columns: Vec<Column>,
    /// Which of `columns` the guest gets, in that order, as indices. `None` means all columns.
    pub picked: Option<Vec<u32>>,
    /// The columns of other files that the guest gets, as the schema message of an Arrow IPC stream. The
    /// columns of `path` come last.
    pub schema: Vec<u8>,
    /// Whether the types of text columns were inferred. If they were, a value that its column's type cannot
    /// represent exactly is refused instead of rounded.
    #[serde(default)]
    pub inferred: bool,
    /// Whether to count the JSON lines that have a key that is neither a column nor in `dropped`.
    #[serde(default)]
    pub counts_unknown_keys: bool,
    /// Keys of JSON lines that the job file drops ([`TableInput::dropped`]).
    #[serde(default)]
    pub dropped: Vec<String>,
    /// The template for columns that come from the files' paths. These columns are last.
    pub path: Option<super::PartitionFormat>,
    /// [`TableInput::query`].
    pub query: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn column_types_read_what_they_print() {
        for kind in ColumnType::ALL {
            assert_eq!(kind.to_string().to_uppercase().parse(), Ok(kind));
        }
        let error = "float".parse::<ColumnType>().expect_err("unknown").to_string();
        assert!(ColumnType::ALL.iter().all(|kind| error.contains(kind.name())), "{error}");
    }
}
