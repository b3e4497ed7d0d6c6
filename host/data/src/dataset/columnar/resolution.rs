//! Decides which columns with 96-bit times are converted to microseconds instead of nanoseconds:
//! those in which microseconds hold all times that were seen, and nanoseconds do not. Only the
//! values show this.

use super::parquet::ParquetFile;
use super::stored::{converted, in_microseconds};
use crate::dataset::DatasetError;
use arrow::datatypes::{DataType, Field, Schema};
use std::collections::HashMap;
use std::sync::Arc;

/// How many rows are read at a time. Unless all rows are read, only this many rows of each file are
/// read.
const BATCH_ROWS: usize = 1 << 16;

/// Which units the times that were seen need, by the name of the column.
#[derive(Debug, Default)]
pub struct Resolution(HashMap<String, SeenUnits>);

/// Which units the times of a column need.
#[derive(Debug)]
struct SeenUnits {
    /// The column's type with nanoseconds, and its type with microseconds.
    types: [DataType; 2],
    /// Whether there is a time that 64-bit nanoseconds cannot hold.
    has_far_time: bool,
    /// Whether there is a time that 64-bit microseconds cannot hold, for example because it has a fraction of
    /// a microsecond.
    has_fine_time: bool,
}

impl Resolution {
    /// Reads the 96-bit times in the `wanted` columns of a file (`None`: all columns). Reads all rows if
    /// `all` is true, or else only the first ones. Fails if they cannot be read.
    pub(super) fn learn(
        &mut self,
        file: &mut ParquetFile,
        wanted: Option<&[String]>,
        all: bool,
    ) -> Result<(), DatasetError> {
        let both = file.stored_schema().fields().iter().zip(file.schema().fields());
        let times: Vec<_> = both
            .enumerate()
            .filter(|(_, (_, output))| wanted.is_none_or(|names| names.contains(output.name())))
            .filter_map(|(column, (stored, output))| {
                let nanos = output.data_type().clone();
                let micros = in_microseconds(stored.data_type(), &nanos);
                (micros != nanos).then(|| (column, output.name().clone(), [nanos, micros]))
            })
            .collect();
        for (column, name, types) in times {
            let new = || SeenUnits { types, has_far_time: false, has_fine_time: false };
            learn_column(file, column, all, self.0.entry(name).or_insert_with(new))?;
        }
        Ok(())
    }

    /// The columns of a table, in microseconds where necessary.
    pub fn apply(&self, schema: &Schema) -> Schema {
        let field = |field: &Arc<Field>| match self.0.get(field.name()) {
            Some(SeenUnits {
                types: [nanos, micros],
                has_far_time: true,
                has_fine_time: false,
            }) if nanos == field.data_type() => {
                Arc::new(field.as_ref().clone().with_data_type(micros.clone()))
            }
            _ => Arc::clone(field),
        };
        let fields: Vec<_> = schema.fields().iter().map(field).collect();
        Schema::new_with_metadata(fields, schema.metadata().clone())
    }
}

fn learn_column(
    file: &mut ParquetFile,
    column: usize,
    all: bool,
    seen: &mut SeenUnits,
) -> Result<(), DatasetError> {
    let mut left = if all { usize::MAX } else { BATCH_ROWS };
    for (group, rows) in file.group_rows().into_iter().enumerate() {
        let end = rows.min(left);
        left -= end;
        for skip in (0..end).step_by(BATCH_ROWS) {
            for batch in file.read(group, skip, BATCH_ROWS.min(end - skip), &[column])? {
                let times = batch.column(0);
                let [nanos_hold, micros_hold] =
                    seen.types.each_ref().map(|data_type| converted(times, data_type).is_ok());
                seen.has_far_time |= !nanos_hold;
                seen.has_fine_time |= !micros_hold;
            }
        }
    }
    Ok(())
}
