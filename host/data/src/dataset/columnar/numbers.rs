//! Reads columns of numbers without nulls from their pages directly into the buffers of Arrow
//! arrays. Parquet stores numbers one after the other, as Arrow does, or as keys of a dictionary.
//! The `parquet` crate reads all other columns. For numbers the crate is slower: it copies
//! dictionaries, and clears memory before it writes.

use super::keys::{look_up, varint};
use arrow::buffer::{Buffer, MutableBuffer};
use arrow::datatypes::DataType;
use bytes::Bytes;
use parquet::basic::{Encoding, Type};
use parquet::column::page::Page;
use parquet::file::metadata::ColumnChunkMetaData;
use std::ops::Range;

/// How the numbers of a column are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NumberStorage {
    /// Whether each number has 8 bytes; if not, it has 4.
    is_long: bool,
    /// Whether pages have definition levels, which say which of the numbers are null.
    has_levels: bool,
}

impl NumberStorage {
    /// How the numbers of a column are stored, if the column becomes an array of type `data_type`.
    /// `None` if Parquet may store the values in another form than Arrow, or if some values are
    /// known to be null.
    pub(super) fn for_column(column: &ColumnChunkMetaData, data_type: &DataType) -> Option<Self> {
        let descriptor = column.column_descr();
        let is_long = match (column.column_type(), data_type) {
            (Type::INT32, DataType::Int32 | DataType::UInt32 | DataType::Date32)
            | (Type::FLOAT, DataType::Float32) => false,
            (Type::INT64, DataType::Int64 | DataType::UInt64 | DataType::Timestamp(..))
            | (Type::DOUBLE, DataType::Float64) => true,
            _ => return None,
        };
        #[expect(
            deprecated,
            reason = "files may still list `BIT_PACKED`, for levels that flat columns do not have"
        )]
        let is_known = |encoding| {
            use Encoding::{BIT_PACKED, PLAIN, PLAIN_DICTIONARY, RLE, RLE_DICTIONARY};
            matches!(encoding, PLAIN | RLE | BIT_PACKED | PLAIN_DICTIONARY | RLE_DICTIONARY)
        };
        let nulls = column.statistics().and_then(|statistics| statistics.null_count_opt());
        let is_supported = descriptor.max_rep_level() == 0
            && descriptor.path().parts().len() == 1
            && column.encodings().all(is_known)
            && nulls.unwrap_or(0) == 0;
        is_supported.then_some(Self { is_long, has_levels: descriptor.max_def_level() > 0 })
    }

    /// The bytes of a page after its levels: the numbers. `None` if some numbers are null, or if the page has
    /// another form.
    fn numbers_of(self, page: &Page) -> Option<Bytes> {
        match page {
            Page::DataPage { buf, .. } if !self.has_levels => Some(buf.clone()),
            Page::DataPage { buf, num_values, def_level_encoding, .. } => {
                let (length, rest) = buf.split_first_chunk::<4>()?;
                let levels = rest.get(..u32::from_le_bytes(*length) as usize)?;
                let has_no_null =
                    *def_level_encoding == Encoding::RLE && are_ones(levels, *num_values);
                has_no_null.then(|| buf.slice(4 + levels.len()..))
            }
            Page::DataPageV2 {
                buf,
                num_values,
                num_nulls: 0,
                def_levels_byte_len,
                rep_levels_byte_len: 0,
                ..
            } => {
                let length = *def_levels_byte_len as usize;
                let has_no_null = !self.has_levels || are_ones(buf.get(..length)?, *num_values);
                (has_no_null && length <= buf.len()).then(|| buf.slice(length..))
            }
            Page::DataPageV2 { .. } | Page::DictionaryPage { .. } => None,
        }
    }
}

/// The buffers of the last slice's numbers. The next slice reuses a buffer if nothing else refers
/// to it by then.
#[derive(Debug, Default)]
pub(super) struct NumberPool(Vec<Buffer>);

