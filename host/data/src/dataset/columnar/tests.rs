//! Tests of cutting tables into slices and reading the slices. Each test writes its own files, some
//! of them broken on purpose.

use super::columns::{InputColumns, check};
use super::file::TypedTableFile;
use super::reader::{RowPart, RowReader};
use super::schema::{from_message, to_message};
use crate::dataset::DatasetError;
use crate::model::{SliceSize, TableFormat, TableKind, TableSlice};
use arrow::array::types::{Int8Type, Int32Type};
use arrow::array::*;
use arrow::compute::concat_batches;
use arrow::datatypes::{DataType, Field, Schema, TimeUnit};
use arrow::ipc::CompressionType;
use arrow::ipc::reader::StreamReader;
use arrow::ipc::writer::{FileWriter, IpcWriteOptions, StreamWriter};
use bytes::Bytes;
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::file::metadata::{
    ColumnChunkMetaDataBuilder, ParquetMetaDataReader, ParquetMetaDataWriter,
    RowGroupMetaDataBuilder,
};
use parquet::file::properties::{WriterProperties, WriterVersion};
use proptest::prelude::*;
use std::io::Cursor;
use std::path::PathBuf;
use std::sync::Arc;
use tempfile::TempDir;

struct ColumnarFixture(TempDir);

impl ColumnarFixture {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("t")
    }

    fn write(&self, bytes: &[u8]) {
        std::fs::write(self.path(), bytes).unwrap();
    }

    fn open(&self, kind: TableKind) -> Result<TypedTableFile, DatasetError> {
        TypedTableFile::open(kind, None, &self.path())
    }

    /// Cuts the file, and reads its slices one after the other. Returns all rows and the slices.
    fn read(
        &self,
        kind: TableKind,
        wanted: Option<&[String]>,
        size: SliceSize,
    ) -> Result<(RecordBatch, Vec<TableSlice>), DatasetError> {
        let mut file = self.open(kind)?;
        let mut columns = InputColumns::new(wanted);
        columns.learn(file.schema()?, "t")?;
        let schema = columns.schema();
        check(file.schema()?, &schema, wanted.is_none(), "t")?;
        let slices: Vec<_> = file.cut(&schema, size, "t".to_owned())?.take(2000).collect();
        let format = TableFormat { kind, schema: to_message(&schema)?, ..TableFormat::default() };
        let mut reader = RowReader::new(&format)?;
        let mut batches = Vec::new();
        for slice in &slices {
            let loaded = {
                let part = RowPart { root: self.0.path(), slice, item: "/inputs/a/t" };
                reader.read(std::iter::once(part)).map_err(|e| DatasetError(e.to_string()))?
            };
            assert_eq!(loaded.rows, slice.rows);
            let mut stream = StreamReader::try_new(Cursor::new(loaded.ipc.to_vec()), None).unwrap();
            batches.push(stream.next().unwrap().unwrap());
            assert!(stream.next().is_none(), "one batch");
        }
        let schema = Arc::new(from_message(&format.schema)?);
        Ok((concat_batches(&schema, &batches).unwrap(), slices))
    }
}

