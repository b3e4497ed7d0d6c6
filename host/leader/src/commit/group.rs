//! Commits one group: check, append, sync, journal, publish.

use super::confirm::check_segment;
use super::converted_output;
use super::disk::{CommitRefusal, sync_file_system_of, sync_folder};
use super::error::{CommitError, PartFault, Rejection};
use super::files::holds_anything;
use super::header::{HeaderColumns, open_columns_key};
use super::lifecycle_files;
use super::lost_files;
use super::message::{CommitRequest, FinalFailure, ReclaimableAttempt, Success};
use super::parts_output;
use super::replace::{Replacement, carry_out};
use super::rows::{HEADER_KEY, RowsOutput};
use super::store::{CommitGroup, CommitState};
use super::whole_output::confirm_all;
use crate::fail_point;
use crate::files::publish::discard_files;
use crate::files::{Appender, Checker, OutputError, checksum};
use crate::journal::{
    DONE_PREFIX, FileEntry, JournalChanges, JournalEntry, MiniBatchEnd, ReceiptBatch,
};
use crate::model::{
    AttemptReceipt, Failure, JobStatus, MiniBatchId, OnConflict, ReceiptRun, Segment, WorkerId, hex,
};
use std::collections::BTreeMap;
use std::path::Path;

/// The maximum length in bytes of a failure's message in the journal.
const MAX_MESSAGE_BYTES: usize = 4096;

#[derive(Debug, Default)]
pub(super) struct CommitOutcome {
    pub(super) committed: Vec<MiniBatchId>,
    /// For each worker, the last attempt whose rows are in the output.
    pub(super) reclaimable: Vec<ReclaimableAttempt>,
    pub(super) rejected: Vec<(Success, Failure)>,
    /// Requests for the next group. This group already has a name of the first request's files, or has no
    /// room for their names.
    pub(super) postponed: Vec<CommitRequest>,
}

impl CommitState {
    /// Commits the requests that can be committed, and the rows that were copied before. An error is fatal.
    pub(super) fn commit(
        &mut self,
        requests: Vec<CommitRequest>,
    ) -> Result<CommitOutcome, CommitError> {
        let mut done = self.gather(requests)?;
        let group = std::mem::take(&mut self.group);
        done.committed = group.entries.iter().map(|entry| entry.id).collect();
        if self.rows.as_ref().is_some_and(RowsOutput::takes_all) {
            done.reclaimable = last_with_rows(&group.entries);
        }
        if !group.is_empty() {
            self.write(group)?;
            done.reclaimable.iter().for_each(|last| self.parts.release_segments(last.worker));
        }
        if done.postponed.is_empty() {
            self.parts.close();
        }
        Ok(done)
    }

    /// Copies rows into the output before their commit, if possible, but only rows of attempts without files.
    /// The system can then write them to the disk early, and the commit waits less. Returns the rejected
    /// attempts. An error is fatal.
    pub(super) fn copy(
        &mut self,
        requests: Vec<CommitRequest>,
    ) -> Result<Vec<(Success, Failure)>, CommitError> {
        self.journal.check_lead()?;
        let done = self.gather(requests)?;
        // The header comes before all rows.
        if self.group.header.is_some() {
            return Ok(done.rejected);
        }
        self.check_output()?;
        if let Some(rows) = self.rows.as_mut().filter(|rows| rows.takes_all()) {
            let entries = self.group.entries.get(self.group.copied..).unwrap_or_default();
            rows.copy(entries, &mut self.parts)?;
            self.group.copied = self.group.entries.len();
        }
        self.fail_point("rows-copied");
        Ok(done.rejected)
    }

    /// Called when nothing more will be committed. Removes rows that were copied before their commit.
    pub(super) fn give_up(&mut self) {
        let stays = self.journal.may_be_replaced();
        if let Some(rows) = self.rows.as_mut().filter(|rows| rows.is_ahead() && !stays) {
            rows.journaled(false);
        }
    }

