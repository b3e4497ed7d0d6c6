//! The pages of a row group that is cut into several slices. Slices come in order, so we keep the page in
//! which a slice ends: it is unpacked only once, and the pages before it are not read again. The decoder that
//! has stopped in that page is kept with it.

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

/// The maximum bytes of pages and dictionaries that are kept. This is less than reading a slice takes, and
/// several of the largest common pages fit (those of DuckDB have 100 MB). Larger pages are unpacked again for
/// each slice.
const MAX_KEPT: usize = 512 << 20;

/// The column chunks of one row group.
pub(super) struct Chunks {
    group: usize,
    chunks: HashMap<usize, Arc<Mutex<ChunkReader>>>,
    /// The decoder of the columns that the library decodes.
    decoder: Option<Decoder>,
    /// How many decoders there have been.
    #[cfg(test)]
    decoders: usize,
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
    /// The rows before that page. For lists it counts values: only a decoder finds out how many rows they
    /// are.
    before: usize,
    has_lists: bool,
    /// Whether pages of lists state their rows, and these seem right.
    states_rows: bool,
    /// The first rows of its pages, if the file's index states them.
    starts: Option<Vec<usize>>,
}

impl Chunks {
    /// Starts at the beginning of some leaf columns of a row group. Fails if the codec of a column is
    /// unknown.
    pub(super) fn new(
        at: &FileReader,
        metadata: &ParquetMetaData,
        group: usize,
        leaves: &[usize],
    ) -> Result<Self> {
        let row_group = metadata.row_group(group);
        let rows = usize::try_from(row_group.num_rows()).unwrap_or(0);
        let at = Arc::new(at.clone());
        let index = metadata.page_index_for_row_group(group);
        let chunk = |&leaf: &usize| {
            let column = row_group.column(leaf);
            let pages = index.page_locations(leaf).cloned();
            let start = |page: &PageLocation| usize::try_from(page.first_row_index).unwrap_or(0);
            let starts = pages.as_ref().map(|pages| pages.iter().map(start).collect());
            let has_lists = column.column_descr().max_rep_level() > 0;
            let states_rows = has_lists && (pages.is_some() || has_all_rows(&at, column, rows));
            let reader = SerializedPageReader::new(Arc::clone(&at), column, rows, pages)?;
            let dictionary = None;
            let page = None;
            let before = 0;
            let chunk =
                ChunkReader { reader, dictionary, page, before, has_lists, states_rows, starts };
            Ok((leaf, Arc::new(Mutex::new(chunk))))
        };
        let chunks = leaves.iter().map(chunk).collect::<Result<_>>()?;
        Ok(Self {
            group,
            chunks,
            decoder: None,
            #[cfg(test)]
            decoders: 0,
        })
    }

    /// Whether reading can and should continue from row `first` of this row group, for these leaf columns.
    pub(super) fn can_continue(&self, group: usize, first: usize, leaves: &[usize]) -> bool {
        let can_begin = |chunk: &Arc<Mutex<ChunkReader>>| {
            let chunk = locked(chunk);
            chunk.can_begin() && chunk.before <= first
        };
        self.group == group
            && self.chunks.len() == leaves.len()
            && leaves.iter().all(|leaf| self.chunks.contains_key(leaf))
            && (self.chunks.values().all(can_begin) || self.should_continue(first))
    }
    /// Whether the kept pages are small enough to stay.
    pub(super) fn may_stay(&self) -> bool {
        let bytes = |chunk: &Arc<Mutex<ChunkReader>>| {
            let chunk = locked(chunk);
            // A decoder holds another unpacked copy of the dictionary.
            let pages = [&chunk.page, &chunk.dictionary, &chunk.dictionary];
            pages.into_iter().flatten().map(|page| page.buffer().len()).sum::<usize>()
        };
        self.chunks.values().map(bytes).sum::<usize>() <= MAX_KEPT
    }

    /// The numbers of a leaf column: `rows` of them from row `first` on, which is not before the last page
    /// that was read. `None` if they are not stored as `kind`. After `None` the chunk must not be used again.
    pub(super) fn numbers(
        &self,
        leaf: usize,
        kind: NumberStorage,
        (first, rows): (usize, usize),
        memory: &mut NumberPool,
    ) -> Option<Buffer> {
        let mut chunk = locked(self.chunks.get(&leaf)?);
        let mut numbers = PageNumbers::new(kind, rows, memory.take())?;
        let mut next = first;
        let end = first.checked_add(rows)?;
        while next < end {
            chunk.go_to(next)?;
            let page = chunk.page.as_ref()?;
            let last = end.min(chunk.end());
            let from = next.checked_sub(chunk.before)?;
            numbers.add(page, chunk.dictionary.as_ref(), from..last - chunk.before)?;
            next = last;
        }
        numbers.finish()
    }

    /// Decodes `rows` rows of columns from row `first` on. `None` if the library refuses. After `None` these
    /// chunks must not be used again.
    pub(super) fn decode(
        &mut self,
        footer: &ArrowReaderMetadata,
        (first, rows): (usize, usize),
        columns: &[usize],
    ) -> Option<Vec<ArrayRef>> {
        let schema = footer.parquet_schema();
        let is_wanted = |leaf: usize| columns.contains(&schema.get_column_root_idx(leaf));
        let passed = self.passed(first, is_wanted);
        let kept = self.decoder.take().filter(|kept| kept.should_continue(columns, first, passed));
        let mut decoder = match kept {
            Some(kept) => kept,
            None if !self.chunks.values().all(|chunk| locked(chunk).can_begin()) => return None,
            None => {
                let row_group = GroupReader { metadata: footer.metadata(), chunks: self };
                let new = Decoder::new(footer, &row_group, (first, rows), columns)?;
                #[cfg(test)]
                {
                    self.decoders += 1;
                }
                new
            }
        };
        let arrays = decoder.read(first, rows)?;
        self.decoder = Some(decoder);
        Some(arrays)
    }

