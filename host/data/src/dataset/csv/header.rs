//! Reads the names of a table's columns.

use super::records::RecordWalk;
use crate::dataset::{DatasetError, err};
use crate::model::CsvFormat;
use std::collections::{HashMap, HashSet};
use std::path::Path;

/// The maximum number of names that a message lists.
const NAMES_SHOWN: usize = 30;

/// The name of a column without a name. `index` counts from 0.
pub(super) fn default_name(index: usize) -> String {
    format!("column_{index}")
}

/// The names in the bytes of a header. Empty if there is no record in them. Fails if a name is not UTF-8,
/// holds a null character (as in binary files) or occurs twice.
pub(super) fn read_names(
    header: &[u8],
    csv: &CsvFormat,
    path: &Path,
) -> Result<Vec<String>, DatasetError> {
    let mut records = RecordWalk::new(header, csv);
    let Some(record) = records.next_record() else { return Ok(Vec::new()) };
    let mut names = Vec::with_capacity(record.len());
    for (index, field) in record.fields().enumerate() {
        match std::str::from_utf8(field) {
            Ok("") => names.push(default_name(index)),
            Ok(name) if name.contains('\0') => {
                return err!(
                    "{}: the name of column {} in the header, {name:?}, holds a null character, so \
                     this is not a CSV file; move it away, or name the files with a glob that leaves it \
                     out",
                    path.display(),
                    index + 1,
                );
            }
            Ok(name) => names.push(name.to_owned()),
            Err(_) => {
                return err!(
                    "{}: the name of column {} in the header, {:?}, is not UTF-8; save the file as \
                     UTF-8",
                    path.display(),
                    index + 1,
                    String::from_utf8_lossy(field),
                );
            }
        }
    }
    if csv.rename_duplicates {
        return Ok(number_duplicates(names));
    }
    let mut seen = HashMap::new();
    for (index, name) in names.iter().enumerate() {
        if let Some(first) = seen.insert(name.as_str(), index) {
            return err!(
                "{}: columns {} and {} of the header are both named '{name}'; rename one, or set \
                 `duplicate_names: rename`, which numbers them (if the file has no header, set \
                 `header: false`)",
                path.display(),
                first + 1,
                index + 1,
            );
        }
    }
    Ok(names)
}

/// Appends a number to each name that has occurred before: `a`, `a_1`, `a_2`.
fn number_duplicates(names: Vec<String>) -> Vec<String> {
    let mut taken: HashSet<String> = names.iter().cloned().collect();
    // The last number of each name.
    let mut seen: HashMap<String, usize> = HashMap::with_capacity(names.len());
    let number = |name: String| {
        let Some(last) = seen.get_mut(&name) else {
            seen.insert(name.clone(), 0);
            return name;
        };
        loop {
            *last += 1;
            let numbered = format!("{name}_{last}");
            if taken.insert(numbered.clone()) {
                return numbered;
            }
        }
    };
    names.into_iter().map(number).collect()
}

/// Checks the column names of a file against those of its input. `origin` says where the input's
/// names come from: the first file, or the job file.
pub fn check_names<'a>(
    path: &Path,
    found: &[String],
    expected: impl ExactSizeIterator<Item = &'a str> + Clone,
    origin: &str,
) -> Result<(), DatasetError> {
    if expected.clone().eq(found.iter().map(String::as_str)) {
        return Ok(());
    }
    err!(
        "{}: the header does not fit {origin}; expected {}; found {}: give them the same columns in \
         the same order, or make them inputs of separate jobs",
        path.display(),
        list_names(expected),
        list_names(found.iter().map(String::as_str)),
    )
}

/// The number of names, and the first of them, for a message.
fn list_names<'a>(names: impl ExactSizeIterator<Item = &'a str>) -> String {
    let count = names.len();
    let columns = if count == 1 { "column" } else { "columns" };
    let ellipsis = if count > NAMES_SHOWN { ", …" } else { "" };
    let names = names.take(NAMES_SHOWN).collect::<Vec<_>>().join(", ");
    format!("{count} {columns}: {names}{ellipsis}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use insta::assert_snapshot;

    fn names(header: &[u8]) -> Result<Vec<String>, DatasetError> {
        read_names(header, &CsvFormat::default(), Path::new("/d/a.csv"))
    }

    #[test]
    fn names_are_read() {
        assert_eq!(names(b"\r\nid,,\"a,\"\"b\n\"\r\n").unwrap(), ["id", "column_1", "a,\"b\n"]);
        assert!(names(b"").unwrap().is_empty());
        assert!(names(b"\n\r\n").unwrap().is_empty());
    }

    #[test]
    fn names_that_occur_twice_can_be_numbered() {
        let csv = CsvFormat { rename_duplicates: true, ..CsvFormat::default() };
        let names = |header: &[u8]| read_names(header, &csv, Path::new("a.csv")).unwrap();
        assert_eq!(names(b"a,a,a_1,a,b,b\n"), ["a", "a_2", "a_1", "a_3", "b", "b_1"]);
        assert_eq!(names(b"column_1,,\n"), ["column_1", "column_1_1", "column_2"]);
        assert_eq!(names(b"a,a_1,a_1\n"), ["a", "a_1", "a_1_1"]);
    }

    #[test]
    fn bad_names_are_refused() {
        assert_snapshot!(names(b"a,b,a\n").unwrap_err(), @"/d/a.csv: columns 1 and 3 of the header are both named 'a'; rename one, or set `duplicate_names: rename`, which numbers them (if the file has no header, set `header: false`)");
        assert_snapshot!(names(b"column_1,\n").unwrap_err(), @"/d/a.csv: columns 1 and 2 of the header are both named 'column_1'; rename one, or set `duplicate_names: rename`, which numbers them (if the file has no header, set `header: false`)");
        assert_snapshot!(names(b"a,\xFF").unwrap_err(), @r#"/d/a.csv: the name of column 2 in the header, "�", is not UTF-8; save the file as UTF-8"#);
    }

    #[test]
    fn a_different_header_is_refused() {
        let found = ["a".to_owned(), "c".to_owned()];
        let check = |expected: &[&str]| {
            check_names(Path::new("/d/b.csv"), &found, expected.iter().copied(), "/d/a.csv")
        };
        check(&["a", "c"]).unwrap();
        assert_snapshot!(check(&["a", "b", "c"]).unwrap_err(), @"/d/b.csv: the header does not fit /d/a.csv; expected 3 columns: a, b, c; found 2 columns: a, c: give them the same columns in the same order, or make them inputs of separate jobs");
        assert!(check(&["c", "a"]).is_err());
    }
}
