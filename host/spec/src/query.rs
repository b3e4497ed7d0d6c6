//! The queries for databases (docs/parallel-run-step.md M3).

use super::error::ErrorReport;
use super::raw::{RawInput, RawJob};
use super::scope::Located;
use crate::model::TableKind;

/// The longest statement, in bytes. SQLite itself accepts longer ones.
const LONGEST: usize = 1_000_000;

fn is_database(input: &RawInput) -> bool {
    input
        .format
        .as_ref()
        .is_some_and(|format| format.value.table().is_some_and(TableKind::is_asked))
}

/// Checks that each database has exactly one of `table` and `query`. The check of each format's keys refuses
/// them for other formats.
pub(super) fn check(input: &RawInput, report: &ErrorReport) {
    if !is_database(input) {
        return;
    }
    let unless_blamed = |at: &Located<String>, message: String| {
        if !report.blames(&at.key) {
            at.blame(report, message);
        }
    };
    match (&input.table, &input.query) {
        (None, None) => {
            let table = format!("{}.table", input.key);
            let query = format!("{}.query", input.key);
            if !report.blames(&table) && !report.blames(&query) {
                let message = "is of format sqlite, and does not say which rows to read; write table: \
                               with the name of a table, or query: with a select statement";
                report.error(&input.name.origin, &input.key, message);
            }
        }
        (Some(_), Some(query)) => {
            unless_blamed(query, "found together with table; write one of them".to_owned());
        }
        (Some(table), None) => {
            if table.value.trim().is_empty() || table.value.contains('\0') {
                unless_blamed(table, format!("found {:?}; expected a table's name", table.value));
            }
        }
        (None, Some(query)) => {
            let text = &query.value;
            if text.trim().is_empty() || text.contains('\0') || text.len() > LONGEST {
                let found = format!("{:?}", text.chars().take(40).collect::<String>());
                let message = format!(
                    "found {found}; expected a select statement of at most {LONGEST} bytes, without null \
                     characters"
                );
                unless_blamed(query, message);
            }
        }
    }
}

/// The query for an input's databases. `None` for other formats.
pub(super) fn of(input: &RawInput) -> Option<String> {
    if !is_database(input) {
        return None;
    }
    let all =
        |table: &Located<String>| format!("select * from \"{}\"", table.value.replace('"', "\"\""));
    input.query.as_ref().map(|query| query.value.clone()).or(input.table.as_ref().map(all))
}

/// Adds a notice if a size is given, as databases are not cut by size.
pub(super) fn note_size(raw: &RawJob, inputs: &[RawInput], report: &ErrorReport) {
    let databases: Vec<&str> =
        inputs.iter().filter(|it| is_database(it)).map(|it| it.name.value.as_str()).collect();
    let (Some(size), [_, ..]) = (&raw.mini_batch_size, databases.as_slice()) else { return };
    report.notice(format!(
        "mini_batch_size is {}, and does not cut inputs of format sqlite (inputs.{}): the whole result of \
         each database is one mini-batch",
        size.value.trim(),
        databases.join(", inputs."),
    ));
}
