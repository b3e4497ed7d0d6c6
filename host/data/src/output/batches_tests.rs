//! Tests of typed outputs, from the tables and rows of a guest to the finished file.

use crate::model::{Compression, FailureKind, OutputFormat, OutputKind};
use crate::output::{FinishError, RowWriter, common_columns, convert_appended_rows};
use arrow::array::*;
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::{DataType, Field, Int8Type, Int32Type, Schema, UnionFields};
use arrow::ipc::reader::{FileReader, StreamReader};
use arrow::ipc::writer::StreamWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use std::io::{Cursor, Read, Seek, SeekFrom};
use std::sync::Arc;

const LIMIT: u64 = 1 << 20;
const KINDS: [OutputKind; 2] = [OutputKind::Parquet, OutputKind::Arrow];

fn ipc(columns: Vec<(&str, ArrayRef)>) -> Vec<u8> {
    stream(&RecordBatch::try_from_iter(columns).unwrap())
}

fn stream(batch: &RecordBatch) -> Vec<u8> {
    let mut writer = StreamWriter::try_new(Vec::new(), &batch.schema()).unwrap();
    writer.write(batch).unwrap();
    writer.into_inner().unwrap()
}

fn writer(kind: OutputKind) -> RowWriter {
    RowWriter::new(LIMIT, true, &OutputFormat::default_for(kind))
}

/// The bytes that the leader appends for attempts of different workers.
fn appended(kind: OutputKind, tables: &[Vec<u8>]) -> (Vec<u8>, u64) {
    let mut top = Vec::new();
    let mut bytes = Vec::new();
    let mut rows = 0;
    let mut text: Option<String> = None;
    for table in tables {
        let mut writer = writer(kind);
        writer.table(table).unwrap();
        writer.seal().unwrap();
        let header = writer.take_header().unwrap();
        text = Some(match &text {
            None => header.text,
            Some(text) => common_columns(text, &header.text).unwrap(),
        });
        if top.is_empty() {
            top = header.bytes.unwrap();
        }
        bytes.extend_from_slice(writer.segment());
        rows += writer.rows();
    }
    top.extend(bytes);
    (top, rows)
}

fn made(bytes: &[u8], rows: u64, format: &OutputFormat) -> Result<Vec<u8>, FinishError> {
    let mut file = tempfile::tempfile().unwrap();
    convert_appended_rows(Cursor::new(bytes), &file, format, rows)?;
    let mut made = Vec::new();
    file.seek(SeekFrom::Start(0)).unwrap();
    file.read_to_end(&mut made).unwrap();
    Ok(made)
}

/// The rows of the file, as one batch.
fn read(made: Vec<u8>, kind: OutputKind) -> RecordBatch {
    let (schema, batches): (_, Vec<RecordBatch>) = if kind == OutputKind::Arrow {
        let reader = FileReader::try_new(Cursor::new(made), None).unwrap();
        (reader.schema(), reader.map(Result::unwrap).collect())
    } else {
        let builder = ParquetRecordBatchReaderBuilder::try_new(bytes::Bytes::from(made)).unwrap();
        (builder.schema().clone(), builder.build().unwrap().map(Result::unwrap).collect())
    };
    arrow::compute::concat_batches(&schema, &batches).unwrap()
}

fn finished(kind: OutputKind, tables: &[Vec<u8>]) -> RecordBatch {
    let (bytes, rows) = appended(kind, tables);
    read(made(&bytes, rows, &OutputFormat::default_for(kind)).unwrap(), kind)
}

fn texts(array: &dyn Array) -> Vec<Option<String>> {
    let array = arrow::compute::cast(array, &DataType::Utf8).unwrap();
    array.as_string::<i32>().iter().map(|text| text.map(str::to_owned)).collect()
}