    /// Checks requests, and adds them to the group.
    fn gather(&mut self, requests: Vec<CommitRequest>) -> Result<CommitOutcome, CommitError> {
        let mut done = CommitOutcome::default();
        let mut group = std::mem::take(&mut self.group);
        for request in requests {
            if !done.postponed.is_empty() {
                // The segments of a worker must stay in order.
                done.postponed.push(request);
                continue;
            }
            match request {
                CommitRequest::WorkerGone(worker) => self.parts.mark_gone(worker),
                CommitRequest::WorkerDone(worker) => {
                    if holds_anything(&self.target.worker_folders.lifecycle_folder(worker))? {
                        group.done.push(worker);
                    }
                }
                CommitRequest::CheckLead { successor } => {
                    self.journal.watch_lead()?;
                    if self.successor.has_written(successor.as_deref(), self.target.saved.as_ref())
                    {
                        return Err(CommitError::GivesWay);
                    }
                }
                CommitRequest::Note { key, value } => group.notes.push((key, Some(value))),
                CommitRequest::Receipt(receipt) => group.receipts.push(*receipt),
                CommitRequest::Failure(mut failure) => {
                    group.receipts.extend(failure.receipt.take().map(|receipt| *receipt));
                    group.entries.push(failure_entry(failure));
                }
                CommitRequest::Success(success) => match self.check(&success, &mut group) {
                    Ok(()) => group.add(&success),
                    Err(CommitRefusal::Fatal(error)) => return Err(error),
                    Err(CommitRefusal::Postpone) => {
                        done.postponed.push(CommitRequest::Success(success));
                    }
                    Err(CommitRefusal::Reject(why)) => {
                        self.discard(&success);
                        done.rejected.push((success, why.failure()));
                    }
                },
            }
        }
        // Adjacent segments of one part file are copied together.
        if let Some(new) = group.entries.get_mut(group.copied..) {
            new.sort_by_key(|entry| entry.worker);
        }
        self.group = group;
        Ok(done)
    }

    /// Writes the group. The order of these steps guarantees that no row is lost or duplicated: see
    /// the docs of `committer`.
    fn write(&mut self, group: CommitGroup) -> Result<(), CommitError> {
        self.journal.check_lead()?;
        if !group.staged.is_empty() || !group.done.is_empty() {
            self.target.worker_folders.sync_files()?;
        }
        self.fail_point("files-synced");
        self.check_output()?;
        let mut notes = group.notes;
        notes.extend(
            group.done.iter().map(|w| (format!("{DONE_PREFIX}{}", w.0), Some(String::new()))),
        );
        notes.extend(lost_files::note(&self.journal, &group.entries)?);
        let mut changes = JournalChanges {
            entries: group.entries,
            files: group.files,
            notes,
            receipts: batch(&self.target.receipt_run, group.receipts),
            ..JournalChanges::default()
        };
        let replaced = self.write_header(group.header.as_ref(), &mut changes)?;
        let written = self.write_rows(&mut changes, group.copied, replaced);
        let saved = written.and_then(|()| self.save(&mut changes));
        let journaled = saved.and_then(|()| Ok(self.journal.commit(&changes)?));
        // If another process may lead the job, or the group may count, nothing of the output is cut off.
        let stays = journaled.is_ok() || self.journal.may_be_replaced();
        if let Some(rows) = &mut self.rows {
            rows.journaled(stays);
        }
        journaled?;
        self.header = group.header.or(self.header.take());
        self.files.done.extend(group.done);
        self.fail_point("journaled");
        self.journal.check_lead()?;
        if replaced {
            carry_out(&mut self.journal, &self.target.output)?;
            self.reopen()?;
        }
        self.files.publish(&self.target, &group.staged, &changes.files, false)?;
        self.fail_point("files-published");
        Ok(())
    }

    /// Checks that the output is unchanged since it was written. Compares only the length and the
    /// modification time. Reads the output only if these show that another program has written to
    /// it. If the output has changed, the next start notices this too, by the modification time.
    fn check_output(&mut self) -> Result<(), CommitError> {
        let Some(rows) = &mut self.rows else { return Ok(()) };
        if rows.is_untouched()? {
            return Ok(());
        }
        rows.mark_suspect();
        confirm_all(rows, &self.journal, self.header.as_ref())
    }

