//! Describes the columns of text tables with the types of job files.

use super::json::{field_of, is_json};
use super::{DatasetError, schema_of};
use crate::model::{Column, ColumnType, TableFormat, TableKind};
use arrow::datatypes::Field;

/// The names and types of the columns in an input's files, without columns from paths. The type is `None` if
/// a job file cannot express it. Fails if the schema cannot be read.
pub fn text_columns(
    table: &TableFormat,
) -> Result<Vec<(String, Option<ColumnType>)>, DatasetError> {
    let path_columns = table.path.as_ref().map_or(0, |path| path.keys().count());
    let mut columns: Vec<_> = match table.kind {
        TableKind::Csv => {
            let columns = table.columns.iter();
            columns.map(|column| (column.name.clone(), Some(column.kind))).collect()
        }
        _ => {
            let schema = schema_of(&table.schema)?;
            let fields = schema.fields().iter();
            fields.map(|field| (field.name().clone(), column_type(field))).collect()
        }
    };
    columns.truncate(columns.len().saturating_sub(path_columns));
    Ok(columns)
}

fn column_type(field: &Field) -> Option<ColumnType> {
    ColumnType::ALL.into_iter().find(|kind| {
        let candidate = field_of(&Column { name: field.name().clone(), kind: *kind });
        candidate.data_type() == field.data_type() && is_json(&candidate) == is_json(field)
    })
}
