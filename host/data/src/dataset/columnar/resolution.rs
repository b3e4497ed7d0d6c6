//! Decides which columns with 96-bit times are passed on in microseconds: those with times that nanoseconds
//! cannot hold, and without times that microseconds cannot hold. Only the values show this.

use super::parquet::ParquetFile;
use super::stored::{coarse, converted};
use crate::dataset::DatasetError;
use arrow::datatypes::{DataType, Field, Schema};
use std::collections::HashMap;
use std::sync::Arc;

/// How many rows are read together; and how many of each file, if only the first ones are read.
const ROWS: usize = 1 << 16;

/// What is known of the columns, by name.
#[derive(Debug, Default)]
pub struct Resolution(HashMap<String, SeenUnits>);

#[derive(Debug)]
struct SeenUnits {
    /// The type in nanoseconds, and the one in microseconds.
    types: [DataType; 2],
    /// Whether there is a time that nanoseconds cannot hold.
    has_far: bool,
    /// Whether there is a time that microseconds cannot hold.
    has_fine: bool,
}

impl Resolution {
    /// Reads the values of a file's `wanted` columns (`None`: all): `all` values, or the first ones. Fails if
    /// they cannot be read.
    pub(super) fn learn(
        &mut self,
        file: &mut ParquetFile,
        wanted: Option<&[String]>,
        all: bool,
    ) -> Result<(), DatasetError> {
        let both = file.stored_schema().fields().iter().zip(file.schema().fields());
        let times: Vec<_> = both
            .enumerate()
            .filter(|(_, (_, meant))| wanted.is_none_or(|all| all.contains(meant.name())))
            .filter_map(|(column, (stored, meant))| {
                let fine = meant.data_type().clone();
                let coarse = coarse(stored.data_type(), &fine);
                (coarse != fine).then(|| (column, meant.name().clone(), [fine, coarse]))
            })
            .collect();
        for (column, name, types) in times {
            let new = || SeenUnits { types, has_far: false, has_fine: false };
            learn_column(file, column, all, self.0.entry(name).or_insert_with(new))?;
        }
        Ok(())
    }

    /// The columns of a table, in microseconds where necessary.
    pub fn of(&self, schema: &Schema) -> Schema {
        let field = |field: &Arc<Field>| match self.0.get(field.name()) {
            Some(SeenUnits { types: [fine, coarse], has_far: true, has_fine: false })
                if fine == field.data_type() =>
            {
                Arc::new(field.as_ref().clone().with_data_type(coarse.clone()))
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
    let mut left = if all { usize::MAX } else { ROWS };
    for (group, rows) in file.group_rows().into_iter().enumerate() {
        let end = rows.min(left);
        left -= end;
        for skip in (0..end).step_by(ROWS) {
            for batch in file.read(group, skip, ROWS.min(end - skip), &[column])? {
                let [holds_fine, holds_coarse] =
                    seen.types.each_ref().map(|it| converted(batch.column(0), it).is_ok());
                seen.has_far |= !holds_fine;
                seen.has_fine |= !holds_coarse;
            }
        }
    }
    Ok(())
}