#[test]
fn rows_of_text_become_a_column() {
    for kind in KINDS {
        let mut writer = writer(kind);
        for row in ["a", "", "two\nlines\n"] {
            writer.row(row);
        }
        assert_eq!(writer.problem(), None);
        writer.seal().unwrap();
        let header = writer.take_header().unwrap();
        assert_eq!(header.text, "\"value\" Utf8");
        let bytes = [header.bytes.unwrap(), writer.segment().to_vec()].concat();
        let batch = read(made(&bytes, 3, &OutputFormat::default_for(kind)).unwrap(), kind);
        let expected = ["a", "", "two\nlines"].map(|text| Some(text.to_owned()));
        assert_eq!(texts(batch.column_by_name("value").unwrap()), expected);
        // The next attempt starts empty.
        writer.clear();
        writer.seal().unwrap();
        assert_eq!(writer.take_header(), None);
        assert_eq!(writer.segment(), b"");
    }
}

/// After every attempt, the appended bytes are a stream that other programs can read.
#[test]
fn appended_bytes_form_a_valid_stream() {
    let table = |ids: Vec<i64>| ipc(vec![("id", Arc::new(Int64Array::from(ids)))]);
    let tables = [table(vec![1, 2]), table(vec![]), table(vec![3])];
    for count in 1..=3 {
        let (bytes, rows) = appended(OutputKind::Arrow, &tables[..count]);
        let read = StreamReader::try_new(Cursor::new(bytes), None).unwrap();
        assert_eq!(read.map(|batch| batch.unwrap().num_rows() as u64).sum::<u64>(), rows);
    }
    // A table without rows defines the columns.
    let batch = finished(OutputKind::Parquet, &tables[1..2]);
    assert_eq!((batch.num_rows(), batch.schema().field(0).data_type()), (0, &DataType::Int64));
    // Without any table, the column is `value`.
    for kind in KINDS {
        let batch = read(made(b"", 0, &OutputFormat::default_for(kind)).unwrap(), kind);
        assert_eq!((batch.num_rows(), batch.schema().field(0).name().as_str()), (0, "value"));
    }
}

#[test]
fn every_compression_of_parquet_can_be_read() {
    let (bytes, rows) = appended(
        OutputKind::Parquet,
        &[ipc(vec![("id", Arc::new(Int64Array::from(vec![7; 999])))])],
    );
    for compression in OutputKind::Parquet.compressions() {
        let format = OutputFormat {
            compression: *compression,
            ..OutputFormat::default_for(OutputKind::Parquet)
        };
        let batch = read(made(&bytes, rows, &format).unwrap(), OutputKind::Parquet);
        assert_eq!(batch.num_rows(), 999, "{compression:?}");
    }
    assert_eq!(OutputFormat::default_for(OutputKind::Parquet).compression, Compression::Snappy);
}

/// A dictionary with keys of any width.
fn words<K: arrow::datatypes::ArrowDictionaryKeyType>(words: &[Option<&str>]) -> ArrayRef {
    Arc::new(words.iter().copied().collect::<DictionaryArray<K>>())
}

/// Tables may differ in nulls, in dictionary keys and in dictionary values.
#[test]
fn tables_may_differ_in_nulls_and_dictionaries() {
    let one = ipc(vec![
        ("n", Arc::new(Int64Array::from(vec![Some(1), None]))),
        ("w", words::<Int8Type>(&[Some("red"), Some("blue")])),
    ]);
    let two = ipc(vec![
        ("n", Arc::new(Int64Array::from(vec![3]))),
        ("w", words::<Int32Type>(&[Some("green")])),
    ]);
    let three = ipc(vec![
        ("n", Arc::new(Int64Array::from(vec![4, 5]))),
        ("w", words::<Int32Type>(&[None, Some("blue")])),
    ]);
    for kind in KINDS {
        let batch = finished(kind, &[one.clone(), two.clone(), three.clone()]);
        let w = batch.column_by_name("w").unwrap();
        assert_eq!(w.data_type().to_string(), "Dictionary(Int32, Utf8)");
        let all = [Some("red"), Some("blue"), Some("green"), None, Some("blue")];
        assert_eq!(texts(w), all.map(|word| word.map(str::to_owned)), "{kind:?}");
        let n = batch.column_by_name("n").unwrap().as_primitive::<arrow::datatypes::Int64Type>();
        assert_eq!(n.iter().collect::<Vec<_>>(), [Some(1), None, Some(3), Some(4), Some(5)]);
        if kind == OutputKind::Arrow {
            assert_eq!(w.as_any_dictionary().values().len(), 3, "one dictionary for all");
        }
    }
}