    /// Writes the group's header, if it has a new one, at the top of the output. Returns true if the output
    /// already had rows. In this case, the header and the rows are in a new file, which replaces the old one
    /// after the journal has recorded the replacement.
    fn write_header(
        &mut self,
        header: Option<&HeaderColumns>,
        changes: &mut JournalChanges,
    ) -> Result<bool, CommitError> {
        let Some(header) = header else { return Ok(false) };
        changes.notes.push((HEADER_KEY.to_owned(), Some(header.note())));
        let is_written = self.header.as_ref().is_some_and(|first| first.bytes == header.bytes);
        if is_written || header.bytes.is_empty() {
            return Ok(false);
        }
        // Without an output file, each worker has written the header to its own file.
        let Some(rows) = &mut self.rows else { return Ok(false) };
        if rows.appender.is_empty() {
            rows.write_header(&header.bytes)?;
            self.fail_point("header-written");
            return Ok(false);
        }
        let mut replacement = Replacement::default();
        let name = self.target.output_file.as_deref().unwrap_or_default();
        let path = replacement.new_file_for(&self.target.output, name);
        rows.appender = copy_with_header(&header.bytes, &rows.appender, &path)?;
        self.fail_point("replacement-synced");
        changes.notes.push(replacement.note()?);
        Ok(true)
    }

    /// Appends the rows of `changes.entries` to the output, and syncs them. The output already has
    /// the rows of the first `copied` entries. Rows that cannot be appended yet are synced in the
    /// part files instead. `is_new`: whether the journal does not know the output file yet.
    fn write_rows(
        &mut self,
        changes: &mut JournalChanges,
        copied: usize,
        is_new: bool,
    ) -> Result<(), CommitError> {
        if let Some(rows) = &mut self.rows {
            let remaining = changes.entries.get(copied..).unwrap_or_default();
            rows.append(remaining, &mut self.parts)?;
            fail_point::pass_with("rows-appended", || rows.unsynced(&self.parts));
            if is_new || rows.has_grown() {
                changes.notes.push(rows.sync()?);
            }
        }
        self.fail_point("output-synced");
        let rows = self.rows.as_ref();
        let stay = changes.entries.iter().filter(|entry| {
            entry.end.rows().is_some() && rows.is_none_or(|rows| rows.holds_back(entry.id))
        });
        self.parts.sync(stay.filter_map(|entry| entry.worker))?;
        self.fail_point("parts-synced");
        Ok(())
    }

    /// Saves copies of what the group is about to commit, if the job keeps such copies.
    fn save(&mut self, changes: &mut JournalChanges) -> Result<(), CommitError> {
        let Some(saved) = &self.target.saved else { return Ok(()) };
        let folders = &self.target.worker_folders;
        let note = saved.save_group(changes, &self.journal, &mut self.parts, folders)?;
        changes.notes.extend(note);
        self.fail_point("results-saved");
        Ok(())
    }

    /// Reopens the output by its name, after a new file has replaced it.
    fn reopen(&mut self) -> Result<(), CommitError> {
        let name = self.target.output_file.as_deref().unwrap_or_default();
        if let Some(rows) = &mut self.rows {
            rows.appender = Appender::open(&self.target.output.join(name))?;
            rows.appender.trust(rows.appender.len());
        }
        Ok(())
    }

