//! Checks that the whole output file holds what was committed.

use super::confirm::{check_segment, checker, output_changed};
use super::disk::begins_with;
use super::error::{CommitError, OutputChange};
use super::header::HeaderColumns;
use super::rows::RowsOutput;
use crate::journal::{Committed, EntryOrder, Journal};

/// Reads back the header and all rows that the journal puts into the output. Fails if any of them differ, or
/// cannot be read.
pub(super) fn confirm_all(
    rows: &RowsOutput,
    journal: &Journal,
    header: Option<&HeaderColumns>,
) -> Result<(), CommitError> {
    let appender = &rows.appender;
    let header = header.map_or(&[][..], |top| &top.bytes);
    let start = header.len() as u64;
    if !begins_with(appender.file(), header) {
        return Err(output_changed(appender, OutputChange::Header));
    }
    let mut checker = checker(appender)?;
    let (order, id_limit) = match &rows.held {
        None => (EntryOrder::Commit, u64::MAX),
        Some(held) => (EntryOrder::Id, held.next),
    };
    let mut result = Ok(());
    let visit = |Committed { entry, output_offset }: Committed| {
        if let (Some(segment), true) = (entry.end.rows(), entry.id.0 < id_limit && result.is_ok()) {
            result = check_segment(
                &mut checker,
                appender,
                start + output_offset,
                entry.worker,
                &segment,
            );
        }
    };
    journal.for_each(order, visit)?;
    result
}
