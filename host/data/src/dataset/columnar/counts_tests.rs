//! Tests that reading fails before it returns a row if a count of values is wrong, and that wrong
//! counts of rows are not used.

use super::counts::has_all_rows;
use super::file_reader::FileReader;
use super::parquet::ParquetFile;
use super::repair_tests::{changed, plain_footer, whole, written};
use super::thrift::{I32, STRUCT, StructWriter};
use arrow::array::{ArrayRef, Int32Array};
use parquet::file::properties::WriterVersion;
use std::sync::Arc;

fn open(folder: &tempfile::TempDir, bytes: &[u8]) -> ParquetFile {
    let path = folder.path().join("t");
    std::fs::write(&path, bytes).unwrap();
    ParquetFile::open(FileReader::open(&path).unwrap().0).unwrap()
}

#[test]
fn the_first_slice_reports_wrong_counts() {
    let folder = tempfile::tempdir().unwrap();
    let good = written(WriterVersion::PARQUET_1_0);
    let bad = changed(&good, |footer| footer.groups[0].chunks[1].values = Some(39));
    let mut file = open(&folder, &bad);
    for _ in 0..2 {
        assert!(file.read(0, 0, 3, &[0, 1]).is_err(), "each attempt fails");
    }
    assert_eq!(file.read(0, 0, 3, &[0]).unwrap()[0].num_rows(), 3, "the other column");
}

/// A data page of version 2 that states this number of rows. The field numbers are those of `PageHeader` and
/// `DataPageHeaderV2` in parquet.thrift.
fn page(numbers: &[i32], rows: i64) -> Vec<u8> {
    let body: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
    let mut page = Vec::new();
    let mut put = StructWriter::new(&mut page);
    // The page type is DATA_PAGE_V2.
    put.int(1, I32, Some(3));
    put.int(2, I32, Some(body.len() as i64));
    put.int(3, I32, Some(body.len() as i64));
    let mut head = StructWriter::new(put.field(8, STRUCT));
    head.int(1, I32, Some(numbers.len() as i64));
    // No nulls, the rows, the encoding PLAIN, and no levels.
    let rest = [(2, 0), (3, rows), (4, 0), (5, 0), (6, 0)];
    rest.iter().for_each(|&(id, number)| head.int(id, I32, Some(number)));
    head.end();
    put.end();
    page.extend(body);
    page
}

#[test]
fn wrong_row_counts_of_pages_do_not_shift_values() {
    // Each page has 3 rows.
    for rows in [1, 3, 5] {
        let folder = tempfile::tempdir().unwrap();
        let pages = [page(&[1, 2, 3], rows), page(&[4, 5, 6], rows)].concat();
        let bytes = whole(&pages, &plain_footer(6, pages.len() as i64));
        for is_number in [true, false] {
            let file = open(&folder, &bytes);
            let mut file = if is_number { file } else { file.without_numbers() };
            for (skip, count) in [(4, 1), (1, 4), (2, 1), (5, 1)] {
                let found = file.read(0, skip, count, &[0]).unwrap();
                let first = skip as i32 + 1;
                let expected: ArrayRef =
                    Arc::new(Int32Array::from_iter_values(first..first + count as i32));
                assert_eq!(found[0].column(0), &expected, "{rows} {is_number} {skip}");
            }
        }
        let file = FileReader::open(&folder.path().join("t")).unwrap().0;
        let metadata = open(&folder, &bytes).metadata();
        let column = metadata.row_group(0).column(0);
        assert_eq!(has_all_rows(&Arc::new(file), column, 6), rows == 3);
    }
}
