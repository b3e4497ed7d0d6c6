//! The results of `run`.

#[cfg(feature = "table")]
use crate::IntoColumn;
use crate::Result;
use std::fmt::Display;

#[cfg(feature = "table")]
use arrow_array::{Array, ArrayRef, RecordBatch};

/// The results of a successful call of `run`.
///
/// Return as many rows as the mini-batch has items: each missing row counts as a failed item. The job keeps
/// surplus rows, with a notice. In a job with `strict_cardinality`, missing and surplus rows fail the
/// attempt. A void mini-batch has no items, and may return any number of rows.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Results {
    /// One row of text for each item that succeeded. A line break inside a row fails the attempt.
    Rows(Vec<String>),
    /// One entry for each item, in the order of the mini-batch: its row, or why it failed. A wrong number of
    /// entries fails the attempt. For a void mini-batch, return rows.
    Outcomes(Vec<Result<String, String>>),
    /// A table with one row for each item that succeeded. Use [`Results::Outcomes`] to report which items
    /// failed and why.
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

    /// Calls `work` for each item. An error fails only that item, and the job reports why.
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

    /// A table from named columns of the same length. For columns of different array types, pass each as an
    /// `ArrayRef`.
    #[cfg(feature = "table")]
    pub fn columns<N: Into<String>, A: Array + 'static>(
        columns: impl IntoIterator<Item = (N, A)>,
    ) -> Result<Self, arrow_schema::ArrowError> {
        let columns = columns
            .into_iter()
            .map(|(name, array)| (name.into(), std::sync::Arc::new(array) as ArrayRef));
        RecordBatch::try_from_iter(columns).map(Results::Table)
    }

    /// Appends new columns to a table. A new column replaces an existing one of the same name. For columns of
    /// different types, call [`IntoColumn::into_column`] on each.
    ///
    /// Fails if the number of values in a column differs from the number of rows in the table.
    #[cfg(feature = "table")]
    pub fn with_columns<N: Into<String>, C: IntoColumn>(
        table: &RecordBatch,
        columns: impl IntoIterator<Item = (N, C)>,
    ) -> Result<Self> {
        crate::columns::with_columns(table, columns).map(Results::Table)
    }

    /// The number of items that count as succeeded in the job.
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
