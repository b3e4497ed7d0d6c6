//! Reads the pages of a row group that is cut into several slices. Slices come in order, so we keep
//! the page in which a slice ends. Thus we unpack this page only once, and do not read the pages
//! before it again. We also keep the decoder that has stopped in this page.

use super::counts::has_all_rows;
use super::decoder::Decoder;
use super::file_reader::FileReader;
use super::numbers::{NumberPool, NumberStorage, PageNumbers};
use arrow::array::ArrayRef;
use arrow::buffer::Buffer;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, RowGroups};
use parquet::column::page::{Page, PageIterator, PageMetadata, PageReader};
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::{ParquetMetaData, RowGroupMetaData};
use parquet::file::page_index::offset_index::PageLocation;
use parquet::file::reader::SerializedPageReader;
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The maximum bytes of pages and dictionaries that are kept. This is less than a worker needs to read a
/// slice, and it is enough for several of the largest common pages (DuckDB's have 100 MB). Larger pages are
/// unpacked again for each slice.
const MAX_KEPT_BYTES: usize = 512 << 20;

/// The column chunks of one row group.
pub(super) struct Chunks {
    group: usize,
    /// The chunks by leaf column.
    chunks: HashMap<usize, Arc<Mutex<ChunkReader>>>,
    /// The decoder of the columns that the `parquet` crate decodes.
    decoder: Option<Decoder>,
    /// How many decoders were made.
    #[cfg(test)]
    decoder_count: usize,
}

impl fmt::Debug for Chunks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Chunks").field("group", &self.group).finish_non_exhaustive()
    }
}

/// A column chunk that has been read up to some page.
struct ChunkReader {
    reader: SerializedPageReader<FileReader>,
    dictionary: Option<Page>,
    /// The last page that was read.
    page: Option<Page>,
    /// The number of rows before that page. In a column with lists, the number of values before it:
    /// only a decoder can find the number of rows.
    before: usize,
    has_lists: bool,
    /// Whether the column has lists, and its pages state plausible numbers of rows.
    states_rows: bool,
    /// The first row of each page, if the file's page index states them.
    first_rows: Option<Vec<usize>>,
}

impl Chunks {
    /// Starts at the beginning of these leaf columns of a row group. Fails if the codec of a column is
    /// unknown.
    pub(super) fn new(
        file: &FileReader,
        metadata: &ParquetMetaData,
        group: usize,
        leaves: &[usize],
    ) -> Result<Self> {
        let row_group = metadata.row_group(group);
        let rows = usize::try_from(row_group.num_rows()).unwrap_or(0);
        let file = Arc::new(file.clone());
        let index = metadata.page_index_for_row_group(group);
        let chunk = |&leaf: &usize| {
            let column = row_group.column(leaf);
            let pages = index.page_locations(leaf).cloned();
            let first_row =
                |page: &PageLocation| usize::try_from(page.first_row_index).unwrap_or(0);
            let first_rows = pages.as_ref().map(|pages| pages.iter().map(first_row).collect());
            let has_lists = column.column_descr().max_rep_level() > 0;
            let states_rows = has_lists && (pages.is_some() || has_all_rows(&file, column, rows));
            let reader = SerializedPageReader::new(Arc::clone(&file), column, rows, pages)?;
            let chunk = ChunkReader {
                reader,
                dictionary: None,
                page: None,
                before: 0,
                has_lists,
                states_rows,
                first_rows,
            };
            Ok((leaf, Arc::new(Mutex::new(chunk))))
        };
        let chunks = leaves.iter().map(chunk).collect::<Result<_>>()?;
        Ok(Self {
            group,
            chunks,
            decoder: None,
            #[cfg(test)]
            decoder_count: 0,
        })
    }

    /// Whether reading can and should continue from row `first` of this row group, for these leaf columns.
    pub(super) fn can_continue(&self, group: usize, first: usize, leaves: &[usize]) -> bool {
        let can_read_on = |chunk: &Arc<Mutex<ChunkReader>>| {
            let chunk = locked(chunk);
            chunk.can_start_decoder() && chunk.before <= first
        };
        self.group == group
            && self.chunks.len() == leaves.len()
            && leaves.iter().all(|leaf| self.chunks.contains_key(leaf))
            && (self.chunks.values().all(can_read_on) || self.should_decoder_continue(first))
    }

    /// Whether the pages are small enough to be kept.
    pub(super) fn may_stay(&self) -> bool {
        let bytes = |chunk: &Arc<Mutex<ChunkReader>>| {
            let chunk = locked(chunk);
            // A decoder holds another unpacked copy of the dictionary.
            let pages = [&chunk.page, &chunk.dictionary, &chunk.dictionary];
            pages.into_iter().flatten().map(|page| page.buffer().len()).sum::<usize>()
        };
        self.chunks.values().map(bytes).sum::<usize>() <= MAX_KEPT_BYTES
    }

