//! How rows are written to the output file, and how conflicts of file names are resolved.

use serde::{Deserialize, Serialize};
use std::fmt;

/// The kinds of output file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OutputKind {
    /// The format of ParallelRunStep: rows unchanged, tables with a space between fields (rules O1 and O2 in
    /// docs/parallel-run-step.md).
    Text,
    /// Comma-separated values. A row of text becomes one field.
    Csv,
    /// One JSON value on each line. A row of a table becomes an object, a row of text becomes a string.
    Jsonl,
    /// A Parquet file. Types are kept, and rows of text become a column `value`.
    Parquet,
    /// An Arrow IPC file, with the same columns as a Parquet file.
    Arrow,
}

impl OutputKind {
    /// All values, in the order of the docs.
    pub const ALL: [Self; 5] = [Self::Text, Self::Csv, Self::Jsonl, Self::Parquet, Self::Arrow];

    /// The name in a job file.
    pub fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Csv => "csv",
            Self::Jsonl => "jsonl",
            Self::Parquet => "parquet",
            Self::Arrow => "arrow",
        }
    }

    /// Whether the file consists of lines. Otherwise, the columns have types, and the file is made
    /// from the appended rows at the end of the job.
    pub fn is_lines(self) -> bool {
        matches!(self, Self::Text | Self::Csv | Self::Jsonl)
    }

    /// The compressions that this kind allows.
    pub fn compressions(self) -> &'static [Compression] {
        use Compression::{Gzip, Lz4, None, Snappy, Zstd};
        match self {
            Self::Text | Self::Csv | Self::Jsonl => &[None, Gzip, Zstd],
            Self::Parquet => &[None, Snappy, Zstd, Gzip, Lz4],
            Self::Arrow => &[None],
        }
    }
}

/// How the output file is compressed: a file of lines as a whole, a Parquet file page by page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Compression {
    /// No compression.
    None,
    /// gzip.
    Gzip,
    /// Zstandard.
    Zstd,
    /// Snappy.
    Snappy,
    /// LZ4 blocks without frames (Parquet's `LZ4_RAW`).
    Lz4,
}

impl Compression {
    /// All values, in the order of the docs.
    pub const ALL: [Self; 5] = [Self::None, Self::Gzip, Self::Zstd, Self::Snappy, Self::Lz4];

    /// The name in a job file.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
            Self::Snappy => "snappy",
            Self::Lz4 => "lz4",
        }
    }
}

/// Which fields of a table are quoted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Quoting {
    /// Only fields that could not be read back without quotes.
    Minimal,
    /// All fields, including nulls.
    All,
    /// All fields that are not numbers.
    Nonnumeric,
    /// No fields. A field that needs quotes fails the attempt.
    None,
}

/// The layout of the final rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OutputLayout {
    /// One file.
    #[default]
    File,
    /// A folder of files, one for each worker. This is faster, because no rows are copied.
    Parts,
}

impl OutputLayout {
    /// All values, in the order of the docs.
    pub const ALL: [Self; 2] = [Self::File, Self::Parts];

    /// The name in a job file.
    pub fn name(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Parts => "parts",
        }
    }
}

/// Which columns of the input come before the columns that `run` returns.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Join {
    /// All columns.
    Input,
    /// These columns, in this order.
    Columns(Vec<String>),
}

impl Join {
    /// The name of the only column of a mini-batch of files: the guest's path of each file.
    pub const FILE: &str = "file";
}

/// How the output file is written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutputFormat {
    /// The kind of file. `delimiter`, `header`, `quoting`, `null` and `index` are used only for text and CSV.
    pub kind: OutputKind,
    /// One of [`OutputKind::compressions`].
    pub compression: Compression,
    /// The character between the fields of a table. One ASCII character.
    pub delimiter: u8,
    /// Whether the names of a table's columns are written once at the top.
    pub header: bool,
    /// Which fields are quoted.
    pub quoting: Quoting,
    /// The text for a null.
    pub null: String,
    /// Whether each row of a table begins with its number within the mini-batch, like the index of pandas.
    pub index: bool,
    /// Which columns of the input come before the columns that `run` returns. `None` if no columns do.
    pub join: Option<Join>,
    /// One file or a folder of parts.
    pub layout: OutputLayout,
}

