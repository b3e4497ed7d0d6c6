//! Finds the file and the line of a row of a table.

use crate::dataset::csv::records::RecordWalk;
use crate::dataset::csv::{Origins, count_lines, read_slice, reason};
use crate::dataset::json::{FilledLines, JsonDecoder};
use crate::model::{SpilledRows, TableFormat, TextSlice};
use arrow::datatypes::SchemaRef;
use std::path::PathBuf;
use std::sync::Arc;

/// Finds the file and the line of rows of a table. Remembers what the table was read from. A search takes
/// about as long as reading the table, so the caller searches only for rows that failed.
#[derive(Debug)]
pub struct RowLines<'a> {
    pub(super) format: &'a TableFormat,
    /// The columns in the files, for JSON lines.
    pub(super) json: Option<SchemaRef>,
    pub(super) origin: LineOrigin,
    /// The name of all the table's files together.
    pub(super) label: String,
}

#[derive(Debug)]
pub(super) enum LineOrigin {
    /// Slices of files, one after the other.
    Parts(Vec<LineSlice>),
    /// Rows that were gathered from many files.
    Spilled { root: PathBuf, rows: SpilledRows, all_fit: bool },
}

/// A slice of a file.
#[derive(Debug)]
pub(super) struct LineSlice {
    pub(super) root: PathBuf,
    pub(super) slice: TextSlice,
    pub(super) item: String,
    /// How many rows of the table came from this slice.
    pub(super) rows: usize,
}

