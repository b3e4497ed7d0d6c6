//! Turns rows of a file into rows of the table. A row with a value that the table's type cannot hold is left
//! out and reported.

use super::columns::ColumnFit;
use super::stored::converted;
use crate::dataset::error::MisfitError;
use crate::dataset::{DatasetError, err};
use crate::model::AttemptReport;
use arrow::array::{
    Array, ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions, new_null_array,
};
use arrow::compute::{CastOptions, cast_with_options, filter_record_batch};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The rows that are left out, and why. `None` for rows beyond the maximum number of reasons in a
/// report.
pub(super) type MisfitRows = BTreeMap<usize, Option<String>>;

/// Turns a batch of the needed columns into a batch of the table. In `batch`, 96-bit times and
/// intervals may still be plain bytes. `file` has the types that they must be converted to. Returns
/// the rows that fit, and the rows that are left out.
pub(super) fn fitted(
    batch: &RecordBatch,
    file: &Schema,
    fit: &ColumnFit,
    columns: &SchemaRef,
) -> Result<(RecordBatch, MisfitRows), DatasetError> {
    let mut misfits = MisfitRows::new();
    let arrays = arrays(batch, file, fit, columns, &mut misfits)?;
    if misfits.is_empty() {
        return Ok((table(arrays, batch.num_rows(), columns)?, misfits));
    }
    let fits: BooleanArray =
        (0..batch.num_rows()).map(|row| Some(!misfits.contains_key(&row))).collect();
    let left = match filter_record_batch(batch, &fits) {
        Ok(left) => left,
        Err(error) => return err!("cannot become a table: {error}"),
    };
    let mut more_misfits = MisfitRows::new();
    let arrays = self::arrays(&left, file, fit, columns, &mut more_misfits)?;
    if !more_misfits.is_empty() {
        return err!("cannot become a table: its rows fit one by one, but not together");
    }
    Ok((table(arrays, left.num_rows(), columns)?, misfits))
}

fn table(
    arrays: Vec<ArrayRef>,
    rows: usize,
    columns: &SchemaRef,
) -> Result<RecordBatch, DatasetError> {
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    match RecordBatch::try_new_with_options(Arc::clone(columns), arrays, &options) {
        Ok(batch) => Ok(batch),
        Err(error) => err!("cannot become a table: {error}"),
    }
}

/// The table's columns. Adds to `misfits` the rows that do not fit. If there are any, the caller must
/// not use the columns.
fn arrays(
    batch: &RecordBatch,
    file: &Schema,
    fit: &ColumnFit,
    columns: &SchemaRef,
    misfits: &mut MisfitRows,
) -> Result<Vec<ArrayRef>, DatasetError> {
    let mut arrays: Vec<ArrayRef> = Vec::with_capacity(columns.fields().len());
    for (index, field) in fit.indexes.iter().zip(columns.fields()) {
        let in_batch = index.and_then(|index| fit.needed.binary_search(&index).ok());
        let array = in_batch.and_then(|in_batch| batch.columns().get(in_batch));
        let (Some(index), Some(array)) = (index, array) else {
            arrays.push(new_null_array(field.data_type(), batch.num_rows()));
            continue;
        };
        let from = file.field(*index);
        check_nulls(array, from, field)?;
        let from = from.data_type();
        let to = field.data_type();
        let conversion = ColumnConversion { name: field.name(), from, to };
        match conversion.convert(array) {
            Ok(array) => arrays.push(array),
            Err(error) if !conversion.find_misfits(array, 0, misfits) => return err!("{error}"),
            Err(_) => arrays.push(new_null_array(field.data_type(), batch.num_rows())),
        }
    }
    Ok(arrays)
}

/// Fails if the array has nulls and the table's column does not allow nulls.
fn check_nulls(array: &ArrayRef, from: &Field, to: &Field) -> Result<(), DatasetError> {
    if to.is_nullable() || array.null_count() == 0 {
        return Ok(());
    }
    if !from.is_nullable() {
        return err!(
            "has nulls in column '{}', which is declared to have none; write the file anew",
            to.name(),
        );
    }
    err!(
        "has nulls in column '{}', where the first file has no nulls and allows none; set \
         schema_inference: full",
        to.name(),
    )
}

/// Converts a column of the file to one of the table.
struct ColumnConversion<'a> {
    name: &'a str,
    /// The type of the column in the file, after 96-bit times and intervals are converted.
    from: &'a DataType,
    to: &'a DataType,
}

impl ColumnConversion<'_> {
    /// Converts an array of the column. Fails if a value does not fit.
    fn convert(&self, array: &ArrayRef) -> Result<ArrayRef, MisfitError> {
        let &Self { name, from, to } = self;
        let array = converted(array, from)
            .map_err(|source| MisfitError::Stored { column: name.to_owned(), source })?;
        if array.data_type() == to {
            return Ok(array);
        }
        let options = CastOptions { safe: false, ..CastOptions::default() };
        cast_with_options(&array, to, &options).map_err(|source| MisfitError::Value {
            column: name.to_owned(),
            from: from.clone(),
            to: to.clone(),
            source,
        })
    }

    /// Adds to `misfits` the rows with values that do not fit. The array begins at row `first`. Returns
    /// whether there are such rows.
    fn find_misfits(&self, array: &ArrayRef, first: usize, misfits: &mut MisfitRows) -> bool {
        let Err(error) = self.convert(array) else { return false };
        if array.len() <= 1 {
            let is_reported = misfits.len() < AttemptReport::MAX_FAILED_ITEMS;
            misfits.entry(first).or_insert_with(|| is_reported.then(|| error.to_string()));
            return true;
        }
        let half = array.len() / 2;
        let in_first_half = self.find_misfits(&array.slice(0, half), first, misfits);
        let second_half = array.slice(half, array.len() - half);
        self.find_misfits(&second_half, first + half, misfits) || in_first_half
    }
}
