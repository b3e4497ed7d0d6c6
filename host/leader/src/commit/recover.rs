//! Brings the store into the state that the journal describes, when a job begins or resumes.
//!
//! Each of these steps may be interrupted. The next start then repeats the step.
//!
//! 1. Finish the renames and removals that the journal has recorded (`replace`).
//! 2. Publish the files of committed mini-batches that are not published yet. If the journal comes from a
//!    commit log, these files are lost (`lost_files`). But if copies of all results are in the job's store, make
//!    the results again from them (`restore`).
//! 3. Look for the rows of the journal's entries in the output. If they are damaged there, look in the part
//!    files. If a mini-batch's rows are in neither, the mini-batch and its files are removed from the
//!    journal, and it runs again.
//! 4. Repair the output: by writing a new file if undamaged rows must move, and otherwise in place. If the
//!    output file was made at the job's end, there is nothing to do: the appended rows are gone.
//! 5. Remove what workers of earlier runs left, if nothing refers to it.

use super::converted_output;
use super::error::CommitError;
use super::files::FilesState;
use super::item::FinishedMiniBatch;
use super::lost_files;
use super::recover_files as files;
use super::replace::carry_out;
use super::restore::clear;
use super::rows::{HeldRows, RowsOutput};
use super::settle::{SettleResult, settle};
use super::settling::Settling;
use super::store::{CommitGroup, CommitState};
use super::successor::SuccessorWatch;
use super::target::CommitTarget;
use super::worker_parts::Parts;
use crate::files::Appender;
use crate::journal::{Committed, DONE_PREFIX, EntryOrder, Journal, JournalChanges, MiniBatchEnd};
use crate::model::{JobStatus, MiniBatchId, Restored, WorkerId};
use std::collections::{BTreeSet, HashSet};

/// Opens the store of a job. If the job has begun before, also returns what the journal holds.
pub(super) fn recover(
    target: CommitTarget,
    mut journal: Journal,
    retry_failed: bool,
) -> Result<(CommitState, Restored), CommitError> {
    let mut parts = Parts::new(target.worker_folders.clone(), target.is_plain);
    if journal.is_new() {
        if let Some(note) = lost_files::note_place(&target.worker_folders, &journal)? {
            journal.commit(&JournalChanges { notes: vec![note], ..JournalChanges::default() })?;
        }
        let rows = match (&target.output_file, &target.part_suffix) {
            (Some(name), None) => {
                let appender = Appender::create(&target.output.join(name));
                let held = target.ordered.then(HeldRows::default);
                Some(RowsOutput::new(appender?, held))
            }
            _ => None,
        };
        let header = None;
        let files = FilesState::default();
        let store = CommitState {
            target,
            journal,
            rows,
            header,
            parts,
            files,
            group: CommitGroup::default(),
            successor: SuccessorWatch::default(),
        };
        return Ok((store, Restored::default()));
    }
    carry_out(&mut journal, &target.output)?;
    let saved = if journal.is_from_log()? { target.saved.clone() } else { None };
    if saved.is_some() {
        clear(&target.output)?;
    }
    let ended = journal.finished()?;
    let has_output = target.output_file.is_some();
    let target = converted_output::resumed_target(target, ended == Some(JobStatus::Completed))?;
    // If the output file was already made, the appended rows are gone. The job stays completed, and
    // no mini-batch runs again.
    let is_made = has_output && target.output_file.is_none();
    let items = read_items(&journal, target.ordered)?;
    let mut lost = lost_files::find(&target, &mut journal)?;
    if let Some(saved) = saved {
        lost = saved.restore(&target, &journal)?;
    }
    let mut files = FilesState::new(done_workers(&target, &journal)?);
    files::publish(&target, &journal, &mut files, &items)?;
    let unreadable = journal.unreadable()?.into_iter().filter(|_| !is_made);
    let unreadable = unreadable.map(|file| file.id).collect();
    let settling = Settling {
        target: &target,
        items: &items,
        retry_failed,
        unreadable: &unreadable,
        lost: &lost,
    };
    let SettleResult { rows, header, gone } = settle(settling, &mut journal, &mut parts)?;
    files::read_lengths(&target, &journal, &mut files)?;
    let mut restored = restored(&items, &gone);
    let highest = target.worker_folders.highest_worker();
    let highest = highest.into_iter().chain(files::workers(&journal)?).max();
    restored.next_worker = restored.next_worker.max(highest.map_or(0, |w| w.0.saturating_add(1)));
    restored.has_shut_down = is_closed(&journal, &files)?;
    target.worker_folders.clean_up(&files.done);
    lost_files::forget(&target.worker_folders, &mut journal)?;
    if !is_made {
        reopen(&mut journal)?;
    }
    let group = CommitGroup::default();
    let successor = SuccessorWatch::default();
    Ok((CommitState { target, journal, rows, header, parts, files, group, successor }, restored))
}

