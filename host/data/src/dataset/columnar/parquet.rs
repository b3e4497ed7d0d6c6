//! Reads rows of the row groups of Parquet files.

use super::counts::check_pages;
use super::cut::SourcePart;
use super::file_reader::FileReader;
use super::numbers::{NumberPool, NumberStorage};
use super::opened::{OpenedFile, error_text, open};
use super::page_flags;
use super::pages::{Chunks, is_index_possible};
use super::stored::schema_in_table;
use super::width::least_bytes;
use crate::dataset::{DatasetError, err};
use arrow::array::{ArrayData, ArrayRef, RecordBatch, RecordBatchOptions, make_array};
use arrow::datatypes::{DataType, Schema, SchemaRef};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder,
};
use parquet::basic::{Compression, Type};
use parquet::file::metadata::{
    ColumnChunkMask, ColumnChunkMetaData, PageIndexPolicy, ParquetStatisticsPolicy,
};
use parquet::file::statistics::Statistics;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

/// The `parquet` crate's message about a page that does not match its checksum.
const WRONG_CHECKSUM: &str = "CRC checksum mismatch";
/// If the columns that a slice needs have at most this many bytes, we read them into memory first.
/// We read longer columns page by page.
const MAX_HELD_BYTES: u64 = 16 << 20;

/// An open file whose footer has been read.
#[derive(Debug)]
pub(super) struct ParquetFile {
    file: FileReader,
    /// The footer. Its columns have the types that the `parquet` crate reads.
    footer: ArrowReaderMetadata,
    /// The columns, with their types after 96-bit times and intervals are converted.
    schema: SchemaRef,
    /// The leaf columns that are encrypted.
    encrypted: Vec<usize>,
    /// Whether we have tried to read the page index.
    was_index_read: bool,
    /// Pages of the last row group that was read, if the next slice may continue there.
    chunks: Option<Chunks>,
    /// Leaf columns that turned out not to be stored as [`NumberStorage`] expects.
    not_numbers: HashSet<usize>,
    /// Whether pages may claim to be uncompressed although they are compressed.
    has_wrong_flags: bool,
    /// The column chunks whose values were counted, each as a row group and a leaf column.
    counted: HashSet<(usize, usize)>,
    /// The memory of the last slice's numbers.
    pool: NumberPool,
}

impl ParquetFile {
    /// Reads the footer. Fails if it is missing, wrong or encrypted.
    pub(super) fn open(file: FileReader) -> Result<Self, DatasetError> {
        let OpenedFile { file, footer, schema, encrypted } = open(file)?;
        let created_by = footer.metadata().file_metadata().created_by();
        let has_wrong_flags = created_by.is_some_and(page_flags::writes_wrong_flags);
        Ok(Self {
            file,
            footer,
            schema,
            encrypted,
            was_index_read: false,
            chunks: None,
            not_numbers: HashSet::new(),
            has_wrong_flags,
            counted: HashSet::new(),
            pool: NumberPool::default(),
        })
    }

    /// All columns, with their types after 96-bit times and intervals are converted.
    pub(super) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Like [`Self::schema`], but with the types that `table` needs: its 96-bit times may be in
    /// microseconds.
    pub(super) fn schema_in(&self, table: &Schema) -> SchemaRef {
        match self.schema.fields() == self.stored_schema().fields() {
            true => Arc::clone(&self.schema),
            false => schema_in_table(self.stored_schema(), &self.schema, table),
        }
    }

    /// The number of rows in each row group.
    pub(super) fn group_rows(&self) -> Vec<usize> {
        let groups = self.footer.metadata().row_groups().iter();
        groups.map(|group| usize::try_from(group.num_rows()).unwrap_or(0)).collect()
    }

    /// All columns, with the types that [`Self::read`] returns: 96-bit times and intervals are not
    /// yet converted.
    pub(super) fn stored_schema(&self) -> &SchemaRef {
        self.footer.schema()
    }

