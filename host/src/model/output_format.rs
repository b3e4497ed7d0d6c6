//! How rows are written to the output file, and what becomes of files with a name that is taken.

use serde::{Deserialize, Serialize};
use std::fmt;

/// The kinds of text that an output file can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OutputKind {
    /// As ParallelRunStep writes it: rows as they are; tables with a space between fields (O1, O2).
    Text,
    /// Comma-separated values: rows become one field each.
    Csv,
    /// One JSON value a line: tables become objects, rows become texts.
    Jsonl,
}

/// Which fields of a table stand in quotes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Quoting {
    /// Those that could not be read back otherwise.
    Minimal,
    /// All of them, nulls too.
    All,
    /// All that are no numbers.
    Nonnumeric,
    /// None. A field that would have to be quoted fails the attempt.
    None,
}

/// How the output file is written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutputFormat {
    /// The kind of text.
    pub kind: OutputKind,
    /// Between the fields of a table. One ASCII character; unused for JSON lines.
    pub delimiter: u8,
    /// Whether the names of a table's columns stand once at the top.
    pub header: bool,
    /// Which fields stand in quotes.
    pub quoting: Quoting,
    /// What is written for a null. Unused for JSON lines.
    pub null: String,
    /// Whether each row of a table begins with its number within the mini-batch, as pandas' index.
    /// Unused for JSON lines.
    pub index: bool,
}

impl OutputFormat {
    /// What a kind is without further settings.
    pub fn of(kind: OutputKind) -> Self {
        Self {
            kind,
            delimiter: if kind == OutputKind::Csv { b',' } else { b' ' },
            header: kind == OutputKind::Csv,
            quoting: Quoting::Minimal,
            null: String::new(),
            index: false,
        }
    }
}

impl Default for OutputFormat {
    fn default() -> Self {
        Self::of(OutputKind::Text)
    }
}

/// What happens when two mini-batches write files of the same name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnConflict {
    /// The later attempt fails.
    #[default]
    Error,
    /// What the later one wrote is put behind what is there.
    Append,
    /// The later one takes the earlier one's place.
    Overwrite,
}

impl OnConflict {
    /// All of them, in the order of the docs.
    pub const ALL: [Self; 3] = [Self::Error, Self::Append, Self::Overwrite];

    /// The name in a job file.
    pub fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Append => "append",
            Self::Overwrite => "overwrite",
        }
    }
}

impl fmt::Display for OnConflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
