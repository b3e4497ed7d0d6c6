//! Writes lines that consist only of numbers, several rows at a time.

use super::cells::TextColumn;
use super::numbers::{NUMBER_BYTES, NumberCell};
use super::style::Style;

/// The longest line, in bytes, that is made in this way.
const MAX_LINE_BYTES: u64 = 1 << 20;

/// At most this many numbers are formatted at a time, except that a row is never split.
const BLOCK_NUMBERS: usize = 2048;

/// At most this many rows are formatted at a time.
const BLOCK_ROWS: usize = 64;

/// Makes lines of [plain numbers](TextColumn::is_plain_number), in blocks of rows. Formatting column by
/// column and then copying takes a third less time than going row by row, because the processor works on
/// several numbers in parallel.
pub(super) struct NumberLines<'a> {
    columns: &'a [TextColumn<'a>],
    delimiter: u8,
    /// The formatted numbers, column after column.
    cells: Vec<NumberCell>,
    /// The number of cells of each column: the rows of a block.
    height: usize,
}

impl<'a> NumberLines<'a> {
    /// Makes lines of at most `max_row_size` bytes. `None` if a field may need quotes or is not a plain number,
    /// or if a line may be longer than `max_row_size` or [`MAX_LINE_BYTES`].
    pub(super) fn new(
        columns: &'a [TextColumn<'a>],
        style: &Style,
        max_row_size: u64,
    ) -> Option<Self> {
        let max_line = (columns.len() * NUMBER_BYTES) as u64;
        let is_possible = style.has_bare_numbers && max_line <= max_row_size.min(MAX_LINE_BYTES);
        if !is_possible || !columns.iter().all(TextColumn::is_plain_number) {
            return None;
        }
        let height = BLOCK_NUMBERS.checked_div(columns.len())?.clamp(1, BLOCK_ROWS);
        let cells = vec![NumberCell::EMPTY; height * columns.len()];
        Some(Self { columns, delimiter: style.delimiter, cells, height })
    }

    /// Appends the lines of the first `rows` rows. Returns `false` as soon as `out` has more bytes than the
    /// limit.
    pub(super) fn append(&mut self, rows: usize, out: &mut Vec<u8>, limit: u64) -> bool {
        let last = self.columns.len() - 1;
        let mut first = 0;
        while first < rows && out.len() as u64 <= limit {
            let height = self.height.min(rows - first);
            let blocks = self.cells.chunks_exact_mut(self.height);
            for (index, (column, cells)) in self.columns.iter().zip(blocks).enumerate() {
                let end = if index == last { b'\n' } else { self.delimiter };
                let are_numbers = column.write_numbers(first, &mut cells[..height], end);
                debug_assert!(are_numbers, "`new` checked the types");
            }
            out.reserve(height * self.columns.len() * NUMBER_BYTES);
            for row in 0..height {
                self.cells[row..].iter().step_by(self.height).for_each(|cell| cell.append(out));
            }
            first += height;
        }
        out.len() as u64 <= limit
    }
}