/// Dictionaries in lists and structs.
#[test]
fn nested_dictionaries_are_combined() {
    let list = |values: &[Option<&str>]| -> ArrayRef {
        let field = Arc::new(Field::new("item", DataType::new_dictionary(), true));
        let offsets = OffsetBuffer::from_lengths([1, values.len() - 1]);
        Arc::new(ListArray::new(field, offsets, words::<Int32Type>(values), None))
    };
    let table = |values: &[Option<&str>]| {
        let list = list(values);
        let field = Arc::new(Field::new("l", list.data_type().clone(), true));
        let inside: ArrayRef = Arc::new(StructArray::from(vec![(field, Arc::clone(&list))]));
        ipc(vec![("l", list), ("s", inside)])
    };
    let tables = [table(&[Some("a"), Some("b"), None]), table(&[Some("c"), Some("b"), Some("d")])];
    for kind in KINDS {
        let batch = finished(kind, &tables);
        let inside = batch.column(1).as_struct().column(0).clone();
        for list in [batch.column(0), &inside] {
            let values = texts(list.as_list::<i32>().values());
            let all = [Some("a"), Some("b"), None, Some("c"), Some("b"), Some("d")];
            assert_eq!(values, all.map(|word| word.map(str::to_owned)), "{kind:?}");
        }
    }
}

trait NewDictionary {
    fn new_dictionary() -> DataType;
}

impl NewDictionary for DataType {
    fn new_dictionary() -> DataType {
        DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8))
    }
}

/// All-null columns, at the top level and nested, take the type that they have in other tables, regardless of
/// the order of the tables.
#[test]
fn all_null_columns_take_the_type_of_other_tables() {
    let structure = |n: ArrayRef, list: ArrayRef| -> ArrayRef {
        let field =
            |name, array: &ArrayRef| Arc::new(Field::new(name, array.data_type().clone(), true));
        Arc::new(StructArray::from(vec![(field("n", &n), n), (field("l", &list), list)]))
    };
    let list = |values: ArrayRef| -> ArrayRef {
        let item = Arc::new(Field::new("element", values.data_type().clone(), true));
        let offsets = OffsetBuffer::from_lengths([0, values.len()]);
        Arc::new(ListArray::new(item, offsets, values, None))
    };
    let nulls = |rows| -> ArrayRef { Arc::new(NullArray::new(rows)) };
    let numbers = || -> ArrayRef { Arc::new(Int64Array::from(vec![1, 2])) };
    let no_words = DictionaryArray::<Int8Type>::new(Int8Array::from(vec![None; 2]), nulls(0));
    let table = |x: ArrayRef, w: ArrayRef, s: ArrayRef| ipc(vec![("x", x), ("w", w), ("s", s)]);
    let all = [
        table(nulls(2), Arc::new(no_words), structure(nulls(2), list(nulls(0)))),
        table(numbers(), nulls(2), structure(numbers(), list(nulls(3)))),
        table(nulls(2), words::<Int32Type>(&[Some("red"), None]), nulls(2)),
        table(numbers(), nulls(2), structure(nulls(2), list(numbers()))),
    ];
    for kind in KINDS {
        for first in 0..all.len() {
            let mut tables = all.to_vec();
            tables.rotate_left(first);
            // Each table knows only some of the types; in the second round, the last table knows all.
            for whole in [false, true] {
                if whole {
                    let known = structure(numbers(), list(numbers()));
                    tables.push(table(numbers(), words::<Int32Type>(&[None, None]), known));
                }
                let batch = finished(kind, &tables);
                let types: Vec<_> = batch
                    .schema()
                    .fields()
                    .iter()
                    .map(|field| field.data_type().to_string())
                    .collect();
                assert_eq!(
                    types,
                    [
                        "Int64",
                        "Dictionary(Int32, Utf8)",
                        "Struct(\"n\": Int64, \"l\": List(Int64))"
                    ]
                );
                assert_eq!(batch.num_rows(), tables.len() * 2);
                let at = |table: usize| (table + all.len() - first) % all.len() * 2;
                let x = batch.column(0).as_primitive::<arrow::datatypes::Int64Type>();
                assert!(x.is_null(at(0)) && x.value(at(1) + 1) == 2);
                assert_eq!(texts(batch.column(1))[at(2)], Some("red".to_owned()));
                let s = batch.column(2).as_struct();
                assert!(s.is_null(at(2)) && s.is_valid(at(3)) && s.column(0).is_null(at(3)));
                let last = s.column(1).as_list::<i32>().value(at(3) + 1);
                assert_eq!(last.as_primitive::<arrow::datatypes::Int64Type>().values(), &[1, 2]);
                let nothing = s.column(1).as_list::<i32>().value(at(1) + 1);
                assert_eq!((nothing.len(), nothing.null_count()), (3, 3));
            }
        }
        // No table knows the type.
        let batch = finished(kind, &[ipc(vec![("x", nulls(2)), ("l", list(nulls(1)))])]);
        assert_eq!(batch.column(0).data_type(), &DataType::Null);
        assert_eq!(batch.column(1).data_type().to_string(), "List(Null)");
    }
}

