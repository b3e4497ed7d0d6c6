//! Turns rows of a file into rows of the table. A row with a value that the table's type cannot hold is left
//! out and reported.

use super::columns::ColumnFit;
use super::stored::converted;
use crate::dataset::error::MisfitError;
use crate::dataset::{DatasetError, fail};
use crate::model::AttemptReport;
use arrow::array::{
    Array, ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions, new_null_array,
};
use arrow::compute::{CastOptions, cast_with_options, filter_record_batch};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The rows that are left out. Each has its reason, up to the number that reports name.
pub(super) type Misfits = BTreeMap<usize, Option<String>>;

/// Turns a batch of the needed columns into one of the table. `file` has the types in which the file's
/// columns are passed on; the batch may still have stored values.
pub(super) fn fitted(
    batch: &RecordBatch,
    file: &Schema,
    fit: &ColumnFit,
    columns: &SchemaRef,
) -> Result<(RecordBatch, Misfits), DatasetError> {
    let mut misfits = Misfits::new();
    let arrays = arrays(batch, file, fit, columns, &mut misfits)?;
    if misfits.is_empty() {
        return Ok((table(arrays, batch.num_rows(), columns)?, misfits));
    }
    let stay: BooleanArray =
        (0..batch.num_rows()).map(|row| Some(!misfits.contains_key(&row))).collect();
    let left = match filter_record_batch(batch, &stay) {
        Ok(left) => left,
        Err(error) => return fail!("cannot become a table: {error}"),
    };
    let mut more = Misfits::new();
    let arrays = self::arrays(&left, file, fit, columns, &mut more)?;
    if !more.is_empty() {
        return fail!("cannot become a table: rows fit alone, but not together");
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
        Err(error) => fail!("cannot become a table: {error}"),
    }
}

/// The table's columns. Adds the rows that do not fit to `misfits`. If there are any, the columns must not be
/// used.
fn arrays(
    batch: &RecordBatch,
    file: &Schema,
    fit: &ColumnFit,
    columns: &SchemaRef,
    misfits: &mut Misfits,
) -> Result<Vec<ArrayRef>, DatasetError> {
    let mut arrays: Vec<ArrayRef> = Vec::with_capacity(columns.fields().len());
    for (place, field) in fit.places.iter().zip(columns.fields()) {
        let found = place.and_then(|place| fit.needed.binary_search(&place).ok());
        let (Some(place), Some(array)) = (place, found.and_then(|at| batch.columns().get(at)))
        else {
            arrays.push(new_null_array(field.data_type(), batch.num_rows()));
            continue;
        };
        let from = file.field(*place);
        check_nulls(array, from, field)?;
        let from = from.data_type();
        let to = field.data_type();
        let change = ColumnChange { name: field.name(), from, to };
        match change.convert(array) {
            Ok(array) => arrays.push(array),
            Err(error) if !change.find(array, 0, misfits) => return fail!("{error}"),
            Err(_) => arrays.push(new_null_array(field.data_type(), batch.num_rows())),
        }
    }
    Ok(arrays)
}

/// Fails if there are nulls where the table allows none.
fn check_nulls(array: &ArrayRef, from: &Field, to: &Field) -> Result<(), DatasetError> {
    if to.is_nullable() || array.null_count() == 0 {
        return Ok(());
    }
    if !from.is_nullable() {
        return fail!(
            "has nulls in column '{}', which is declared to have none; write the file anew",
            to.name(),
        );
    }
    fail!(
        "has nulls in column '{}', where the first file has none and allows none; set \
         schema_inference: full",
        to.name(),
    )
}

/// Converts a column of the file to one of the table.
struct ColumnChange<'a> {
    name: &'a str,
    /// The type in which the file passes it on.
    from: &'a DataType,
    to: &'a DataType,
}

impl ColumnChange<'_> {
    /// Fails if a value does not fit.
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

    /// Finds the rows with values that do not fit, counted from `first`. Returns whether there are any.
    fn find(&self, array: &ArrayRef, first: usize, misfits: &mut Misfits) -> bool {
        let Err(error) = self.convert(array) else { return false };
        if array.len() <= 1 {
            let named = misfits.len() < AttemptReport::MAX_FAILED_ITEMS;
            misfits.entry(first).or_insert_with(|| named.then(|| error.to_string()));
            return true;
        }
        let half = array.len() / 2;
        let before = self.find(&array.slice(0, half), first, misfits);
        let rest = array.slice(half, array.len() - half);
        self.find(&rest, first + half, misfits) || before
    }
}