    /// The numbers of a leaf column: `rows` numbers from row `first` on. `first` must not be before the last
    /// page that was read. `None` if the numbers are not stored as `storage`. After `None` the chunk must not
    /// be used again.
    pub(super) fn numbers(
        &self,
        leaf: usize,
        storage: NumberStorage,
        (first, rows): (usize, usize),
        pool: &mut NumberPool,
    ) -> Option<Buffer> {
        let mut chunk = locked(self.chunks.get(&leaf)?);
        let mut numbers = PageNumbers::new(storage, rows, pool.acquire())?;
        let mut next = first;
        let end = first.checked_add(rows)?;
        while next < end {
            chunk.go_to(next)?;
            let page = chunk.page.as_ref()?;
            let page_end = end.min(chunk.end());
            let from = next.checked_sub(chunk.before)?;
            numbers.add(page, chunk.dictionary.as_ref(), from..page_end - chunk.before)?;
            next = page_end;
        }
        numbers.finish()
    }

    /// Decodes `rows` rows of columns from row `first` on. `None` if the `parquet` crate cannot
    /// decode them. After `None` these chunks must not be used again.
    pub(super) fn decode(
        &mut self,
        footer: &ArrowReaderMetadata,
        (first, rows): (usize, usize),
        columns: &[usize],
    ) -> Option<Vec<ArrayRef>> {
        let schema = footer.parquet_schema();
        let is_wanted = |leaf: usize| columns.contains(&schema.get_column_root_idx(leaf));
        let skipped = self.values_to_skip(first, is_wanted);
        let kept = self.decoder.take().filter(|kept| kept.should_continue(columns, first, skipped));
        let mut decoder = match kept {
            Some(kept) => kept,
            None if !self.chunks.values().all(|chunk| locked(chunk).can_start_decoder()) => {
                return None;
            }
            None => {
                let row_group = GroupReader { metadata: footer.metadata(), chunks: self };
                let new = Decoder::new(footer, &row_group, (first, rows), columns)?;
                #[cfg(test)]
                {
                    self.decoder_count += 1;
                }
                new
            }
        };
        let arrays = decoder.read(first, rows)?;
        self.decoder = Some(decoder);
        Some(arrays)
    }

    #[cfg(test)]
    pub(super) fn decoder_count(&self) -> usize {
        self.decoder_count
    }

    /// Whether the kept decoder should read on to row `first`. Considers only columns with lists.
    fn should_decoder_continue(&self, first: usize) -> bool {
        let is_list =
            |leaf: usize| self.chunks.get(&leaf).is_some_and(|chunk| locked(chunk).has_lists);
        let skipped = self.values_to_skip(first, is_list);
        self.decoder
            .as_ref()
            .is_some_and(|kept| kept.should_continue(kept.columns(), first, skipped))
    }

    /// About how many values a new decoder would skip before row `first`: the maximum of the leaf columns for
    /// which `is_wanted` is true.
    fn values_to_skip(&self, first: usize, is_wanted: impl Fn(usize) -> bool) -> usize {
        let wanted = self.chunks.iter().filter(|(leaf, _)| is_wanted(**leaf));
        wanted.map(|(_, chunk)| locked(chunk).values_to_skip(first)).max().unwrap_or(0)
    }
}

/// Whether the page index has possible values for these leaf columns.
pub(super) fn is_index_possible(metadata: &ParquetMetaData, leaves: &[usize]) -> bool {
    metadata.row_groups().iter().enumerate().all(|(number, group)| {
        let index = metadata.page_index_for_row_group(number);
        leaves.iter().all(|&leaf| {
            let (start, length) = group.column(leaf).byte_range();
            let chunk = (start, start.saturating_add(length));
            let pages = index.page_locations(leaf);
            pages.is_none_or(|pages| are_possible(pages, group.num_rows(), chunk))
        })
    })
}

/// Whether the first page begins at the first row, each other page begins after the page before, and all
/// pages are within the chunk, which has the bytes `start` to `end` of the file.
fn are_possible(pages: &[PageLocation], rows: i64, (start, end): (u64, u64)) -> bool {
    let is_within = |page: &PageLocation| {
        let page_start = u64::try_from(page.offset).ok();
        let length = u64::try_from(page.compressed_page_size).ok();
        let page_end = page_start.zip(length).and_then(|(first, length)| first.checked_add(length));
        page.first_row_index < rows
            && page_start.is_some_and(|page_start| page_start >= start)
            && page_end.is_some_and(|page_end| page_end <= end)
    };
    pages.first().is_none_or(|page| page.first_row_index == 0)
        && pages.is_sorted_by(|one, next| one.first_row_index < next.first_row_index)
        && pages.iter().all(is_within)
        && pages.is_empty() == (rows == 0)
}