    /// The row groups, each with the approximate size of the given columns. Fails if one of the columns is
    /// encrypted, or compressed with LZO.
    pub(super) fn parts(&self, columns: &[usize]) -> Result<Vec<SourcePart>, DatasetError> {
        let leaves = self.leaves(columns);
        let metadata = self.footer.metadata();
        let mut parts = Vec::with_capacity(metadata.num_row_groups());
        for group in metadata.row_groups() {
            let rows = u64::try_from(group.num_rows()).unwrap_or(0);
            let mut bytes = 0_u64;
            for &(leaf, root) in &leaves {
                let column = group.column(leaf);
                if self.encrypted.contains(&leaf) {
                    return err!(
                        "column '{}' is encrypted, which cannot be read; write it without encryption, or \
                         leave the column out with the key `columns`",
                        column.column_path().string(),
                    );
                }
                if column.compression() == Compression::LZO {
                    return err!(
                        "column '{}' is compressed with LZO, which cannot be read; use snappy, gzip, \
                         brotli, zstd, lz4 or no compression, or leave the column out with the key `columns`",
                        column.column_path().string(),
                    );
                }
                let is_dictionary = matches!(
                    self.stored_schema().field(root).data_type(),
                    DataType::Dictionary(..)
                );
                bytes = bytes.saturating_add(memory_size(column, is_dictionary));
            }
            let least = columns
                .iter()
                .map(|&column| least_bytes(self.stored_schema().field(column), rows))
                .fold(0, u64::saturating_add);
            bytes = bytes.max(least);
            parts.push(SourcePart { rows, bytes, ..SourcePart::default() });
        }
        Ok(parts)
    }

    /// The leaf columns of the given columns, each with its root column.
    fn leaves(&self, columns: &[usize]) -> Vec<(usize, usize)> {
        let wanted: BTreeSet<usize> = columns.iter().copied().collect();
        let schema = self.footer.parquet_schema();
        let leaf = |leaf| (leaf, schema.get_column_root_idx(leaf));
        let leaves = (0..schema.num_columns()).map(leaf);
        leaves.filter(|(_, root)| wanted.contains(root)).collect()
    }

    /// Reads `rows` rows of these columns. Begins in row group `part`, after its first `skip` rows. Fails if
    /// the rows cannot be decoded, or if the file has fewer.
    pub(super) fn read(
        &mut self,
        part: usize,
        skip: usize,
        rows: usize,
        columns: &[usize],
    ) -> Result<Vec<RecordBatch>, DatasetError> {
        let groups = self.footer.metadata().row_groups();
        let mut end = part;
        let mut available = 0;
        while available < skip.saturating_add(rows)
            && let Some(group) = groups.get(end)
        {
            available = available.saturating_add(usize::try_from(group.num_rows()).unwrap_or(0));
            end += 1;
        }
        if available < skip.saturating_add(rows) {
            return err!("has fewer rows than when it was planned");
        }
        let is_small = rows < available / 2;
        let uncounted = self.uncounted(part..end, columns);
        if self.has_wrong_flags && !uncounted.is_empty() {
            let groups = self.footer.metadata().row_groups();
            let patches = uncounted.iter().flat_map(|&(group, leaf)| {
                page_flags::patches(&self.file, groups[group].column(leaf))
            });
            self.file = self.file.with_patches(patches);
        }
        let file = match is_small {
            true => self.file.clone(),
            false => self.file.holding(self.ranges(part..end, columns))?,
        };
        let last_row = skip.saturating_add(rows);
        self.check_counts(&file, uncounted)?;
        if end == part + 1 {
            if let Some(batch) = self.read_by_pages(&file, (part, skip, rows), is_small, columns) {
                return Ok(vec![batch]);
            }
            if is_small {
                self.load_index(columns);
            }
        }
        let mask = ProjectionMask::roots(self.footer.parquet_schema(), columns.iter().copied());
        let reader = ParquetRecordBatchReaderBuilder::new_with_metadata(file, self.footer.clone())
            .with_row_groups((part..end).collect())
            .with_projection(mask)
            .with_batch_size(rows)
            .with_offset(skip)
            .with_limit(rows)
            .build();
        let batches = reader.map(|reader| reader.collect::<Result<Vec<_>, _>>());
        let error = match batches {
            Ok(Ok(batches)) => return Ok(batches),
            Ok(Err(error)) => error.to_string(),
            Err(error) => error_text(&error),
        };
        if error.contains(WRONG_CHECKSUM) {
            return err!(
                "is damaged: a page of rows {} to {last_row} from the start of row group {part} does not \
                 match its checksum; fetch it or write it again",
                skip + 1,
            );
        }
        err!(
            "cannot be decoded (rows {} to {last_row} from the start of row group {part}): {error}",
            skip + 1
        )
    }

