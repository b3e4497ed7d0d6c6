//! Tests that cut files and read the slices. They compare the rows with those that arrow-csv reads from the
//! whole file.

use super::cut::Cutter;
use super::infer::infer_format;
use crate::dataset::{DatasetError, TableReader, Unpacker};
use crate::model::{
    Column, ColumnType, CsvFormat, FailedItem, SliceSize, Source, TableFormat, TextSlice,
};
use arrow::array::{Array, RecordBatch};
use arrow::csv::ReaderBuilder;
use arrow::ipc::reader::StreamReader;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use insta::assert_snapshot;
use proptest::prelude::*;
use std::io::Cursor;
use std::path::PathBuf;

pub(super) struct CsvFixture(tempfile::TempDir);

impl CsvFixture {
    pub(super) fn new(files: &[(&str, &[u8])]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in files {
            std::fs::write(dir.path().join(name), text).unwrap();
        }
        Self(dir)
    }

    pub(super) fn root(&self) -> PathBuf {
        self.0.path().canonicalize().unwrap()
    }

    fn source(&self) -> Source {
        Source::new("data", self.root())
    }

    pub(super) fn slices(&self, csv: &CsvFormat, bytes: u64) -> Vec<TextSlice> {
        self.cut(csv, SliceSize::Bytes(bytes))
    }

    pub(super) fn cut(&self, csv: &CsvFormat, size: SliceSize) -> Vec<TextSlice> {
        let mut cutter = Cutter::new(csv, size);
        let mut cut = cutter.open(&self.root(), "t.csv".to_owned()).unwrap();
        std::iter::from_fn(|| cut.next_slice().unwrap()).collect()
    }

    pub(super) fn infer(
        &self,
        csv: &CsvFormat,
        full: bool,
    ) -> Result<Vec<(String, ColumnType)>, DatasetError> {
        let unpacker = Unpacker::new(&self.root());
        let mut may_open = |_, _: &_, _: &mut _| Ok(true);
        let inferred = infer_format(&[self.source()], csv, full, &unpacker, &mut may_open)
            .map_err(|DatasetError(text)| {
                DatasetError(text.replace(self.root().to_str().unwrap(), "/d"))
            })?;
        Ok(inferred.format.columns.into_iter().map(|column| (column.name, column.kind)).collect())
    }
}

pub(super) fn format(csv: CsvFormat, columns: &[(&str, ColumnType)]) -> TableFormat {
    let columns = columns.iter();
    let columns =
        columns.map(|(name, kind)| Column { name: (*name).to_owned(), kind: *kind }).collect();
    TableFormat { csv, columns, ..TableFormat::default() }
}

/// The cells of each row as text. `None` is null.
fn texts(batch: &RecordBatch) -> Vec<Vec<Option<String>>> {
    let options = FormatOptions::default();
    let columns = batch.columns().iter();
    let columns: Vec<_> = columns
        .map(|column| (column, ArrayFormatter::try_new(column, &options).unwrap()))
        .collect();
    let text = |row: usize| {
        let columns = columns.iter();
        columns.map(move |(column, text)| column.is_valid(row).then(|| text.value(row).to_string()))
    };
    (0..batch.num_rows()).map(|row| text(row).collect()).collect()
}

/// All rows of the slices, and what was rejected.
pub(super) fn read(
    files: &CsvFixture,
    format: &TableFormat,
    slices: &[TextSlice],
) -> (Vec<Vec<Option<String>>>, Vec<FailedItem>) {
    let mut reader = TableReader::new(format).unwrap();
    let mut rows = Vec::new();
    let mut rejected = Vec::new();
    for slice in slices {
        let loaded = reader.read(&files.root(), slice, "t.csv").unwrap();
        assert_eq!(loaded.rows + loaded.rejected_count, slice.rows);
        let batches: Vec<_> = StreamReader::try_new(Cursor::new(loaded.ipc.to_vec()), None)
            .unwrap()
            .map(Result::unwrap)
            .collect();
        assert_eq!(batches.len(), 1);
        rows.extend(texts(&batches[0]));
        rejected.extend(loaded.rejected);
    }
    (rows, rejected)
}