/// A table with columns of many types that hold these numbers in some form.
fn table(values: &[Option<i16>]) -> RecordBatch {
    let texts = || values.iter().map(|v| v.map(|v| "ä".repeat((v % 20).unsigned_abs().into())));
    let mut list = ListBuilder::new(Int64Builder::new());
    for value in values {
        list.append_option(
            value.map(|v| (0..v % 4).map(|item| (item != 2).then_some(item.into()))),
        );
    }
    let inner: ArrayRef =
        Arc::new(values.iter().map(|v| v.map(f64::from)).collect::<Float64Array>());
    let name: ArrayRef = Arc::new(texts().collect::<LargeStringArray>());
    let fields = vec![
        Field::new("x", DataType::Float64, true),
        Field::new("name", DataType::LargeUtf8, true),
    ];
    let nulls = values.iter().map(|v| v.is_none_or(|v| v % 3 != 0)).collect::<Vec<_>>().into();
    let numbers = || values.iter().map(|v| v.map(i64::from));
    let decimals = numbers().map(|v| v.map(i128::from)).collect::<Decimal128Array>();
    let bytes = values.iter().map(|v| v.map(|v| v.to_le_bytes()));
    let bytes = FixedSizeBinaryArray::try_from_sparse_iter_with_size(bytes, 2).unwrap();
    let keys: DictionaryArray<Int32Type> = texts()
        .map(|text| text.map(|text| text.len().to_string()))
        .collect::<Vec<_>>()
        .iter()
        .map(Option::as_deref)
        .collect();
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("id", Arc::new((0..values.len() as i64).collect::<Int64Array>())),
        ("small", Arc::new(values.iter().map(|v| v.map(|v| v as i8)).collect::<Int8Array>())),
        ("flag", Arc::new(values.iter().map(|v| v.map(|v| v > 0)).collect::<BooleanArray>())),
        ("text", Arc::new(texts().collect::<StringArray>())),
        ("view", Arc::new(texts().collect::<StringViewArray>())),
        ("key", Arc::new(keys)),
        ("list", Arc::new(list.finish())),
        ("pair", Arc::new(StructArray::new(fields.into(), vec![inner, name], Some(nulls)))),
        (
            "at",
            Arc::new(numbers().collect::<TimestampMicrosecondArray>().with_timezone("Europe/Oslo")),
        ),
        ("day", Arc::new(values.iter().map(|v| v.map(i32::from)).collect::<Date32Array>())),
        ("cost", Arc::new(decimals.with_precision_and_scale(20, 3).unwrap())),
        ("raw", Arc::new(bytes)),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, array)| {
        let nullable = name != "id";
        (name, array, nullable)
    }))
    .unwrap()
}

fn parquet(table: &RecordBatch, group: usize, page: usize, version: WriterVersion) -> Vec<u8> {
    let properties = WriterProperties::builder()
        .set_max_row_group_row_count(Some(group))
        .set_data_page_row_count_limit(page)
        .set_write_batch_size(page)
        .set_writer_version(version)
        .set_compression(Compression::SNAPPY)
        .build();
    let mut bytes = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut bytes, table.schema(), Some(properties)).unwrap();
    writer.write(table).unwrap();
    writer.close().unwrap();
    bytes
}

fn arrow(
    table: &RecordBatch,
    batch: usize,
    stream: bool,
    packed: Option<CompressionType>,
) -> Vec<u8> {
    let options = IpcWriteOptions::default().try_with_compression(packed).unwrap();
    let starts = (0..table.num_rows()).step_by(batch);
    let batches = starts.map(|start| table.slice(start, batch.min(table.num_rows() - start)));
    let schema = table.schema();
    if stream {
        let mut writer = StreamWriter::try_new_with_options(Vec::new(), &schema, options).unwrap();
        batches.for_each(|batch| writer.write(&batch).unwrap());
        writer.into_inner().unwrap()
    } else {
        let mut writer = FileWriter::try_new_with_options(Vec::new(), &schema, options).unwrap();
        batches.for_each(|batch| writer.write(&batch).unwrap());
        writer.into_inner().unwrap()
    }
}

fn slice_sizes() -> impl Strategy<Value = SliceSize> {
    prop_oneof![(1_u64..4000).prop_map(SliceSize::Bytes), (1_u64..150).prop_map(SliceSize::Rows),]
}