impl RowLines<'_> {
    /// The file of each of the rows, and the line on which the row begins, counted from 1. `rows` are counted
    /// from 0, and must ascend. The line is `None` if it can no longer be found.
    pub fn locate(&self, rows: &[usize]) -> Vec<(String, Option<u64>)> {
        let mut found = Vec::with_capacity(rows.len());
        match &self.origin {
            LineOrigin::Parts(parts) => {
                let mut first = 0;
                let mut rest = rows;
                for part in parts {
                    let end = first + part.rows;
                    let (here, later) = rest.split_at(rest.partition_point(|&row| row < end));
                    let local: Vec<usize> = here.iter().map(|row| row - first).collect();
                    let mut lines = self.lines(part, &local).into_iter();
                    found.extend(here.iter().map(|_| (part.item.clone(), lines.next())));
                    (first, rest) = (end, later);
                }
            }
            LineOrigin::Spilled { root, rows: spilled, all_fit } => {
                let mut origins = Origins::new(root, spilled, &self.label);
                let mut text = Vec::new();
                if let Ok(text) = read_slice(root, &spilled.text, &mut text) {
                    self.each(text, *all_fit, rows, |number, _| {
                        found.push(origins.of_record(number));
                    });
                }
            }
        }
        found.resize(rows.len(), (self.label.clone(), None));
        found
    }

    fn lines(&self, part: &LineSlice, rows: &[usize]) -> Vec<u64> {
        let mut buffer = Vec::new();
        let mut found = Vec::with_capacity(rows.len());
        if rows.is_empty() {
            return found;
        }
        // The file was readable a moment ago. If it no longer is, only the line is lost, which is
        // not worth an error.
        let Ok(text) = read_slice(&part.root, &part.slice, &mut buffer) else { return found };
        let mut counted = 0;
        let mut line = part.slice.first_line;
        let all_fit = part.rows as u64 == part.slice.rows;
        self.each(text, all_fit, rows, |_, start| {
            let before = if counted == 0 { b'\n' } else { text[counted - 1] };
            line += count_lines(&text[counted..start], before);
            counted = start;
            found.push(line);
        });
        found
    }

    /// Calls `found` for each of the rows, with the number of the row's record and the offset of
    /// the record's first byte.
    fn each(&self, text: &[u8], all_fit: bool, rows: &[usize], mut found: impl FnMut(u64, usize)) {
        let mut wanted = rows.iter().copied().peekable();
        if let Some(schema) = &self.json {
            let mut json = JsonDecoder::new(Arc::clone(schema), self.format.inferred, None);
            let lines = (0..).zip(FilledLines::new(text));
            let lines = lines.filter(|(_, (_, line))| all_fit || json.misfit(line).is_none());
            for (row, (number, (start, _))) in lines.enumerate() {
                if wanted.next_if_eq(&row).is_some() {
                    found(number, start);
                }
                if wanted.peek().is_none() {
                    break;
                }
            }
            return;
        }
        let mut records = RecordWalk::new(text, &self.format.csv);
        let mut row = 0;
        let mut number = 0;
        while wanted.peek().is_some()
            && let Some(record) = records.next_record()
        {
            if all_fit || reason(&record, self.format).is_none() {
                if wanted.next_if_eq(&row).is_some() {
                    found(number, record.start);
                }
                row += 1;
            }
            number += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataset::csv::{OriginNames, encode_number};
    use crate::dataset::{TablePart, TableReader};
    use crate::model::{Column, ColumnType, CsvFormat};

    fn reader() -> TableReader {
        let csv = CsvFormat { header: false, ..CsvFormat::default() };
        let column = |name: &str, kind| Column { name: name.to_owned(), kind };
        let columns = vec![column("n", ColumnType::Int64), column("t", ColumnType::String)];
        TableReader::new(&TableFormat { csv, columns, ..TableFormat::default() }).unwrap()
    }

    fn slice(file: &str, offset: u64, text: &str, first_line: u64, rows: u64) -> TextSlice {
        let length = text.len() as u64 - offset;
        let file = file.to_owned();
        TextSlice { file, offset, length, first_line, rows, ..TextSlice::sample() }
    }

    #[test]
    fn rows_are_found_in_each_of_several_files() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        let first = "head\n1,a\n\nx,misfit\n2,\"b\nc\"\r\n3,d\n";
        let second = "4,e\n5,f\n";
        std::fs::write(root.join("1.csv"), first).unwrap();
        std::fs::write(root.join("2.csv"), second).unwrap();
        let slices = [slice("1.csv", 5, first, 2, 4), slice("2.csv", 0, second, 1, 2)];
        let items = ["/one", "/two"];
        let parts = slices.iter().zip(items).map(|(slice, item)| TablePart { root, slice, item });
        let mut reader = reader();
        let table = reader.read_group(parts, "both").unwrap();
        assert_eq!((table.rows, table.rejected_count), (5, 1));
        let place = |item: &str, line| (item.to_owned(), line);
        let all = [("/one", 2), ("/one", 5), ("/one", 7), ("/two", 1), ("/two", 2)];
        let all = all.map(|(item, line)| place(item, Some(line)));
        assert_eq!(table.lines.locate(&[0, 1, 2, 3, 4]), all);
        assert_eq!(table.lines.locate(&[1, 4]), [all[1].clone(), all[4].clone()]);
        assert_eq!(table.lines.locate(&[2, 9]), [all[2].clone(), place("both", None)]);
        // If a file is gone, only the line is lost.
        std::fs::remove_file(root.join("1.csv")).unwrap();
        assert_eq!(table.lines.locate(&[0, 3]), [place("/one", None), all[3].clone()]);
    }

    #[test]
    fn gathered_rows_are_traced_to_their_files() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        let text = "1,a\nx,misfit\n2,b\n";
        std::fs::write(root.join("text"), text).unwrap();
        let mut names = OriginNames::create(&root.join("names")).unwrap();
        names.add("/a.csv").unwrap();
        names.add("/b.csv").unwrap();
        names.finish().unwrap();
        let mut origins = Vec::new();
        for number in [0, 7, 0, 8, 1, 9] {
            encode_number(number, &mut origins);
        }
        std::fs::write(root.join("origins"), &origins).unwrap();
        let rows = SpilledRows {
            text: slice("text", 0, text, 1, 3),
            origins: "origins".into(),
            origins_length: origins.len() as u64,
            names: "names".into(),
            ..SpilledRows::sample()
        };
        let mut reader = reader();
        let table = reader.read_rows(root, &rows, "all").unwrap();
        let found = table.lines.locate(&[0, 1]);
        assert_eq!(found, [("/a.csv".to_owned(), Some(7)), ("/b.csv".to_owned(), Some(9))]);
    }
}