    /// The chunks of these columns in these row groups whose values have not been counted, each as
    /// a row group and a leaf column.
    fn uncounted(&self, groups: Range<usize>, columns: &[usize]) -> Vec<(usize, usize)> {
        let leaves = self.leaves(columns);
        let chunks = groups.flat_map(|group| leaves.iter().map(move |&(leaf, _)| (group, leaf)));
        chunks.filter(|chunk| !self.counted.contains(chunk)).collect()
    }

    /// Counts the values of column chunks before their rows are read. Fails if a chunk has more or
    /// fewer values than the footer says.
    fn check_counts(
        &mut self,
        file: &FileReader,
        uncounted: Vec<(usize, usize)>,
    ) -> Result<(), DatasetError> {
        for (group, leaf) in uncounted {
            check_pages(file, self.footer.metadata(), group, leaf)?;
            self.counted.insert((group, leaf));
        }
        Ok(())
    }

    /// Reads rows of one row group from its pages. If the slice `is_small`, the pages are kept for the next
    /// slice. `None` if that is not possible or fails. Then the caller reads from the beginning of the row
    /// group, and reports the cause if that fails, too.
    fn read_by_pages(
        &mut self,
        file: &FileReader,
        (group, skip, rows): (usize, usize, usize),
        is_small: bool,
        columns: &[usize],
    ) -> Option<RecordBatch> {
        let mut kept = self.chunks.take().filter(|_| is_small);
        let wanted = self.leaves(columns);
        let leaves: Vec<usize> = wanted.iter().map(|(leaf, _)| *leaf).collect();
        let schema = self.footer.parquet_schema();
        if leaves.iter().any(|&leaf| schema.column(leaf).max_rep_level() > 0) {
            if !is_small && skip == 0 {
                return None;
            }
            // A page of lists need not state its rows.
            self.load_index(columns);
        }
        loop {
            let numbers = self.numbers(group, &wanted);
            // With `skip > 0` the `parquet` crate must not read directly from the file: it would
            // trust the row counts that pages state, which may be wrong.
            if numbers.is_empty() && !is_small && skip == 0 {
                return None;
            }
            let mut chunks =
                match kept.take().filter(|kept| kept.can_continue(group, skip, &leaves)) {
                    Some(chunks) => chunks,
                    None => Chunks::new(file, self.footer.metadata(), group, &leaves).ok()?,
                };
            match self.read_numbers(&chunks, (skip, rows), &numbers) {
                Ok(arrays) => {
                    let batch = self.decode_others(&mut chunks, (skip, rows), columns, arrays)?;
                    self.chunks = (is_small && chunks.may_stay()).then_some(chunks);
                    return Some(batch);
                }
                // These columns are now known not to be numbers, so the next attempt leaves them to
                // the `parquet` crate.
                Err(leaves) => self.not_numbers.extend(leaves),
            }
        }
    }

    /// The columns of numbers among the given leaf columns: for each column, its leaf column and how its
    /// numbers are stored.
    fn numbers(
        &self,
        group: usize,
        leaves: &[(usize, usize)],
    ) -> HashMap<usize, (usize, NumberStorage)> {
        let group = self.footer.metadata().row_group(group);
        let leaves = leaves.iter();
        let numbers = leaves.filter(|(leaf, _)| !self.not_numbers.contains(leaf)).filter_map(
            |&(leaf, root)| {
                let storage = NumberStorage::for_column(
                    group.column(leaf),
                    self.stored_schema().field(root).data_type(),
                )?;
                Some((root, (leaf, storage)))
            },
        );
        numbers.collect()
    }

    /// Reads `rows` rows of columns of numbers, after the first `skip` rows. Fails with the leaf columns that
    /// turn out not to be numbers.
    fn read_numbers(
        &mut self,
        chunks: &Chunks,
        (skip, rows): (usize, usize),
        numbers: &HashMap<usize, (usize, NumberStorage)>,
    ) -> Result<HashMap<usize, ArrayRef>, Vec<usize>> {
        let mut lent = Vec::new();
        let mut not_numbers = Vec::new();
        let mut arrays = HashMap::with_capacity(numbers.len());
        for (&column, &(leaf, storage)) in numbers {
            let data_type = self.stored_schema().field(column).data_type().clone();
            let buffer = chunks.numbers(leaf, storage, (skip, rows), &mut self.pool);
            let found = buffer.and_then(|buffer| {
                lent.push(buffer.clone());
                ArrayData::builder(data_type).len(rows).add_buffer(buffer).build().ok()
            });
            match found {
                Some(array) => drop(arrays.insert(column, make_array(array))),
                None => not_numbers.push(leaf),
            }
        }
        self.pool.lend(lent);
        if not_numbers.is_empty() { Ok(arrays) } else { Err(not_numbers) }
    }

