//! The files of samples, and the format of their fields.

use crate::model::{printable, text_cell, to_f64};
use jiff::Timestamp;
use std::fmt::Display;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::Path;

/// Formats the time of a sample: UTC, with milliseconds.
pub(super) fn time(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string()
}

/// Formats the hour of a sample for the names of folders and files.
pub(super) fn hour(at: Timestamp) -> String {
    at.strftime("%Y%m%d%H").to_string()
}

/// Formats bytes as megabytes (2^20 bytes), with two decimals.
pub(super) fn megabytes(bytes: u64) -> String {
    format!("{:.2}", to_f64(bytes) / f64::from(1 << 20))
}

/// Formats a number with two decimals. Empty for `None`.
pub(super) fn number(value: Option<f64>) -> String {
    value.map_or_else(String::new, |value| format!("{value:.2}"))
}

/// Formats a value. Empty for `None`.
pub(super) fn known(value: Option<impl Display>) -> String {
    value.map_or_else(String::new, |value| value.to_string())
}

/// One line of CSV, with its line break. Fields are quoted if necessary, and escaped so that no spreadsheet
/// program takes a field for a formula.
pub(super) fn line(fields: &[String]) -> String {
    let quoted = |field: &String| {
        let field = text_cell(field);
        if field.contains(['"', ',', '\n', '\r']) {
            format!("\"{}\"", field.replace('"', "\"\""))
        } else {
            field.into_owned()
        }
    };
    let mut line = fields.iter().map(quoted).collect::<Vec<_>>().join(",");
    line.push('\n');
    line
}

/// Appends `text` to the file. A new file begins with `header` (empty for no header). Creates the file's
/// folder if it is missing.
///
/// The file is opened for each sample, so no file stays open between samples. A resumed job appends
/// to its earlier files.
pub(super) fn append(path: &Path, header: &str, text: &str) -> io::Result<()> {
    let open = || OpenOptions::new().append(true).create(true).open(path);
    let mut file = match open() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            std::fs::create_dir_all(path.parent().unwrap_or(path))?;
            open()?
        }
        file => file?,
    };
    let with_header;
    let text = if file.metadata()?.len() == 0 && !header.is_empty() {
        with_header = format!("{header}{text}");
        &with_header
    } else {
        text
    };
    file.write_all(printable(text).as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_its_header_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deep/file.csv");
        let header = line(&["Time".to_owned(), "Command".to_owned()]);
        for command in ["a, b", "say \"x\"", "=1+1", "-2"] {
            append(&path, &header, &line(&["1".to_owned(), command.to_owned()])).unwrap();
        }
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text, "Time,Command\n1,\"a, b\"\n1,\"say \"\"x\"\"\"\n1,'=1+1\n1,-2\n");
    }

    #[test]
    fn times_are_utc() {
        let at = Timestamp::from_millisecond(1_700_000_000_123).unwrap();
        assert_eq!(
            (time(at).as_str(), hour(at).as_str()),
            ("2023-11-14T22:13:20.123Z", "2023111422")
        );
        assert_eq!(
            (megabytes(3 << 19), number(None), number(Some(0.5))),
            ("1.50".into(), String::new(), "0.50".into())
        );
    }
}
