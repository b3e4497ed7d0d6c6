//! Tests that fields written in any dialect are read back, wherever the file is cut, and also after the rows
//! were gathered with those of other files.

use super::rows::{each_row, quote_field};
use super::tests::{CsvFixture, format, read};
use crate::dataset::DatasetError;
use crate::model::{ColumnType, CsvFormat, TableFormat, TextSlice};
use proptest::prelude::*;

type ParsedRows = Vec<Vec<String>>;
/// The fields of each row. `None` is null.
type Cells = Vec<Vec<Option<String>>>;

/// A dialect, and the choices that a writer of the dialect has.
#[derive(Clone, Debug)]
struct Writer {
    csv: CsvFormat,
    /// Whether it escapes quotes, rather than doubling them.
    escapes_quotes: bool,
    /// Whether it quotes all fields, rather than only those that need it.
    quotes_all: bool,
    line_end: &'static str,
    /// The blank lines before each record.
    blank_lines: &'static str,
}

impl Writer {
    fn text(&self, rows: &ParsedRows) -> Vec<u8> {
        let csv = &self.csv;
        let mut text = "no, \"table\n".repeat(csv.skip_lines as usize).into_bytes();
        let line = |fields: &[String], text: &mut Vec<u8>| {
            if let Some(comment) = csv.comment {
                text.push(comment);
                text.extend_from_slice(b" \"it's, said\\");
                text.extend_from_slice(self.line_end.as_bytes());
            }
            text.extend_from_slice(self.blank_lines.as_bytes());
            for (index, field) in fields.iter().enumerate() {
                if index > 0 {
                    text.push(csv.delimiter);
                }
                self.field(field, index == 0, text);
            }
            text.extend_from_slice(self.line_end.as_bytes());
        };
        line(&["a".to_owned(), "b".to_owned()], &mut text);
        rows.iter().for_each(|row| line(row, &mut text));
        text
    }

    fn field(&self, field: &str, is_first: bool, text: &mut Vec<u8>) {
        let csv = &self.csv;
        let is_special = |byte: u8| {
            byte == csv.delimiter
                || matches!(byte, b'\n' | b'\r')
                || [csv.quote, csv.escape].contains(&Some(byte))
        };
        let is_comment = |at: usize, byte: u8| is_first && at == 0 && csv.comment == Some(byte);
        let bytes = || field.bytes().enumerate();
        let needs_quotes = bytes().any(|(at, byte)| is_special(byte) || is_comment(at, byte));
        match (csv.quote, csv.escape) {
            (Some(quote), escape) if needs_quotes || self.quotes_all => {
                text.push(quote);
                for byte in field.bytes() {
                    match escape {
                        Some(escape) if byte == escape => text.push(escape),
                        Some(escape) if byte == quote && self.escapes_quotes => text.push(escape),
                        _ if byte == quote => text.push(quote),
                        _ => {}
                    }
                    text.push(byte);
                }
                text.push(quote);
            }
            (_, Some(escape)) => {
                for (at, byte) in bytes() {
                    if is_special(byte) || is_comment(at, byte) {
                        text.push(escape);
                    }
                    text.push(byte);
                }
            }
            (_, None) => text.extend_from_slice(field.as_bytes()),
        }
    }

    /// Removes the characters that the dialect cannot write: without quotes and escapes, a field cannot
    /// contain delimiters, line ends or comment characters.
    fn writable(&self, mut rows: ParsedRows) -> ParsedRows {
        let csv = &self.csv;
        if csv.quote.is_none() && csv.escape.is_none() {
            let is_text = |c: char| {
                !matches!(c, '\n' | '\r')
                    && ![csv.comment, Some(csv.delimiter)].contains(&Some(c as u8))
            };
            rows.iter_mut().flatten().for_each(|field| field.retain(is_text));
        }
        rows
    }
}

