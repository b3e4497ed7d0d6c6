//! Tests pages that claim to be uncompressed although they are compressed. We read them if their
//! writer is known for such pages.

use super::file_reader::FileReader;
use super::parquet::ParquetFile;
use super::repair_tests::{changed, plain_footer, whole};
use super::thrift::{I32, STRUCT, StructWriter};
use crate::dataset::DatasetError;
use arrow::array::{AsArray, Int32Array};

/// Compression codecs, as numbers of parquet.thrift.
const UNCOMPRESSED: i64 = 0;
const SNAPPY: i64 = 1;
/// The field types of a boolean in Thrift's compact protocol.
const TRUE: u8 = 1;
const FALSE: u8 = 2;
/// The `created_by` of a file with wrong flags.
const OLD_WRITER: &[u8] = b"parquet-cpp version 1.5.1-SNAPSHOT";

/// What a page says about its compression.
#[derive(Clone, Copy, Debug)]
enum Flag {
    Uncompressed,
    /// Like `Uncompressed`, but the head of the field has the field's number instead of the
    /// difference from the number of the field before.
    UncompressedLongForm,
    Compressed,
    Missing,
}

/// A data page of version 2, whose body holds three numbers. Its statistics have this many bytes. The field
/// numbers are those of `PageHeader` and `DataPageHeaderV2` in parquet.thrift.
fn page(body: &[u8], flag: Flag, statistics_bytes: usize) -> Vec<u8> {
    let mut page = Vec::new();
    let mut put = StructWriter::new(&mut page);
    // The page type is DATA_PAGE_V2. The numbers have 12 bytes.
    put.int(1, I32, Some(3));
    put.int(2, I32, Some(12));
    put.int(3, I32, Some(body.len() as i64));
    let mut head = StructWriter::new(put.field(8, STRUCT));
    // Three values, no nulls, three rows, the encoding PLAIN, and no levels.
    [(1, 3), (2, 0), (3, 3), (4, 0), (5, 0), (6, 0)]
        .iter()
        .for_each(|&(id, number)| head.int(id, I32, Some(number)));
    match flag {
        Flag::Missing => {}
        Flag::Compressed => _ = head.field(7, TRUE),
        Flag::Uncompressed => _ = head.field(7, FALSE),
        Flag::UncompressedLongForm => {
            let out = head.field(7, FALSE);
            out.pop();
            // The number 7 in zigzag encoding.
            out.extend([FALSE, 14]);
        }
    }
    let mut statistics = StructWriter::new(head.field(8, STRUCT));
    statistics.binary(2, Some(&vec![b'x'; statistics_bytes]));
    statistics.end();
    head.end();
    put.end();
    page.extend(body);
    page
}

/// Three numbers, uncompressed.
fn raw(numbers: &[i32]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}

/// Three numbers in Snappy's format: the length, and one literal with all bytes.
fn snappy(numbers: &[i32]) -> Vec<u8> {
    [vec![12, 11 << 2], raw(numbers)].concat()
}

/// A file of six numbers in two pages.
fn file(created_by: &'static [u8], codec: i64, body: fn(&[i32]) -> Vec<u8>, flag: Flag) -> Vec<u8> {
    let pages = [page(&body(&[1, 2, 3]), flag, 5), page(&body(&[4, 5, 6]), flag, 3000)].concat();
    let plain = whole(&pages, &plain_footer(6, pages.len() as i64));
    changed(&plain, |footer| {
        footer.created_by = Some(created_by);
        footer.groups[0].chunks[0].codec = Some(codec);
    })
}

/// All rows, read in slices of this many rows. If `as_numbers` is false, the `parquet` crate reads
/// the column.
fn read(bytes: &[u8], rows: usize, as_numbers: bool) -> Result<Vec<i32>, DatasetError> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t");
    std::fs::write(&path, bytes).unwrap();
    let file = ParquetFile::open(FileReader::open(&path).unwrap().0).unwrap();
    let mut file = if as_numbers { file } else { file.without_numbers() };
    let mut numbers = Vec::new();
    for skip in (0..6).step_by(rows) {
        let batches = file.read(0, skip, rows, &[0])?;
        for batch in &batches {
            let column: &Int32Array = batch.column(0).as_primitive();
            numbers.extend(column.values());
        }
    }
    Ok(numbers)
}

#[test]
fn compressed_pages_that_claim_otherwise_are_read() {
    for flag in [Flag::Uncompressed, Flag::UncompressedLongForm, Flag::Compressed, Flag::Missing] {
        let bytes = file(OLD_WRITER, SNAPPY, snappy, flag);
        for rows in [1, 2, 3, 6] {
            for as_numbers in [true, false] {
                let numbers = read(&bytes, rows, as_numbers);
                assert_eq!(numbers.unwrap(), [1, 2, 3, 4, 5, 6], "{flag:?} {rows} {as_numbers}");
            }
        }
    }
}

#[test]
fn flags_of_other_programs_are_trusted() {
    let programs: [&[u8]; 3] = [
        b"parquet-cpp version 2.0.0",
        b"parquet-cpp-arrow version 1.5.1",
        b"parquet-mr version 1.13.1 (build x)",
    ];
    for program in programs {
        for (body, flag) in
            [(raw as fn(&[i32]) -> Vec<u8>, Flag::Uncompressed), (snappy, Flag::Compressed)]
        {
            let numbers = read(&file(program, SNAPPY, body, flag), 2, true);
            assert_eq!(numbers.unwrap(), [1, 2, 3, 4, 5, 6], "{program:?} {flag:?}");
        }
    }
    let uncompressed = file(OLD_WRITER, UNCOMPRESSED, raw, Flag::Uncompressed);
    let numbers = read(&uncompressed, 2, true);
    assert_eq!(numbers.unwrap(), [1, 2, 3, 4, 5, 6], "a column without compression");
}

#[test]
fn broken_page_headers_are_errors() {
    let mut bytes = file(OLD_WRITER, SNAPPY, snappy, Flag::Uncompressed);
    bytes[6..60].fill(0xff);
    for rows in [1, 6] {
        assert!(read(&bytes, rows, true).is_err());
    }
}