pub(super) fn csv(header: bool) -> CsvFormat {
    CsvFormat { header, ..CsvFormat::default() }
}

/// Pieces of CSV in any order. Most of these texts are not proper CSV.
pub(super) fn pieces() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop::sample::select(vec![
        "a", "bc", "1", ",", ",", "\n", "\n", "\r\n", "\r", "\"", "\"", "\"\"", "\"x\ny\"", " ",
        "\u{feff}", "é", ",\"", "\"\r\n", "\"\",",
    ]);
    (any::<bool>(), prop::collection::vec(piece, 0..60)).prop_map(|(bom, pieces)| {
        let mut text = if bom { "\u{feff}".to_owned() } else { String::new() };
        pieces.iter().for_each(|piece| text.push_str(piece));
        text.into_bytes()
    })
}

/// A field as a file may contain it: with or without quotes.
fn field() -> impl Strategy<Value = String> {
    let text = prop::collection::vec(
        prop::sample::select(vec!["a", "é", " ", ",", "\n", "\r\n", "\r", "\"", "0", "\u{feff}"]),
        0..6,
    );
    (text, any::<bool>()).prop_map(|(text, quote)| {
        let text = text.concat();
        if quote || text.contains([',', '\n', '\r', '"']) {
            format!("\"{}\"", text.replace('"', "\"\""))
        } else {
            text
        }
    })
}

/// A file of records with three fields each.
fn table() -> impl Strategy<Value = Vec<u8>> {
    let ends = prop::sample::select(vec!["\n", "\r\n", "\r", "\n\n", "\r\n\r\n"]);
    let record = (field(), field(), field(), ends);
    (any::<bool>(), prop::collection::vec(record, 0..20), any::<bool>()).prop_map(
        |(bom, records, last_end)| {
            let mut text = if bom { "\u{feff}".to_owned() } else { String::new() };
            let count = records.len();
            for (index, (one, two, three, end)) in records.into_iter().enumerate() {
                let end = if index + 1 == count && !last_end { "" } else { end };
                text.push_str(&format!("x{one},{two},{three}{end}").replacen("x\"", "\"", 1));
            }
            text.into_bytes()
        },
    )
}

/// Asserts that the slices follow each other, are large enough, and have the right line numbers.
fn check_bounds(text: &[u8], slices: &[TextSlice], size: u64) {
    let mut at = slices.first().map_or(0, |slice| slice.offset);
    for (index, slice) in slices.iter().enumerate() {
        assert_eq!(slice.offset, at, "slices follow each other");
        assert!(slice.length > 0 && slice.rows > 0);
        at += slice.length;
        assert!(index + 1 == slices.len() || slice.length >= size);
        let before = String::from_utf8_lossy(&text[..slice.offset as usize]).into_owned();
        let lines = before.replace("\r\n", "\n").replace('\r', "\n").matches('\n').count() as u64;
        assert_eq!(slice.first_line, lines + 1);
    }
    assert!(
        text[at as usize..].iter().all(|byte| matches!(byte, b'\r' | b'\n')) || slices.is_empty()
    );
}