fn writers() -> impl Strategy<Value = Writer> {
    let marks = (
        prop::sample::select(vec![Some(b'"'), Some(b'\''), None]),
        prop::sample::select(vec![None, Some(b'\\'), Some(b'^')]),
        prop::sample::select(vec![None, Some(b'#')]),
        0u32..3,
    );
    let choices = (
        any::<bool>(),
        any::<bool>(),
        prop::sample::select(vec!["\n", "\r\n", "\r"]),
        prop::sample::select(vec!["", "\n", "\r\n\n"]),
    );
    (marks, choices).prop_map(|((quote, escape, comment, skip_lines), choices)| {
        let csv = CsvFormat { quote, escape, comment, skip_lines, ..CsvFormat::default() };
        let (escapes_quotes, quotes_all, line_end, blank_lines) = choices;
        Writer { csv, escapes_quotes, quotes_all, line_end, blank_lines }
    })
}

fn expected(rows: &ParsedRows) -> Cells {
    let field = |field: &String| Some(field.clone()).filter(|field| !field.is_empty());
    rows.iter().map(|row| row.iter().map(field).collect()).collect()
}

fn table(csv: &CsvFormat) -> TableFormat {
    format(csv.clone(), &[("a", ColumnType::String), ("b", ColumnType::String)])
}

/// The rows of slices, after they were gathered in one text.
fn gathered(files: &CsvFixture, csv: &CsvFormat, slices: &[TextSlice]) -> Cells {
    let mut text = b"a,b,c\n".to_vec();
    let mut more = vec![csv.delimiter];
    quote_field(b"x,\"'\\y", &csv.gathered(), &mut more);
    let mut buffer = Vec::new();
    for slice in slices {
        let mut last = 0;
        each_row::<DatasetError>(&files.root(), slice, csv, &mut buffer, |row| {
            assert!(row.line > last);
            last = row.line;
            row.write(&more, csv, &mut text);
            Ok(())
        })
        .unwrap();
    }
    let files = CsvFixture::new(&[("t.csv", &text)]);
    let csv = csv.gathered();
    let kinds = ["a", "b", "c"].map(|name| (name, ColumnType::String));
    let format = format(csv.clone(), &kinds);
    let (mut rows, rejected) = read(&files, &format, &files.slices(&csv, 50));
    assert_eq!(rejected, []);
    for row in &mut rows {
        assert_eq!(row.pop().flatten().as_deref(), Some("x,\"'\\y"));
    }
    rows
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn written_rows_are_read_back(
        writer in writers(),
        rows in prop::collection::vec(
            prop::collection::vec("([a#, \"'\\\\^é\n]|#a|,#|\n#){0,5}", 2), 0..12),
        size in 1u64..80,
    ) {
        let rows = writer.writable(rows);
        let text = writer.text(&rows);
        let files = CsvFixture::new(&[("t.csv", &text)]);
        let slices = files.slices(&writer.csv, size);
        let (read, rejected) = read(&files, &table(&writer.csv), &slices);
        prop_assert_eq!(rejected, []);
        prop_assert_eq!(&read, &expected(&rows));
        prop_assert_eq!(gathered(&files, &writer.csv, &slices), read);
        let names = files.infer(&writer.csv, true).unwrap();
        prop_assert_eq!(names.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["a", "b"]);
    }

    /// In any text, each record is in one slice, and is read once.
    #[test]
    fn any_text_is_cut_and_read(
        writer in writers(),
        text in "([a#,\"'\\\\^\n\r]|\r\n|\n#|',|\",){0,60}",
        size in 1u64..80,
        quoted_newlines: bool,
    ) {
        let csv = CsvFormat { header: false, quoted_newlines, ..writer.csv };
        let files = CsvFixture::new(&[("t.csv", text.as_bytes())]);
        let kinds = [("a", ColumnType::String)];
        let read = |size| {
            let slices = files.slices(&csv, size);
            let (rows, rejected) = read(&files, &format(csv.clone(), &kinds), &slices);
            let places: Vec<_> = rejected.into_iter().map(|it| (it.line, it.reason)).collect();
            (rows, places)
        };
        prop_assert_eq!(read(size), read(1 << 20));
    }
}

