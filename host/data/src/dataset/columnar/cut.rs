//! Cuts the rows of a file into slices.

use crate::dataset::csv::MAX_SLICE;
use crate::model::{SliceSize, TableSlice};

/// The maximum number of rows in a slice. Arrow counts rows with 32 bits.
const MAX_ROWS: u64 = 1 << 30;

/// A part of a file that is read on its own: a row group or a record batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SourcePart {
    /// The number of rows.
    pub rows: u64,
    /// About how many bytes the rows take in memory, without dictionary values.
    pub bytes: u64,
    /// The size of the dictionary values that the rows refer to.
    pub values: DictionaryValues,
}

/// The size of dictionary values. Each slice has a copy of the values that its rows refer to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DictionaryValues {
    /// The bytes of all values.
    pub total_bytes: u64,
    /// About how many bytes are in the values that one row refers to.
    pub bytes_per_row: u64,
}

impl DictionaryValues {
    /// The maximum number of bytes in the values that this many rows refer to.
    fn bytes_of(self, rows: u64) -> u64 {
        self.total_bytes.min(self.bytes_per_row.saturating_mul(rows))
    }
}

/// The slices of one file, in order. Together they contain each row exactly once.
///
/// If the size is in bytes, consecutive small parts share a slice, up to the size. A part of more than one
/// and a half times the size is cut into slices with about the same number of rows, as near to the size as
/// possible. To read such a slice, a worker reads and decodes some of the part again.
///
/// If the size is in rows, all slices except the last have this many rows, and may cross the
/// boundaries of parts.
#[derive(Debug)]
pub struct FileSlices {
    file: String,
    parts: Vec<SourcePart>,
    size: SliceSize,
    /// The part in which the next slice begins, and how many rows of the part are in earlier slices.
    part: usize,
    skip: u64,
    /// The index in the file of the first row of the next slice.
    first_row: u64,
}

impl FileSlices {
    /// Cuts the parts of the file with this name into slices of this size.
    pub fn new(file: String, parts: Vec<SourcePart>, size: SliceSize) -> Self {
        let size = match size {
            SliceSize::Bytes(bytes) => SliceSize::Bytes(bytes.clamp(1, MAX_SLICE)),
            SliceSize::Rows(rows) => {
                let filled = parts.iter().filter(|part| part.rows > 0);
                let row_bytes = filled.map(|part| part.bytes.div_ceil(part.rows)).max();
                let max_rows = MAX_SLICE / row_bytes.unwrap_or(1).clamp(1, MAX_SLICE);
                SliceSize::Rows(rows.clamp(1, max_rows.min(MAX_ROWS)))
            }
        };
        Self { file, parts, size, part: 0, skip: 0, first_row: 0 }
    }

    /// The number of rows in the next slice.
    fn next_rows(&self) -> u64 {
        let mut parts = self.parts[self.part..].iter();
        let left_in_part = parts.next().map_or(0, |part| part.rows - self.skip);
        match self.size {
            SliceSize::Rows(wanted) => {
                let mut rows = left_in_part;
                while rows < wanted
                    && let Some(part) = parts.next()
                {
                    rows = rows.saturating_add(part.rows);
                }
                rows.min(wanted)
            }
            SliceSize::Bytes(size) => {
                let SourcePart { rows, bytes, .. } = self.parts[self.part];
                if bytes > size || rows > MAX_ROWS {
                    let slices = bytes.saturating_add(size / 2) / size;
                    let slices = slices.max(rows.div_ceil(MAX_ROWS)).min(rows);
                    return rows.div_ceil(slices).min(left_in_part);
                }
                let mut rows = rows;
                let mut bytes = bytes;
                for part in parts {
                    bytes = bytes.saturating_add(part.bytes);
                    if bytes > size || rows.saturating_add(part.rows) > MAX_ROWS {
                        break;
                    }
                    rows += part.rows;
                }
                rows
            }
        }
    }
}

impl Iterator for FileSlices {
    type Item = TableSlice;

