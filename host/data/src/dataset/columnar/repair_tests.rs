//! Tests footers of old and odd writers, and files whose pages and footers contradict one another.

use super::columns::InputColumns;
use super::file::TypedTableFile;
use super::footer::Footer;
use super::reader::{RowError, RowPart, RowReader};
use super::schema::to_message;
use super::thrift::{I32, I64, STRUCT, StructWriter};
use crate::model::{SliceSize, TableFormat, TableKind};
use arrow::array::*;
use arrow::compute::concat_batches;
use arrow::datatypes::{DataType, Int32Type as Numbers};
use arrow::ipc::reader::StreamReader;
use parquet::arrow::ArrowWriter;
use parquet::basic::Repetition;
use parquet::data_type::Int32Type;
use parquet::file::properties::{WriterProperties, WriterVersion};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::Type;
use std::io::Cursor;
use std::path::Path;
use std::sync::Arc;

/// All rows of a file, read in slices of this many rows.
fn read_slices(
    bytes: &[u8],
    columns: Option<&[String]>,
    rows: u64,
) -> Result<RecordBatch, RowError> {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("t"), bytes).unwrap();
    read_file(folder.path(), columns, rows)
}

fn read_file(folder: &Path, wanted: Option<&[String]>, rows: u64) -> Result<RecordBatch, RowError> {
    let kind = TableKind::Parquet;
    let mut file = TypedTableFile::open(kind, None, &folder.join("t")).map_err(RowError::Broken)?;
    let mut columns = InputColumns::new(wanted);
    columns.learn(file.schema().map_err(RowError::Broken)?, "t").map_err(RowError::Broken)?;
    let schema = columns.schema();
    let slices =
        file.cut(&schema, SliceSize::Rows(rows), "t".to_owned()).map_err(RowError::Broken)?;
    let format = TableFormat { kind, schema: to_message(&schema).unwrap(), ..Default::default() };
    let mut reader = RowReader::new(&format).unwrap();
    let mut batches = Vec::new();
    for slice in slices {
        let part = RowPart { root: folder, slice: &slice, item: "t" };
        let loaded = reader.read(std::iter::once(part))?;
        let mut stream = StreamReader::try_new(Cursor::new(loaded.ipc.to_vec()), None).unwrap();
        batches.push(stream.next().unwrap().unwrap());
    }
    Ok(concat_batches(&Arc::new(schema), &batches).unwrap())
}

fn read(bytes: &[u8]) -> Result<RecordBatch, RowError> {
    read_slices(bytes, None, 1000)
}

/// 20 numbers: in the column `a`, and in lists in the column `l`.
fn table() -> RecordBatch {
    let numbers: ArrayRef = Arc::new(Int32Array::from_iter_values(0..20));
    let mut lists = ListBuilder::new(Int32Builder::new());
    (0..20).for_each(|n| lists.append_value([Some(n), None]));
    RecordBatch::try_from_iter([("a", numbers), ("l", Arc::new(lists.finish()) as ArrayRef)])
        .unwrap()
}

/// A file of that table, with pages of 10 rows.
pub(super) fn written(version: WriterVersion) -> Vec<u8> {
    let properties = WriterProperties::builder()
        .set_write_batch_size(10)
        .set_data_page_row_count_limit(10)
        .set_writer_version(version)
        .build();
    let mut bytes = Vec::new();
    let table = table();
    let mut writer = ArrowWriter::try_new(&mut bytes, table.schema(), Some(properties)).unwrap();
    writer.write(&table).unwrap();
    writer.close().unwrap();
    bytes
}

fn footer_of(bytes: &[u8]) -> &[u8] {
    let trailer = bytes.len() - 8;
    let length = u32::from_le_bytes(bytes[trailer..trailer + 4].try_into().unwrap());
    &bytes[trailer - length as usize..trailer]
}

/// The file with another footer.
fn with_footer(bytes: &[u8], footer: &[u8]) -> Vec<u8> {
    let pages_end = bytes.len() - 8 - footer_of(bytes).len();
    let length = (footer.len() as u32).to_le_bytes();
    [&bytes[..pages_end], footer, &length, b"PAR1"].concat()
}