/// The rows of a text that is cut into small slices, and the line and the reason of each rejected record.
fn read_cut(csv: &CsvFormat, text: &str) -> (Cells, Vec<(Option<u64>, String)>) {
    let files = CsvFixture::new(&[("t.csv", text.as_bytes())]);
    let format = format(csv.clone(), &[("a", ColumnType::Int64), ("b", ColumnType::String)]);
    let (rows, rejected) = read(&files, &format, &files.slices(csv, 7));
    (rows, rejected.into_iter().map(|it| (it.line, it.reason)).collect())
}

#[test]
fn skipped_lines_and_comments_count_as_lines() {
    let csv = CsvFormat { comment: Some(b'#'), skip_lines: 3, ..CsvFormat::default() };
    let text = "one\r\ntwo\r\r# c\na,b\n#\n1,x\r\n# y\r\n\n2,\"#\n#\"\nz,bad\n3,#\n# end";
    let (rows, rejected) = read_cut(&csv, text);
    let row = |a: &str, b: &str| vec![Some(a.to_owned()), Some(b.to_owned())];
    assert_eq!(rows, [row("1", "x"), row("2", "#\n#"), row("3", "#")]);
    let places: Vec<_> = rejected.iter().map(|(line, _)| *line).collect();
    assert_eq!(places, [Some(12)]);
}

#[test]
fn quotes_of_another_dialect_can_be_stray() {
    let csv = CsvFormat { quote: Some(b'\''), header: false, ..CsvFormat::default() };
    let (rows, rejected) = read_cut(&csv, "1,'a''b'\n2,\"\n3,'x'y\n4,'open\n5,z\n");
    let row = |a: &str, b: &str| vec![Some(a.to_owned()), Some(b.to_owned())];
    assert_eq!(rows, [row("1", "a'b"), row("2", "\""), row("5", "z")]);
    let places: Vec<_> = rejected.iter().map(|(line, _)| line.unwrap()).collect();
    assert_eq!(places, [3, 4]);
    let reasons: Vec<_> = rejected.into_iter().map(|(_, reason)| reason).collect();
    insta::assert_snapshot!(reasons.join("\n"), @r#"
    column 2 'b': "'x'y" has text after its closing quote
    column 2 'b': "'open" has no closing quote
    "#);
}

#[test]
fn rewritten_stray_quotes_stay_in_their_rows() {
    let csv = CsvFormat { escape: Some(b'\\'), header: false, ..CsvFormat::default() };
    let text = "1,\"open\\\"\n2,b\n3,\"c\\\"\"d\n4\\,5,\"x\\\ny\"\n6,a\\";
    let files = CsvFixture::new(&[("t.csv", text.as_bytes())]);
    let mut gathered = Vec::new();
    let mut buffer = Vec::new();
    for slice in files.slices(&csv, 5) {
        each_row::<DatasetError>(&files.root(), &slice, &csv, &mut buffer, |row| {
            row.write(b",p", &csv, &mut gathered);
            Ok(())
        })
        .unwrap();
    }
    let (rows, rejected) = {
        let csv = csv.gathered();
        let files = CsvFixture::new(&[("t.csv", &gathered)]);
        let kinds = ["a", "b", "c"].map(|name| (name, ColumnType::String));
        read(&files, &format(csv.clone(), &kinds), &files.slices(&csv, 5))
    };
    let row = |fields: [&str; 3]| fields.map(|field| Some(field.to_owned())).to_vec();
    assert_eq!(rows, [row(["2", "b", "p"]), row(["4,5", "x\ny", "p"]), row(["6", "a\\", "p"])]);
    let reasons: Vec<_> = rejected.into_iter().map(|it| it.reason).collect();
    insta::assert_snapshot!(reasons.join("\n"), @r#"
    column 2 'b': "\"open\\'" has no closing quote
    column 2 'b': "\"c\\''d" has text after its closing quote
    "#);
}