fn assert_same(read: &RecordBatch, table: &RecordBatch) {
    assert_eq!(read.num_rows(), table.num_rows());
    for (index, field) in table.schema().fields().iter().enumerate() {
        assert_eq!(read.column(index), table.column(index), "{}", field.name());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn each_row_of_parquet_is_read_once(
        values in prop::collection::vec(prop::option::of(any::<i16>()), 1..200),
        (group, page) in (1_usize..90, 1_usize..40),
        (is_version_2, is_flat) in (any::<bool>(), any::<bool>()),
        size in slice_sizes(),
    ) {
        let folder = ColumnarFixture::new();
        let table = table(&values);
        let version = if is_version_2 { WriterVersion::PARQUET_2_0 } else { WriterVersion::PARQUET_1_0 };
        folder.write(&parquet(&table, group, page, version));
        // Without the column of lists, pages are read in another way.
        let columns: Vec<usize> =
            (0..table.num_columns()).filter(|column| !is_flat || *column != 6).collect();
        let table = table.project(&columns).unwrap();
        let wanted: Vec<String> =
            table.schema().fields().iter().map(|field| field.name().clone()).collect();
        let (read, slices) = folder.read(TableKind::Parquet, Some(&wanted), size).unwrap();
        assert_same(&read, &table);
        if let SliceSize::Rows(rows) = size {
            prop_assert_eq!(slices.len() as u64, (values.len() as u64).div_ceil(rows));
        }
    }

    #[test]
    fn each_row_of_arrow_is_read_once(
        values in prop::collection::vec(prop::option::of(any::<i16>()), 1..200),
        batch in 1_usize..90,
        stream in any::<bool>(),
        packed in prop::option::of(any::<bool>()),
        size in slice_sizes(),
    ) {
        let folder = ColumnarFixture::new();
        let table = table(&values);
        let codec = |zstd| if zstd { CompressionType::ZSTD } else { CompressionType::LZ4_FRAME };
        // The writer allows only one dictionary in a file, so the file has only one batch.
        let batch = if stream { batch } else { values.len() };
        folder.write(&arrow(&table, batch, stream, packed.map(codec)));
        let (read, _) = folder.read(TableKind::Arrow, None, size).unwrap();
        assert_same(&read, &table);
    }
}

#[test]
fn columns_come_in_the_requested_order() {
    let folder = ColumnarFixture::new();
    let table = table(&[Some(1), None, Some(-7), Some(40)]);
    let wanted = ["pair", "id", "key"].map(str::to_owned);
    let size = SliceSize::Rows(3);
    folder.write(&parquet(&table, 2, 1, WriterVersion::PARQUET_2_0));
    let from_parquet = folder.read(TableKind::Parquet, Some(&wanted), size).unwrap().0;
    assert_same(&from_parquet, &table.project(&[7, 0, 5]).unwrap());
    for stream in [true, false] {
        folder.write(&arrow(&table, 4, stream, None));
        let from_arrow = folder.read(TableKind::Arrow, Some(&wanted), size).unwrap().0;
        assert_same(&from_arrow, &table.project(&[7, 0, 5]).unwrap());
    }
    // Unwanted columns do not count towards the size of a slice.
    let count = |wanted: Option<&[String]>| {
        folder.read(TableKind::Arrow, wanted, SliceSize::Bytes(64)).unwrap().1.len()
    };
    assert!(count(None) > count(Some(&wanted[1..2])));
}

#[test]
fn files_become_one_table() {
    let folder = ColumnarFixture::new();
    let narrow: ArrayRef = Arc::new(Int32Array::from(vec![1, 2]));
    let text: ArrayRef = Arc::new(StringArray::from(vec!["a", "b"]));
    let file = RecordBatch::try_from_iter([("b", text), ("a", narrow)]).unwrap();
    folder.write(&parquet(&file, 10, 10, WriterVersion::PARQUET_1_0));
    let field = |name, data_type| Field::new(name, data_type, true);
    let key = DataType::Dictionary(DataType::Int8.into(), DataType::Utf8.into());
    let wide = Schema::new(vec![
        field("a", DataType::Int64),
        field("c", DataType::Timestamp(TimeUnit::Second, None)),
        field("b", key),
    ]);
    let schema = to_message(&wide).unwrap();
    let kind = TableKind::Parquet;
    let mut reader =
        RowReader::new(&TableFormat { kind, schema, ..TableFormat::default() }).unwrap();
    let cut = folder.open(kind).unwrap().cut(&wide, SliceSize::Rows(10), "t".to_owned()).unwrap();
    let slice = cut.last().unwrap();
    let loaded = {
        let part = RowPart { root: folder.0.path(), slice: &slice, item: "t" };
        reader.read(std::iter::once(part)).unwrap()
    };
    let batch = StreamReader::try_new(Cursor::new(loaded.ipc.to_vec()), None)
        .unwrap()
        .next()
        .unwrap()
        .unwrap();
    assert_eq!(batch.column(0).as_ref(), &Int64Array::from(vec![1, 2]));
    assert_eq!(batch.column(1).null_count(), 2);
    let keys: DictionaryArray<Int8Type> = ["a", "b"].into_iter().collect();
    assert_eq!(batch.column(2).as_ref(), &keys);
}

#[test]
fn consecutive_streams_are_one_file() {
    let folder = ColumnarFixture::new();
    let one = table(&[Some(1), None, Some(40)]);
    let two = table(&[Some(7), Some(300)]);
    let bytes = [arrow(&one, 2, true, None), arrow(&two, 2, true, None)].concat();
    let table = concat_batches(&one.schema(), [&one, &two]).unwrap();
    for zeros in [0, 3, 8, 64] {
        folder.write(&[bytes.clone(), vec![0; zeros]].concat());
        let (read, _) = folder.read(TableKind::Arrow, None, SliceSize::Rows(2)).unwrap();
        assert_same(&read, &table);
    }
    let other = arrow(&two.project(&[0, 3]).unwrap(), 2, true, None);
    let first = arrow(&one, 2, true, None);
    let mut reported = String::new();
    for (name, rest) in [
        ("other columns", other),
        ("text", b"and so on".to_vec()),
        ("many zeros", vec![0; 65]),
        ("half a stream", bytes[first.len()..bytes.len() - 300].to_vec()),
    ] {
        folder.write(&[first.clone(), rest].concat());
        let text = read_error(&folder, TableKind::Arrow);
        let text = text.replace(&first.len().to_string(), "[END]");
        // The lengths after " claims" depend on the writer.
        reported
            .push_str(&format!("{name}: {}\n", text.split(" claims").next().unwrap_or_default()));
    }
    insta::assert_snapshot!(reported, @"
    other columns: holds another stream at offset [END], with other columns than the first; write each stream into its own file
    text: holds 9 bytes after the end of its stream, at offset [END], which are not another stream; remove them, or write the file anew
    many zeros: holds 65 bytes after the end of its stream, at offset [END], which are not another stream; remove them, or write the file anew
    half a stream: is cut off or broken: a message at offset 6856
    ");
}

#[test]
fn dictionaries_are_counted() {
    let folder = ColumnarFixture::new();
    let texts: Vec<_> =
        (0..500).map(|n| format!("a text of about forty characters, {n:06}")).collect();
    let keys: DictionaryArray<Int32Type> = texts.iter().map(String::as_str).collect();
    let numbers: ArrayRef = Arc::new((0..500).collect::<Int64Array>());
    let table =
        RecordBatch::try_from_iter([("n", numbers), ("k", Arc::new(keys) as ArrayRef)]).unwrap();
    for stream in [true, false] {
        folder.write(&arrow(&table, 500, stream, None));
        let bytes = |columns: &[usize], rows| {
            let schema = table.schema().project(columns).unwrap();
            let mut file = folder.open(TableKind::Arrow).unwrap();
            let mut cuts = file.cut(&schema, SliceSize::Rows(rows), "t".to_owned()).unwrap();
            cuts.next().unwrap().bytes
        };
        let text_bytes = texts.iter().map(|text| text.len() as u64).sum::<u64>();
        assert!(bytes(&[0, 1], 500) > text_bytes + 500 * 12, "each text once");
        assert!(bytes(&[0, 1], 10) > text_bytes / 50 + 10 * 12, "the texts of ten rows");
        assert!(bytes(&[0, 1], 10) < text_bytes / 5, "only the texts of ten rows");
        assert!(bytes(&[0], 500) < text_bytes / 2, "no texts are requested");
    }
}

fn read_error(folder: &ColumnarFixture, kind: TableKind) -> String {
    folder.read(kind, None, SliceSize::Rows(7)).expect_err("an error").to_string()
}

#[test]
fn a_file_that_is_not_a_table_is_refused() {
    let folder = ColumnarFixture::new();
    let mut reported = String::new();
    let good = parquet(&table(&[Some(1); 50]), 20, 10, WriterVersion::PARQUET_2_0);
    let stream = arrow(&table(&[Some(1); 50]), 20, true, None);
    let file = arrow(&table(&[Some(1); 50]), 50, false, None);
    let mut long_footer = good.clone();
    let trailer = good.len() - 8;
    long_footer[trailer..trailer + 4].copy_from_slice(&u32::MAX.to_le_bytes());
    let mut encrypted = good.clone();
    encrypted[trailer + 4..].copy_from_slice(b"PARE");
    let mut no_footer = good.clone();
    no_footer[trailer..trailer + 4].copy_from_slice(&0_u32.to_le_bytes());
    let parquet = TableKind::Parquet;
    for (kind, bytes) in [
        (parquet, b"".as_slice()),
        (parquet, b"a,b\n1,2\n"),
        (parquet, b"PAR1"),
        (parquet, &good[..good.len() / 2]),
        (parquet, &long_footer),
        (parquet, &encrypted),
        (parquet, &no_footer),
        (parquet, &file),
        (TableKind::Arrow, b"a,b\n1,2\n"),
        (TableKind::Arrow, &[0; 64]),
        (TableKind::Arrow, &good),
        (TableKind::Arrow, &stream[..stream.len() / 2]),
        (TableKind::Arrow, &file[..file.len() / 2]),
    ] {
        folder.write(bytes);
        let text = read_error(&folder, kind);
        // The lengths after " claims" depend on the writer.
        reported.push_str(text.split(" claims").next().unwrap_or_default());
        reported.push('\n');
    }
    insta::assert_snapshot!(reported, @"
    is empty, without even a schema; remove it, or write the file again
    is not a Parquet file: it does not begin with PAR1; correct the key `format`, or leave the file out with a glob
    is cut off or broken: a Parquet file ends with PAR1, but this file does not
    is cut off or broken: a Parquet file ends with PAR1, but this file does not
    is cut off or broken: its footer
    has an encrypted footer, which cannot be read; write it without encryption
    has a footer that cannot be read
    is not a Parquet file: it does not begin with PAR1; correct the key `format`, or leave the file out with a glob
    is not an Arrow file or stream; correct the key `format`, or leave the file out with a glob
    is not an Arrow file or stream; correct the key `format`, or leave the file out with a glob
    is not an Arrow file or stream; correct the key `format`, or leave the file out with a glob
    is cut off or broken: a message at offset 4544
    is cut off or broken: an Arrow file ends with ARROW1, but this file does not
    ");
}

type Lie = fn(ColumnChunkMetaDataBuilder) -> ColumnChunkMetaDataBuilder;

/// A file whose footer lies about the number of rows in its first row group, or about the first column in the
/// row group.
fn lying(good: &[u8], rows: Option<i64>, change: Lie) -> Vec<u8> {
    let metadata =
        ParquetMetaDataReader::new().parse_and_finish(&Bytes::copy_from_slice(good)).unwrap();
    let mut footer = metadata.into_builder();
    let mut groups = footer.take_row_groups();
    let mut first = groups.remove(0).into_builder();
    let mut columns = first.take_columns();
    let lie = change(columns.remove(0).into_builder()).build().unwrap();
    columns.insert(0, lie);
    let first = first.set_column_metadata(columns);
    let first = rows.into_iter().fold(first, RowGroupMetaDataBuilder::set_num_rows);
    groups.insert(0, first.build().unwrap());
    let mut bytes = good.to_vec();
    let footer = footer.set_row_groups(groups).build();
    ParquetMetaDataWriter::new(&mut bytes, &footer).finish().unwrap();
    bytes
}

#[test]
fn false_claims_of_a_footer_are_refused() {
    let folder = ColumnarFixture::new();
    let good = parquet(&table(&[Some(1); 5]), 20, 10, WriterVersion::PARQUET_2_0);
    let mut reported = String::new();
    let lies: [(Option<i64>, Lie); 8] = [
        (Some(1 << 60), |column| column),
        (Some(-1), |column| column),
        (Some(i64::from(i32::MAX)), |column| column),
        (None, |column| column.set_dictionary_page_offset(None).set_data_page_offset(1 << 50)),
        (None, |column| column.set_dictionary_page_offset(Some(-9))),
        (None, |column| column.set_total_compressed_size(-1)),
        (None, |column| column.set_file_path("../secret".to_owned())),
        (None, |column| column.set_compression(Compression::LZO)),
    ];
    for (rows, change) in lies {
        folder.write(&lying(&good, rows, change));
        let text = read_error(&folder, TableKind::Parquet);
        let length = std::fs::metadata(folder.path()).unwrap().len();
        reported.push_str(&text.replace(&length.to_string(), "[LENGTH]"));
        reported.push('\n');
    }
    insta::assert_snapshot!(reported, @r#"
    is cut off or broken: row group 0 claims 1152921504606846976 rows, and at most 2147483647 can be read
    is cut off or broken: row group 0 claims -1 rows, and at most 2147483647 can be read
    is cut off or broken: row group 0 has 2147483647 rows, and 5 values of column 'id'
    is cut off or broken: row group 0 claims column 'id' at offset 1125899906842624 with 71 bytes, and the file has [LENGTH]
    is cut off or broken: row group 0 claims column 'id' at offset -9 with 71 bytes, and the file has [LENGTH]
    is cut off or broken: row group 0 claims column 'id' at offset 4 with -1 bytes, and the file has [LENGTH]
    is cut off or broken: row group 0 keeps column 'id' in another file ("../secret"); name the files that hold the rows
    column 'id' is compressed with LZO, which cannot be read; use snappy, gzip, brotli, zstd, lz4 or no compression, or leave the column out with the key `columns`
    "#);
}

/// Reads a file that may be broken. Any file is either read or refused, without a panic.
fn try_read(folder: &ColumnarFixture, kind: TableKind, bytes: &[u8]) {
    folder.write(bytes);
    let _ = folder.read(kind, None, SliceSize::Rows(7));
}

#[test]
fn broken_files_do_not_crash_the_reader() {
    let folder = ColumnarFixture::new();
    let table = table(&[Some(1), None, Some(300), Some(-5), Some(77)]);
    let files = [
        (TableKind::Parquet, parquet(&table, 2, 1, WriterVersion::PARQUET_1_0)),
        (TableKind::Parquet, parquet(&table, 3, 2, WriterVersion::PARQUET_2_0)),
        (TableKind::Arrow, arrow(&table, 2, true, Some(CompressionType::ZSTD))),
        (TableKind::Arrow, arrow(&table, 5, false, Some(CompressionType::LZ4_FRAME))),
        (TableKind::Arrow, arrow(&table, 5, false, None)),
    ];
    // Do not print the panics that the reader catches.
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    for (kind, bytes) in files {
        for end in (0..bytes.len()).step_by(bytes.len() / 60 + 1) {
            try_read(&folder, kind, &bytes[..end]);
        }
        // Changes random bytes. The sequence is the same each time.
        let mut state = 7_u64;
        for _ in 0..150 {
            let mut broken = bytes.clone();
            for _ in 0..3 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let index = (state >> 33) as usize % broken.len();
                broken[index] = (state >> 20) as u8;
            }
            try_read(&folder, kind, &broken);
        }
    }
    std::panic::set_hook(hook);
}