proptest! {
    #[test]
    fn slices_hold_the_same_records_as_the_file(
        text in table(), size in 1u64..200, header in any::<bool>(),
    ) {
        use ColumnType::String;
        let files = CsvFixture::new(&[("t.csv", &text)]);
        let format = format(csv(header), &[("a", String), ("b", String), ("c", String)]);
        let slices = files.slices(&format.csv, size);
        check_bounds(&text, &slices, size);
        let (rows, rejected) = read(&files, &format, &slices);
        prop_assert_eq!(rejected, []);
        let schema = TableReader::new(&format).unwrap().schema();
        let whole = ReaderBuilder::new(schema).with_header(header).build(text.as_slice()).unwrap();
        let expected: Vec<_> = whole.flat_map(|batch| texts(&batch.unwrap())).collect();
        prop_assert_eq!(rows, expected);
    }

    /// In any text, the scan and csv-core count the same records: `read` checks this.
    #[test]
    fn any_text_can_be_cut_and_read(text in pieces(), size in 1u64..80, header in any::<bool>()) {
        use ColumnType::{Int64, String};
        let files = CsvFixture::new(&[("t.csv", &text)]);
        let format = format(csv(header), &[("a", String), ("b", Int64)]);
        let slices = files.slices(&format.csv, size);
        check_bounds(&text, &slices, size);
        let uncut = files.slices(&format.csv, 1 << 20);
        prop_assert!(uncut.len() <= 1);
        prop_assert_eq!(read(&files, &format, &slices), read(&files, &format, &uncut));
    }

    /// The slices have the rows of the uncut file. Each slice but the last has the given number of rows.
    #[test]
    fn cuts_by_rows_hold_the_same_rows(
        text in prop_oneof![table(), pieces()], rows in 1u64..9, header in any::<bool>(),
    ) {
        use ColumnType::String;
        let files = CsvFixture::new(&[("t.csv", &text)]);
        let format = format(csv(header), &[("a", String), ("b", String), ("c", String)]);
        let slices = files.cut(&format.csv, SliceSize::Rows(rows));
        check_bounds(&text, &slices, 1);
        if let Some((last, full)) = slices.split_last() {
            prop_assert!(full.iter().all(|slice| slice.rows == rows) && last.rows <= rows);
        }
        let uncut = files.slices(&format.csv, 1 << 20);
        prop_assert_eq!(read(&files, &format, &slices), read(&files, &format, &uncut));
    }

    #[test]
    fn any_bytes_are_read_without_panic(text in prop::collection::vec(any::<u8>(), 0..200)) {
        let files = CsvFixture::new(&[("t.csv", &text)]);
        let columns = ColumnType::ALL.map(|kind| ("a", kind));
        for columns in [&columns[..1], &columns] {
            let format = format(csv(false), columns);
            read(&files, &format, &files.slices(&format.csv, 16));
        }
    }
}

#[test]
fn a_slice_ends_at_the_first_boundary_after_its_size() {
    let files = CsvFixture::new(&[("t.csv", b"h\n11\r\n22\r\n\r\n33\r\n44")]);
    let bounds = |size| {
        let slices = files.slices(&csv(true), size);
        slices.iter().map(|it| (it.offset, it.length, it.first_line, it.rows)).collect::<Vec<_>>()
    };
    assert_eq!(bounds(1), [(2, 4, 2, 1), (6, 4, 3, 1), (10, 6, 4, 1), (16, 2, 6, 1)]);
    assert_eq!(bounds(3), bounds(1));
    assert_eq!(bounds(4), bounds(1));
    assert_eq!(bounds(5), [(2, 8, 2, 2), (10, 6, 4, 1), (16, 2, 6, 1)]);
    assert_eq!(bounds(100), [(2, 16, 2, 4)]);
}

