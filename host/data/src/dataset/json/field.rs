//! JSON columns, which hold the text of any value. An extension type of Arrow distinguishes them from other
//! text columns.

use crate::dataset::csv::arrow_type;
use crate::model::{Column, ColumnType};
use arrow::datatypes::{DataType, Field};

/// The key of a field's metadata that holds the name of an extension type, and the name for JSON.
const EXTENSION: (&str, &str) = ("ARROW:extension:name", "arrow.json");

/// The field for a column that the job file names.
pub fn field_of(column: &Column) -> Field {
    match column.kind {
        ColumnType::Json => json_field(&column.name),
        kind => Field::new(&column.name, arrow_type(kind), true),
    }
}

pub(super) fn json_field(name: &str) -> Field {
    let (key, extension) = EXTENSION;
    let metadata = [(key.to_owned(), extension.to_owned())];
    Field::new(name, DataType::Utf8, true).with_metadata(metadata)
}

/// Whether the field holds JSON.
pub fn is_json(field: &Field) -> bool {
    let (key, extension) = EXTENSION;
    field.metadata().get(key).is_some_and(|found| found == extension)
}