    /// Rows of one row group: decodes the columns that `arrays` lacks, with the `parquet` crate,
    /// and combines all columns.
    fn decode_others(
        &self,
        chunks: &mut Chunks,
        (skip, rows): (usize, usize),
        columns: &[usize],
        mut arrays: HashMap<usize, ArrayRef>,
    ) -> Option<RecordBatch> {
        let missing: Vec<usize> =
            columns.iter().copied().filter(|column| !arrays.contains_key(column)).collect();
        if !missing.is_empty() {
            let decoded = chunks.decode(&self.footer, (skip, rows), &missing)?;
            arrays.extend(missing.into_iter().zip(decoded));
        }
        let arrays = columns.iter().map(|column| arrays.remove(column)).collect::<Option<_>>()?;
        let fields = self.stored_schema().project(columns).ok()?;
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        RecordBatch::try_new_with_options(fields.into(), arrays, &options).ok()
    }

    /// Reads the page index for columns of lists, if the file has a valid index. The pages of other columns
    /// state their rows themselves.
    fn load_index(&mut self, columns: &[usize]) {
        if std::mem::replace(&mut self.was_index_read, true) {
            return;
        }
        let schema = self.footer.parquet_schema();
        let leaves = self.leaves(columns).into_iter().map(|(leaf, _)| leaf);
        let lists: Vec<usize> =
            leaves.filter(|&leaf| schema.column(leaf).max_rep_level() > 0).collect();
        if lists.is_empty() {
            return;
        }
        let options = ArrowReaderOptions::new()
            .with_encoding_stats_policy(ParquetStatisticsPolicy::SkipAll)
            .with_column_index_policy(PageIndexPolicy::Skip)
            .with_offset_index_policy(PageIndexPolicy::Optional)
            .with_offset_index_mask(ColumnChunkMask::columns(lists.iter().copied()));
        // Without an index, or with a broken one, we rely on the pages themselves.
        if let Ok(footer) = ArrowReaderMetadata::load(&self.file, options)
            && is_index_possible(footer.metadata(), &lists)
        {
            self.footer = footer;
        }
    }

    /// The byte ranges of columns in row groups. Empty if they are too long to be held in memory together.
    fn ranges(&self, groups: Range<usize>, columns: &[usize]) -> Vec<Range<u64>> {
        let leaves = self.leaves(columns);
        let groups = self.footer.metadata().row_groups().get(groups).unwrap_or_default();
        let ranges = groups.iter().flat_map(|group| {
            leaves.iter().map(|&(leaf, _)| {
                let (start, length) = group.column(leaf).byte_range();
                start..start.saturating_add(length)
            })
        });
        let ranges: Vec<_> = ranges.collect();
        let bytes =
            ranges.iter().fold(0_u64, |sum, range| sum.saturating_add(range.end - range.start));
        if bytes <= MAX_HELD_BYTES { ranges } else { Vec::new() }
    }
}

/// About how many bytes the values of a column chunk take in memory. That can be much more than in the file,
/// if text repeats. A column that `is_dictionary` becomes 4-byte keys and a dictionary.
fn memory_size(column: &ColumnChunkMetaData, is_dictionary: bool) -> u64 {
    let unsigned = |number: i64| u64::try_from(number).unwrap_or(0);
    let values = unsigned(column.num_values());
    let stored = unsigned(column.uncompressed_size());
    let bytes_per_value = match column.column_type() {
        Type::BOOLEAN => return values / 8,
        Type::INT32 | Type::FLOAT => 4,
        Type::INT64 | Type::DOUBLE | Type::INT96 => 8,
        Type::FIXED_LEN_BYTE_ARRAY => unsigned(i64::from(column.column_descr().type_length())),
        Type::BYTE_ARRAY if is_dictionary => {
            return stored.saturating_add(values.saturating_mul(4));
        }
        Type::BYTE_ARRAY => {
            if let Some(bytes) = column.unencoded_byte_array_data_bytes() {
                return unsigned(bytes).saturating_add(values.saturating_mul(4));
            }
            let length = column.statistics().map_or(0, typical_length);
            return stored.max(values.saturating_mul(length.saturating_add(4)));
        }
    };
    values.saturating_mul(bytes_per_value)
}