    #[cfg(test)]
    pub(super) fn decoders(&self) -> usize {
        self.decoders
    }

    /// Whether the kept decoder should read on to row `first`. Considers only columns of lists.
    fn should_continue(&self, first: usize) -> bool {
        let is_list =
            |leaf: usize| self.chunks.get(&leaf).is_some_and(|chunk| locked(chunk).has_lists);
        let passed = self.passed(first, is_list);
        self.decoder
            .as_ref()
            .is_some_and(|kept| kept.should_continue(kept.columns(), first, passed))
    }

    /// About how many values a new decoder of some leaf columns would skip before row `first`: the maximum of
    /// the columns.
    fn passed(&self, first: usize, is_wanted: impl Fn(usize) -> bool) -> usize {
        let wanted = self.chunks.iter().filter(|(leaf, _)| is_wanted(**leaf));
        wanted.map(|(_, chunk)| locked(chunk).passed(first)).max().unwrap_or(0)
    }
}

/// Whether the locations of pages that the file states for some leaf columns are possible.
pub(super) fn is_index_right(metadata: &ParquetMetaData, leaves: &[usize]) -> bool {
    metadata.row_groups().iter().enumerate().all(|(number, group)| {
        let index = metadata.page_index_for_row_group(number);
        leaves.iter().all(|&leaf| {
            let (start, length) = group.column(leaf).byte_range();
            let chunk = (start, start.saturating_add(length));
            let pages = index.page_locations(leaf);
            pages.is_none_or(|pages| can_be(pages, group.num_rows(), chunk))
        })
    })
}

/// Whether pages begin at the first row, each after the one before, and are within the bytes of their
/// `chunk`.
fn can_be(pages: &[PageLocation], rows: i64, (start, end): (u64, u64)) -> bool {
    let is_within = |page: &PageLocation| {
        let first = u64::try_from(page.offset).ok();
        let length = u64::try_from(page.compressed_page_size).ok();
        let last = first.zip(length).and_then(|(first, length)| first.checked_add(length));
        page.first_row_index < rows
            && first.is_some_and(|first| first >= start)
            && last.is_some_and(|last| last <= end)
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
                let pages = Pages { chunk: Arc::clone(chunk), stage: PageStage::Dictionary };
                Ok(Box::new(Once(Some(pages))))
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

/// Iterates over the chunks of one column in one row group: there is exactly one.
struct Once(Option<Pages>);

impl Iterator for Once {
    type Item = Result<Box<dyn PageReader>>;

    fn next(&mut self) -> Option<Self::Item> {
        let pages = self.0.take()?;
        Some(Ok(Box::new(pages)))
    }
}

impl PageIterator for Once {}

impl ChunkReader {
    /// Whether a new decoder can begin here.
    fn can_begin(&self) -> bool {
        !self.has_lists || (self.page.is_none() && self.before == 0)
    }

    /// How many values a new decoder would skip before row `first`.
    fn passed(&self, first: usize) -> usize {
        let values =
            |page: &Option<Page>| page.as_ref().map_or(0, |page| page.num_values() as usize);
        let start = match &self.starts {
            Some(starts) => starts[..starts.partition_point(|&start| start <= first)].last(),
            None => None,
        };
        let before = match start {
            Some(start) => first.saturating_sub(*start),
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

    /// The metadata of a page with its rows. Without them, if only its values are known: some writers count
    /// values as rows.
    fn with_rows(&self, mut page: PageMetadata) -> PageMetadata {
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

/// The pages of a chunk that a decoder sees: they seem to begin at the first row.
struct Pages {
    chunk: Arc<Mutex<ChunkReader>>,
    stage: PageStage,
}

/// What the decoder sees next.
#[derive(Clone, Copy)]
enum PageStage {
    Dictionary,
    /// The rows that have been passed, as one page that can only be skipped.
    Passed,
    /// The last page that was read.
    Kept,
    /// The pages that follow in the file.
    Rest,
}

impl Pages {
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

impl PageReader for Pages {
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
                Ok(next.map(|next| chunk.with_rows(next)))
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

impl Iterator for Pages {
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
        let is_used = |pages: &[PageLocation]| can_be(pages, 20, (4, 100));
        assert!(is_used(&[page(4, 50, 0), page(54, 46, 10)]));
        assert!(!is_used(&[]));
        assert!(!is_used(&[page(4, 50, 1), page(54, 46, 10)]), "rows before");
        assert!(!is_used(&[page(4, 50, 0), page(54, 46, 0)]), "not rising");
        assert!(!is_used(&[page(4, 50, 0), page(54, 46, 20)]), "after the rows");
        assert!(!is_used(&[page(4, 50, 0), page(54, 47, 10)]), "after the chunk");
        assert!(!is_used(&[page(3, 50, 0), page(54, 46, 10)]), "before the chunk");
        assert!(!is_used(&[page(-4, 50, 0), page(54, -1, 10)]), "negative");
    }
}