fn locked(chunk: &Arc<Mutex<ChunkReader>>) -> MutexGuard<'_, ChunkReader> {
    chunk.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A row group whose chunks have been read up to some page.
struct GroupReader<'a> {
    metadata: &'a ParquetMetaData,
    chunks: &'a Chunks,
}

impl RowGroups for GroupReader<'_> {
    fn num_rows(&self) -> usize {
        usize::try_from(self.metadata.row_group(self.chunks.group).num_rows()).unwrap_or(0)
    }

    fn column_chunks(&self, leaf: usize) -> Result<Box<dyn PageIterator>> {
        match self.chunks.chunks.get(&leaf) {
            Some(chunk) => {
                let pages = DecoderPages { chunk: Arc::clone(chunk), stage: PageStage::Dictionary };
                Ok(Box::new(SingleChunk(Some(pages))))
            }
            None => Err(ParquetError::General(format!("column {leaf} was not requested"))),
        }
    }

    fn row_groups(&self) -> Box<dyn Iterator<Item = &RowGroupMetaData> + '_> {
        Box::new(std::iter::once(self.metadata.row_group(self.chunks.group)))
    }

    fn metadata(&self) -> &ParquetMetaData {
        self.metadata
    }
}

/// Iterates over the chunks of one column. There is exactly one, because we read one row group.
struct SingleChunk(Option<DecoderPages>);

impl Iterator for SingleChunk {
    type Item = Result<Box<dyn PageReader>>;

    fn next(&mut self) -> Option<Self::Item> {
        let pages = self.0.take()?;
        Some(Ok(Box::new(pages)))
    }
}

impl PageIterator for SingleChunk {}

impl ChunkReader {
    /// Whether a new decoder can begin at this position. In a column with lists, a decoder can
    /// begin only at the start.
    fn can_start_decoder(&self) -> bool {
        !self.has_lists || (self.page.is_none() && self.before == 0)
    }

    /// How many values a new decoder would skip before row `first`.
    fn values_to_skip(&self, first: usize) -> usize {
        let values =
            |page: &Option<Page>| page.as_ref().map_or(0, |page| page.num_values() as usize);
        let page_start = match &self.first_rows {
            Some(rows) => rows[..rows.partition_point(|&row| row <= first)].last(),
            None => None,
        };
        let before = match page_start {
            Some(page_start) => first.saturating_sub(*page_start),
            None if self.has_lists => first,
            None => first.saturating_sub(self.before).min(values(&self.page)),
        };
        before.saturating_add(values(&self.dictionary))
    }

    /// Reads the next page from the file.
    fn next(&mut self) -> Result<Option<Page>> {
        let page = self.reader.get_next_page()?;
        match &page {
            Some(page) if page.is_dictionary_page() => self.dictionary = Some(page.clone()),
            Some(next) => {
                self.pass();
                self.page = Some(next.clone());
            }
            None => {}
        }
        Ok(page)
    }

    /// Moves past the last page that was read.
    fn pass(&mut self) {
        if let Some(page) = self.page.take() {
            self.before = self.before.saturating_add(page.num_values() as usize);
        }
    }

    /// The first row after the last page that was read.
    fn end(&self) -> usize {
        let rows = self.page.as_ref().map_or(0, |page| page.num_values() as usize);
        self.before.saturating_add(rows)
    }

    /// Reads on to the page with this row. `None` if there is no such page, or if it cannot be read.
    fn go_to(&mut self, row: usize) -> Option<()> {
        while self.end() <= row {
            let next = self.reader.peek_next_page().ok()??;
            let rows = next.num_levels.or(next.num_rows).filter(|_| !next.is_dict);
            match rows {
                Some(rows) if self.end().saturating_add(rows) <= row => self.skip().ok()?,
                _ => drop(self.next().ok()??),
            }
        }
        Some(())
    }

    /// Corrects the number of rows in a page's metadata. Some writers put the number of values
    /// there, so `num_rows` becomes `None` if only the number of values is known.
    fn with_right_rows(&self, mut page: PageMetadata) -> PageMetadata {
        page.num_rows = match self.has_lists {
            false => page.num_levels.or(page.num_rows),
            true => page.num_rows.filter(|_| self.states_rows),
        };
        page
    }

    /// Skips the next page of the file.
    fn skip(&mut self) -> Result<()> {
        match self.reader.peek_next_page()? {
            None => Ok(()),
            Some(PageMetadata { is_dict: true, .. }) => self.next().map(drop),
            Some(PageMetadata { num_rows, num_levels, .. }) => {
                self.pass();
                let rows = num_levels.or(num_rows).unwrap_or(0);
                self.before = self.before.saturating_add(rows);
                self.reader.skip_next_page()
            }
        }
    }
}

