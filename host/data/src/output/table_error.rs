//! Why a table cannot be written in the output's format, and why the output file cannot be made from the
//! appended rows.

use crate::model::{ByteSize, OutputKind};
use arrow::datatypes::{DECIMAL256_MAX_PRECISION, DataType};
use arrow::error::ArrowError;
use parquet::errors::ParquetError;
use std::error::Error;
use std::io;
use std::num::TryFromIntError;

/// Why a typed output cannot hold a type. The text continues "the type X, which".
#[derive(Clone, Copy, Debug, thiserror::Error)]
pub(super) enum TypeError {
    /// Values of several types in one column.
    #[error("this output format cannot store")]
    Union,
    /// Intervals in nanoseconds, in Parquet.
    #[error("has nanoseconds, but intervals of a parquet file have only milliseconds")]
    Nanoseconds,
    /// Decimals with more digits than Parquet allows.
    #[error("needs more than {DECIMAL256_MAX_PRECISION} digits in a parquet file")]
    Digits,
}

/// A column with a type that the output cannot hold.
#[derive(Debug, thiserror::Error)]
#[error(
    "the column {name:?} of the returned table has the type {kind}, which {source}: return another type, or \
     set output_format.type to {others}"
)]
pub(super) struct ColumnError {
    pub(super) name: String,
    pub(super) kind: DataType,
    pub(super) source: TypeError,
    /// The output types that can hold the column.
    pub(super) others: &'static str,
}

/// Why the rows of a table cannot be written to a typed output.
#[derive(Debug, thiserror::Error)]
pub(super) enum FitError {
    /// A value that cannot be converted to the type that the column has in the output.
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
        /// Its type in the table.
        kind: DataType,
        /// The index of the row among the attempt's rows; `None` if no single row is at fault.
        row: Option<u64>,
        output: OutputKind,
        source: ArrowError,
    },
    /// Arrow cannot make a table of the columns.
    #[error("the returned table cannot be written as {}: {source}", output.name())]
    Table { output: OutputKind, source: ArrowError },
}

fn in_row(row: Option<u64>) -> String {
    row.map(|row| format!("in row {row} (counted from 0), ")).unwrap_or_default()
}

/// Arrow's message without the name of the error kind.
pub(super) fn reason(error: &ArrowError) -> String {
    match error {
        ArrowError::InvalidArgumentError(why)
        | ArrowError::CastError(why)
        | ArrowError::ParseError(why) => why.clone(),
        other => other.to_string(),
    }
}

/// Why the rows of an attempt cannot become part of the output file.
#[derive(Debug, thiserror::Error)]
pub(super) enum AttemptError {
    /// The rows cannot be appended.
    #[error("the returned table cannot be written as {}: {source}", output.name())]
    Stream { output: OutputKind, source: ArrowError },
    /// No file can be made from the rows.
    #[error("the returned table cannot be written as {}: {source}", output.name())]
    File { output: OutputKind, source: FinishError },
}

/// Why column names cannot make a header.
#[derive(Debug, thiserror::Error)]
pub(super) enum NamesError {
    /// A name that needs quotes, and the job forbids quotes.
    #[error(
        "the column's name {name:?} cannot be written in the header without quotes, and \
         output_format.quoting is none: choose another quoting or delimiter"
    )]
    Quotes { name: String },
    #[error(
        "the names of the table's columns make a header line of more than {limit}: set \
         output_format.header to false"
    )]
    Long { limit: ByteSize },
}

/// Why the input's columns cannot be joined with rows.
#[derive(Debug, thiserror::Error)]
pub(super) enum JoinError {
    /// The guest's input table is damaged.
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
        /// Whether the input has more columns than these.
        more: bool,
    },
    /// Arrow cannot select the columns.
    #[error(transparent)]
    Columns(#[from] ArrowError),
}

/// Why the output file could not be made.
#[derive(Debug, thiserror::Error)]
pub enum FinishError {
    /// The appended rows are damaged.
    #[error("the file of appended rows cannot be read: {0}")]
    Read(#[from] AppendedRowsError),
    /// The file cannot be written.
    #[error(transparent)]
    Write(WriteError),
}

/// What is wrong with the appended rows.
#[derive(Debug, thiserror::Error)]
pub enum AppendedRowsError {
    /// The operating system's error.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// Arrow's error.
    #[error(transparent)]
    Arrow(#[from] ArrowError),
    /// Arrow panicked.
    #[error("its bytes are inconsistent")]
    Contradiction,
    /// Rows are missing, or there are too many.
    #[error("it holds {found} rows, and {expected} were committed")]
    Rows {
        /// Rows that were read.
        found: u64,
        /// Rows that the journal knows.
        expected: u64,
    },
    /// No schema fits all tables.
    #[error("its tables have different columns")]
    Columns,
    /// Rows before any schema.
    #[error("it holds rows without a schema")]
    NoSchema,
    /// The bytes where a message should begin are not a message.
    #[error("a message cannot be read: {why}")]
    NoMessage {
        /// Arrow's error.
        why: String,
    },
    /// The length of a message is negative.
    #[error("the length of a message is negative")]
    NegativeLength,
    /// A length is too large for this machine.
    #[error(transparent)]
    Length(#[from] TryFromIntError),
    /// The last message is incomplete.
    #[error("it ends within a message")]
    Cut,
}

/// Why the output file could not be written.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The operating system's error.
    #[error(transparent)]
    Io(io::Error),
    /// Arrow's error.
    #[error(transparent)]
    Arrow(ArrowError),
    /// Parquet's error.
    #[error(transparent)]
    Parquet(ParquetError),
    /// An error that Parquet passes on.
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
    /// An Arrow error from reading appended rows.
    pub(super) fn read(error: ArrowError) -> Self {
        Self::Read(AppendedRowsError::Arrow(error))
    }

    /// An Arrow error from writing a file.
    pub(super) fn write(error: ArrowError) -> Self {
        Self::Write(match error {
            ArrowError::IoError(_, error) => WriteError::Io(error),
            other => WriteError::Arrow(other),
        })
    }
}
