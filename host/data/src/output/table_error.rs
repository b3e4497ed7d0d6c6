//! Why a table is not written in the output's format, and why the output file is not made of what was appended.

use crate::model::{ByteSize, OutputKind};
use arrow::datatypes::{DECIMAL256_MAX_PRECISION, DataType};
use arrow::error::ArrowError;
use parquet::errors::ParquetError;
use std::error::Error;
use std::io;
use std::num::TryFromIntError;

/// Why an output with types has no place for a type: what follows "which".
#[derive(Clone, Copy, Debug, thiserror::Error)]
pub(super) enum TypeError {
    /// Values of several types in one column.
    #[error("an output of this type cannot hold")]
    Union,
    /// Intervals in nanoseconds, in Parquet.
    #[error("has nanoseconds, and intervals of a parquet file have milliseconds")]
    Nanoseconds,
    /// Decimals with more digits than Parquet has.
    #[error(
        "is written with all its digits in a parquet file, more than {DECIMAL256_MAX_PRECISION}"
    )]
    Digits,
}

/// A column with a type that the output has no place for.
#[derive(Debug, thiserror::Error)]
#[error(
    "the column {name:?} of the returned table has the type {kind}, which {source}: return another one, or \
     set output_format.type to {others}"
)]
pub(super) struct ColumnError {
    /// Its name.
    pub(super) name: String,
    /// Its type.
    pub(super) kind: DataType,
    /// What is wrong with the type.
    pub(super) source: TypeError,
    /// The types of output that have a place for it.
    pub(super) others: &'static str,
}

/// Why the rows of a table do not become rows of an output with types.
#[derive(Debug, thiserror::Error)]
pub(super) enum FitError {
    /// A value that its type in the output cannot hold.
    #[error(
        "the returned table cannot be written as {}: {}column {name:?}, of the type {kind}, does not fit \
         ({}). Return another value or type, or set output_format.type to {}",
        output.name(),
        in_row(*row),
        reason(source),
        if *output == OutputKind::Parquet { "arrow or jsonl" } else { "jsonl" }
    )]
    Value {
        /// The column.
        name: String,
        /// The type that the table has.
        kind: DataType,
        /// The row among those of the attempt, if one alone is wrong.
        row: Option<u64>,
        /// The type of the output.
        output: OutputKind,
        /// What Arrow says.
        source: ArrowError,
    },
    /// The columns do not make a table.
    #[error("the returned table cannot be written as {}: {source}", output.name())]
    Table {
        /// The type of the output.
        output: OutputKind,
        /// What Arrow says.
        source: ArrowError,
    },
}

fn in_row(row: Option<u64>) -> String {
    row.map(|row| format!("in row {row} (counted from 0), ")).unwrap_or_default()
}

/// Arrow's words without those for the kind of error.
pub(super) fn reason(error: &ArrowError) -> String {
    match error {
        ArrowError::InvalidArgumentError(why)
        | ArrowError::CastError(why)
        | ArrowError::ParseError(why) => why.clone(),
        other => other.to_string(),
    }
}

/// Why no output file can be made of a row.
#[derive(Debug, thiserror::Error)]
pub(super) enum AttemptError {
    /// The row cannot be appended.
    #[error("the returned table cannot be written as {}: {source}", output.name())]
    Stream {
        /// The type of the output.
        output: OutputKind,
        /// What Arrow says.
        source: ArrowError,
    },
    /// No file can be made of what would be appended.
    #[error("the returned table cannot be written as {}: {source}", output.name())]
    File {
        /// The type of the output.
        output: OutputKind,
        /// Why.
        source: FinishError,
    },
}

/// Why the names of columns do not become a header.
#[derive(Debug, thiserror::Error)]
pub(super) enum NamesError {
    /// A name with a delimiter, where nothing may be quoted.
    #[error(
        "the column's name {name:?} cannot stand in the header without quotes, and \
         output_format.quoting is none: choose another quoting or delimiter"
    )]
    Quotes {
        /// The name.
        name: String,
    },
    /// More bytes than a header may have.
    #[error(
        "the names of the table's columns make a header line of more than {limit}: set \
         output_format.header to false"
    )]
    Long {
        /// The most that it may have.
        limit: ByteSize,
    },
}

/// Why the input's columns cannot be put beside rows.
#[derive(Debug, thiserror::Error)]
pub(super) enum JoinError {
    /// The table that the guest got is damaged.
    #[error("the input cannot be read again: {0}")]
    Unreadable(#[source] ArrowError),
    /// The job names a column that the input lacks.
    #[error(
        "join names the column {name:?}, which the input does not have; it has {}{}",
        known.join(", "),
        if *more { ", ..." } else { "" }
    )]
    NoColumn {
        /// The column.
        name: String,
        /// The first columns of the input, quoted.
        known: Vec<String>,
        /// Whether the input has others.
        more: bool,
    },
    /// The columns make no table.
    #[error(transparent)]
    Columns(#[from] ArrowError),
}

/// Why the output file is not made.
#[derive(Debug, thiserror::Error)]
pub enum FinishError {
    /// What was appended is damaged.
    #[error("what was appended cannot be read: {0}")]
    Read(#[from] ReadError),
    /// The file cannot be written.
    #[error("it cannot be written: {0}")]
    Write(#[source] WriteError),
}

/// What is wrong with the rows that were appended.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The operating system refused.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// What Arrow says.
    #[error(transparent)]
    Arrow(#[from] ArrowError),
    /// Arrow panicked.
    #[error("its bytes contradict each other")]
    Contradiction,
    /// Rows are missing, or there are too many.
    #[error("it holds {found} rows, and {expected} were committed")]
    Rows {
        /// Rows that were read.
        found: u64,
        /// Rows that the journal knows.
        expected: u64,
    },
    /// Tables that no file can hold together.
    #[error("its tables have different columns")]
    Columns,
    /// Rows before any schema.
    #[error("it holds rows without a schema")]
    NoSchema,
    /// Bytes where a message should begin.
    #[error("a message is none: {why}")]
    NoMessage {
        /// What Arrow says.
        why: String,
    },
    /// A negative length.
    #[error("a message has no length")]
    NoLength,
    /// A length that this machine has no number for.
    #[error(transparent)]
    Length(#[from] TryFromIntError),
    /// The last message was cut.
    #[error("it ends within a message")]
    Cut,
}

/// Why the output file cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The operating system refused.
    #[error(transparent)]
    Io(io::Error),
    /// What Arrow says.
    #[error(transparent)]
    Arrow(ArrowError),
    /// What Parquet says.
    #[error(transparent)]
    Parquet(ParquetError),
    /// What Parquet passes on.
    #[error("{0}")]
    External(Box<dyn Error + Send + Sync>),
}

impl From<io::Error> for FinishError {
    fn from(error: io::Error) -> Self {
        Self::Write(WriteError::Io(error))
    }
}

impl From<ParquetError> for FinishError {
    fn from(error: ParquetError) -> Self {
        Self::Write(match error {
            ParquetError::External(error) => WriteError::External(error),
            other => WriteError::Parquet(other),
        })
    }
}

impl FinishError {
    /// What Arrow says of rows that it reads.
    pub(super) fn read(error: ArrowError) -> Self {
        Self::Read(ReadError::Arrow(error))
    }

    /// What Arrow says of a file that it writes.
    pub(super) fn write(error: ArrowError) -> Self {
        Self::Write(match error {
            ArrowError::IoError(_, error) => WriteError::Io(error),
            other => WriteError::Arrow(other),
        })
    }
}
