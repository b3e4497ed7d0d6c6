//! Parquet: reads the rows of row groups.

use super::counts::check_pages;
use super::cut::SourcePart;
use super::file_reader::FileReader;
use super::numbers::{NumberPool, NumberStorage};
use super::opened::{OpenedFile, error_text, open};
use super::page_flags;
use super::pages::{Chunks, is_index_right};
use super::stored::as_in;
use super::width::least;
use crate::dataset::{DatasetError, fail};
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

/// The library's message about a page that does not match its checksum.
const WRONG_CHECKSUM: &str = "CRC checksum mismatch";
/// Columns of up to this many bytes are read at once. Longer ones are read page by page.
const MAX_HELD: u64 = 16 << 20;

/// An open file whose footer has been read.
#[derive(Debug)]
pub(super) struct ParquetFile {
    at: FileReader,
    /// The footer. Its columns may have another form than the one in which they are passed on.
    footer: ArrowReaderMetadata,
    /// The columns in the form in which they are passed on.
    schema: SchemaRef,
    /// The leaf columns that are encrypted.
    encrypted: Vec<usize>,
    /// Whether we have tried to read the index of the pages.
    has_index: bool,
    /// Pages of the last row group that was read, if the next slice may continue there.
    chunks: Option<Chunks>,
    /// Leaf columns that turned out not to be what [`NumberStorage`] expects.
    not_numbers: HashSet<usize>,
    /// Whether pages may claim to be uncompressed although they are compressed.
    has_wrong_flags: bool,
    /// The row groups and leaf columns whose pages were counted.
    counted: HashSet<(usize, usize)>,
    /// The memory of the last slice's numbers.
    memory: NumberPool,
}

impl ParquetFile {
    /// Reads the footer. Fails if it is missing, wrong or encrypted.
    pub(super) fn open(at: FileReader) -> Result<Self, DatasetError> {
        let OpenedFile { at, footer, schema, encrypted } = open(at)?;
        let not_numbers = HashSet::new();
        let memory = NumberPool::default();
        let created_by = footer.metadata().file_metadata().created_by();
        let has_wrong_flags = created_by.is_some_and(page_flags::writes_wrong_flags);
        Ok(Self {
            at,
            footer,
            schema,
            encrypted,
            has_index: false,
            chunks: None,
            not_numbers,
            has_wrong_flags,
            counted: HashSet::new(),
            memory,
        })
    }

    /// All columns, in the form in which they are passed on.
    pub(super) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// All columns, in the form in which they are passed on to a `table`. Its 96-bit times may be in
    /// microseconds.
    pub(super) fn schema_in(&self, table: &Schema) -> SchemaRef {
        match self.schema.fields() == self.stored_schema().fields() {
            true => Arc::clone(&self.schema),
            false => as_in(self.stored_schema(), &self.schema, table),
        }
    }

    /// The number of rows in each row group.
    pub(super) fn group_rows(&self) -> Vec<usize> {
        let groups = self.footer.metadata().row_groups().iter();
        groups.map(|group| usize::try_from(group.num_rows()).unwrap_or(0)).collect()
    }

    /// All columns, in the form that [`Self::read`] returns: stored values are not yet converted.
    pub(super) fn stored_schema(&self) -> &SchemaRef {
        self.footer.schema()
    }

