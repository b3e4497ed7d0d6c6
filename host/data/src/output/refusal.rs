//! Why the results of a guest are refused, with the messages for users.

use super::batches::Refused;
use super::cells::JsonValues;
use super::join::Unjoined;
use super::table_error::reason;
use crate::model::OutputKind;
use arrow::array::{ArrayRef, RecordBatch};
use arrow::error::ArrowError;

/// Why a table is refused.
pub(super) enum TableRefusal {
    /// It is not a valid Arrow IPC stream, for this reason.
    Invalid(String),
    /// The rows have more bytes than `limits.results`.
    TooLarge,
    /// A row is longer than `limits.row`.
    LongRow(String),
    /// It is a valid table, but the job's output format cannot hold it.
    Unfit(String),
}

/// Why a row of a table cannot be written.
pub(super) enum UnfitRow {
    Arrow(ArrowError),
    /// The field in this column would need quotes, which the job forbids. `None` means the field with the row
    /// number.
    Quotes(Option<usize>),
}

impl From<ArrowError> for UnfitRow {
    fn from(error: ArrowError) -> Self {
        Self::Arrow(error)
    }
}

/// The search for the column whose value cannot be written stops writing a value after about this
/// many bytes.
const SEARCHED_BYTES: u64 = 1 << 20;

/// The refusal of a table with a value or type that cannot be written as text. `row` is the index of the
/// value's row in the batch, `number` its index among all rows of the attempt.
pub(super) fn unprintable(
    batch: &RecordBatch,
    row: usize,
    number: u64,
    kind: OutputKind,
    error: &ArrowError,
) -> TableRefusal {
    let is_wrong = |column: &ArrayRef| {
        let values = JsonValues::new(column, SEARCHED_BYTES);
        values.and_then(|mut values| values.write(row, &mut Vec::new(), SEARCHED_BYTES)).is_err()
    };
    let index = batch.columns().iter().position(is_wrong);
    let which = index
        .map(|index| batch.schema_ref().field(index))
        .map(|field| format!("column {:?}, of the type {},", field.name(), field.data_type()));
    TableRefusal::Unfit(format!(
        "the returned table cannot be written as {}: in row {number} (counted from 0), {} has no text \
         ({}). Return another value or type, or set output_format.type to parquet or arrow",
        kind.name(),
        which.as_deref().unwrap_or("one of the values"),
        reason(error),
    ))
}

/// The message for a field that would need quotes. `row` is the row's index among the rows of the attempt.
pub(super) fn unquotable(row: u64, column: Option<&str>) -> String {
    let column = column.map(|name| format!(", column {name:?},")).unwrap_or_default();
    format!(
        "row {row} (counted from 0){column} of the results cannot be written without quotes, and \
         output_format.quoting is none: choose another quoting or delimiter, or another value"
    )
}

impl From<Refused> for TableRefusal {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::Invalid(error) => error.into(),
            Refused::Unfit(why) => Self::Unfit(why),
            Refused::TooLarge => Self::TooLarge,
        }
    }
}

impl From<ArrowError> for TableRefusal {
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

/// Arrow's message without debug output of structs, such as `Unaligned { position: ..`.
fn without_structs(mut text: String) -> String {
    if let Some(start) = text.find(" { ") {
        text.truncate(start);
    }
    text
}

impl From<Unjoined> for TableRefusal {
    fn from(unjoined: Unjoined) -> Self {
        match unjoined {
            Unjoined::Refused(why) => Self::Unfit(why),
            Unjoined::Arrow(error) => error.into(),
        }
    }
}
