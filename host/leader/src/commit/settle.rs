//! Restores the output file of a job that resumes: finds out which rows are intact, and repairs the rest.

use super::confirm::check_segment;
use super::disk::{begins_with, sync_folder};
use super::error::CommitError;
use super::header::HeaderColumns;
use super::item::FinishedMiniBatch;
use super::parts_output;
use super::recover_files as files;
use super::replace::Replacement;
use super::rows::{HEADER_KEY, HeldRows, RowsOutput, SYNCED_KEY, trusted_length};
use super::settling::Settling;
use super::target::CommitTarget;
use super::worker_parts::Parts;
use crate::fail_point;
use crate::files::{Appender, Checker};
use crate::journal::{Journal, JournalChanges};
use crate::model::{MiniBatchId, Segment, WorkerId};
use std::collections::HashSet;
use std::path::Path;

/// The rows of one mini-batch that stay in the output.
#[derive(Clone, Copy, Debug)]
struct StayingRows {
    segment: Segment,
    worker: WorkerId,
    /// Their offset in the output according to the journal.
    old_offset: u64,
    /// Their new offset in the output.
    new_offset: u64,
    /// Whether they are intact at the old offset. If not, they are in the part file.
    is_intact: bool,
}

/// The result of the search for rows.
#[derive(Debug, Default)]
struct Finding {
    stay: Vec<StayingRows>,
    held: HeldRows,
    /// Mini-batches that run again.
    gone: HashSet<MiniBatchId>,
    /// The output's length when it is complete.
    total: u64,
}

#[derive(Debug)]
pub(super) struct SettleResult {
    /// The output file, if there is one.
    pub(super) rows: Option<RowsOutput>,
    /// The beginning of the output, or of each part.
    pub(super) header: Option<HeaderColumns>,
    /// Mini-batches that run again.
    pub(super) gone: HashSet<MiniBatchId>,
}

/// Makes the rows and the journal consistent.
pub(super) fn settle(
    settling: Settling<'_>,
    journal: &mut Journal,
    parts: &mut Parts,
) -> Result<SettleResult, CommitError> {
    let target = settling.target;
    let header = journal
        .noted(HEADER_KEY)?
        .map(|note| HeaderColumns::from_note(note, target.is_plain))
        .transpose()?;
    if target.part_suffix.is_some() {
        let gone = parts_output::settle(settling, journal, parts)?;
        return Ok(SettleResult { rows: None, header, gone });
    }
    let Some(name) = &target.output_file else {
        let gone: HashSet<_> = settling.run_again().collect();
        if !gone.is_empty() {
            let removed = gone.iter().copied().collect();
            let mut changes = JournalChanges { removed, ..JournalChanges::default() };
            let mut replacement = Replacement::default();
            files::prepare_removal(target, journal, &gone, &mut replacement, &mut changes)?;
            replacement.commit(changes, journal, &target.output)?;
        }
        return Ok(SettleResult { rows: None, header, gone });
    };
    let path = target.output.join(name);
    let mut appender = Appender::open(&path)?;
    let trusted = trusted_length(journal.noted(SYNCED_KEY)?.as_deref(), appender.file());
    let start = header.as_ref().map_or(0, |top| top.bytes.len() as u64);
    let Finding { stay, held, gone, total } = settling.find(&appender, start, trusted, parts)?;
    let has_header = header.as_ref().is_none_or(|top| begins_with(appender.file(), &top.bytes));
    let is_whole =
        has_header && stay.iter().all(|rows| rows.is_intact && rows.old_offset == rows.new_offset);
    let mut changes =
        JournalChanges { removed: gone.iter().copied().collect(), ..JournalChanges::default() };
    let mut replacement = Replacement::default();
    files::prepare_removal(target, journal, &gone, &mut replacement, &mut changes)?;
    let is_rewritten = stay.iter().any(|rows| rows.is_intact && rows.old_offset != rows.new_offset);
    if is_rewritten {
        let new = replacement.new_file_for(&target.output, name);
        write_new_file(&new, header.as_ref(), &stay, &appender, parts)?;
    }
    if !is_whole || appender.len() != total || trusted > total {
        changes.notes.push((SYNCED_KEY.to_owned(), None));
    }
    replacement.commit(changes, journal, &target.output)?;
    if is_rewritten {
        appender = Appender::open(&path)?;
    } else {
        repair(&mut appender, header.as_ref(), &stay, parts)?;
    }
    confirm(&appender, stay.iter().filter(|rows| is_rewritten || !rows.is_intact))?;
    let held = target.ordered.then_some(held);
    let mut rows = RowsOutput::new(appender, held);
    cut_and_sync(&mut rows, total, trusted, journal, target)?;
    Ok(SettleResult { rows: Some(rows), header, gone })
}

