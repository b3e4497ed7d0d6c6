//! The states of a job's mini-batches, counted in cells: a million of them fit on a page.

use super::mini_batch_state::MiniBatchState;

/// The states of all mini-batches of a job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct HeatMap {
    /// The mini-batches of each cell. The last cell may have fewer.
    pub(crate) cell_size: u64,
    cells: Vec<HeatCell>,
}

/// Some mini-batches with numbers that follow each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct HeatCell {
    /// The number of the first one.
    pub(crate) first: u64,
    /// The number of the last one.
    pub(crate) last: u64,
    /// How many run.
    pub(crate) running: u64,
    /// How many wait for their next attempt.
    pub(crate) waiting: u64,
    /// How many succeeded.
    pub(crate) succeeded: u64,
    /// How many failed for good.
    pub(crate) failed: u64,
}

impl HeatCell {
    /// How many mini-batches the cell has.
    pub(crate) fn size(&self) -> u64 {
        self.last - self.first + 1
    }
}

impl HeatMap {
    /// A map of so many mini-batches, none of which a worker has begun. The size of its cells is a multiple of `unit`.
    pub(super) fn new(all: u64, most: u64, unit: u64) -> Self {
        let cell_size = all.div_ceil(most.max(1)).div_ceil(unit) * unit;
        let cells = (0..all.div_ceil(cell_size.max(1))).map(|cell| {
            let first = cell * cell_size;
            HeatCell { first, last: (first + cell_size).min(all) - 1, ..HeatCell::default() }
        });
        Self { cell_size: cell_size.max(1), cells: cells.collect() }
    }

    /// Counts mini-batches of this state.
    pub(super) fn add(&mut self, cell: u64, state: MiniBatchState, count: u64) {
        let cell = usize::try_from(cell).ok().and_then(|cell| self.cells.get_mut(cell));
        let Some(cell) = cell else { return };
        match state {
            MiniBatchState::Running => cell.running += count,
            MiniBatchState::Waiting => cell.waiting += count,
            MiniBatchState::Succeeded => cell.succeeded += count,
            MiniBatchState::Failed => cell.failed += count,
        }
    }

    /// The cells, in the order of their numbers.
    pub(crate) fn cells(&self) -> &[HeatCell] {
        &self.cells
    }
}