#[test]
fn rows_are_cut_by_number() {
    let files = CsvFixture::new(&[("t.csv", b"h\n11\r\n22\r\n\r\n33\r\n\"4\n4\"")]);
    let bounds = |rows| {
        let slices = files.cut(&csv(true), SliceSize::Rows(rows));
        slices.iter().map(|it| (it.offset, it.length, it.first_line, it.rows)).collect::<Vec<_>>()
    };
    assert_eq!(bounds(1), [(2, 4, 2, 1), (6, 4, 3, 1), (10, 6, 4, 1), (16, 5, 6, 1)]);
    assert_eq!(bounds(3), [(2, 14, 2, 3), (16, 5, 6, 1)]);
    assert_eq!(bounds(4), [(2, 19, 2, 4)]);
    assert_eq!(bounds(u64::MAX), bounds(4));
    let mut cutter = Cutter::new(&csv(true), SliceSize::Rows(4));
    cutter.max_slice = 9;
    let error = cutter.open(&files.root(), "t.csv".to_owned()).unwrap().next_slice().unwrap_err();
    assert_snapshot!(error.to_string().replace(files.root().to_str().unwrap(), "/d"), @r#"/d/t.csv: mini_batch_size is 4 rows, but the first 3 rows from line 2 on take more than 9 bytes, the maximum for a mini-batch, because a worker holds it in memory; choose a smaller number, such as mini_batch_size: "1 row", or a size in bytes"#);
}

#[test]
fn cuts_do_not_depend_on_the_blocks_read() {
    let record = "1234567,\"quoted\r\n,text\",\"\"\"\"\r\n";
    let text = format!("a,b,c\r\n{}", record.repeat(40_000));
    let files = CsvFixture::new(&[("t.csv", text.as_bytes())]);
    let slices = files.slices(&csv(true), 100_000);
    check_bounds(text.as_bytes(), &slices, 100_000);
    assert!(slices.iter().all(|slice| slice.length % record.len() as u64 == 0));
    assert_eq!(slices.iter().map(|slice| slice.rows).sum::<u64>(), 40_000);
}

#[test]
fn a_record_without_end_is_refused_whatever_the_size() {
    let files = CsvFixture::new(&[("t.csv", b"h\n1\n\"")]);
    let file = std::fs::File::options().write(true).open(files.root().join("t.csv")).unwrap();
    file.set_len(10 << 20).unwrap();
    for size in [1, 1 << 20] {
        let mut cutter = Cutter::new(&csv(true), SliceSize::Bytes(size));
        cutter.max_rest = 5 << 20;
        let mut cut = cutter.open(&files.root(), "t.csv".to_owned()).unwrap();
        let mut slices = std::iter::repeat_with(|| cut.next_slice()).take(3);
        let error = slices.find_map(Result::err).unwrap();
        let error = error.to_string().replace(files.root().to_str().unwrap(), "/d");
        let line = if size == 1 { 3 } else { 2 };
        assert_eq!(
            error,
            format!(
                "/d/t.csv: a record that begins on line {line} or later does not end within 5 \
                 MB; look for the line that is too long, or that has no end"
            )
        );
    }
}

#[test]
fn files_without_rows_give_no_slice() {
    for text in ["", "\u{feff}", "h", "h\n", "\u{feff}h\r\n\r\n\n", "\"h\n"] {
        let files = CsvFixture::new(&[("t.csv", text.as_bytes())]);
        assert!(files.slices(&csv(true), 10).is_empty(), "{text:?}");
    }
}

#[test]
fn short_records_under_a_wide_header_cost_little() {
    // The peak memory of this process so far, in KiB.
    let peak = || {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap()
    };
    const COLUMNS: usize = 4000;
    const ROWS: usize = 10_000;
    let full = [vec!["1"; COLUMNS].join(","), "\n".to_owned()].concat();
    let text = ["h\n", &"1\n".repeat(ROWS), &full].concat();
    let files = CsvFixture::new(&[("t.csv", text.as_bytes())]);
    let names: Vec<_> = (0..COLUMNS).map(|index| format!("c{index}")).collect();
    let columns: Vec<_> = names.iter().map(|name| (name.as_str(), ColumnType::Int64)).collect();
    let mut reader = TableReader::new(&format(csv(true), &columns)).unwrap();
    let slices = files.slices(&csv(true), 1 << 20);
    let before = peak();
    let loaded = reader.read(&files.root(), &slices[0], "t.csv").unwrap();
    assert_eq!((slices.len(), loaded.rows, loaded.rejected_count), (1, 1, ROWS as u64));
    let grown = peak() - before;
    assert!(grown < 100 << 10, "{grown} KiB for {} bytes of text", text.len());
}

#[test]
fn types_are_inferred_from_rows() {
    use ColumnType::{Boolean, Date, Float64, Int64, String, Timestamp};
    let text = b"i,f,m,b,d,t,s,none,\n\
        1,1.5,1,true,2026-01-02,2026-01-02T03:04:05Z,x,,NA\n\
        2,,2.5,FALSE,2026-01-03,2026-01-02,2,,NA\n\
        bad row\n\
        -3,2e3,3,,,,,,\n";
    let files = CsvFixture::new(&[("t.csv", text)]);
    let csv = CsvFormat { null_values: vec!["NA".to_owned()], ..CsvFormat::default() };
    let columns = files.infer(&csv, false).unwrap();
    let columns: Vec<_> = columns.iter().map(|(name, kind)| (name.as_str(), *kind)).collect();
    assert_eq!(
        columns,
        [
            ("i", Int64),
            ("f", Float64),
            ("m", Float64),
            ("b", Boolean),
            ("d", Date),
            ("t", Timestamp),
            ("s", String),
            ("none", String),
            ("column_8", String),
        ]
    );
}

#[test]
fn without_a_header_columns_are_numbered() {
    let files = CsvFixture::new(&[("t.csv", b"\xEF\xBB\xBF1;x\n2;y\n")]);
    let csv = CsvFormat { header: false, delimiter: b';', ..CsvFormat::default() };
    let columns = files.infer(&csv, false).unwrap();
    assert_eq!(
        columns,
        [("column_0".to_owned(), ColumnType::Int64), ("column_1".to_owned(), ColumnType::String)]
    );
}

#[test]
fn types_come_from_a_sample_unless_all_is_read() {
    let mut text = b"n\n".to_vec();
    text.extend(b"1\n".repeat(1 << 20));
    text.extend(b"1.5\n");
    let files = CsvFixture::new(&[("a.csv", b""), ("b.csv", b"n\n"), ("t.csv", &text)]);
    assert_eq!(files.infer(&csv(true), false).unwrap()[0].1, ColumnType::Int64);
    assert_eq!(files.infer(&csv(true), true).unwrap()[0].1, ColumnType::Float64);
    // Files that cannot be read, or that have another header, are skipped.
    let files = CsvFixture::new(&[
        ("a.csv", b"\0\n1\n"),
        ("b.csv", b"n\n"),
        ("c.csv", b"m\nx\n"),
        ("d.csv", b"n\n1\n"),
    ]);
    let expected = [("n".to_owned(), ColumnType::Int64)];
    assert_eq!(files.infer(&csv(true), false).unwrap(), expected);
    let files = CsvFixture::new(&[("a.csv", b""), ("b.csv", b"n,m\n")]);
    assert_eq!(files.infer(&csv(true), false).unwrap().len(), 2);
}

#[test]
fn records_that_do_not_fit_are_named_with_their_line() {
    use ColumnType::{Boolean, Date, Float64, Int64, String, Timestamp};
    let text = b"name,age,w,ok,day,at\n\
        \"two\nlines\",1,1.5,true,2026-01-02,2026-01-02T00:00:00Z\n\
        b,abc,1,true,,\n\
        \r\n\
        c,1\n\
        d\xFF,1,1,true,,\n\
        e,1,x,true,,\r\
        f,1,1,maybe,,\n\
        \"g\n\",1,1,,2026-13-40,\n\
        h,,,,,later\n\
        i,99999999999999999999,,,,\n\
        j,1,2,false,,,,\n\
        ok,2,2.5,FALSE,2026-01-03,2026-01-02 01:00:00+01:00";
    let files = CsvFixture::new(&[("t.csv", text)]);
    let columns = [
        ("name", String),
        ("age", Int64),
        ("w", Float64),
        ("ok", Boolean),
        ("day", Date),
        ("at", Timestamp),
    ];
    let format = format(csv(true), &columns);
    for size in [1, 30, 1000] {
        let (rows, rejected) = read(&files, &format, &files.slices(&format.csv, size));
        assert_eq!(rows.len(), 2);
        assert_eq!(rows[0][0].as_deref(), Some("two\nlines"));
        assert_eq!(rows[0][5], rows[1][5]);
        let rejected: Vec<_> = rejected
            .iter()
            .map(|it| format!("{} {}: {}", it.item, it.line.unwrap(), it.reason))
            .collect();
        insta::allow_duplicates! {
        assert_snapshot!(rejected.join("\n"), @r#"
        t.csv 4: column 2 'age': "abc" is not a valid int64
        t.csv 6: 2 fields, but the table has 6 columns
        t.csv 7: column 1 'name': "d�" is not UTF-8
        t.csv 8: column 3 'w': "x" is not a valid float64
        t.csv 9: column 4 'ok': "maybe" is not a valid boolean
        t.csv 10: column 5 'day': "2026-13-40" is not a valid date
        t.csv 12: column 6 'at': "later" is not a valid timestamp
        t.csv 13: column 2 'age': "99999999999999999999" is not a valid int64
        t.csv 14: 8 fields, but the table has 6 columns
        "#);
        }
    }
}

#[test]
fn halves_of_a_character_in_two_fields_are_not_text() {
    let files = CsvFixture::new(&[("t.csv", b"\xC3,\xA9\nx,y\n")]);
    let format = format(csv(false), &[("a", ColumnType::String), ("b", ColumnType::String)]);
    let (rows, rejected) = read(&files, &format, &files.slices(&format.csv, 100));
    assert_eq!((rows.len(), rejected.len()), (1, 1));
}

#[test]
fn rejected_records_are_named_up_to_a_limit() {
    let files = CsvFixture::new(&[("t.csv", "x\n".repeat(1500).as_bytes())]);
    let format = format(csv(false), &[("a", ColumnType::Int64)]);
    let slices = files.slices(&format.csv, 1 << 20);
    let mut reader = TableReader::new(&format).unwrap();
    let loaded = reader.read(&files.root(), &slices[0], "t.csv").unwrap();
    assert_eq!((loaded.rows, loaded.rejected_count, loaded.rejected.len()), (0, 1500, 1000));
    assert_eq!(StreamReader::try_new(Cursor::new(loaded.ipc.to_vec()), None).unwrap().count(), 1);
}

#[test]
fn null_values_are_nulls() {
    let files = CsvFixture::new(&[("t.csv", b"1,a\nNA,NA\n-,n/a\n,\n4,NAN\n")]);
    let null_values = ["NA", "n/a", "-"].map(str::to_owned).to_vec();
    let csv = CsvFormat { header: false, null_values, ..CsvFormat::default() };
    let format = format(csv, &[("a", ColumnType::Int64), ("b", ColumnType::String)]);
    let (rows, rejected) = read(&files, &format, &files.slices(&format.csv, 100));
    assert_eq!(rejected, []);
    let rows: Vec<_> = rows.iter().map(|row| (row[0].as_deref(), row[1].as_deref())).collect();
    let none = (None, None);
    assert_eq!(rows, [(Some("1"), Some("a")), none, none, none, (Some("4"), Some("NAN"))]);
}

#[test]
fn a_file_that_changed_is_an_error() {
    let files = CsvFixture::new(&[("t.csv", b"1\n2\n3\n")]);
    let format = format(csv(false), &[("a", ColumnType::Int64)]);
    let slices = files.slices(&format.csv, 100);
    let mut reader = TableReader::new(&format).unwrap();
    let mut error = |text: &str| {
        std::fs::write(files.root().join("t.csv"), text).unwrap();
        let error = reader.read(&files.root(), &slices[0], "t.csv").unwrap_err();
        error.to_string().replace(files.root().to_str().unwrap(), "/d")
    };
    assert_snapshot!(error("1\n"), @"/d/t.csv has changed since planning: it ends before byte 6; run the job on files that no program writes to");
    assert_snapshot!(error("12\n45\n"), @"t.csv has changed since planning: the part from line 1 on held 3 records and now holds 2; run the job on files that no program writes to");
    assert!(error("\n\n1\n2\n").contains("now holds 2"));
    std::fs::write(files.root().join("t.csv"), "1\n2\n3\n").unwrap();
    assert_eq!(reader.read(&files.root(), &slices[0], "t.csv").unwrap().rows, 3);
    std::fs::remove_file(files.root().join("t.csv")).unwrap();
    let error = reader.read(&files.root(), &slices[0], "t.csv").unwrap_err().to_string();
    assert!(error.starts_with("cannot open "), "{error}");
}

#[test]
fn a_table_without_columns_cannot_be_read() {
    let files = CsvFixture::new(&[("t.csv", b"1\n")]);
    let format = format(csv(false), &[]);
    let slices = files.slices(&format.csv, 100);
    let mut reader = TableReader::new(&format).unwrap();
    let error = reader.read(&files.root(), &slices[0], "t.csv").unwrap_err();
    assert_snapshot!(error, @"t.csv: the table has no columns");
}
