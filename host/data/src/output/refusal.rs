//! Why what a guest returned is not taken, in words.

use super::batches::Refused;
use super::cells::Value;
use super::join::Unjoined;
use super::table_error::reason;
use crate::model::OutputKind;
use arrow::array::{ArrayRef, RecordBatch};
use arrow::error::ArrowError;

/// Why a table is not taken.
pub(super) enum Refusal {
    Invalid(String),
    TooLarge,
    /// Beyond `limits.row`.
    LongRow(String),
    /// It is a table, but not one that the job's output format takes.
    Unfit(String),
}

/// Why a row of a table is not written.
pub(super) enum Unfit {
    Arrow(ArrowError),
    /// The field in this column would need quotes.
    Quotes(Option<usize>),
}

impl From<ArrowError> for Unfit {
    fn from(error: ArrowError) -> Self {
        Self::Arrow(error)
    }
}

/// Bytes of a value that are looked at to find out which it is that cannot be written.
const LOOKED_AT: u64 = 1 << 20;

/// A table with a value, or a type, that an output of lines has no text for. `row`: where that is in the batch;
/// `number`: and among all rows of the attempt.
pub(super) fn unprintable(
    batch: &RecordBatch,
    row: usize,
    number: u64,
    kind: OutputKind,
    error: &ArrowError,
) -> Refusal {
    let is_wrong = |column: &ArrayRef| {
        let value = Value::new(column, LOOKED_AT);
        value.and_then(|mut value| value.write(row, &mut Vec::new(), LOOKED_AT)).is_err()
    };
    let index = batch.columns().iter().position(is_wrong);
    let which = index
        .map(|index| batch.schema_ref().field(index))
        .map(|field| format!("column {:?}, of the type {},", field.name(), field.data_type()));
    Refusal::Unfit(format!(
        "the returned table cannot be written as {}: in row {number} (counted from 0), {} has no text \
         ({}). Return another value or type, or set output_format.type to parquet or arrow",
        kind.name(),
        which.as_deref().unwrap_or("one of the values"),
        reason(error),
    ))
}

pub(super) fn unquotable(row: u64, column: Option<&str>) -> String {
    let column = column.map(|name| format!(", column {name:?},")).unwrap_or_default();
    format!(
        "row {row} (counted from 0){column} of the results cannot be written without quotes, and \
         output_format.quoting is none: choose another quoting or delimiter, or another value"
    )
}

impl From<Refused> for Refusal {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::Invalid(error) => error.into(),
            Refused::Unfit(why) => Self::Unfit(why),
            Refused::TooLarge => Self::TooLarge,
        }
    }
}

impl From<ArrowError> for Refusal {
    fn from(error: ArrowError) -> Self {
        Self::Invalid(match error {
            ArrowError::IpcError(text)
            | ArrowError::ParseError(text)
            | ArrowError::InvalidArgumentError(text)
            | ArrowError::SchemaError(text) => without_structs(text),
            other => other.to_string(),
        })
    }
}

/// Arrow's words without the values that it prints as a program would: `Unaligned { position: ..`.
fn without_structs(mut text: String) -> String {
    if let Some(at) = text.find(" { ") {
        text.truncate(at);
    }
    text
}

impl From<Unjoined> for Refusal {
    fn from(unjoined: Unjoined) -> Self {
        match unjoined {
            Unjoined::Words(why) => Self::Unfit(why),
            Unjoined::Arrow(error) => error.into(),
        }
    }
}
