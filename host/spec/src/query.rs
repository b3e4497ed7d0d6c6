//! Checks and builds the queries for inputs of format sqlite (docs/parallel-run-step.md M3).

use super::error::ErrorReport;
use super::raw::{RawInput, RawJob};
use super::scope::Located;
use crate::model::TableKind;

/// The maximum length of a query. SQLite itself accepts longer queries.
const MAX_QUERY_BYTES: usize = 1_000_000;

fn is_database(input: &RawInput) -> bool {
    input
        .format
        .as_ref()
        .is_some_and(|format| format.value.table().is_some_and(TableKind::is_database))
}

/// Checks that a database has exactly one of `table` and `query`. For other formats, `inputs` refuses these
/// keys.
pub(super) fn check(input: &RawInput, report: &ErrorReport) {
    if !is_database(input) {
        return;
    }
    let blame_once = |setting: &Located<String>, message: String| {
        if !report.has_error_at(&setting.key) {
            setting.blame(report, message);
        }
    };
    match (&input.table, &input.query) {
        (None, None) => {
            let table = format!("{}.table", input.key);
            let query = format!("{}.query", input.key);
            if !report.has_error_at(&table) && !report.has_error_at(&query) {
                let message = "is of format sqlite, but does not say which rows to read; set table \
                               to the name of a table, or query to a select statement";
                report.error(&input.name.origin, &input.key, message);
            }
        }
        (Some(_), Some(query)) => {
            blame_once(query, "found together with table; remove one of them".to_owned());
        }
        (Some(table), None) => {
            if table.value.trim().is_empty() || table.value.contains('\0') {
                blame_once(table, format!("found {:?}; expected a table's name", table.value));
            }
        }
        (None, Some(query)) => {
            let text = &query.value;
            if text.trim().is_empty() || text.contains('\0') || text.len() > MAX_QUERY_BYTES {
                let found = format!("{:?}", text.chars().take(40).collect::<String>());
                let message = format!(
                    "found {found}; expected a select statement of at most {MAX_QUERY_BYTES} bytes, without null \
                     characters"
                );
                blame_once(query, message);
            }
        }
    }
}

/// Returns the query for an input of format sqlite. `None` for other formats.
pub(super) fn sqlite_query(input: &RawInput) -> Option<String> {
    if !is_database(input) {
        return None;
    }
    let whole_table =
        |table: &Located<String>| format!("select * from \"{}\"", table.value.replace('"', "\"\""));
    input.query.as_ref().map(|query| query.value.clone()).or(input.table.as_ref().map(whole_table))
}

/// Adds a notice if a size is given, because databases are not cut by size.
pub(super) fn note_size(raw: &RawJob, inputs: &[RawInput], report: &ErrorReport) {
    let databases: Vec<&str> =
        inputs.iter().filter(|it| is_database(it)).map(|it| it.name.value.as_str()).collect();
    let (Some(size), [_, ..]) = (&raw.mini_batch_size, databases.as_slice()) else { return };
    report.notice(format!(
        "mini_batch_size is {}, but does not cut inputs of format sqlite (inputs.{}): the whole result of \
         each database is one mini-batch",
        size.value.trim(),
        databases.join(", inputs."),
    ));
}
