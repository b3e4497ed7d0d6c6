//! What an attempt came to.

use super::loaded::Loaded;
use crate::model::{FailedItem, Header, ItemCounts, UnknownKeys};

/// What a successful attempt came to, but for its rows.
#[derive(Debug, PartialEq)]
pub struct Tally {
    /// Items, by what became of them.
    pub items: ItemCounts,
    /// The first of those that failed by the guest's own word.
    pub failed_items: Vec<FailedItem>,
    /// Fewer rows than items that the call got.
    pub(super) is_short: bool,
    pub(super) surplus_rows: u64,
    /// Values that are null in the output, as JSON has no numbers for them.
    pub(super) null_numbers: u64,
    pub(super) unknown_keys: Option<UnknownKeys>,
    /// The output file's header, where there is one.
    pub header: Option<Header>,
}

impl Tally {
    /// Counts only the records that could not be read.
    pub fn of_rejected(loaded: Loaded<'_>) -> Self {
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
