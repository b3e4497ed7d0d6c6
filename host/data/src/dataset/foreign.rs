//! Recognizes, by their first bytes, files that are not in their input's format. So the user sees
//! one message about such a file instead of an error for each of its lines.

use crate::model::TableKind;
use serde::de::IgnoredAny;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// How many bytes of each file we inspect.
const INSPECTED_BYTES: usize = 4 << 10;

/// What we can do with a file, judged by its first bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FileFormat {
    /// A format that we can read if the job file names it.
    Table(TableKind),
    /// A compressed file. We can read it if the input's format is a text format.
    Packed,
    /// A format that we cannot read, and what to do about it.
    Other(&'static str),
}

/// The first bytes of files, a description of the files, and their format.
const MAGICS: &[(&[u8], &str, FileFormat)] = &[
    (b"PAR1", "a Parquet file", FileFormat::Table(TableKind::Parquet)),
    (b"PARE", "an encrypted Parquet file", FileFormat::Other("decrypt it")),
    (b"ARROW1\0\0", "an Arrow file", FileFormat::Table(TableKind::Arrow)),
    (b"FEA1", "a Feather file of version 1", FileFormat::Other("save it as Parquet or Arrow")),
    (b"SQLite format 3\0", "an SQLite database", FileFormat::Table(TableKind::Sqlite)),
    (b"\x1F\x8B", "packed with gzip", FileFormat::Packed),
    (b"\x28\xB5\x2F\xFD", "packed with zstd", FileFormat::Packed),
    (b"BZh", "packed with bzip2", FileFormat::Other("unpack it, or pack it with gzip or zstd")),
    (b"\xFD7zXZ\0", "packed with xz", FileFormat::Other("unpack it, or pack it with gzip or zstd")),
    (b"7z\xBC\xAF\x27\x1C", "a 7z archive", FileFormat::Other("unpack it")),
    (b"PK\x03\x04", "a zip archive", FileFormat::Other("unpack it")),
    (
        b"\xD0\xCF\x11\xE0\xA1\xB1\x1A\xE1",
        "an Office file, such as an Excel workbook",
        FileFormat::Other("save its sheets as CSV"),
    ),
    (b"Obj\x01", "an Avro file", FileFormat::Other("save it as Parquet")),
    (b"ORC", "an ORC file", FileFormat::Other("save it as Parquet")),
    (b"\x89HDF\r\n\x1A\n", "an HDF5 file", FileFormat::Other("save its tables as Parquet")),
    (b"\x93NUMPY", "a NumPy file", FileFormat::Other("save it as Parquet, or use format: files")),
    (
        b"%PDF-",
        "a PDF file",
        FileFormat::Other("use format: files, which gives entry scripts paths"),
    ),
    (
        b"\x89PNG",
        "a PNG image",
        FileFormat::Other("use format: files, which gives entry scripts paths"),
    ),
    (
        b"\xFF\xD8\xFF",
        "a JPEG image",
        FileFormat::Other("use format: files, which gives entry scripts paths"),
    ),
];

/// If a file that begins with these bytes cannot be in the input's `format`, returns what the file
/// is and what to do: for example, `a Parquet file: write format: parquet`. `None` if the file may
/// be in the input's format, or if the file's format is unknown.
pub fn foreign_start(start: &[u8], format: TableKind) -> Option<String> {
    let start = &start[..start.len().min(INSPECTED_BYTES)];
    let found = MAGICS.iter().find(|(magic, ..)| start.starts_with(magic));
    let (description, file_format) = match found {
        Some((b"PK\x03\x04", ..)) if is_workbook(start) => {
            ("an Excel workbook", FileFormat::Other("save its sheets as CSV"))
        }
        Some((_, description, file_format)) => (*description, *file_format),
        None if start.starts_with(b"\xFF\xFF\xFF\xFF") && format != TableKind::Arrow => {
            ("an Arrow stream", FileFormat::Table(TableKind::Arrow))
        }
        None => recognize_text(start, format)?,
    };
    match file_format {
        FileFormat::Table(kind) if kind == format => None,
        FileFormat::Table(TableKind::Sqlite) => {
            Some(format!("{description}: write format: sqlite, and table or query"))
        }
        FileFormat::Table(kind) => Some(format!("{description}: write format: {}", kind.name())),
        FileFormat::Packed if format.is_text() => None,
        FileFormat::Packed => Some(format!(
            "{description}, which is allowed for text but not for {}: unpack it",
            format.name()
        )),
        FileFormat::Other(remedy) => Some(format!("{description}: {remedy}")),
    }
}

/// Like [`foreign_start`], for a file. Also `None` if the file is empty or cannot be read.
pub fn foreign_file(path: &Path, format: TableKind) -> Option<String> {
    let mut start = Vec::new();
    let file = super::csv::open_file(path).ok()?;
    File::take(file, INSPECTED_BYTES as u64).read_to_end(&mut start).ok()?;
    foreign_start(&start, format)
}

