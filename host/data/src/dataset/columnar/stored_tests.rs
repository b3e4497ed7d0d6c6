//! Tests 96-bit times, intervals and casts: they give the right values, or the row is left out and
//! reported.

use super::columns::InputColumns;
use super::file::TypedTableFile;
use super::reader::{RowPart, RowReader, RowRun};
use super::resolution::Resolution;
use super::schema::to_message;
use crate::model::{FailedItem, SliceSize, TableFormat, TableKind};
use arrow::array::types::{
    Decimal128Type, IntervalMonthDayNano, IntervalMonthDayNanoType, TimestampMicrosecondType,
    TimestampNanosecondType,
};
use arrow::array::*;
use arrow::datatypes::{DataType, Field, IntervalUnit, Schema, SchemaRef, TimeUnit};
use arrow::ipc::reader::StreamReader;
use arrow::ipc::writer::FileWriter;
use parquet::data_type::{FixedLenByteArray, FixedLenByteArrayType, Int96, Int96Type};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{WriterProperties, WriterVersion};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use std::io::Cursor;
use std::sync::Arc;
use tempfile::TempDir;

const NANOS_PER_DAY: i128 = 86_400_000_000_000;
/// The Julian day number of 1970-01-01.
const EPOCH_DAY: i128 = 2_440_588;

/// The stored form of a time in nanoseconds since 1970.
fn int96(nanos: i128) -> Int96 {
    let day = nanos.div_euclid(NANOS_PER_DAY) + EPOCH_DAY;
    let rest = nanos.rem_euclid(NANOS_PER_DAY);
    Int96::from(vec![rest as u32, (rest >> 32) as u32, day as u32])
}

struct Read {
    batch: RecordBatch,
    runs: Vec<(u64, u64)>,
    count: u64,
    rejected: Vec<FailedItem>,
}

/// All rows of a file as one table, with the columns of `table` or of the file.
fn read(folder: &TempDir, kind: TableKind, table: Option<&Schema>) -> Read {
    let path = folder.path().join("t");
    let mut file = TypedTableFile::open(kind, None, &path).unwrap();
    let mut columns = InputColumns::new(None);
    columns.learn(file.schema().unwrap(), "t").unwrap();
    let schema = table.cloned().unwrap_or(columns.schema());
    let slices: Vec<_> =
        file.cut(&schema, SliceSize::Rows(1000), "t".to_owned()).unwrap().collect();
    let schema = to_message(&schema).unwrap();
    let mut reader =
        RowReader::new(&TableFormat { kind, schema, ..TableFormat::default() }).unwrap();
    let part = RowPart { root: folder.path(), slice: &slices[0], item: "/inputs/a/t" };
    let loaded = reader.read(std::iter::once(part)).unwrap();
    let mut stream = StreamReader::try_new(Cursor::new(loaded.ipc.to_vec()), None).unwrap();
    let batch = stream.next().unwrap().unwrap();
    assert_eq!(batch.num_rows() as u64, loaded.rows);
    let runs = loaded.runs.iter().map(|run: &RowRun| (run.first, run.count)).collect();
    Read { batch, runs, count: loaded.rejected_count, rejected: loaded.rejected }
}

/// A file with one column of these 96-bit times. `message` is its schema. The definition and repetition
/// levels say where it has nulls and lists.
fn times(
    message: &str,
    values: &[Int96],
    (definition_levels, repetition_levels): (&[i16], &[i16]),
    (has_dictionary, version): (bool, WriterVersion),
) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let properties = WriterProperties::builder()
        .set_dictionary_enabled(has_dictionary)
        .set_writer_version(version)
        .build();
    let schema = Arc::new(parse_message_type(message).unwrap());
    let out = std::fs::File::create(folder.path().join("t")).unwrap();
    let mut writer = SerializedFileWriter::new(out, schema, Arc::new(properties)).unwrap();
    let mut group = writer.next_row_group().unwrap();
    while let Some(mut column) = group.next_column().unwrap() {
        let typed = column.typed::<Int96Type>();
        typed.write_batch(values, Some(definition_levels), Some(repetition_levels)).unwrap();
        column.close().unwrap();
    }
    group.close().unwrap();
    writer.close().unwrap();
    folder
}