    fn next(&mut self) -> Option<TableSlice> {
        while self.parts.get(self.part)?.rows == self.skip {
            self.part += 1;
            self.skip = 0;
        }
        let rows = self.next_rows();
        let mut slice = TableSlice {
            file: self.file.clone(),
            part: self.part as u64,
            skip: self.skip,
            first_row: self.first_row,
            rows,
            bytes: 0,
        };
        let mut left = rows;
        let mut values = DictionaryValues::default();
        while left > 0 {
            let part = self.parts[self.part];
            values.total_bytes = values.total_bytes.max(part.values.total_bytes);
            values.bytes_per_row = values.bytes_per_row.max(part.values.bytes_per_row);
            let taken = left.min(part.rows - self.skip);
            let share = u128::from(part.bytes) * u128::from(taken) / u128::from(part.rows.max(1));
            // Always fits: the share is at most the bytes of the part.
            let share = u64::try_from(share).unwrap_or(u64::MAX);
            slice.bytes = slice.bytes.saturating_add(share);
            self.skip += taken;
            left -= taken;
            if left > 0 {
                self.part += 1;
                self.skip = 0;
            }
        }
        slice.bytes = slice.bytes.saturating_add(values.bytes_of(rows));
        self.first_row = self.first_row.saturating_add(rows);
        Some(slice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Cuts `parts`, given as the rows and the bytes of each. Returns the part, the skipped rows,
    /// the rows and the bytes of each slice.
    fn cut(parts: &[(u64, u64)], size: SliceSize) -> Vec<(u64, u64, u64, u64)> {
        let parts = parts
            .iter()
            .map(|&(rows, bytes)| SourcePart { rows, bytes, ..SourcePart::default() })
            .collect();
        let slices = FileSlices::new("f".to_owned(), parts, size);
        slices.map(|slice| (slice.part, slice.skip, slice.rows, slice.bytes)).collect()
    }

    #[test]
    fn small_parts_share_and_large_parts_are_cut_evenly() {
        let parts = [(10, 40), (10, 40), (0, 0), (10, 40), (100, 1000), (5, 20)];
        assert_eq!(
            cut(&parts, SliceSize::Bytes(100)),
            [(0, 0, 20, 80), (3, 0, 10, 40), (4, 0, 10, 100)]
                .into_iter()
                .chain((1..10).map(|piece| (4, piece * 10, 10, 100)))
                .chain([(5, 0, 5, 20)])
                .collect::<Vec<_>>()
        );
        // Three equal slices, instead of three of 100 rows and one of 3.
        let pieces = cut(&[(303, 303)], SliceSize::Bytes(100));
        assert_eq!(pieces, [(0, 0, 101, 101), (0, 101, 101, 101), (0, 202, 101, 101)]);
        assert_eq!(cut(&[(149, 149)], SliceSize::Bytes(100)), [(0, 0, 149, 149)]);
        assert_eq!(cut(&[(150, 150)], SliceSize::Bytes(100)), [(0, 0, 75, 75), (0, 75, 75, 75)]);
        // A row is never cut.
        assert_eq!(cut(&[(2, 500)], SliceSize::Bytes(100)), [(0, 0, 1, 250), (0, 1, 1, 250)]);
    }

    #[test]
    fn slices_by_rows_ignore_the_ends_of_parts() {
        let slices = cut(&[(10, 10), (3, 3), (0, 0), (4, 4)], SliceSize::Rows(6));
        assert_eq!(slices, [(0, 0, 6, 6), (0, 6, 6, 6), (1, 2, 5, 5)]);
        // But no slice is larger than a worker can hold.
        let huge = cut(&[(10, 10 * MAX_SLICE)], SliceSize::Rows(6));
        assert_eq!(huge.len(), 10);
    }

    #[test]
    fn values_of_dictionaries_count_for_each_slice() {
        let part = |rows, total_bytes, bytes_per_row| SourcePart {
            rows,
            bytes: 400,
            values: DictionaryValues { total_bytes, bytes_per_row },
        };
        let bytes = |part, rows| {
            let slices = FileSlices::new("f".to_owned(), vec![part], SliceSize::Rows(rows));
            slices.map(|slice| slice.bytes).collect::<Vec<_>>()
        };
        // Few values, each in many rows: every slice has all values.
        assert_eq!(bytes(part(100, 600, 60), 50), [800, 800]);
        // Many values, each in one row.
        assert_eq!(bytes(part(100, 6000, 60), 50), [3200, 3200]);
        assert_eq!(bytes(part(100, 0, 0), 50), [200, 200]);
    }

    #[test]
    fn a_file_without_rows_has_no_slice() {
        assert!(cut(&[], SliceSize::Rows(1)).is_empty());
        assert!(cut(&[(0, 0), (0, 7)], SliceSize::Bytes(1)).is_empty());
    }

    #[test]
    fn impossible_row_counts_are_cut() {
        let mut slices = FileSlices::new(
            "f".to_owned(),
            [u64::MAX / 2, 1]
                .map(|rows| SourcePart { rows, bytes: u64::MAX, ..SourcePart::default() })
                .to_vec(),
            SliceSize::Bytes(u64::MAX),
        );
        assert!(slices.next().is_some_and(|slice| slice.rows <= MAX_ROWS));
    }

    proptest! {
        #[test]
        fn each_row_is_in_one_slice(
            parts in prop::collection::vec((0_u64..50, 0_u64..500), 0..12),
            size in prop_oneof![
                (1_u64..300).prop_map(SliceSize::Bytes),
                (1_u64..70).prop_map(SliceSize::Rows),
            ],
        ) {
            let source_parts: Vec<_> = parts
                .iter()
                .map(|&(rows, bytes)| SourcePart { rows, bytes, ..SourcePart::default() })
                .collect();
            let mut row = 0;
            for slice in FileSlices::new("f".to_owned(), source_parts, size) {
                prop_assert!(slice.rows > 0);
                prop_assert_eq!(slice.first_row, row);
                let before: u64 = parts[..slice.part as usize].iter().map(|(rows, _)| rows).sum();
                prop_assert_eq!(before + slice.skip, row);
                if let SliceSize::Rows(rows) = size {
                    prop_assert!(slice.rows <= rows);
                }
                row += slice.rows;
            }
            prop_assert_eq!(row, parts.iter().map(|(rows, _)| rows).sum::<u64>());
        }
    }
}