impl OutputFormat {
    /// The default format of a kind.
    pub fn default_for(kind: OutputKind) -> Self {
        Self {
            kind,
            compression: match kind {
                OutputKind::Parquet => Compression::Snappy,
                _ => Compression::None,
            },
            delimiter: if kind == OutputKind::Csv { b',' } else { b' ' },
            header: kind == OutputKind::Csv,
            quoting: Quoting::Minimal,
            null: String::new(),
            index: false,
            join: None,
            layout: OutputLayout::File,
        }
    }

    /// Whether the output file consists of uncompressed lines.
    pub fn is_plain(&self) -> bool {
        self.kind.is_lines() && self.compression == Compression::None
    }

    /// Whether the output is made from all rows at the end of the job. This holds for parts, and for Parquet
    /// and Arrow files.
    pub fn is_made_at_end(&self) -> bool {
        self.layout == OutputLayout::Parts || !self.kind.is_lines()
    }

    /// Whether the output file has a header with its columns.
    pub fn has_header(&self) -> bool {
        match self.kind {
            OutputKind::Text | OutputKind::Csv => self.header,
            OutputKind::Jsonl => false,
            OutputKind::Parquet | OutputKind::Arrow => true,
        }
    }

    /// The default name of the output file. `lines` is the default name of a text file. Other formats replace
    /// its file name extension, and gzip and Zstandard add one. For parts, this is the default name of their
    /// folder, which has no extension.
    pub fn file_name(&self, lines: &str) -> String {
        match (self.kind, lines.rsplit_once('.')) {
            (OutputKind::Csv | OutputKind::Jsonl, Some((stem, _))) => {
                self.azure_file_name(&format!("{stem}.{}", self.kind.name()))
            }
            _ => self.azure_file_name(lines),
        }
    }

    /// The default name for Azure's job files, and in earlier versions of Sandmill. CSV and JSON
    /// lines keep the extension of `lines`.
    pub fn azure_file_name(&self, lines: &str) -> String {
        let stem = lines.rsplit_once('.').map_or(lines, |(stem, _)| stem);
        match (self.kind, self.compression) {
            _ if self.layout == OutputLayout::Parts => stem.to_owned(),
            (OutputKind::Parquet, _) => format!("{stem}.parquet"),
            (OutputKind::Arrow, _) => format!("{stem}.arrow"),
            (_, Compression::Gzip) => format!("{lines}.gz"),
            (_, Compression::Zstd) => format!("{lines}.zst"),
            _ => lines.to_owned(),
        }
    }

    /// The file name extension of the parts. `None` if the output is one file.
    pub fn part_ending(&self) -> Option<String> {
        let compression = match self.compression {
            Compression::Gzip if self.kind.is_lines() => ".gz",
            Compression::Zstd if self.kind.is_lines() => ".zst",
            _ => "",
        };
        let kind = if self.kind == OutputKind::Text { "txt" } else { self.kind.name() };
        (self.layout == OutputLayout::Parts).then(|| format!(".{kind}{compression}"))
    }

    /// The name of the file to which rows are appended while the job runs: the output file, or the file from
    /// which the output file is made at the end. For parts, the name of their folder, to which no rows are
    /// appended.
    pub fn appended(&self, file_name: &str) -> String {
        let is_made = !self.kind.is_lines() && self.layout == OutputLayout::File;
        if is_made { unfinished(file_name) } else { file_name.to_owned() }
    }
}

/// The name of the file from which an output file is made at the end of a job.
pub fn unfinished(file_name: &str) -> String {
    format!("{file_name}.part")
}

impl Default for OutputFormat {
    fn default() -> Self {
        Self::default_for(OutputKind::Text)
    }
}

/// What happens when two mini-batches write files with the same name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnConflict {
    /// The later attempt fails.
    #[default]
    Error,
    /// The content of the later file is appended to the earlier one.
    Append,
    /// The later file replaces the earlier one.
    Overwrite,
}

impl OnConflict {
    /// All values, in the order of the docs.
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