/// Ways to write a file: whether it has a dictionary, and the version of its pages.
const LAYOUTS: [(bool, WriterVersion); 3] = [
    (true, WriterVersion::PARQUET_1_0),
    (false, WriterVersion::PARQUET_1_0),
    (true, WriterVersion::PARQUET_2_0),
];

#[test]
fn times_that_nanoseconds_cannot_hold_are_reported() {
    let last = i128::from(i64::MAX);
    let nanos =
        [253_402_221_600_000_000_000, 1, last, -24_298_981_000_000_000_000, -last - 1, last + 1];
    let values = nanos.map(int96);
    for layout in LAYOUTS {
        let message = "message m { optional int96 t; }";
        let folder = times(message, &values, (&[1, 1, 0, 1, 1, 1, 1], &[0; 7]), layout);
        let read = read(&folder, TableKind::Parquet, None);
        let times = read.batch.column(0).as_primitive::<TimestampNanosecondType>();
        let expected = [Some(1), None, Some(i64::MAX), Some(i64::MIN)];
        assert_eq!(times, &TimestampNanosecondArray::from(expected.to_vec()));
        assert_eq!((read.runs, read.count), (vec![(1, 3), (5, 1)], 3));
        let rejected: Vec<_> = read
            .rejected
            .iter()
            .map(|failed| format!("{} {:?}: {}", failed.item, failed.row, failed.reason))
            .collect();
        insta::allow_duplicates! {
            insta::assert_snapshot!(rejected.join("\n"), @"
            /inputs/a/t Some(1): column 't': 9999-12-31T02:00:00 (INT96) does not fit a 64-bit number of nanoseconds (1677-09-21 to 2262-04-11); set schema_inference: full, which takes microseconds if they hold all times of the column, write the column as INT64 microseconds (in Spark with spark.sql.parquet.outputTimestampType=TIMESTAMP_MICROS), or leave it out with the key `columns`
            /inputs/a/t Some(5): column 't': 1199-12-30T19:03:20 (INT96) does not fit a 64-bit number of nanoseconds (1677-09-21 to 2262-04-11); set schema_inference: full, which takes microseconds if they hold all times of the column, write the column as INT64 microseconds (in Spark with spark.sql.parquet.outputTimestampType=TIMESTAMP_MICROS), or leave it out with the key `columns`
            /inputs/a/t Some(7): column 't': 2262-04-11T23:47:16.854775808 (INT96) does not fit a 64-bit number of nanoseconds (1677-09-21 to 2262-04-11); set schema_inference: full, which takes microseconds if they hold all times of the column, write the column as INT64 microseconds (in Spark with spark.sql.parquet.outputTimestampType=TIMESTAMP_MICROS), or leave it out with the key `columns`
            ");
        }
    }
}

#[test]
fn times_in_lists_and_structures_are_found_by_their_row() {
    let values = [0, 1_000, 253_402_221_600_000_000_000, 5].map(int96);
    for layout in LAYOUTS {
        let message =
            "message m { optional group l (LIST) { repeated group list { optional int96 e; } } }";
        // [0, null, 1000], null, [], [too late], [5]
        let folder =
            times(message, &values, (&[3, 2, 3, 0, 1, 3, 3], &[0, 1, 1, 0, 0, 0, 0]), layout);
        let list = read(&folder, TableKind::Parquet, None);
        let mut expected = ListBuilder::new(TimestampNanosecondBuilder::new());
        expected.append_value([Some(0), None, Some(1000)]);
        expected.append_null();
        expected.append_value([]);
        expected.append_value([Some(5)]);
        let expected = expected.finish();
        assert_eq!(list.batch.column(0).as_list::<i32>().offsets(), expected.offsets());
        assert_eq!(list.batch.column(0).as_list::<i32>().values(), expected.values());
        assert_eq!(list.batch.column(0).nulls(), expected.nulls());
        assert_eq!(list.rejected[0].row, Some(4));
        // A required value in a struct that is null.
        let message = "message m { optional group s { required int96 t; } }";
        let folder = times(message, &values, (&[1, 0, 1, 1, 0, 1], &[0; 6]), layout);
        let structure = read(&folder, TableKind::Parquet, None);
        let found = structure.batch.column(0).as_struct();
        assert_eq!(found.null_count(), 2);
        let inner = found.column(0).as_primitive::<TimestampNanosecondType>();
        assert_eq!((inner.value(0), inner.value(2), inner.value(4)), (0, 1000, 5));
        assert_eq!(structure.rejected[0].row, Some(4));
    }
}

/// All rows of a file, with the columns that the planner determines.
fn read_as_planned(folder: &TempDir, all: bool) -> Read {
    let mut file =
        TypedTableFile::open(TableKind::Parquet, None, &folder.path().join("t")).unwrap();
    let mut resolution = Resolution::default();
    file.resolve_times(&mut resolution, None, all).unwrap();
    let table = resolution.apply(file.schema().unwrap());
    read(folder, TableKind::Parquet, Some(&table))
}

/// The far time is in the second row group, and the footer is long.
#[test]
fn far_times_of_later_row_groups_are_seen() {
    let folder = tempfile::tempdir().unwrap();
    let long = KeyValue::new("k".to_owned(), "v".repeat(17 << 20));
    let properties = WriterProperties::builder().set_key_value_metadata(Some(vec![long])).build();
    let schema = Arc::new(parse_message_type("message m { required int96 t; }").unwrap());
    let out = std::fs::File::create(folder.path().join("t")).unwrap();
    let mut writer = SerializedFileWriter::new(out, schema, Arc::new(properties)).unwrap();
    for nanos in [7_000, 253_402_221_600_000_000_000] {
        let mut group = writer.next_row_group().unwrap();
        let mut column = group.next_column().unwrap().unwrap();
        column.typed::<Int96Type>().write_batch(&[int96(nanos)], None, None).unwrap();
        column.close().unwrap();
        group.close().unwrap();
    }
    writer.close().unwrap();
    let mut file =
        TypedTableFile::open(TableKind::Parquet, None, &folder.path().join("t")).unwrap();
    let mut resolution = Resolution::default();
    file.resolve_times(&mut resolution, None, false).unwrap();
    let table = resolution.apply(file.schema().unwrap());
    let micros = DataType::Timestamp(TimeUnit::Microsecond, None);
    assert_eq!(table.field(0).data_type(), &micros);
}

#[test]
fn far_times_are_in_microseconds_if_all_fit() {
    let far = [253_402_221_600_000_000_000, -24_298_981_000_000_000_000, 5_000].map(int96);
    for layout in LAYOUTS {
        for all in [false, true] {
            let message = "message m { optional int96 t; }";
            let folder = times(message, &far, (&[1, 1, 0, 1], &[0; 4]), layout);
            let micros =
                [Some(253_402_221_600_000_000), Some(-24_298_981_000_000_000), None, Some(5)];
            let read = read_as_planned(&folder, all);
            assert_eq!(read.count, 0);
            let found = read.batch.column(0).as_primitive::<TimestampMicrosecondType>();
            assert_eq!(found, &TimestampMicrosecondArray::from(micros.to_vec()));
        }
        // The column stays in nanoseconds if microseconds cannot hold a time, or if nanoseconds hold all
        // times.
        let fine = [253_402_221_600_000_000_000, 5_001].map(int96);
        let near = [7_000, 5_000].map(int96);
        for (values, count) in [(fine, 1), (near, 0)] {
            let folder =
                times("message m { required int96 t; }", &values, (&[0; 2], &[0; 2]), layout);
            let read = read_as_planned(&folder, true);
            assert_eq!(read.count, count);
            read.batch.column(0).as_primitive::<TimestampNanosecondType>();
        }
    }
}

#[test]
fn intervals_keep_their_months() {
    let folder = tempfile::tempdir().unwrap();
    let message = "message m { required fixed_len_byte_array(12) i (INTERVAL); }";
    let schema = Arc::new(parse_message_type(message).unwrap());
    let out = std::fs::File::create(folder.path().join("t")).unwrap();
    let mut writer = SerializedFileWriter::new(out, schema, Default::default()).unwrap();
    let mut group = writer.next_row_group().unwrap();
    let mut column = group.next_column().unwrap().unwrap();
    let value = |parts: [u32; 3]| FixedLenByteArray::from(parts.map(u32::to_le_bytes).concat());
    let values = [value([14, 3, 4_000_000_000]), value([0, 1, 1]), value([u32::MAX, 0, 0])];
    column.typed::<FixedLenByteArrayType>().write_batch(&values, None, None).unwrap();
    column.close().unwrap();
    group.close().unwrap();
    writer.close().unwrap();
    let read = read(&folder, TableKind::Parquet, None);
    let month = DataType::Interval(IntervalUnit::MonthDayNano);
    assert_eq!(read.batch.schema().field(0).data_type(), &month);
    let found = read.batch.column(0).as_primitive::<IntervalMonthDayNanoType>();
    let expected = [(14, 3, 4_000_000_000_000_000), (0, 1, 1_000_000)];
    let expected =
        expected.map(|(months, days, nanos)| IntervalMonthDayNano::new(months, days, nanos));
    assert_eq!(found.values().as_ref(), expected);
    assert_eq!(read.rejected[0].row, Some(3));
}

/// An Arrow file whose times have another unit than the times of the table.
#[test]
fn rows_that_the_table_cannot_hold_are_reported() {
    let folder = tempfile::tempdir().unwrap();
    let seconds = TimestampSecondArray::from(vec![Some(1), Some(253_402_221_600), None, Some(-1)]);
    let mut lists = ListBuilder::new(TimestampSecondBuilder::new());
    lists.append_value([Some(1)]);
    lists.append_value([Some(2)]);
    lists.append_null();
    lists.append_value([Some(3), Some(-99_999_999_999)]);
    let costs = Decimal128Array::from(vec![1, 2, 3, 4]).with_precision_and_scale(9, 2).unwrap();
    let columns: [(&str, ArrayRef); 3] =
        [("t", Arc::new(seconds)), ("l", Arc::new(lists.finish())), ("d", Arc::new(costs))];
    let batch = RecordBatch::try_from_iter_with_nullable(
        columns.into_iter().map(|(name, array)| (name, array, true)),
    )
    .unwrap();
    let out = std::fs::File::create(folder.path().join("t")).unwrap();
    let mut writer = FileWriter::try_new(out, &batch.schema()).unwrap();
    writer.write(&batch).unwrap();
    writer.finish().unwrap();
    let fine = DataType::Timestamp(TimeUnit::Nanosecond, None);
    let item = Field::new("item", fine.clone(), true);
    let table = Schema::new(vec![
        Field::new("t", fine, true),
        Field::new("l", DataType::List(item.into()), true),
        Field::new("d", DataType::Decimal128(20, 4), true),
    ]);
    let read = read(&folder, TableKind::Arrow, Some(&table));
    assert_eq!(SchemaRef::as_ref(&read.batch.schema()).fields(), table.fields());
    let times = read.batch.column(0).as_primitive::<TimestampNanosecondType>();
    assert_eq!(times, &TimestampNanosecondArray::from(vec![Some(1_000_000_000), None]));
    let costs = read.batch.column(2).as_primitive::<Decimal128Type>();
    assert_eq!(costs.values().as_ref(), [100, 300]);
    assert_eq!((read.runs, read.count), (vec![(0, 1), (2, 1)], 2));
    let rejected: Vec<_> =
        read.rejected.iter().map(|failed| format!("{:?}: {}", failed.row, failed.reason)).collect();
    insta::assert_snapshot!(rejected.join("\n"), @"
    Some(2): column 't': a value of Timestamp(s) is not a valid Timestamp(ns), the type of the table (Arithmetic overflow: Overflow happened on: 253402221600 * 1000000000); write the files with one type, or leave the column out with the key `columns`
    Some(4): column 'l': a value of List(Timestamp(s)) is not a valid List(Timestamp(ns)), the type of the table (Arithmetic overflow: Overflow happened on: -99999999999 * 1000000000); write the files with one type, or leave the column out with the key `columns`
    ");
}