impl NumberPool {
    /// Returns a free buffer of the pool, or a new one. The buffer may have old contents.
    pub(super) fn acquire(&mut self) -> MutableBuffer {
        while let Some(buffer) = self.0.pop() {
            if let Ok(free) = buffer.into_mutable() {
                return free;
            }
        }
        MutableBuffer::new(0)
    }

    /// Replaces the pool with the buffers of the current slice. They may be free when the next
    /// slice is read.
    pub(super) fn lend(&mut self, numbers: impl IntoIterator<Item = Buffer>) {
        self.0 = numbers.into_iter().collect();
    }
}

/// Numbers that are gathered from pages.
#[derive(Debug)]
pub(super) struct PageNumbers {
    storage: NumberStorage,
    memory: MutableBuffer,
    /// The number of bytes that are filled.
    filled: usize,
}

impl PageNumbers {
    /// Prepares room for `rows` numbers in this memory. `None` if there are too many.
    pub(super) fn new(
        storage: NumberStorage,
        rows: usize,
        mut memory: MutableBuffer,
    ) -> Option<Self> {
        // Old contents are overwritten, so we need not clear them.
        memory.resize(rows.checked_mul(if storage.is_long { 8 } else { 4 })?, 0);
        Some(Self { storage, memory, filled: 0 })
    }

    /// Adds the numbers of these rows of a page. `None` if that fails. Then the caller must discard all
    /// numbers.
    pub(super) fn add(
        &mut self,
        page: &Page,
        dictionary: Option<&Page>,
        rows: Range<usize>,
    ) -> Option<()> {
        match self.storage.is_long {
            true => self.add_of::<8>(page, dictionary, rows),
            false => self.add_of::<4>(page, dictionary, rows),
        }
    }

    fn add_of<const WIDTH: usize>(
        &mut self,
        page: &Page,
        dictionary: Option<&Page>,
        rows: Range<usize>,
    ) -> Option<()> {
        let stored = self.storage.numbers_of(page)?;
        let end = self.filled.checked_add(rows.len().checked_mul(WIDTH)?)?;
        let (out, _) = self.memory.get_mut(self.filled..end)?.as_chunks_mut::<WIDTH>();
        match page.encoding() {
            Encoding::PLAIN => out.copy_from_slice(stored.as_chunks().0.get(rows)?),
            Encoding::RLE_DICTIONARY | Encoding::PLAIN_DICTIONARY => {
                let page = dictionary.filter(|page| {
                    matches!(page.encoding(), Encoding::PLAIN | Encoding::PLAIN_DICTIONARY)
                })?;
                let values = page.buffer().as_chunks().0.get(..page.num_values() as usize)?;
                look_up(&stored, values, rows.start, out)?;
            }
            _ => return None,
        }
        self.filled = end;
        Some(())
    }

    /// All numbers. `None` if fewer than the prepared rows were added.
    pub(super) fn finish(self) -> Option<Buffer> {
        (self.filled == self.memory.len()).then(|| self.memory.into())
    }
}

