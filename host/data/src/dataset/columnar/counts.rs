//! Checks that the pages of a column hold as many values as the footer says. The decoder stops at the last
//! row that it needs, so it would not notice more values.

use super::file_reader::FileReader;
use crate::dataset::{DatasetError, err};
use parquet::column::page::PageReader;
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData};
use parquet::file::reader::SerializedPageReader;
use std::sync::Arc;

/// Fails if the pages of a leaf column of a row group hold more or fewer values than the footer says. Reads
/// only the headers of pages. Ignores pages that cannot be read: the decoder reports them.
pub(super) fn check_pages(
    file: &FileReader,
    metadata: &ParquetMetaData,
    group: usize,
    leaf: usize,
) -> Result<(), DatasetError> {
    let row_group = metadata.row_group(group);
    let column = row_group.column(leaf);
    let values = count_values(&Arc::new(file.clone()), column, row_group.num_rows());
    if let Some(values) = values
        && values != column.num_values()
    {
        return err!(
            "is broken: the pages of column '{}' in row group {group} hold {values} values, and the footer \
             says {}; write the file again",
            column.column_path().string(),
            column.num_values(),
        );
    }
    Ok(())
}

/// How many values a column has, according to its pages. `None` if the pages cannot be read. A page
/// may state a count of values and a count of rows. We prefer the count of values, because some
/// writers put the count of values into the field for rows. Without lists, both counts are the
/// same. With lists, the reader uses the count of rows only if [`has_all_rows`] is true.
fn count_values(file: &Arc<FileReader>, column: &ColumnChunkMetaData, rows: i64) -> Option<i64> {
    let rows = usize::try_from(rows).ok()?;
    let mut pages = SerializedPageReader::new(Arc::clone(file), column, rows, None).ok()?;
    let mut values = 0_i64;
    while let Some(page) = pages.peek_next_page().ok()? {
        if !page.is_dict {
            let page_values = page.num_levels.or(page.num_rows)?;
            values = values.checked_add(i64::try_from(page_values).ok()?)?;
        }
        pages.skip_next_page().ok()?;
    }
    Some(values)
}

/// Whether each page of a column states its number of rows, and their sum is `rows`, the number of
/// rows in the row group.
pub(super) fn has_all_rows(
    file: &Arc<FileReader>,
    column: &ColumnChunkMetaData,
    rows: usize,
) -> bool {
    let Ok(mut pages) = SerializedPageReader::new(Arc::clone(file), column, rows, None) else {
        return false;
    };
    let mut stated = 0_usize;
    while let Ok(Some(page)) = pages.peek_next_page() {
        if !page.is_dict {
            let Some(page_rows) = page.num_rows else { return false };
            stated = stated.saturating_add(page_rows);
        }
        if pages.skip_next_page().is_err() {
            return false;
        }
    }
    stated == rows
}