    /// Completes the output and records the job's end. Calls `on_progress` at intervals with the progress. If
    /// the output of `init` or `shutdown` causes an error, the journal records that the job failed.
    pub(super) fn end_job(
        &mut self,
        mut status: JobStatus,
        on_progress: &mut dyn FnMut(u64),
    ) -> Result<(), CommitError> {
        self.journal.check_lead()?;
        let mut result = Ok(());
        if status == JobStatus::Completed {
            result = lifecycle_files::publish(&mut self.files, &self.target, &mut self.journal);
            if result.is_err() {
                status = JobStatus::Failed;
            }
        }
        self.fail_point("left-all-published");
        self.check_output()?;
        let mut notes = Vec::new();
        if let Some(rows) = &mut self.rows {
            // The next start removes the rows after a gap, because the missing rows must come before them.
            let has_gap = rows.held.as_ref().is_some_and(|held| !held.waiting.is_empty());
            rows.append_held(&mut self.parts)?;
            self.parts.close();
            fail_point::pass_with("held-appended", || rows.unsynced(&self.parts));
            if rows.has_grown() {
                let mark = rows.sync()?;
                notes.extend(Some(mark).filter(|_| !has_gap));
            }
            if rows.is_doubtful() {
                confirm_all(rows, &self.journal, self.header.as_ref())?;
            }
        }
        if status == JobStatus::Completed {
            converted_output::make(self, on_progress)?;
        }
        parts_output::make(self, status, on_progress)?;
        if self.files.published {
            // One `syncfs` covers all folders into which files were moved.
            sync_file_system_of(&self.target.output)?;
        } else if self.target.output_file.is_some() {
            sync_folder(&self.target.output)?;
        }
        self.fail_point("all-synced");
        // All files are published and synced now.
        notes.extend(lost_files::note(&self.journal, &[])?);
        if let (Some(saved), JobStatus::Completed) = (&self.target.saved, status) {
            let mut lifecycle = self.journal.files()?;
            lifecycle.retain(|entry| entry.mini_batch.is_none());
            let output = &self.target.output;
            let on_conflict = self.target.on_conflict;
            notes.extend(saved.save_published(&lifecycle, &self.journal, output, on_conflict)?);
        }
        self.journal.record_end(status, notes)?;
        self.fail_point("finished");
        if status == JobStatus::Completed {
            converted_output::clean_up(&self.target);
        }
        result
    }

    /// Checks everything that an attempt left. After this, only a failure of the computer can prevent the
    /// commit of the attempt.
    fn check(&mut self, success: &Success, group: &mut CommitGroup) -> Result<(), CommitRefusal> {
        if success.segment.length > 0 {
            if self.target.output_file.is_none() {
                let worker = success.worker;
                let fault = PartFault::Unwanted;
                return Err(CommitRefusal::Reject(Rejection::PartDamaged { worker, fault }));
            }
            self.parts.check(success)?;
        }
        let header = self.check_header(success, group)?;
        if success.has_files {
            self.check_files(success, group)?;
        }
        if let Some(header) = header {
            let id = success.id;
            let columns = success.header.as_ref().and_then(|header| header.open_columns.as_deref());
            group.notes.extend(columns.map(|columns| (open_columns_key(id), Some(hex(columns)))));
            group.header = Some(header);
        }
        self.parts.reserve(success.worker, &success.segment);
        Ok(())
    }

    /// The new header of the output: the attempt's own if it is the first one, or the joined one if the
    /// attempt knows more column types. `None` if the header stays.
    fn check_header(
        &self,
        success: &Success,
        group: &CommitGroup,
    ) -> Result<Option<HeaderColumns>, CommitRefusal> {
        let wanted = self.target.header_wanted && self.target.output_file.is_some();
        let header = success.header.as_ref().filter(|_| wanted);
        let Some(top) = HeaderColumns::from_header(header) else { return Ok(None) };
        let Some(first) = group.header.as_ref().or(self.header.as_ref()) else {
            return Ok(Some(top));
        };
        if first.fits(&top) {
            return Ok(None);
        }
        let is_lines = self.target.conversion.is_none();
        match first.joined(&top).filter(|_| !is_lines) {
            Some(joined) => Ok(Some(joined).filter(|joined| joined != first)),
            None => Err(CommitRefusal::Reject(top.why_unfit(first, is_lines))),
        }
    }

    fn check_files(
        &mut self,
        success: &Success,
        group: &mut CommitGroup,
    ) -> Result<(), CommitRefusal> {
        let Success { worker, id, attempt, .. } = *success;
        let staged = self.target.worker_folders.staged(worker, id, attempt);
        let found = self.files.check(&self.target, &staged).map_err(|error| {
            if error.is_guest_fault() {
                CommitRefusal::Reject(Rejection::Files(error))
            } else {
                CommitRefusal::Fatal(error.into())
            }
        })?;
        if !group.names.reserve(&found, self.target.on_conflict != OnConflict::Error) {
            return Err(CommitRefusal::Postpone);
        }
        group.files.extend(self.files.new_entries(&self.target, Some(id), &staged, &found));
        group.staged.push(staged);
        Ok(())
    }