#[track_caller]
fn refused(kind: OutputKind, table: &[u8]) -> String {
    let mut writer = writer(kind);
    let failure = writer.table(table).and_then(|()| writer.seal()).unwrap_err();
    assert_eq!(failure.kind, FailureKind::BadResults);
    failure.message
}

#[test]
fn types_that_cannot_be_written_fail_the_attempt() {
    let fields = [Field::new("a", DataType::Int8, true)];
    let union = UnionArray::try_new(
        UnionFields::try_new([0], fields).unwrap(),
        vec![0].into(),
        None,
        vec![Arc::new(Int8Array::from(vec![1]))],
    );
    let union = ipc(vec![("u", Arc::new(union.unwrap()))]);
    insta::assert_snapshot!(refused(OutputKind::Arrow, &union), @r#"the column "u" of the returned table has the type Union(Sparse, 0: ("a": Int8)), which this output format cannot store: return another type, or set output_format.type to jsonl"#);
    let interval =
        IntervalMonthDayNanoArray::from(vec![arrow::datatypes::IntervalMonthDayNano::new(1, 2, 3)]);
    let interval = ipc(vec![("i", Arc::new(interval))]);
    insta::assert_snapshot!(refused(OutputKind::Parquet, &interval), @r#"the column "i" of the returned table has the type Interval(MonthDayNano), which has nanoseconds, but intervals of a parquet file have only milliseconds: return another type, or set output_format.type to arrow or jsonl"#);
    assert_eq!(finished(OutputKind::Arrow, &[interval]).num_rows(), 1);
    let twice = RecordBatch::try_new(
        Arc::new(Schema::new(vec![Field::new("a", DataType::Int8, true); 2])),
        vec![Arc::new(Int8Array::from(vec![1])) as ArrayRef; 2],
    );
    insta::assert_snapshot!(refused(OutputKind::Parquet, &stream(&twice.unwrap())), @r#"two columns of the returned table are called "a": give them different names"#);
}

/// Small tables whose values would take very many bytes.
#[test]
fn small_tables_that_expand_hugely_are_refused() {
    let long = "v".repeat(1 << 16);
    let keyed = words::<Int8Type>(&[Some(long.as_str()); 100]);
    let views = StringViewArray::from_iter_values(std::iter::repeat_n(&long, 1));
    let views = arrow::compute::take(&views, &UInt32Array::from(vec![0; 100]), None).unwrap();
    let nulls = Arc::new(NullArray::new(1 << 40));
    let many = Arc::new(Field::new("item", DataType::Null, true));
    let list = FixedSizeListArray::new(many, 1 << 22, Arc::new(NullArray::new(1 << 22)), None);
    let runs = RunArray::<Int32Type>::try_new(
        &Int32Array::from(vec![1 << 30]),
        &StringArray::from(vec!["again"]),
    );
    let text: ArrayRef = Arc::new(StringArray::from(vec![long.as_str()]));
    let item = Arc::new(Field::new_list_field(DataType::Utf8, true));
    let from = vec![0; 100].into();
    let counts = vec![1; 100].into();
    let same = ListViewArray::new(item, from, counts, text, None);
    for (what, column) in [
        ("keys", keyed),
        ("views", views),
        ("nulls", nulls as ArrayRef),
        ("list", Arc::new(list)),
        ("runs", Arc::new(runs.unwrap())),
        ("list views", Arc::new(same)),
    ] {
        let message = refused(OutputKind::Parquet, &ipc(vec![("c", column)]));
        assert!(
            message.contains("more bytes than limits.results allows (1 MB)"),
            "{what}: {message}"
        );
    }
    let mut writer = writer(OutputKind::Arrow);
    writer.row(&"x".repeat(1 << 20));
    assert!(writer.problem().unwrap().message.contains("limits.results"));
}

#[test]
fn damaged_rows_do_not_become_a_file() {
    let table = || ipc(vec![("id", Arc::new(Int64Array::from(vec![1, 2, 3])))]);
    let (bytes, rows) = appended(OutputKind::Arrow, &[table(), table()]);
    let format = OutputFormat::default_for(OutputKind::Arrow);
    let wrong = |bytes: &[u8], rows| made(bytes, rows, &format).unwrap_err().to_string();
    insta::assert_snapshot!(wrong(&bytes, rows + 1), @"the file of appended rows cannot be read: it holds 6 rows, and 7 were committed");
    let half = appended(OutputKind::Arrow, &[table()]).0.len();
    insta::assert_snapshot!(wrong(&bytes[..half], rows), @"the file of appended rows cannot be read: it holds 3 rows, and 6 were committed");
    assert!(
        wrong(&bytes[..half + 40], rows).starts_with("the file of appended rows cannot be read: ")
    );
    assert!(wrong(b"no table", 1).starts_with("the file of appended rows cannot be read: "));
}

proptest::proptest! {
    /// A table with some changed bytes is refused, or accepted and made into a file.
    #[test]
    fn damaged_tables_are_an_error_or_rows(
        changes in proptest::collection::vec((proptest::prelude::any::<u16>(), proptest::prelude::any::<u8>()), 1..4),
        arrow in proptest::prelude::any::<bool>(),
    ) {
        let kind = KINDS[usize::from(arrow)];
        let mut bytes = ipc(vec![
            ("n", Arc::new(Int64Array::from(vec![Some(1), None, Some(3)]))),
            ("w", words::<Int32Type>(&[Some("red"), Some("blue"), None])),
        ]);
        for (position, byte) in changes {
            let index = usize::from(position) % bytes.len();
            bytes[index] = byte;
        }
        let mut writer = writer(kind);
        if writer.table(&bytes).and_then(|()| writer.seal()).is_ok() {
            let header = writer.take_header().unwrap();
            let all = [header.bytes.unwrap(), writer.segment().to_vec()].concat();
            let made = made(&all, writer.rows(), &OutputFormat::default_for(kind));
            proptest::prop_assert!(made.is_ok(), "{:?}", made);
        }
    }
    /// A damaged stream leads to an error or to a file, never to a crash.
    #[test]
    fn damaged_streams_are_an_error_or_a_file(
        changes in proptest::collection::vec((proptest::prelude::any::<u16>(), proptest::prelude::any::<u8>()), 1..4),
        arrow in proptest::prelude::any::<bool>(),
    ) {
        let kind = KINDS[usize::from(arrow)];
        let table = |n: ArrayRef| ipc(vec![("n", n), ("w", words::<Int32Type>(&[Some("red"), None]))]);
        let nulls = || -> ArrayRef { Arc::new(NullArray::new(2)) };
        let known: ArrayRef = Arc::new(Int64Array::from(vec![1, 2]));
        let (mut bytes, rows) = appended(kind, &[table(nulls()), table(known), table(nulls())]);
        for (position, byte) in changes {
            let index = usize::from(position) % bytes.len();
            bytes[index] = byte;
        }
        if let Ok(made) = made(&bytes, rows, &OutputFormat::default_for(kind)) {
            proptest::prop_assert_eq!(read(made, kind).num_rows() as u64, rows);
        }
    }
}