/// Recognizes text, unless it may be in the input's format.
fn recognize_text(start: &[u8], format: TableKind) -> Option<(&'static str, FileFormat)> {
    let start = start.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(start);
    let text = match std::str::from_utf8(start) {
        Ok(text) => text,
        // The last character may be cut off.
        Err(error) if error.error_len().is_none() => {
            std::str::from_utf8(&start[..error.valid_up_to()]).ok()?
        }
        Err(_) => return None,
    };
    let is_control = |c: char| c.is_control() && !matches!(c, '\t' | '\n' | '\r' | '\x1e');
    if text.is_empty() || text.contains(is_control) {
        return None;
    }
    let line = text.trim_start().lines().next().unwrap_or_default();
    let is_object = line.starts_with('{') && serde_json::from_str::<IgnoredAny>(line).is_ok();
    match format {
        TableKind::Jsonl => None,
        _ if is_object => Some(("JSON lines", FileFormat::Table(TableKind::Jsonl))),
        TableKind::Csv => None,
        _ => Some(("text, possibly CSV", FileFormat::Table(TableKind::Csv))),
    }
}

/// Whether a zip archive begins like those that Excel saves.
fn is_workbook(start: &[u8]) -> bool {
    let has = |name: &[u8]| memchr::memmem::find(start, name).is_some();
    has(b"[Content_Types].xml") || has(b"xl/") || has(b"_rels/.rels")
}

#[cfg(test)]
mod tests {
    use super::*;

    const STARTS: &[(&str, &[u8])] = &[
        ("parquet", b"PAR1\x15\x04"),
        ("arrow", b"ARROW1\0\0\xFF\xFF\xFF\xFF"),
        ("stream", b"\xFF\xFF\xFF\xFF\x78\0\0\0"),
        ("sqlite", b"SQLite format 3\0\x10\0"),
        ("gzip", b"\x1F\x8B\x08\0"),
        ("zstd", b"\x28\xB5\x2F\xFD\x04"),
        ("zip", b"PK\x03\x04\x14\0\0\0\x08\0a.csv"),
        ("xlsx", b"PK\x03\x04\x14\0\x06\0\x08\0[Content_Types].xml"),
        ("xls", b"\xD0\xCF\x11\xE0\xA1\xB1\x1A\xE1\0"),
        ("csv", b"id,name\n1,\xC3\xA9\n2,\xC3"),
        ("jsonl", b"\xEF\xBB\xBF{\"id\": 1}\n{\"id\": 2}\n"),
        ("latin", b"id,name\n1,\xE9t\xE9\n"),
        ("none", b""),
    ];

    #[test]
    fn each_format_is_distinguished_from_the_others() {
        let reported = TableKind::ALL.map(|format| {
            let lines = STARTS.iter().map(|(name, start)| {
                let reported = foreign_start(start, format);
                format!("  {name}: {}\n", reported.unwrap_or_else(|| "-".to_owned()))
            });
            format!("{}\n{}", format.name(), lines.collect::<String>())
        });
        insta::assert_snapshot!(reported.concat(), @"
    csv
      parquet: a Parquet file: write format: parquet
      arrow: an Arrow file: write format: arrow
      stream: an Arrow stream: write format: arrow
      sqlite: an SQLite database: write format: sqlite, and table or query
      gzip: -
      zstd: -
      zip: a zip archive: unpack it
      xlsx: an Excel workbook: save its sheets as CSV
      xls: an Office file, such as an Excel workbook: save its sheets as CSV
      csv: -
      jsonl: JSON lines: write format: jsonl
      latin: -
      none: -
    jsonl
      parquet: a Parquet file: write format: parquet
      arrow: an Arrow file: write format: arrow
      stream: an Arrow stream: write format: arrow
      sqlite: an SQLite database: write format: sqlite, and table or query
      gzip: -
      zstd: -
      zip: a zip archive: unpack it
      xlsx: an Excel workbook: save its sheets as CSV
      xls: an Office file, such as an Excel workbook: save its sheets as CSV
      csv: -
      jsonl: -
      latin: -
      none: -
    parquet
      parquet: -
      arrow: an Arrow file: write format: arrow
      stream: an Arrow stream: write format: arrow
      sqlite: an SQLite database: write format: sqlite, and table or query
      gzip: packed with gzip, which is allowed for text but not for parquet: unpack it
      zstd: packed with zstd, which is allowed for text but not for parquet: unpack it
      zip: a zip archive: unpack it
      xlsx: an Excel workbook: save its sheets as CSV
      xls: an Office file, such as an Excel workbook: save its sheets as CSV
      csv: text, possibly CSV: write format: csv
      jsonl: JSON lines: write format: jsonl
      latin: -
      none: -
    arrow
      parquet: a Parquet file: write format: parquet
      arrow: -
      stream: -
      sqlite: an SQLite database: write format: sqlite, and table or query
      gzip: packed with gzip, which is allowed for text but not for arrow: unpack it
      zstd: packed with zstd, which is allowed for text but not for arrow: unpack it
      zip: a zip archive: unpack it
      xlsx: an Excel workbook: save its sheets as CSV
      xls: an Office file, such as an Excel workbook: save its sheets as CSV
      csv: text, possibly CSV: write format: csv
      jsonl: JSON lines: write format: jsonl
      latin: -
      none: -
    sqlite
      parquet: a Parquet file: write format: parquet
      arrow: an Arrow file: write format: arrow
      stream: an Arrow stream: write format: arrow
      sqlite: -
      gzip: packed with gzip, which is allowed for text but not for sqlite: unpack it
      zstd: packed with zstd, which is allowed for text but not for sqlite: unpack it
      zip: a zip archive: unpack it
      xlsx: an Excel workbook: save its sheets as CSV
      xls: an Office file, such as an Excel workbook: save its sheets as CSV
      csv: text, possibly CSV: write format: csv
      jsonl: JSON lines: write format: jsonl
      latin: -
      none: -
    ");
    }
}