/// The estimated length of the values of a column: the mean of the smallest and the largest value's lengths.
fn typical_length(statistics: &Statistics) -> u64 {
    let length = |bytes: Option<&[u8]>| bytes.map_or(0, |bytes| bytes.len() as u64);
    (length(statistics.min_bytes_opt()) + length(statistics.max_bytes_opt())) / 2
}

#[cfg(test)]
impl ParquetFile {
    /// How many columns of the first row group are read as numbers.
    pub(super) fn number_count(&self) -> usize {
        let columns: Vec<usize> = (0..self.schema().fields().len()).collect();
        self.numbers(0, &self.leaves(&columns)).len()
    }

    /// The footer.
    pub(super) fn metadata(&self) -> Arc<parquet::file::metadata::ParquetMetaData> {
        Arc::clone(self.footer.metadata())
    }

    /// Makes the `parquet` crate read all columns, including those of numbers.
    pub(super) fn without_numbers(mut self) -> Self {
        self.not_numbers.extend(0..self.schema().fields().len());
        self
    }
}

#[cfg(test)]
#[path = "slices_tests.rs"]
mod slices_tests;

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{ArrayRef, AsArray, Int64Array, StringArray};
    use arrow::compute::concat_batches;
    use arrow::datatypes::Int64Type;
    use parquet::arrow::ArrowWriter;
    use parquet::file::properties::WriterProperties;

    /// 400 rows in one row group, with pages of at most 30 rows.
    fn file(folder: &tempfile::TempDir) -> ParquetFile {
        let numbers: ArrayRef =
            Arc::new((0..400).map(|n| (n % 5 > 0).then_some(n)).collect::<Int64Array>());
        let texts: ArrayRef = Arc::new(StringArray::from_iter_values(
            (0..400).map(|n| format!("a text of some length, {}", n % 60)),
        ));
        let table = RecordBatch::try_from_iter([("n", numbers), ("t", texts)]).unwrap();
        let properties = WriterProperties::builder()
            .set_data_page_row_count_limit(30)
            .set_write_batch_size(10)
            .set_column_data_page_size_limit("t".into(), 50)
            .build();
        let path = folder.path().join("t");
        let out = std::fs::File::create(&path).unwrap();
        let mut writer = ArrowWriter::try_new(out, table.schema(), Some(properties)).unwrap();
        writer.write(&table).unwrap();
        writer.close().unwrap();
        ParquetFile::open(FileReader::open(&path).unwrap().0).unwrap()
    }

    #[test]
    fn pages_are_kept_for_the_next_slice() {
        let folder = tempfile::tempdir().unwrap();
        let mut file = file(&folder);
        let mut read = |skip: usize, rows: usize, columns: &[usize]| {
            let batches = file.read(0, skip, rows, columns).unwrap();
            let batch = concat_batches(&batches[0].schema(), &batches).unwrap();
            let skip = skip as i64;
            let rows = rows as i64;
            let numbers = (skip..skip + rows).map(|n| (n % 5 > 0).then_some(n));
            assert_eq!(batch.column(0).as_primitive::<Int64Type>(), &numbers.collect());
            if columns.len() > 1 {
                let text = |n: i64| format!("a text of some length, {}", n % 60);
                let texts = StringArray::from_iter_values((skip..skip + rows).map(text));
                assert_eq!(batch.column(1).as_string::<i32>(), &texts);
            }
            file.chunks.is_some()
        };
        // Slices one after the other, then with gaps (as if other workers read the rest), then back.
        for start in (0..98).step_by(7).chain([100, 131, 171, 199, 398, 0, 30, 29, 60]) {
            assert!(read(start, if start == 398 { 2 } else { 7 }, &[0, 1]), "{start}");
        }
        assert!(read(70, 5, &[0]), "other columns");
        assert!(read(90, 120, &[0, 1]));
        // One slice has most of the row group.
        read(3, 390, &[0, 1]);
    }
}