impl Settling<'_> {
    /// Looks for all rows. Rows before the offset `trusted` need not be checked.
    fn find(
        &self,
        appender: &Appender,
        start: u64,
        trusted: u64,
        parts: &mut Parts,
    ) -> Result<Finding, CommitError> {
        let failed = |e| CommitError::disk("read", appender.path(), e);
        let mut checker = Checker::new(appender.file()).map_err(failed)?;
        let mut finding =
            Finding { gone: self.run_again().collect(), total: start, ..Finding::default() };
        let ordered = self.target.ordered;
        let mut end = start;
        for item in self.items {
            let id = MiniBatchId(item.id);
            if finding.gone.contains(&id) {
                // Its rows, if it has any, are in the output, where they are cut out.
                end += item.rows.map_or(0, |rows| rows.length);
                continue;
            }
            if ordered && item.id != finding.held.next {
                self.hold_back(item, &mut finding, parts);
                continue;
            }
            if let Some((segment, worker)) = item.rows.zip(item.worker) {
                let old_offset = end;
                end += segment.length;
                let is_intact =
                    end <= trusted || checker.holds(old_offset, &segment).map_err(failed)?;
                if !is_intact && !parts.holds(item.worker, &segment) {
                    finding.gone.insert(id);
                    continue;
                }
                let new_offset = finding.total;
                finding.total += segment.length;
                finding.stay.push(StayingRows {
                    segment,
                    worker,
                    old_offset,
                    new_offset,
                    is_intact,
                });
            }
            finding.held.next += u64::from(ordered);
        }
        Ok(finding)
    }

    /// Holds back rows that wait for a lower id. Rows that are not in the part file are lost.
    fn hold_back(&self, item: &FinishedMiniBatch, finding: &mut Finding, parts: &mut Parts) {
        let can_wait = item.rows.is_none_or(|segment| parts.holds(item.worker, &segment));
        if can_wait {
            finding.held.waiting.insert(item.id, item.worker.zip(item.rows));
        } else {
            finding.gone.insert(MiniBatchId(item.id));
        }
    }
}

/// Writes the rows that stay to a new file, and syncs it.
fn write_new_file(
    path: &Path,
    header: Option<&HeaderColumns>,
    stay: &[StayingRows],
    old: &Appender,
    parts: &mut Parts,
) -> Result<(), CommitError> {
    let mut new = Appender::create(path)?;
    if let Some(header) = header {
        new.write_at(&header.bytes, 0)?;
    }
    let origin = |rows: &StayingRows| (!rows.is_intact).then_some(rows.worker);
    for same in stay.chunk_by(|a, b| origin(a) == origin(b)) {
        let place = |rows: &StayingRows| match rows.is_intact {
            true => Segment { offset: rows.old_offset, ..rows.segment },
            false => rows.segment,
        };
        let segments: Vec<_> = same.iter().map(place).collect();
        let from = match origin(&same[0]) {
            None => old.file(),
            Some(worker) => parts.get(worker)?,
        };
        new.append_all(from, &segments)?;
    }
    Ok(new.sync()?)
}

/// Writes missing rows to their positions.
fn repair(
    appender: &mut Appender,
    header: Option<&HeaderColumns>,
    stay: &[StayingRows],
    parts: &mut Parts,
) -> Result<(), CommitError> {
    if let Some(header) = header.filter(|top| !begins_with(appender.file(), &top.bytes)) {
        appender.write_at(&header.bytes, 0)?;
    }
    for rows in stay.iter().filter(|rows| !rows.is_intact) {
        let part = parts.get(rows.worker)?;
        appender.patch(part, &rows.segment, rows.new_offset)?;
        fail_point::pass("rows-mended");
    }
    Ok(())
}

/// Reads back the rows that were written.
fn confirm<'a>(
    appender: &Appender,
    written: impl Iterator<Item = &'a StayingRows>,
) -> Result<(), CommitError> {
    let checker = Checker::new(appender.file());
    let mut checker = checker.map_err(|e| CommitError::disk("read", appender.path(), e))?;
    let mut written = written;
    written.try_for_each(|rows| {
        check_segment(&mut checker, appender, rows.new_offset, Some(rows.worker), &rows.segment)
    })
}

/// Cuts off what does not belong to the output, and records that the rest is synced.
fn cut_and_sync(
    rows: &mut RowsOutput,
    total: u64,
    trusted: u64,
    journal: &mut Journal,
    target: &CommitTarget,
) -> Result<(), CommitError> {
    if rows.appender.len() != total {
        rows.appender.truncate(total)?;
        rows.journaled(true);
        rows.note_time();
        fail_point::pass("output-cut");
    } else if trusted == total {
        rows.appender.trust(total);
        return Ok(());
    }
    let mark = rows.sync()?;
    sync_folder(&target.output)?;
    fail_point::pass("recovered-output-synced");
    let changes = JournalChanges { notes: vec![mark], ..JournalChanges::default() };
    Ok(journal.commit(&changes)?)
}