/// Whether these definition levels, of one bit each, say that all `count` values are present. They are in
/// runs, as in [`keys`](super::keys).
fn are_ones(mut levels: &[u8], count: u32) -> bool {
    let mut left = count as usize;
    while left > 0 {
        let Some(header) = varint(&mut levels) else { return false };
        let length = (header >> 1) as usize;
        let is_packed = header & 1 == 1;
        let covered = if is_packed { length.saturating_mul(8) } else { length }.min(left);
        let bytes = if is_packed { covered.div_ceil(8) } else { 1 };
        let Some((run, rest)) = levels.split_at_checked(bytes) else { return false };
        let is_one = |bit: usize| run.get(bit / 8).is_some_and(|byte| byte >> (bit % 8) & 1 == 1);
        let all_ones = if is_packed { (0..covered).all(is_one) } else { *run == [1] };
        if !all_ones || covered == 0 {
            return false;
        }
        // All groups are complete, except for the last group of a page.
        levels = if is_packed { levels.get(length..).unwrap_or_default() } else { rest };
        left -= covered;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::super::file_reader::FileReader;
    use super::super::guard::caught;
    use super::super::parquet::ParquetFile;
    use super::*;
    use arrow::array::{ArrayRef, Int32Array, RecordBatch};
    use arrow::compute::{CastOptions, cast_with_options, concat_batches};
    use arrow::datatypes::TimeUnit;
    use parquet::arrow::ArrowWriter;
    use parquet::basic::Compression;
    use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterVersion};
    use std::sync::Arc;

    /// How many damaged versions of each file are read.
    const VERSIONS: usize = 150;

    /// 400 rows of all types, each with nulls allowed and forbidden. A column has at most `distinct`
    /// different numbers.
    fn table(distinct: i32) -> RecordBatch {
        let numbers: ArrayRef =
            Arc::new((0..400).map(|n| n * 77 % distinct).collect::<Int32Array>());
        let types = [
            DataType::Int32,
            DataType::UInt32,
            DataType::Float32,
            DataType::Date32,
            DataType::Int64,
            DataType::UInt64,
            DataType::Float64,
            DataType::Timestamp(TimeUnit::Nanosecond, None),
            DataType::Timestamp(TimeUnit::Second, Some("+01:00".into())),
        ];
        let options = CastOptions { safe: false, ..CastOptions::default() };
        let columns = types.iter().flat_map(|data_type| {
            let int64 = cast_with_options(&numbers, &DataType::Int64, &options).unwrap();
            let array = cast_with_options(&int64, data_type, &options).unwrap();
            [false, true]
                .map(|nullable| (format!("{data_type} {nullable}"), Arc::clone(&array), nullable))
        });
        RecordBatch::try_from_iter_with_nullable(columns).unwrap()
    }

    /// The result is the same as the `parquet` crate's, for all ways to write numbers and for any
    /// range of rows.
    #[test]
    fn numbers_are_read_as_the_library_reads_them() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t");
        let properties = || WriterProperties::builder().set_write_batch_size(10);
        let pages = || properties().set_data_page_row_count_limit(30);
        for (name, properties) in [
            ("one page", properties()),
            ("pages", pages()),
            ("plain", pages().set_dictionary_enabled(false)),
            ("packed", pages().set_compression(Compression::SNAPPY)),
            ("version 2", pages().set_writer_version(WriterVersion::PARQUET_2_0)),
            (
                "deltas",
                pages()
                    .set_dictionary_enabled(false)
                    .set_writer_version(WriterVersion::PARQUET_2_0),
            ),
            (
                "packed version 2",
                properties()
                    .set_compression(Compression::ZSTD(Default::default()))
                    .set_writer_version(WriterVersion::PARQUET_2_0),
            ),
            ("unknown nulls", pages().set_statistics_enabled(EnabledStatistics::None)),
            ("dictionary that becomes too large", pages().set_dictionary_page_size_limit(900)),
        ] {
            for distinct in [1, 5, 400] {
                let table = table(distinct);
                let out = std::fs::File::create(&path).unwrap();
                let mut writer =
                    ArrowWriter::try_new(out, table.schema(), Some(properties.clone().build()))
                        .unwrap();
                writer.write(&table).unwrap();
                writer.close().unwrap();
                let mut file = ParquetFile::open(FileReader::open(&path).unwrap().0).unwrap();
                let columns: Vec<usize> = (0..table.num_columns()).collect();
                for (skip, rows) in
                    [(0, 400), (0, 1), (29, 2), (100, 50), (150, 1), (399, 1), (60, 31), (7, 390)]
                {
                    let batches = file.read(0, skip, rows, &columns).unwrap();
                    assert_eq!(batches.len(), 1);
                    assert_eq!(
                        batches[0].columns(),
                        table.slice(skip, rows).columns(),
                        "{name}, {skip}"
                    );
                    assert_eq!(batches[0].schema().fields(), table.schema().fields(), "{name}");
                }
                // The `parquet` crate reads deltas. The writer uses deltas for all types except
                // floats.
                let expected = if name == "deltas" { 2 * 2 } else { table.num_columns() };
                assert_eq!(file.number_count(), expected, "{name} {distinct}");
            }
        }
    }

    /// Even if a file is damaged, the numbers are the same as those that the `parquet` crate reads.
    #[test]
    fn damaged_numbers_are_read_as_the_library_reads_them() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t");
        let mut seed = 1_u64;
        let mut read = 0;
        let mut refused = 0;
        let mut random = |end: usize| {
            seed = seed.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(1);
            (seed >> 33) as usize % end
        };
        for plain in [false, true] {
            for version in [WriterVersion::PARQUET_1_0, WriterVersion::PARQUET_2_0] {
                let properties = WriterProperties::builder()
                    .set_dictionary_enabled(!plain)
                    .set_writer_version(version)
                    .set_write_batch_size(10)
                    .set_data_page_row_count_limit(90);
                let table = table(40);
                let mut whole = Vec::new();
                let mut writer =
                    ArrowWriter::try_new(&mut whole, table.schema(), Some(properties.build()))
                        .unwrap();
                writer.write(&table).unwrap();
                writer.close().unwrap();
                let trailer = whole.len() - 8;
                let footer = u32::from_le_bytes(whole[trailer..trailer + 4].try_into().unwrap());
                let pages_end = trailer - footer as usize;
                let columns: Vec<usize> = (0..table.num_columns()).collect();
                for _ in 0..VERSIONS {
                    let mut bytes = whole.clone();
                    for _ in 0..=random(2) {
                        bytes[4 + random(pages_end - 4)] ^= 1 << random(8);
                    }
                    std::fs::write(&path, &bytes).unwrap();
                    let open = || ParquetFile::open(FileReader::open(&path).unwrap().0).unwrap();
                    let mut direct = open();
                    let mut library = open().without_numbers();
                    for (skip, rows) in [(0, 400), (95, 60), (180, 20)] {
                        let direct = caught(|| direct.read(0, skip, rows, &columns));
                        let library = caught(|| library.read(0, skip, rows, &columns));
                        match (direct, library) {
                            (Ok(direct), Ok(library)) => {
                                let both = [direct, library];
                                let [direct, library] = both.map(|batches| {
                                    concat_batches(&batches[0].schema(), &batches).unwrap()
                                });
                                assert_eq!(direct.columns(), library.columns());
                                read += 1;
                            }
                            (Err(_), Err(_)) => refused += 1,
                            (direct, library) => panic!("{:?}, {:?}", direct.err(), library.err()),
                        }
                    }
                }
            }
        }
        assert!(read > VERSIONS && refused > VERSIONS / 3, "{read} {refused}");
    }

    #[test]
    fn levels_show_whether_all_values_are_present() {
        assert!(are_ones(&[200 << 1 & 0x7F | 0x80, 200 >> 6, 1], 200), "one run");
        assert!(are_ones(&[8, 1, 3, 0xFF, 6, 1], 15), "runs and groups");
        assert!(are_ones(&[3, 0x07], 3), "a part of a group");
        assert!(are_ones(&[5, 0xFF, 0x01], 9), "two groups");
        assert!(are_ones(&[], 0));
        for (levels, count) in [
            (&[8, 0][..], 4),
            (&[8, 1], 5),
            (&[8, 1, 8, 0], 8),
            (&[3, 0xFB], 8),
            (&[5, 0xFF], 9),
            (&[0, 1], 1),
            (&[1], 1),
            (&[], 1),
            (&[0xFF; 9], 1),
        ] {
            assert!(!are_ones(levels, count), "{levels:?}");
        }
    }
}