/// Whether a worker is known to have ended normally: its files are published, or wait to be published, or the
/// job has completed.
fn is_closed(journal: &Journal, files: &FilesState) -> Result<bool, CommitError> {
    if !files.done.is_empty() {
        return Ok(true);
    }
    let completed = journal.finished()? == Some(JobStatus::Completed);
    let published = || -> Result<bool, CommitError> {
        Ok(journal.files()?.iter().any(|file| file.mini_batch.is_none()))
    };
    Ok(completed || published()?)
}

/// Removes the record of the job's end, because the job continues.
fn reopen(journal: &mut Journal) -> Result<(), CommitError> {
    if journal.finished()?.is_none() {
        return Ok(());
    }
    let changes = JournalChanges { reopened: true, ..JournalChanges::default() };
    Ok(journal.commit(&changes)?)
}

/// All finished mini-batches in the order of the output.
fn read_items(journal: &Journal, ordered: bool) -> Result<Vec<FinishedMiniBatch>, CommitError> {
    let order = if ordered { EntryOrder::Id } else { EntryOrder::Commit };
    let mut items = Vec::new();
    let visit = |Committed { entry, .. }: Committed| {
        items.push(FinishedMiniBatch {
            id: entry.id.0,
            attempts: entry.attempts,
            worker: entry.worker,
            rows: entry.end.rows(),
            lines: match entry.end {
                MiniBatchEnd::Succeeded { segment, .. } => segment.rows,
                MiniBatchEnd::Failed { .. } => 0,
            },
            items: entry.items,
            is_short: matches!(entry.end, MiniBatchEnd::Succeeded { is_short: true, .. }),
            has_failed: matches!(entry.end, MiniBatchEnd::Failed { .. }),
            has_files: entry.end.has_files(),
        });
    };
    journal.for_each(order, visit)?;
    Ok(items)
}

/// The workers of earlier runs that ended normally and left files that this process can reach.
fn done_workers(
    target: &CommitTarget,
    journal: &Journal,
) -> Result<BTreeSet<WorkerId>, CommitError> {
    if lost_files::are_out_of_reach(&target.worker_folders, journal)? {
        return Ok(BTreeSet::new());
    }
    let notes = journal.notes(DONE_PREFIX)?;
    Ok(notes.iter().filter_map(|(number, _)| number.parse().ok().map(WorkerId)).collect())
}

/// The journal's content, without the mini-batches that run again.
fn restored(items: &[FinishedMiniBatch], gone: &HashSet<MiniBatchId>) -> Restored {
    let mut restored = Restored::default();
    for item in items {
        let next = item.worker.map_or(0, |worker| worker.0.saturating_add(1));
        restored.next_worker = restored.next_worker.max(next);
        if gone.contains(&MiniBatchId(item.id)) {
            continue;
        }
        restored.finished.insert(MiniBatchId(item.id));
        restored.items += item.items;
        restored.rows += item.lines;
        if item.has_failed {
            restored.failed += 1;
        } else {
            restored.succeeded += 1;
            restored.short += u64::from(item.is_short);
        }
    }
    restored
}