    /// The row groups, with the size of some of their columns. Fails if one of these is in a form that cannot
    /// be read.
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
                    return fail!(
                        "column '{}' is encrypted, which cannot be read; write it without encryption, or \
                         leave the column out with columns",
                        column.column_path().string(),
                    );
                }
                if column.compression() == Compression::LZO {
                    return fail!(
                        "column '{}' is compressed with LZO, which cannot be read; use snappy, gzip, \
                         brotli, zstd, lz4 or no compression, or leave the column out with columns",
                        column.column_path().string(),
                    );
                }
                let is_key = matches!(
                    self.stored_schema().field(root).data_type(),
                    DataType::Dictionary(..)
                );
                bytes = bytes.saturating_add(size(column, is_key));
            }
            let fields = columns.iter().map(|&at| least(self.stored_schema().field(at), rows));
            bytes = bytes.max(fields.fold(0, u64::saturating_add));
            parts.push(SourcePart { rows, bytes, ..SourcePart::default() });
        }
        Ok(parts)
    }

    /// The leaf columns below some columns, each with its root column.
    fn leaves(&self, columns: &[usize]) -> Vec<(usize, usize)> {
        let wanted: BTreeSet<usize> = columns.iter().copied().collect();
        let schema = self.footer.parquet_schema();
        let leaf = |leaf| (leaf, schema.get_column_root_idx(leaf));
        let leaves = (0..schema.num_columns()).map(leaf);
        leaves.filter(|(_, root)| wanted.contains(root)).collect()
    }

    /// Reads rows with some of the columns, from the row group `part` on, after `skip` of its rows. Fails if
    /// they cannot be decoded, or if the file has fewer.
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
            return fail!("has fewer rows than when it was planned");
        }
        let is_small = rows < available / 2;
        let new = self.not_counted(part..end, columns);
        if self.has_wrong_flags && !new.is_empty() {
            let groups = self.footer.metadata().row_groups();
            let changes = new.iter().flat_map(|&(group, leaf)| {
                page_flags::changes(&self.at, groups[group].column(leaf))
            });
            self.at = self.at.changed(changes);
        }
        let at = match is_small {
            true => self.at.clone(),
            false => self.at.holding(self.ranges(part..end, columns))?,
        };
        let last = skip.saturating_add(rows);
        self.count_pages(&at, new)?;
        if end == part + 1 {
            if let Some(batch) = self.read_one(&at, (part, skip, rows), is_small, columns) {
                return Ok(vec![batch]);
            }
            if is_small {
                self.index(columns);
            }
        }
        let mask = ProjectionMask::roots(self.footer.parquet_schema(), columns.iter().copied());
        let reader = ParquetRecordBatchReaderBuilder::new_with_metadata(at, self.footer.clone())
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
            return fail!(
                "is damaged: a page of rows {} to {last} from the start of row group {part} does not match \
                 its checksum; fetch the file again, or write it anew",
                skip + 1,
            );
        }
        fail!(
            "cannot be decoded (rows {} to {last} from the start of row group {part}): {error}",
            skip + 1
        )
    }

    /// The row groups and leaf columns below some columns whose pages have not been counted yet.
    fn not_counted(&self, groups: Range<usize>, columns: &[usize]) -> Vec<(usize, usize)> {
        let leaves = self.leaves(columns);
        let all = groups.flat_map(|group| leaves.iter().map(move |&(leaf, _)| (group, leaf)));
        all.filter(|place| !self.counted.contains(place)).collect()
    }

    /// Counts the values of leaf columns of row groups, before the first of their rows are passed on. Fails
    /// if a column has more or fewer than the footer says.
    fn count_pages(
        &mut self,
        at: &FileReader,
        new: Vec<(usize, usize)>,
    ) -> Result<(), DatasetError> {
        for (group, leaf) in new {
            check_pages(at, self.footer.metadata(), group, leaf)?;
            self.counted.insert((group, leaf));
        }
        Ok(())
    }

    /// Reads rows of one row group by its pages, which are kept for the next slice if this one `is_small`.
    /// `None` if that is not possible or fails. Then the caller reads from the beginning of the row group,
    /// which reports the cause.
    fn read_one(
        &mut self,
        at: &FileReader,
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
            // The header of a page of lists need not state its rows.
            self.index(columns);
        }
        loop {
            let numbers = self.numbers(group, &wanted);
            // With `skip > 0` the library must not read alone: it would skip rows by the counts that pages
            // state, which may be wrong.
            if numbers.is_empty() && !is_small && skip == 0 {
                return None;
            }
            let mut chunks =
                match kept.take().filter(|kept| kept.can_continue(group, skip, &leaves)) {
                    Some(chunks) => chunks,
                    None => Chunks::new(at, self.footer.metadata(), group, &leaves).ok()?,
                };
            match self.gather(&chunks, (skip, rows), &numbers) {
                Ok(arrays) => {
                    let batch = self.complete(&mut chunks, (skip, rows), columns, arrays)?;
                    self.chunks = (is_small && chunks.may_stay()).then_some(chunks);
                    return Some(batch);
                }
                // These columns are now known not to be numbers, so the next attempt leaves them to the
                // library.
                Err(leaves) => self.not_numbers.extend(leaves),
            }
        }
    }

    /// The columns of numbers among the given leaf columns: for each column, the leaf column and its kind.
    fn numbers(
        &self,
        group: usize,
        leaves: &[(usize, usize)],
    ) -> HashMap<usize, (usize, NumberStorage)> {
        let group = self.footer.metadata().row_group(group);
        let leaves = leaves.iter();
        let numbers = leaves.filter(|(leaf, _)| !self.not_numbers.contains(leaf)).filter_map(
            |&(leaf, root)| {
                let kind = NumberStorage::of(
                    group.column(leaf),
                    self.stored_schema().field(root).data_type(),
                )?;
                Some((root, (leaf, kind)))
            },
        );
        numbers.collect()
    }

    /// Reads the columns of numbers. Fails with the leaf columns that turn out not to be numbers.
    fn gather(
        &mut self,
        chunks: &Chunks,
        place: (usize, usize),
        numbers: &HashMap<usize, (usize, NumberStorage)>,
    ) -> Result<HashMap<usize, ArrayRef>, Vec<usize>> {
        let mut lent = Vec::new();
        let mut not_numbers = Vec::new();
        let mut arrays = HashMap::with_capacity(numbers.len());
        for (&column, &(leaf, kind)) in numbers {
            let data_type = self.stored_schema().field(column).data_type().clone();
            let found = chunks.numbers(leaf, kind, place, &mut self.memory).and_then(|numbers| {
                lent.push(numbers.clone());
                ArrayData::builder(data_type).len(place.1).add_buffer(numbers).build().ok()
            });
            match found {
                Some(array) => drop(arrays.insert(column, make_array(array))),
                None => not_numbers.push(leaf),
            }
        }
        self.memory.lend(lent);
        if not_numbers.is_empty() { Ok(arrays) } else { Err(not_numbers) }
    }

    /// Rows of one row group: adds the columns that the library decodes to those that are already there.
    fn complete(
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

    /// Reads the index of pages of lists, if the file has a valid one. Other pages state their rows
    /// themselves.
    fn index(&mut self, columns: &[usize]) {
        if std::mem::replace(&mut self.has_index, true) {
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
        if let Ok(footer) = ArrowReaderMetadata::load(&self.at, options)
            && is_index_right(footer.metadata(), &lists)
        {
            self.footer = footer;
        }
    }

    /// The byte ranges of columns in row groups. Empty if they are too long to be held at once.
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
        if bytes <= MAX_HELD { ranges } else { Vec::new() }
    }
}

