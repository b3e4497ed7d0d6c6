//! Reads files of CSV and JSON lines in slices of any size, and decodes the slices into tables.

use super::scratch;
use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use arrow::datatypes::{DataType, Field, Schema};
use arrow::ipc::reader::StreamReader;
use sandmill_data::dataset::TableReader;
use sandmill_data::dataset::csv::{Cutter, MAX_SLICE};
use sandmill_data::dataset::json::field_of;
use sandmill_data::dataset::schema_bytes;
use sandmill_model::{
    Column, ColumnType, CsvFormat, FailedItem, SliceSize, TableFormat, TableKind, TextSlice,
};
use std::cell::RefCell;
use std::fs;
use std::io::Cursor;
use std::path::{Path, PathBuf};

const FILE_NAME: &str = "t";

thread_local! {
    /// The path of the file to read.
    static PATH: PathBuf = scratch::file(FILE_NAME);
    /// A reader for each format: making one takes longer than reading a short table.
    static READERS: RefCell<Vec<TableReader>> = RefCell::new(formats().iter().map(reader).collect());
}

fn reader(format: &TableFormat) -> TableReader {
    TableReader::new(format).expect("the format is right")
}

/// The index of the last of [`formats`].
const INFERRED: usize = 3;

/// CSV with `,`, CSV with `;`, JSON lines, and JSON lines with an inferred schema and a JSON column.
fn formats() -> [TableFormat; 4] {
    let column = |kind: &ColumnType| Column { name: kind.name().to_owned(), kind: *kind };
    let columns: Vec<_> = ColumnType::ALL.iter().map(column).collect();
    let csv = |delimiter| CsvFormat {
        delimiter,
        header: false,
        null_values: vec!["NA".to_owned()],
        // Only the first of the two CSV formats allows quoted line breaks.
        quoted_newlines: delimiter == b',',
        ..CsvFormat::default()
    };
    let text = |delimiter| TableFormat {
        csv: csv(delimiter),
        columns: columns.clone(),
        ..TableFormat::default()
    };
    let list_type = DataType::new_list(DataType::Float64, true);
    let struct_type = DataType::Struct(vec![Field::new("b", DataType::Boolean, true)].into());
    let timestamp = sandmill_data::dataset::csv::arrow_type(ColumnType::Timestamp);
    let fields = [
        ("a", DataType::Int64),
        ("s", DataType::Utf8),
        ("l", list_type),
        ("o", struct_type),
        ("d", DataType::Date32),
        ("t", timestamp),
        ("u", DataType::UInt64),
    ];
    let mut fields = fields.map(|(name, kind)| Field::new(name, kind, true)).to_vec();
    let json = |fields: &[Field]| {
        let schema = schema_bytes(&Schema::new(fields.to_vec())).expect("a small schema");
        TableFormat { kind: TableKind::Jsonl, schema, ..TableFormat::default() }
    };
    let plain = json(&fields);
    fields.push(field_of(&column(&ColumnType::Json)));
    let inferred = TableFormat { inferred: true, counts_unknown_keys: true, ..json(&fields) };
    [text(b','), text(b';'), plain, inferred]
}

/// The first byte chooses the format, and whether the size of a slice is in rows or bytes. The second
/// byte is this size; the rest is the file. Each record must become a row, or be refused with its line
/// number. The size of slices must not change the result.
pub fn rows(data: &[u8]) {
    let [choice, size, text @ ..] = data else { return };
    let size = u64::from(*size).max(1);
    let size = if choice & 4 != 0 { SliceSize::Rows(size) } else { SliceSize::Bytes(size) };
    let format = match choice >> 3 {
        31 => INFERRED,
        other => usize::from(other) % INFERRED,
    };
    let path = PATH.with(PathBuf::clone);
    fs::write(&path, text).expect("fuzzing needs room for temporary files");
    let folder = path.parent().expect("a file is in a folder");
    let (sliced, refused) = read(format, size, folder);
    let (whole, refused_whole) = read(format, SliceSize::Bytes(MAX_SLICE), folder);
    assert_eq!(sliced, whole, "the rows depend on the size of slices");
    assert_eq!(refused, refused_whole);
}

fn read(format: usize, size: SliceSize, folder: &Path) -> (RecordBatch, Vec<FailedItem>) {
    READERS.with_borrow_mut(|readers| {
        let reader = &mut readers[format];
        let mut batches = Vec::new();
        let mut refused = Vec::new();
        for slice in slices(format, size, folder) {
            let table = reader.read(folder, &slice, FILE_NAME).expect("a short file can be read");
            assert_eq!(table.rows + table.rejected_count, slice.rows);
            refused.extend(table.rejected);
            let stream =
                StreamReader::try_new(Cursor::new(table.ipc.to_vec()), None).expect("a stream");
            batches.extend(stream.map(|batch| batch.expect("a batch of the stream")));
        }
        assert!(refused.iter().all(|item| item.line.is_some() && !item.reason.is_empty()));
        let whole =
            concat_batches(&reader.schema(), &batches).expect("all batches have one schema");
        (whole, refused)
    })
}

fn slices(format: usize, size: SliceSize, folder: &Path) -> Vec<TextSlice> {
    let formats = formats();
    let mut cutter = match formats[format].kind {
        TableKind::Csv => Cutter::new(&formats[format].csv, size),
        _ => Cutter::of_lines(size),
    };
    let mut cut = cutter.open(folder, FILE_NAME.to_owned()).expect("a short file can be cut");
    std::iter::from_fn(|| cut.next_slice().expect("a short file can be cut")).collect()
}
