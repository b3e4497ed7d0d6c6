//! Reports the inferred columns of an input to the user, and the inferences that may be wrong.

use crate::dataset::csv::Inferred;
use crate::dataset::json::{InferredJson, is_json};
use crate::model::nearest;
use crate::protocol::FromPlanner;
use arrow::datatypes::{DataType, Field, Schema};

/// How many columns are listed before the rest is only counted.
const SHOWN: usize = 20;

/// The advice for a column that does not exist: which columns exist, and which one may have been meant.
pub(super) fn known(unknown: &str, names: &[&str]) -> String {
    let meant = nearest(unknown, names.iter().copied());
    let hint = meant.map(|name| format!("; did you mean '{name}'?")).unwrap_or_default();
    let more = match names.len().saturating_sub(SHOWN) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let shown: Vec<_> = names.iter().take(SHOWN).copied().collect();
    format!("its columns are: {}{more}{hint}", shown.join(", "))
}

/// The message that lists the columns of an input.
pub(super) fn describe(input: &str, schema: &Schema) -> FromPlanner {
    FromPlanner::Columns(format!("columns of input {input}: {}", listed(schema)))
}

/// The columns of JSON lines, and a notice for each doubtful inference.
pub(super) fn json_notices(input: &str, inferred: &InferredJson) -> Vec<FromPlanner> {
    let mut notices = vec![describe(input, &inferred.schema)];
    let doubts = inferred.doubts.iter();
    notices.extend(doubts.map(|doubt| FromPlanner::Notice(format!("input {input}: {doubt}"))));
    notices
}

/// Columns with their types.
pub(super) fn listed(schema: &Schema) -> String {
    let fields = schema.fields();
    let shown = fields.iter().take(SHOWN);
    let shown: Vec<_> = shown.map(|f| format!("{} {}", f.name(), kind(f))).collect();
    let more = match fields.len() - shown.len() {
        _ if fields.is_empty() => "none was found".to_owned(),
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("{}{more}", shown.join(", "))
}

/// The name of a type for users.
fn kind(field: &Field) -> String {
    match field.data_type() {
        _ if is_json(field) => "json".to_owned(),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => "string".to_owned(),
        DataType::List(item) | DataType::LargeList(item) => {
            format!("list of {}", kind(item))
        }
        DataType::Struct(_) => "object".to_owned(),
        DataType::Date32 => "date".to_owned(),
        DataType::Timestamp(..) => "timestamp".to_owned(),
        other => other.to_string().to_lowercase(),
    }
}

/// The columns, a notice of those with a doubtful type, and one more if the delimiter seems to be wrong.
pub(super) fn notices(input: &str, inferred: &Inferred) -> Vec<FromPlanner> {
    let columns = &inferred.format.columns;
    if columns.is_empty() {
        return Vec::new();
    }
    let shown = columns.iter().take(SHOWN);
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
        && let Some(other) = only.name.chars().find(|c| matches!(c, ',' | ';' | '\t'))
    {
        let name = &only.name;
        let used = char::from(inferred.format.csv.delimiter);
        notices.push(FromPlanner::Notice(format!(
            "input {input} has a single column, {name:?}, as its delimiter is {used:?}; if there \
             are several, set delimiter to {other:?}"
        )));
    }
    notices
}
