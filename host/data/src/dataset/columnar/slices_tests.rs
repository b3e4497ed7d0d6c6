//! Tests slices of a row group. Each page is unpacked only once, regardless of its size and type.

use super::*;
use arrow::array::{Array, AsArray, Int32Array, ListArray, StringArray};
use arrow::compute::concat_batches;
use arrow::datatypes::Int32Type;
use parquet::arrow::ArrowWriter;
use parquet::basic::ZstdLevel;
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterPropertiesBuilder};
use std::sync::Arc;
use tempfile::TempDir;

/// A file with one row group of one column.
fn file(folder: &TempDir, column: ArrayRef, properties: WriterPropertiesBuilder) -> ParquetFile {
    let table = RecordBatch::try_from_iter_with_nullable([("c", column, true)]).unwrap();
    let path = folder.path().join("t");
    let properties = properties
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .build();
    let out = std::fs::File::create(&path).unwrap();
    let mut writer = ArrowWriter::try_new(out, table.schema(), Some(properties)).unwrap();
    writer.write(&table).unwrap();
    writer.close().unwrap();
    ParquetFile::open(FileReader::open(&path).unwrap().0).unwrap()
}

/// All rows in one page.
fn one_page() -> WriterPropertiesBuilder {
    WriterProperties::builder()
        .set_data_page_size_limit(1 << 30)
        .set_data_page_row_count_limit(usize::MAX)
        .set_dictionary_enabled(false)
}

fn small_pages() -> WriterPropertiesBuilder {
    WriterProperties::builder().set_data_page_row_count_limit(20).set_write_batch_size(10)
}

fn read(file: &mut ParquetFile, skip: usize, rows: usize) -> ArrayRef {
    let batches = file.read(0, skip, rows, &[0]).unwrap();
    let batch = concat_batches(&batches[0].schema(), &batches).unwrap();
    assert_eq!(batch.num_rows(), rows);
    Arc::clone(batch.column(0))
}

/// How many decoders were made for the row group whose pages are kept. `None` if no pages are kept.
fn decoder_count(file: &ParquetFile) -> Option<usize> {
    file.chunks.as_ref().map(Chunks::decoder_count)
}

fn text(row: usize) -> String {
    format!("{}{row}", ["ab", "xyz"][row % 2].repeat(500))
}

/// The page is larger than 32 MB (an earlier limit for kept pages) and smaller than DuckDB's pages.
#[test]
fn a_large_page_is_unpacked_once() {
    let folder = tempfile::tempdir().unwrap();
    let rows = 30_000;
    let texts: ArrayRef = Arc::new(StringArray::from_iter_values((0..rows).map(text)));
    let mut file = file(&folder, texts, one_page());
    for skip in (0..rows).step_by(1500) {
        let found = read(&mut file, skip, 1500);
        let found = found.as_string::<i32>();
        assert_eq!([found.value(0), found.value(1499)], [text(skip), text(skip + 1499)]);
        assert_eq!(decoder_count(&file), Some(1), "{skip}");
    }
}

/// If other workers read the slices in between, the decoder decodes these slices too, unless a new decoder is
/// faster.
#[test]
fn gaps_between_slices_are_passed_over() {
    let folder = tempfile::tempdir().unwrap();
    let texts: ArrayRef = Arc::new(StringArray::from_iter_values((0..4000).map(text)));
    let mut file = file(&folder, texts, one_page());
    // Slices that one of two workers reads, then one of many workers, then slices of other lengths,
    // then an earlier slice, as in a retry.
    let slices = (0..20).map(|slice| (slice * 100, 50)).chain([
        (2400, 70),
        (2470, 1),
        (2480, 199),
        (3999, 1),
        (10, 30),
        (45, 2),
        (47, 3),
    ]);
    for (skip, rows) in slices {
        let found = read(&mut file, skip, rows);
        let expected = StringArray::from_iter_values((skip..skip + rows).map(text));
        assert_eq!(found.as_string::<i32>(), &expected, "{skip}");
    }
    let mut again =
        ParquetFile::open(FileReader::open(&folder.path().join("t")).unwrap().0).unwrap();
    for slice in 0..20 {
        read(&mut again, slice * 100, 50);
    }
    let count = decoder_count(&again);
    assert!(count.is_some_and(|count| count < 8), "{count:?}");
}

/// Lists of 0 to 4 numbers; every fifth is null.
fn lists(rows: usize) -> ListArray {
    let list = |row: usize| {
        let numbers = (0..row % 5).map(|at| (at != 2).then_some((row * 10 + at) as i32));
        (row % 5 != 4).then(|| numbers.collect::<Vec<_>>())
    };
    ListArray::from_iter_primitive::<Int32Type, _, _>((0..rows).map(list))
}

/// With and without a page index, slices are read in order, with gaps, and again.
#[test]
fn lists_continue_across_slices() {
    for (name, properties) in [
        ("one page", one_page()),
        ("small pages", small_pages()),
        ("no index", small_pages().set_offset_index_disabled(true)),
        (
            "version 2",
            small_pages().set_writer_version(parquet::file::properties::WriterVersion::PARQUET_2_0),
        ),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let all = lists(1000);
        let mut file = file(&folder, Arc::new(all.clone()), properties);
        for skip in (0..1000).step_by(40) {
            let found = read(&mut file, skip, 40);
            assert_eq!(found.as_list::<i32>(), &all.slice(skip, 40), "{name}: {skip}");
            assert_eq!(decoder_count(&file), Some(1), "{name}: {skip}");
        }
        for (skip, rows) in [(0, 7), (100, 50), (990, 10), (3, 40), (43, 1), (500, 33), (533, 9)] {
            let found = read(&mut file, skip, rows);
            assert_eq!(found.as_list::<i32>(), &all.slice(skip, rows), "{name}: {skip}");
        }
    }
}

/// Numbers stay in step with the lists and texts beside them.
#[test]
fn columns_of_all_kinds_stay_in_step() {
    let folder = tempfile::tempdir().unwrap();
    let numbers: ArrayRef = Arc::new((0..1000).collect::<Int32Array>());
    let texts: ArrayRef = Arc::new(StringArray::from_iter_values((0..1000).map(text)));
    let lists: ArrayRef = Arc::new(lists(1000));
    let table = RecordBatch::try_from_iter([("n", numbers), ("l", lists), ("t", texts)]).unwrap();
    let path = folder.path().join("t");
    let out = std::fs::File::create(&path).unwrap();
    let properties = small_pages().set_dictionary_enabled(true).build();
    let mut writer = ArrowWriter::try_new(out, table.schema(), Some(properties)).unwrap();
    writer.write(&table).unwrap();
    writer.close().unwrap();
    let mut file = ParquetFile::open(FileReader::open(&path).unwrap().0).unwrap();
    for (skip, rows) in [(0, 9), (9, 9), (30, 9), (39, 100), (700, 4), (39, 1), (41, 2), (999, 1)] {
        let batches = file.read(0, skip, rows, &[0, 1, 2]).unwrap();
        let batch = concat_batches(&batches[0].schema(), &batches).unwrap();
        let expected = table.slice(skip, rows);
        for (found, expected) in batch.columns().iter().zip(expected.columns()) {
            assert_eq!(found.to_data(), expected.to_data(), "{skip}");
        }
    }
}
