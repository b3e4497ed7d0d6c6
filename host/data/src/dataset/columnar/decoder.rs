//! A decoder for columns of one row group. It continues from slice to slice, because a new decoder
//! would have to skip all values in the page before its slice. A page may hold millions of values
//! and hundreds of slices.

use arrow::array::{ArrayRef, RecordBatch};
use arrow::compute::concat_batches;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ParquetRecordBatchReader, RowGroups, RowSelection, RowSelector,
};
use parquet::arrow::{ProjectionMask, parquet_to_arrow_field_levels};
use std::fmt;

/// Decoding an unneeded value takes about this many times as long as skipping it.
const DECODING_COST: usize = 4;

/// Columns that have been decoded up to some row.
pub(super) struct Decoder {
    columns: Vec<usize>,
    reader: ParquetRecordBatchReader,
    /// The next row.
    next: usize,
    /// Rows from `next` on that are already decoded.
    decoded: Option<RecordBatch>,
}

impl fmt::Debug for Decoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("Decoder");
        debug.field("columns", &self.columns).field("next", &self.next).finish_non_exhaustive()
    }
}

impl Decoder {
    /// A decoder for these columns from row `first` on, for slices of about `rows` rows. `None` if
    /// the `parquet` crate cannot decode them.
    pub(super) fn new(
        footer: &ArrowReaderMetadata,
        row_group: &dyn RowGroups,
        (first, rows): (usize, usize),
        columns: &[usize],
    ) -> Option<Self> {
        let schema = footer.parquet_schema();
        let mask = ProjectionMask::roots(schema, columns.iter().copied());
        let levels =
            parquet_to_arrow_field_levels(schema, mask, Some(footer.schema().fields())).ok()?;
        let count = row_group.num_rows().checked_sub(first)?;
        let selection: RowSelection =
            vec![RowSelector::skip(first), RowSelector::select(count)].into();
        let reader = ParquetRecordBatchReader::try_new_with_row_groups(
            &levels,
            row_group,
            rows,
            Some(selection),
        );
        Some(Self { columns: columns.to_vec(), reader: reader.ok()?, next: first, decoded: None })
    }

    pub(super) fn columns(&self) -> &[usize] {
        &self.columns
    }

    /// Whether this decoder should read these columns from row `first` on. This decoder would
    /// decode the rows before `first`, while a new decoder would skip `skipped` values. False if
    /// this decoder has other columns or is past row `first`, or if a new decoder is faster.
    pub(super) fn should_continue(&self, columns: &[usize], first: usize, skipped: usize) -> bool {
        let Some(gap) = first.checked_sub(self.next) else { return false };
        self.columns == columns && gap.saturating_mul(DECODING_COST) <= skipped
    }

    /// Decodes `rows` rows from row `first` on. `None` if there are fewer, or if they cannot be decoded.
    /// After `None` the decoder must not be used again.
    pub(super) fn read(&mut self, first: usize, rows: usize) -> Option<Vec<ArrayRef>> {
        let mut gap = first.checked_sub(self.next)?;
        let mut found = Vec::new();
        let mut left = rows;
        while left > 0 {
            let batch = match self.decoded.take() {
                Some(batch) => batch,
                None => self.reader.next()?.ok()?,
            };
            let passed = gap.min(batch.num_rows());
            let taken = left.min(batch.num_rows() - passed);
            if taken > 0 {
                found.push(batch.slice(passed, taken));
            }
            let used = passed + taken;
            self.decoded =
                (used < batch.num_rows()).then(|| batch.slice(used, batch.num_rows() - used));
            gap -= passed;
            left -= taken;
            self.next = self.next.checked_add(used)?;
        }
        match found.as_slice() {
            [only] => Some(only.columns().to_vec()),
            several => {
                let batch = concat_batches(several.first()?.schema_ref(), several).ok()?;
                Some(batch.columns().to_vec())
            }
        }
    }
}
