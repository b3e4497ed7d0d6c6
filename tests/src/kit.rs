//! The conformance kit of `tests/kit`.

use crate::{TestJob, root};
use serde_json::Value;
use std::fs;
use std::path::Path;

/// Runs `check --kit` with more options on a script. Returns for each check its name, its result and its
/// message. The command must exit with `code`.
#[track_caller]
pub fn kit_results(
    job: TestJob,
    script: &Path,
    options: &[&str],
    code: i32,
) -> Vec<(String, String, String)> {
    let arguments = [&["check", "--kit", script.to_str().unwrap(), "--json"], options].concat();
    let ran = job.command(&arguments);
    ran.exits_with(code);
    let report: Value = serde_json::from_str(&ran.stdout).unwrap();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let checks = report["checks"].as_array().unwrap().iter();
    checks
        .map(|check| (text(&check["name"]), text(&check["result"]), text(&check["words"])))
        .collect()
}

/// Fails unless the checks have the results that this column of the table in tests/kit/README.md shows.
#[track_caller]
pub fn assert_kit_as_documented(column: &str, found: &[(String, String, String)]) {
    let expected = documented(column);
    let results: Vec<_> =
        found.iter().map(|(name, result, _)| (name.clone(), result.clone())).collect();
    assert!(
        results == expected,
        "the column {column} in tests/kit/README.md differs from the results.\n\
         The column has:\n{expected:#?}\nThe results, with their messages, are:\n{found:#?}"
    );
}

/// A column of the table in tests/kit/README.md: the checks with their results.
fn documented(column: &str) -> Vec<(String, String)> {
    let text = fs::read_to_string(root().join("tests/kit/README.md")).unwrap();
    let cells = |line: &str| -> Vec<String> {
        line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect()
    };
    let mut lines = text.lines().skip_while(|line| !line.starts_with("| check |"));
    let head = cells(lines.next().expect("the table of checks"));
    let column = head.iter().position(|cell| cell == column).expect("the column");
    let rows = lines.skip(1).take_while(|line| line.starts_with('|')).map(cells);
    rows.map(|row| (row[0].trim_matches('`').to_owned(), row[column].clone())).collect()
}
