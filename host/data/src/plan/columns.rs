//! Reports the inferred columns of an input to the user, and the inferences that may be wrong.

use crate::dataset::csv::Inferred;
use crate::dataset::json::{InferredJson, is_json};
use crate::model::nearest;
use crate::protocol::FromPlanner;
use arrow::datatypes::{DataType, Field, Schema};

/// At most this many columns are listed. The rest is only counted.
const MAX_LISTED: usize = 20;

/// The advice for a column that does not exist: which columns exist, and which column the user may have
/// meant.
pub(super) fn existing_columns(unknown: &str, names: &[&str]) -> String {
    let meant = nearest(unknown, names.iter().copied());
    let hint = meant.map(|name| format!("; did you mean '{name}'?")).unwrap_or_default();
    let more = match names.len().saturating_sub(MAX_LISTED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let shown: Vec<_> = names.iter().take(MAX_LISTED).copied().collect();
    format!("its columns are: {}{more}{hint}", shown.join(", "))
}

/// The message that lists the columns of an input.
pub(super) fn columns_message(input: &str, schema: &Schema) -> FromPlanner {
    FromPlanner::Columns(format!("columns of input {input}: {}", list_columns(schema)))
}

/// The columns of JSON lines, and a notice for each doubtful inference.
pub(super) fn json_notices(input: &str, inferred: &InferredJson) -> Vec<FromPlanner> {
    let mut notices = vec![columns_message(input, &inferred.schema)];
    let doubts = inferred.doubts.iter();
    notices.extend(doubts.map(|doubt| FromPlanner::Notice(format!("input {input}: {doubt}"))));
    notices
}

/// A list of columns with their types, as text.
fn list_columns(schema: &Schema) -> String {
    let fields = schema.fields();
    let shown = fields.iter().take(MAX_LISTED);
    let shown: Vec<_> =
        shown.map(|field| format!("{} {}", field.name(), type_name(field))).collect();
    let more = match fields.len() - shown.len() {
        _ if fields.is_empty() => "none was found".to_owned(),
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("{}{more}", shown.join(", "))
}

/// The name of a type for users.
fn type_name(field: &Field) -> String {
    match field.data_type() {
        _ if is_json(field) => "json".to_owned(),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => "string".to_owned(),
        DataType::List(item) | DataType::LargeList(item) => {
            format!("list of {}", type_name(item))
        }
        DataType::Struct(_) => "object".to_owned(),
        DataType::Date32 => "date".to_owned(),
        DataType::Timestamp(..) => "timestamp".to_owned(),
        other => other.to_string().to_lowercase(),
    }
}

/// The columns of CSV files, a notice about columns with a doubtful type, and a notice if the delimiter seems
/// to be wrong.
pub(super) fn csv_notices(input: &str, inferred: &Inferred) -> Vec<FromPlanner> {
    let columns = &inferred.format.columns;
    if columns.is_empty() {
        return Vec::new();
    }
    let shown = columns.iter().take(MAX_LISTED);
    let shown: Vec<_> = shown.map(|column| format!("{} {}", column.name, column.kind)).collect();
    let more = match columns.len() - shown.len() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let listed = format!("columns of input {input}: {}{more}", shown.join(", "));
    let mut notices = vec![FromPlanner::Columns(listed)];
    let pairs = columns.iter().zip(&inferred.doubts);
    let doubts = pairs.filter_map(|(column, doubt)| {
        doubt.as_ref().map(|doubt| format!("{} is read as {} ({doubt})", column.name, column.kind))
    });
    let doubts: Vec<_> = doubts.collect();
    if !doubts.is_empty() {
        notices.push(FromPlanner::Notice(format!(
            "input {input}: {}; set schema to fix types (sandmill plan --write-schema prints one)",
            doubts.join(", "),
        )));
    }
    if let [only] = columns.as_slice()
        && let Some(other) =
            only.name.chars().find(|character| matches!(character, ',' | ';' | '\t'))
    {
        let name = &only.name;
        let used = char::from(inferred.format.csv.delimiter);
        notices.push(FromPlanner::Notice(format!(
            "input {input} has a single column, {name:?}, because its delimiter is {used:?}; if \
             the files have several columns, set delimiter to {other:?}"
        )));
    }
    notices
}
