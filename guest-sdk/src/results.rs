//! What `run` gives back.

#[cfg(feature = "table")]
use crate::IntoColumn;
use crate::Result;
use std::fmt::Display;

#[cfg(feature = "table")]
use arrow_array::{Array, ArrayRef, RecordBatch};

/// What `run` gives back when the call as a whole succeeded.
///
/// A mini-batch of ten items should give ten: an item without a row counts as failed. More rows than
/// items are kept, with a notice. In a job with `strict_cardinality` both fail the attempt. A void mini-batch has no items, and may give any number of rows.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Results {
    /// One row of text for each item that succeeded. A line break inside a row fails the attempt.
    Rows(Vec<String>),
    /// One entry for each item, in the order of the mini-batch: its row, or why it failed. Another
    /// number of entries fails the attempt; a void mini-batch takes rows instead.
    Outcomes(Vec<Result<String, String>>),
    /// A table with one row for each item that succeeded. It cannot say which items failed and why;
    /// [`Results::Outcomes`] can.
    #[cfg(feature = "table")]
    Table(RecordBatch),
}

impl Results {
    /// One row of text for each item that succeeded, in any order.
    ///
    /// ```
    /// use sandmill_guest::Results;
    /// assert_eq!(Results::rows(["a.png: 3"]), Results::Rows(vec!["a.png: 3".to_owned()]));
    /// ```
    pub fn rows<R: Into<String>>(rows: impl IntoIterator<Item = R>) -> Self {
        Results::Rows(rows.into_iter().map(Into::into).collect())
    }

    /// One entry for each item, in the order of the mini-batch: its row, or why it failed.
    pub fn outcomes<R: Into<String>, E: Display>(
        outcomes: impl IntoIterator<Item = Result<R, E>>,
    ) -> Self {
        let text = |outcome: Result<R, E>| outcome.map(Into::into).map_err(|e| e.to_string());
        Results::Outcomes(outcomes.into_iter().map(text).collect())
    }

    /// Works on the items one by one. An error fails that item alone, and the job reports why.
    ///
    /// ```
    /// use sandmill_guest::Results;
    /// let results = Results::each(["3", "x"], |item| Ok(format!("{}", 2 * item.parse::<i32>()?)));
    /// let Results::Outcomes(outcomes) = results else { unreachable!() };
    /// assert_eq!(outcomes[0], Ok("6".to_owned()));
    /// assert_eq!(outcomes[1], Err("invalid digit found in string".to_owned()));
    /// ```
    pub fn each<T, R: Into<String>>(
        items: impl IntoIterator<Item = T>,
        work: impl FnMut(T) -> Result<R>,
    ) -> Self {
        Self::outcomes(items.into_iter().map(work))
    }

    /// A table with one row for each item that succeeded.
    #[cfg(feature = "table")]
    pub fn table(table: RecordBatch) -> Self {
        Results::Table(table)
    }

    /// A table of columns that have names and the same length. The columns may be of one array
    /// type, or of several as `ArrayRef`.
    #[cfg(feature = "table")]
    pub fn columns<N: Into<String>, A: Array + 'static>(
        columns: impl IntoIterator<Item = (N, A)>,
    ) -> Result<Self, arrow_schema::ArrowError> {
        let columns = columns
            .into_iter()
            .map(|(name, array)| (name.into(), std::sync::Arc::new(array) as ArrayRef));
        RecordBatch::try_from_iter(columns).map(Results::Table)
    }

    /// The table with new columns behind its own. A new column with the name of one that is there
    /// takes its place. For columns of several types call [`IntoColumn::into_column`] on each.
    ///
    /// It fails if a column has another number of values than the table has rows.
    #[cfg(feature = "table")]
    pub fn with_columns<N: Into<String>, C: IntoColumn>(
        table: &RecordBatch,
        columns: impl IntoIterator<Item = (N, C)>,
    ) -> Result<Self> {
        crate::columns::with_columns(table, columns).map(Results::Table)
    }

    /// How many items succeeded, as the job counts it.
    pub fn succeeded(&self) -> usize {
        match self {
            Results::Rows(rows) => rows.len(),
            Results::Outcomes(outcomes) => outcomes.iter().filter(|o| o.is_ok()).count(),
            #[cfg(feature = "table")]
            Results::Table(table) => table.num_rows(),
        }
    }
}

impl From<Vec<String>> for Results {
    fn from(rows: Vec<String>) -> Self {
        Results::Rows(rows)
    }
}

#[cfg(feature = "table")]
impl From<RecordBatch> for Results {
    fn from(table: RecordBatch) -> Self {
        Results::Table(table)
    }
}