/// About how many bytes the values of a column chunk take in memory. That can be much more than in the file,
/// if text repeats.
fn size(column: &ColumnChunkMetaData, is_key: bool) -> u64 {
    let known = |number: i64| u64::try_from(number).unwrap_or(0);
    let values = known(column.num_values());
    let stored = known(column.uncompressed_size());
    let one = match column.column_type() {
        Type::BOOLEAN => return values / 8,
        Type::INT32 | Type::FLOAT => 4,
        Type::INT64 | Type::DOUBLE | Type::INT96 => 8,
        Type::FIXED_LEN_BYTE_ARRAY => known(i64::from(column.column_descr().type_length())),
        Type::BYTE_ARRAY if is_key => return stored.saturating_add(values.saturating_mul(4)),
        Type::BYTE_ARRAY => {
            if let Some(bytes) = column.unencoded_byte_array_data_bytes() {
                return known(bytes).saturating_add(values.saturating_mul(4));
            }
            let length = column.statistics().map_or(0, length_of_texts);
            return stored.max(values.saturating_mul(length.saturating_add(4)));
        }
    };
    values.saturating_mul(one)
}

/// The estimated length of the texts of a column, from its smallest and its largest value.
fn length_of_texts(statistics: &Statistics) -> u64 {
    let length = |bytes: Option<&[u8]>| bytes.map_or(0, |bytes| bytes.len() as u64);
    (length(statistics.min_bytes_opt()) + length(statistics.max_bytes_opt())) / 2
}

#[cfg(test)]
impl ParquetFile {
    /// How many columns of the first row group are read as numbers.
    pub(super) fn number_count(&self) -> usize {
        let all: Vec<usize> = (0..self.schema().fields().len()).collect();
        self.numbers(0, &self.leaves(&all)).len()
    }

    /// The footer.
    pub(super) fn metadata(&self) -> Arc<parquet::file::metadata::ParquetMetaData> {
        Arc::clone(self.footer.metadata())
    }

    /// Makes the library read all columns.
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

    /// 400 rows in one row group, with pages of 30 rows, and of 70 in another column.
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
        // One after the other, then with gaps (as if other workers had the slices between), then back.
        for start in (0..98).step_by(7).chain([100, 131, 171, 199, 398, 0, 30, 29, 60]) {
            assert!(read(start, if start == 398 { 2 } else { 7 }, &[0, 1]), "{start}");
        }
        assert!(read(70, 5, &[0]), "other columns");
        assert!(read(90, 120, &[0, 1]));
        // Most of the row group is read at once.
        read(3, 390, &[0, 1]);
    }
}