/// The pages of a chunk, as a decoder sees them: they seem to begin at the first row.
struct DecoderPages {
    chunk: Arc<Mutex<ChunkReader>>,
    stage: PageStage,
}

/// What the decoder sees next.
#[derive(Clone, Copy)]
enum PageStage {
    Dictionary,
    /// All rows before the last page that was read, as one page that the decoder can only skip.
    Passed,
    /// The last page that was read.
    Kept,
    /// The pages that follow in the file.
    Rest,
}

impl DecoderPages {
    /// The next stage that has a page, and the metadata of that page. `Rest` may have no page.
    fn next_stage(&mut self, chunk: &ChunkReader) -> (PageStage, Option<PageMetadata>) {
        let rows = |rows: usize| PageMetadata {
            num_rows: Some(rows),
            num_levels: Some(rows),
            is_dict: false,
        };
        loop {
            let (next, found) = match self.stage {
                PageStage::Dictionary => {
                    let dictionary =
                        PageMetadata { num_rows: None, num_levels: None, is_dict: true };
                    (PageStage::Passed, chunk.dictionary.is_some().then_some(dictionary))
                }
                PageStage::Passed => {
                    (PageStage::Kept, (chunk.before > 0).then(|| rows(chunk.before)))
                }
                PageStage::Kept => (
                    PageStage::Rest,
                    chunk.page.as_ref().map(|page| rows(page.num_values() as usize)),
                ),
                PageStage::Rest => return (PageStage::Rest, None),
            };
            if found.is_some() {
                return (self.stage, found);
            }
            self.stage = next;
        }
    }
}

impl PageReader for DecoderPages {
    fn get_next_page(&mut self) -> Result<Option<Page>> {
        let chunk = Arc::clone(&self.chunk);
        let mut chunk = locked(&chunk);
        match self.next_stage(&chunk).0 {
            PageStage::Dictionary => {
                self.stage = PageStage::Passed;
                Ok(chunk.dictionary.clone())
            }
            PageStage::Passed => Err(ParquetError::General(
                "rows before the current position were requested".to_owned(),
            )),
            PageStage::Kept => {
                self.stage = PageStage::Rest;
                Ok(chunk.page.clone())
            }
            PageStage::Rest => chunk.next(),
        }
    }

    fn peek_next_page(&mut self) -> Result<Option<PageMetadata>> {
        let chunk = Arc::clone(&self.chunk);
        let mut chunk = locked(&chunk);
        match self.next_stage(&chunk) {
            (PageStage::Rest, _) => {
                let next = chunk.reader.peek_next_page()?;
                Ok(next.map(|next| chunk.with_right_rows(next)))
            }
            (_, page) => Ok(page),
        }
    }

    fn skip_next_page(&mut self) -> Result<()> {
        let chunk = Arc::clone(&self.chunk);
        let mut chunk = locked(&chunk);
        self.stage = match self.next_stage(&chunk).0 {
            PageStage::Dictionary => PageStage::Passed,
            PageStage::Passed => PageStage::Kept,
            PageStage::Kept => {
                chunk.pass();
                PageStage::Rest
            }
            PageStage::Rest => {
                chunk.skip()?;
                PageStage::Rest
            }
        };
        Ok(())
    }
}

impl Iterator for DecoderPages {
    type Item = Result<Page>;

    fn next(&mut self) -> Option<Self::Item> {
        self.get_next_page().transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_impossible_index_is_not_used() {
        let page = |offset, compressed_page_size, first_row_index| PageLocation {
            offset,
            compressed_page_size,
            first_row_index,
        };
        let is_used = |pages: &[PageLocation]| are_possible(pages, 20, (4, 100));
        assert!(is_used(&[page(4, 50, 0), page(54, 46, 10)]));
        assert!(!is_used(&[]));
        assert!(
            !is_used(&[page(4, 50, 1), page(54, 46, 10)]),
            "the first page does not begin at row 0"
        );
        assert!(!is_used(&[page(4, 50, 0), page(54, 46, 0)]), "two pages begin at one row");
        assert!(!is_used(&[page(4, 50, 0), page(54, 46, 20)]), "a page begins after the last row");
        assert!(!is_used(&[page(4, 50, 0), page(54, 47, 10)]), "a page ends after the chunk");
        assert!(!is_used(&[page(3, 50, 0), page(54, 46, 10)]), "a page begins before the chunk");
        assert!(!is_used(&[page(-4, 50, 0), page(54, -1, 10)]), "negative offset and size");
    }
}