    /// Removes the files of a rejected attempt. If some stay, they are among the job's working files, and
    /// nothing refers to them.
    fn discard(&self, success: &Success) {
        if success.has_files {
            let Success { worker, id, attempt, .. } = *success;
            let _ = discard_files(&self.target.worker_folders.staged(worker, id, attempt));
        }
    }

    /// A point at which a test may kill the process.
    fn fail_point(&self, name: &str) {
        fail_point::pass_with(name, || match &self.rows {
            Some(rows) => rows.unsynced(&self.parts),
            None => self.parts.unsynced(),
        });
    }
}

impl CommitGroup {
    /// Adds a success, whose files are in the group.
    fn add(&mut self, success: &Success) {
        if let Some(receipt) = &success.receipt {
            let is_own = |file: &&FileEntry| file.mini_batch == Some(success.id);
            let own = self.files.iter().rev().take_while(is_own).map(|file| file.length);
            let mut receipt = (**receipt).clone();
            receipt.usage.bytes_written = own.fold(success.segment.length, u64::saturating_add);
            receipt.usage = receipt.usage.capped();
            self.receipts.push(receipt);
        }
        self.entries.push(success_entry(success));
    }
}

/// The receipts of a group, for the journal.
fn batch(run: &ReceiptRun, receipts: Vec<AttemptReceipt>) -> Vec<ReceiptBatch> {
    let is_empty = receipts.is_empty();
    let batch = ReceiptBatch { run: run.clone(), receipts, head: String::new() };
    Some(batch).filter(|_| !is_empty).into_iter().collect()
}

/// Writes and syncs a new file: the header, then everything from the output.
fn copy_with_header(
    header: &[u8],
    output: &Appender,
    path: &Path,
) -> Result<Appender, CommitError> {
    let length = output.len();
    let checksum = checksum(output.file(), 0, length)
        .map_err(|source| CommitError::Read { path: output.path().to_owned(), source })?;
    let whole = Segment { offset: 0, length, checksum, rows: 0 };
    let write = || -> Result<Appender, OutputError> {
        let mut new = Appender::create(path)?;
        new.write_at(header, 0)?;
        new.append(output.file(), &whole)?;
        new.sync()?;
        Ok(new)
    };
    let new = write()?;
    let mut checker = Checker::new(new.file()).map_err(|e| CommitError::disk("read", path, e))?;
    check_segment(&mut checker, &new, header.len() as u64, None, &whole)?;
    Ok(new)
}

/// For each worker, its last attempt with rows.
fn last_with_rows(entries: &[JournalEntry]) -> Vec<ReclaimableAttempt> {
    let with_rows = entries.iter().filter(|entry| entry.end.rows().is_some());
    let reclaimable = with_rows.filter_map(|entry| {
        Some(ReclaimableAttempt { worker: entry.worker?, id: entry.id, attempt: entry.attempts })
    });
    let last: BTreeMap<WorkerId, ReclaimableAttempt> =
        reclaimable.map(|last| (last.worker, last)).collect();
    last.into_values().collect()
}

fn success_entry(success: &Success) -> JournalEntry {
    JournalEntry {
        id: success.id,
        stamp: success.stamp,
        attempts: success.attempt,
        worker: Some(success.worker),
        items: success.items,
        end: MiniBatchEnd::Succeeded {
            segment: success.segment,
            is_short: success.is_short,
            has_files: success.has_files,
        },
    }
}

fn failure_entry(failure: FinalFailure) -> JournalEntry {
    let FinalFailure { id, attempts, worker, items, failure, stamp, receipt: _ } = failure;
    let Failure { kind, mut message, .. } = failure;
    // An entry script may send a message of the maximum frame length for every mini-batch.
    message.truncate(message.floor_char_boundary(MAX_MESSAGE_BYTES));
    let end = MiniBatchEnd::Failed { kind, message };
    JournalEntry { id, stamp, attempts, worker, items, end }
}

#[cfg(test)]
impl CommitState {
    /// Redirects the output file, so that a test can simulate a full disk.
    pub(super) fn write_rows_to(&mut self, appender: Appender) {
        if let Some(rows) = &mut self.rows {
            rows.appender = appender;
        }
    }
}
