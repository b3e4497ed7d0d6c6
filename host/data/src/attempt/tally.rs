//! The outcome of a successful attempt.

use super::loaded::LoadedMiniBatch;
use crate::model::{FailedItem, ItemCounts, OutputHeader, UnknownKeys};

/// The outcome of a successful attempt, except its rows.
#[derive(Debug, PartialEq)]
pub struct AttemptTally {
    /// Items by their outcome.
    pub items: ItemCounts,
    /// The failed items, but only the first ones if there are more than `AttemptReport::MAX_FAILED_ITEMS`.
    pub failed_items: Vec<FailedItem>,
    /// Whether the call returned fewer rows than it received items.
    pub(super) is_short: bool,
    /// How many more rows than items the call returned.
    pub(super) surplus_rows: u64,
    /// Values that are null in the output, because JSON cannot represent them as numbers.
    pub(super) null_numbers: u64,
    pub(super) unknown_keys: Option<UnknownKeys>,
    /// The header for the output file; `None` if the results do not define one.
    pub header: Option<OutputHeader>,
}

impl AttemptTally {
    /// A tally that counts only the records that were rejected before the call.
    pub fn of_rejected(loaded: LoadedMiniBatch<'_>) -> Self {
        Self {
            items: ItemCounts::from_returned(loaded.rejected_count, 0),
            failed_items: loaded.rejected,
            is_short: false,
            surplus_rows: 0,
            null_numbers: 0,
            unknown_keys: loaded.unknown_keys,
            header: None,
        }
    }
}