/// The file with a changed footer.
pub(super) fn changed(bytes: &[u8], change: impl FnOnce(&mut Footer<'_>)) -> Vec<u8> {
    let mut footer = Footer::read(footer_of(bytes)).unwrap();
    change(&mut footer);
    with_footer(bytes, &footer.write())
}

#[test]
fn a_footer_is_written_as_it_was_read() {
    let good = written(WriterVersion::PARQUET_2_0);
    let footer = Footer::read(footer_of(&good)).unwrap();
    let again = footer.write();
    assert_eq!(format!("{footer:?}"), format!("{:?}", Footer::read(&again).unwrap()));
    assert_eq!(read(&with_footer(&good, &again)).unwrap(), table());
}

#[test]
fn footers_of_old_and_odd_writers_are_read() {
    let good = written(WriterVersion::PARQUET_1_0);
    let same = |name: &str, bytes: &[u8]| assert_eq!(read(bytes).unwrap(), table(), "{name}");
    same("no repetition", &changed(&good, |footer| footer.elements[1].repetition = None));
    same("unknown meaning", &changed(&good, |footer| footer.elements[1].converted = Some(77)));
    same("no rows", &changed(&good, |footer| footer.rows = Some(0)));
    let zero = changed(&good, |footer| {
        for chunk in &mut footer.groups[0].chunks {
            chunk.data_page = chunk.start();
            chunk.dictionary = Some(0);
        }
    });
    same("dictionary at zero", &zero);
    let without_headers = changed(&good, |footer| {
        footer.created_by = Some(b"parquet-mr version 1.2.5 (build x)");
        // Only the first column: page indexes follow the last column, but old writers wrote no page indexes.
        let chunk = &mut footer.groups[0].chunks[0];
        chunk.compressed_bytes = chunk.compressed_bytes.map(|bytes| bytes - 14);
    });
    same("sizes without headers", &without_headers);
    let strange = changed(&good, |footer| footer.created_by = None);
    let footer = footer_of(&strange);
    let pairs = footer.strip_suffix(&[0]).unwrap();
    same("an empty list of bytes", &with_footer(&good, &[pairs, &[0x29, 0x03, 0]].concat()));
}

#[test]
fn a_pair_whose_value_is_a_number_is_skipped() {
    let numbers: ArrayRef = Arc::new(Int32Array::from(vec![1, 2]));
    let page = page(&[1, 2], None);
    let mut footer = plain_footer(2, page.len() as i64);
    // Replaces the empty list of pairs, and the end of the footer.
    assert_eq!(footer.split_off(footer.len() - 3), [0x19, 0x0c, 0]);
    footer.extend([0x19, 0x1c, 0x18, 1, b'k', 0x16, 2, 0, 0]);
    let bytes = whole(&page, &footer);
    assert_eq!(read(&bytes).unwrap().column(0), &numbers);
}

#[test]
fn columns_of_nulls_from_old_writers_are_read() {
    let nulls: ArrayRef = Arc::new(Int32Array::new_null(3));
    let table = RecordBatch::try_from_iter_with_nullable([("n", nulls, true)]).unwrap();
    let options =
        parquet::arrow::arrow_writer::ArrowWriterOptions::new().with_skip_arrow_metadata(true);
    let mut bytes = Vec::new();
    let mut writer =
        ArrowWriter::try_new_with_options(&mut bytes, table.schema(), options).unwrap();
    writer.write(&table).unwrap();
    writer.close().unwrap();
    let old = changed(&bytes, |footer| footer.elements[1].converted = Some(24));
    let read = read(&old).unwrap();
    assert_eq!((read.column(0).data_type(), read.num_rows()), (&DataType::Null, 3));
}

#[test]
fn groups_without_columns_do_not_shift_others() {
    let number = |name: &str| {
        let builder = Type::primitive_type_builder(name, parquet::basic::Type::INT32);
        Arc::new(builder.with_repetition(Repetition::REQUIRED).build().unwrap())
    };
    let group = |name: &str, fields: Vec<Arc<Type>>| {
        let builder = Type::group_type_builder(name).with_repetition(Repetition::OPTIONAL);
        Arc::new(builder.with_fields(fields).build().unwrap())
    };
    let fields = vec![
        group("none", vec![]),
        number("a"),
        group("outer", vec![group("inner", vec![]), number("x"), group("last", vec![])]),
        group("deep", vec![group("inner", vec![group("innermost", vec![])])]),
        number("b"),
        group("end", vec![]),
    ];
    let schema = Arc::new(Type::group_type_builder("m").with_fields(fields).build().unwrap());
    let mut bytes = Vec::new();
    let mut writer = SerializedFileWriter::new(&mut bytes, schema, Default::default()).unwrap();
    let mut rows = writer.next_row_group().unwrap();
    let mut leaf = 0;
    while let Some(mut column) = rows.next_column().unwrap() {
        let values = [10 * leaf, 10 * leaf + 1];
        let levels = [1; 2];
        let levels = (leaf == 1).then_some(levels.as_slice());
        column.typed::<Int32Type>().write_batch(&values, levels, None).unwrap();
        column.close().unwrap();
        leaf += 1;
    }
    rows.close().unwrap();
    writer.close().unwrap();
    for wanted in [None, Some(["b", "outer", "a"].map(str::to_owned))] {
        let read = read_slices(&bytes, wanted.as_ref().map(|names| names.as_slice()), 1).unwrap();
        assert_eq!(read.num_columns(), 3);
        let numbers =
            |name: &str| read.column_by_name(name).unwrap().as_primitive::<Numbers>().clone();
        assert_eq!(numbers("a"), Int32Array::from(vec![0, 1]));
        assert_eq!(numbers("b"), Int32Array::from(vec![20, 21]));
        let outer = read.column_by_name("outer").unwrap().as_struct();
        assert_eq!(outer.column_names(), ["x"]);
        assert_eq!(outer.column(0).as_ref(), &Int32Array::from(vec![10, 11]));
    }
}

#[test]
fn counts_that_disagree_are_refused() {
    let mut reported = String::new();
    for version in [WriterVersion::PARQUET_1_0, WriterVersion::PARQUET_2_0] {
        let good = written(version);
        let fewer = |footer: &mut Footer<'_>| {
            footer.rows = Some(10);
            footer.groups[0].rows = Some(10);
        };
        for bytes in [
            changed(&good, |footer| footer.rows = Some(21)),
            changed(&good, |footer| footer.groups[0].rows = Some(19)),
            changed(&good, fewer),
            changed(&good, |footer| {
                fewer(footer);
                footer.groups[0].chunks.iter_mut().for_each(|chunk| chunk.values = Some(10));
            }),
            changed(&good, |footer| footer.groups[0].chunks[0].values = Some(0)),
            changed(&good, |footer| footer.groups[0].chunks[1].values = Some(39)),
            changed(&good, |footer| footer.groups[0].chunks[1].values = Some(7)),
        ] {
            let error = read_slices(&bytes, None, 1000).unwrap_err().to_string();
            assert_eq!(read_slices(&bytes, None, 3).unwrap_err().to_string(), error);
            reported.push_str(&error);
            reported.push('\n');
        }
    }
    insta::assert_snapshot!(reported, @"
    is broken: its footer says 21 rows, and its row groups have 20; write the file again
    is cut off or broken: row group 0 has 19 rows, and 20 values of column 'a'
    is cut off or broken: row group 0 has 10 rows, and 20 values of column 'a'
    t is broken: the pages of column 'a' in row group 0 hold 20 values, and the footer says 10; write the file again
    is cut off or broken: row group 0 has 20 rows, and 0 values of column 'a'
    t is broken: the pages of column 'l.list.item' in row group 0 hold 40 values, and the footer says 39; write the file again
    is cut off or broken: row group 0 has 20 rows, and 7 values of column 'l.list.item'
    is broken: its footer says 21 rows, and its row groups have 20; write the file again
    is cut off or broken: row group 0 has 19 rows, and 20 values of column 'a'
    is cut off or broken: row group 0 has 10 rows, and 20 values of column 'a'
    t is broken: the pages of column 'a' in row group 0 hold 20 values, and the footer says 10; write the file again
    is cut off or broken: row group 0 has 20 rows, and 0 values of column 'a'
    t is broken: the pages of column 'l.list.item' in row group 0 hold 40 values, and the footer says 39; write the file again
    is cut off or broken: row group 0 has 20 rows, and 7 values of column 'l.list.item'
    ");
}

/// A data page of version 1 with this checksum, or with the right checksum. The field numbers are those of
/// `PageHeader` and `DataPageHeader` in parquet.thrift.
fn page(numbers: &[i32], checksum: Option<i32>) -> Vec<u8> {
    let body: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
    let right = crc32fast::hash(&body).cast_signed();
    let mut page = Vec::new();
    let mut put = StructWriter::new(&mut page);
    // The page type is DATA_PAGE.
    put.int(1, I32, Some(0));
    put.int(2, I32, Some(body.len() as i64));
    put.int(3, I32, Some(body.len() as i64));
    put.int(4, I32, Some(checksum.unwrap_or(right).into()));
    let mut head = StructWriter::new(put.field(5, STRUCT));
    head.int(1, I32, Some(numbers.len() as i64));
    // The encoding of values is PLAIN, and the encoding of levels is RLE.
    [(2, 0), (3, 3), (4, 3)].iter().for_each(|&(id, number)| head.int(id, I32, Some(number)));
    head.end();
    put.end();
    page.extend(body);
    page
}

/// The footer of a file with one column of this many numbers, in this many bytes. The field numbers are those
/// of `FileMetaData` and its parts in parquet.thrift.
pub(super) fn plain_footer(rows: i64, bytes: i64) -> Vec<u8> {
    let mut footer = Vec::new();
    let mut put = StructWriter::new(&mut footer);
    put.int(1, I32, Some(1));
    let elements = put.list(2, STRUCT, 2);
    let mut root = StructWriter::new(elements);
    root.binary(4, Some(b"m"));
    root.int(5, I32, Some(1));
    root.end();
    // The physical type is INT32, and the column is required.
    let mut leaf = StructWriter::new(elements);
    leaf.int(1, I32, Some(1));
    leaf.int(3, I32, Some(0));
    leaf.binary(4, Some(b"n"));
    leaf.end();
    put.int(3, I64, Some(rows));
    let mut group = StructWriter::new(put.list(4, STRUCT, 1));
    let mut chunk = StructWriter::new(group.list(1, STRUCT, 1));
    chunk.int(2, I64, Some(4));
    let mut data = StructWriter::new(chunk.field(3, STRUCT));
    // The physical type is INT32, the encoding is PLAIN, and the pages are uncompressed.
    data.int(1, I32, Some(1));
    super::thrift::int(data.list(2, I32, 1), 0);
    data.int(4, I32, Some(0));
    data.int(5, I64, Some(rows));
    [6, 7].iter().for_each(|&id| data.int(id, I64, Some(bytes)));
    // The first page follows the magic.
    data.int(9, I64, Some(4));
    data.end();
    chunk.end();
    group.int(2, I64, Some(bytes));
    group.int(3, I64, Some(rows));
    group.end();
    put.list(5, STRUCT, 0);
    put.end();
    footer
}

/// A file of these pages and this footer.
pub(super) fn whole(pages: &[u8], footer: &[u8]) -> Vec<u8> {
    [b"PAR1", pages, footer, &(footer.len() as u32).to_le_bytes(), b"PAR1"].concat()
}

#[test]
fn pages_must_match_their_checksums() {
    let good = [page(&[1, 2, 3], None), page(&[4, 5, 6], None)].concat();
    let file = |pages: &[u8]| whole(pages, &plain_footer(6, pages.len() as i64));
    let numbers: ArrayRef = Arc::new(Int32Array::from_iter_values(1..=6));
    assert_eq!(read(&file(&good)).unwrap().column(0), &numbers);
    let bad = [page(&[1, 2, 3], None), page(&[4, 5, 6], Some(7))].concat();
    insta::assert_snapshot!(read(&file(&bad)).unwrap_err(), @"t is damaged: a page of rows 1 to 6 from the start of row group 0 does not match its checksum; fetch it or write it again");
    insta::assert_snapshot!(read_slices(&file(&bad), None, 2).unwrap_err(), @"t is damaged: a page of rows 3 to 4 from the start of row group 0 does not match its checksum; fetch it or write it again");
}

#[test]
fn encrypted_columns_are_named() {
    let page = page(&[1, 2], None);
    let footer = plain_footer(2, page.len() as i64);
    // The footer ends with: the end of the column, the size and the rows of the row group, the
    // pairs, and the end of the footer. The byte 0x16 is the head of an i64 field.
    let rows = footer.len() - footer.iter().rev().position(|&byte| byte == 0x16).unwrap() - 1;
    let size = footer[..rows].iter().rposition(|&byte| byte == 0x16).unwrap();
    assert_eq!(footer[size - 1], 0, "the end of the column");
    // Adds `crypto_metadata`: the column is encrypted with the footer's key.
    let locked = [&footer[..size - 1], &[0x5c, 0x1c, 0, 0, 0], &footer[size..]].concat();
    insta::assert_snapshot!(read(&whole(&page, &locked)).unwrap_err(), @"column 'n' is encrypted, which cannot be read; write it without encryption, or leave the column out with the key `columns`");
    let mut magic = whole(&page, &footer);
    let end = magic.len() - 1;
    magic[end] = b'E';
    insta::assert_snapshot!(read(&magic).unwrap_err(), @"has an encrypted footer, which cannot be read; write it without encryption");
}
