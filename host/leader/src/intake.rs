//! Checks what the planner sends, and holds mini-batches back until the objects that they need have been
//! fetched.

use super::commit::{CommitRequest, Committer};
use super::machine::{ConnectedJob, JobMessage};
use super::nodes::RunningNode;
use super::verify::{PlanDigest, tables_note};
use crate::journal::unreadable_note;
use crate::model::{MiniBatch, MiniBatchWork, Source};
use crate::protocol::FromPlanner;
use std::collections::VecDeque;

/// Backpressure: the leader stops reading the plan while this many mini-batches wait for their objects, or
/// while the descriptors of waiting mini-batches have this many bytes.
const MAX_WAITING: usize = 64;
const MAX_WAITING_BYTES: usize = 1 << 20;

/// Sits between the planner and the state machine.
#[derive(Debug)]
pub(super) struct PlanIntake {
    /// Whether the planner has reported how the tables are to be read.
    knows_tables: bool,
    /// The number of the inputs' folders.
    source_count: usize,
    /// The number of mini-batches so far, which is the id of the next one.
    planned: u64,
    /// The file of the last planned mini-batch, with the index of its source.
    last_file: Option<(u32, String)>,
    /// The digest of the plan so far. `None` once the plan is complete.
    digest: Option<PlanDigest>,
    /// Whether objects of stores are fetched only when a mini-batch needs them.
    fetches_on_demand: bool,
    /// Mini-batches in the order of the plan. Each has a flag: whether all its objects have been fetched.
    waiting: VecDeque<(MiniBatch, bool)>,
    /// The total size of the waiting mini-batches' descriptors.
    bytes: usize,
    /// Whether the plan is complete, but the state machine does not know this yet. It receives the
    /// last mini-batch first.
    has_unreported_end: bool,
}

impl PlanIntake {
    /// `unreadable`: files that an earlier run could not read, with the indices of their sources.
    pub(super) fn new(
        sources: &[Source],
        fetches_on_demand: bool,
        unreadable: &[(u32, String)],
    ) -> Self {
        Self {
            knows_tables: false,
            source_count: sources.len(),
            planned: 0,
            last_file: None,
            digest: Some(PlanDigest::new(unreadable)),
            fetches_on_demand,
            waiting: VecDeque::new(),
            bytes: 0,
            has_unreported_end: false,
        }
    }

    /// Whether enough mini-batches wait for objects.
    pub(super) fn is_full(&self) -> bool {
        self.waiting.len() >= MAX_WAITING || self.bytes >= MAX_WAITING_BYTES
    }

    /// Handles a message of the planner. The planner is not trusted, because it parses untrusted
    /// files. Returns messages for the state machine.
    pub(super) fn on_message(
        &mut self,
        message: FromPlanner,
        connected_job: &mut ConnectedJob<impl RunningNode>,
        committer: &Committer,
    ) -> Vec<JobMessage> {
        match message {
            FromPlanner::Tables(tables) if !self.knows_tables => {
                if !tables.is_empty() {
                    let (key, value) = tables_note(&tables);
                    committer.submit(CommitRequest::Note { key, value });
                }
                self.knows_tables = true;
                Vec::new()
            }
            FromPlanner::MiniBatches(batches) if self.are_plausible(&batches) => {
                self.planned += batches.len() as u64;
                if let Some(digest) = &mut self.digest {
                    digest.add(&batches);
                }
                for (key, value) in unreadable_notes(&batches, &mut self.last_file) {
                    committer.submit(CommitRequest::Note { key, value });
                }
                if !self.fetches_on_demand {
                    return vec![JobMessage::Planned(batches)];
                }
                for batch in batches {
                    self.enqueue(batch, connected_job);
                }
                self.release_ready()
            }
            FromPlanner::Share(share) => vec![JobMessage::PlanShare(share)],
            FromPlanner::Columns(message) => vec![JobMessage::Columns(message)],
            FromPlanner::Notice(message) => vec![JobMessage::Notice(message)],
            FromPlanner::Finished => {
                if let Some(digest) = self.digest.take() {
                    let (key, value) = digest.note();
                    committer.submit(CommitRequest::Note { key, value });
                }
                self.has_unreported_end = true;
                self.release_ready()
            }
            FromPlanner::Failed(text) => vec![JobMessage::PlanFailed(text)],
            // The node answers the planner's requests, so no request should arrive here.
            FromPlanner::Tables(_)
            | FromPlanner::MiniBatches(_)
            | FromPlanner::Opening { .. }
            | FromPlanner::Closed => {
                vec![JobMessage::PlanFailed(
                    "the planner process sent an unexpected message".to_owned(),
                )]
            }
        }
    }

    fn are_plausible(&self, batches: &[MiniBatch]) -> bool {
        self.knows_tables
            && (self.planned..).zip(batches).all(|(id, batch)| {
                batch.id.0 == id && (batch.source as usize) < self.source_count.max(1)
            })
    }

    fn enqueue(&mut self, batch: MiniBatch, connected_job: &mut ConnectedJob<impl RunningNode>) {
        self.bytes += batch.size();
        let files = batch.reads();
        let needs_objects = !files.is_empty() && !connected_job.job().was_done_before(batch.id);
        if needs_objects {
            connected_job.node.request(batch.id, &files);
        }
        self.waiting.push_back((batch, !needs_objects));
    }

    /// Records that the objects of a mini-batch have been fetched, except those in `failed`. Returns messages
    /// for the state machine.
    pub(super) fn arrived(&mut self, number: u64, failed: Vec<(u32, String)>) -> Vec<JobMessage> {
        let Some((batch, is_ready)) =
            self.waiting.iter_mut().find(|(batch, _)| batch.id.0 == number)
        else {
            return Vec::new();
        };
        batch.set_unfetched(failed);
        *is_ready = true;
        self.release_ready()
    }

    /// Releases the mini-batches that need not wait any longer.
    fn release_ready(&mut self) -> Vec<JobMessage> {
        let mut batches = Vec::new();
        while let Some((_, true)) = self.waiting.front()
            && let Some((batch, _)) = self.waiting.pop_front()
        {
            self.bytes = self.bytes.saturating_sub(batch.size());
            batches.push(batch);
        }
        let mut messages = Vec::new();
        if !batches.is_empty() {
            messages.push(JobMessage::Planned(batches));
        }
        if self.has_unreported_end && self.waiting.is_empty() {
            self.has_unreported_end = false;
            messages.push(JobMessage::PlanFinished);
        }
        messages
    }
}

/// Notes for the journal about files that could not be read at all. A file that could be read up to
/// some point needs no note: the unreadable rest is a separate mini-batch, and keeps its number
/// without a note. `last_file`: the file of the mini-batch before `batches`.
fn unreadable_notes(
    batches: &[MiniBatch],
    last_file: &mut Option<(u32, String)>,
) -> Vec<(String, String)> {
    let known = last_file.take();
    let mut previous = known.as_ref().map(|(source, file)| (*source, file.as_str()));
    let mut notes = Vec::new();
    for batch in batches {
        let file = single_file(batch);
        if file != previous {
            notes.extend(unreadable_note(batch));
        }
        previous = file;
    }
    *last_file = previous.map(|(source, file)| (source, file.to_owned()));
    notes
}

/// The file from which a mini-batch comes, with the index of its source. `None` for a mini-batch of several
/// files.
fn single_file(batch: &MiniBatch) -> Option<(u32, &str)> {
    let file = match &batch.work {
        MiniBatchWork::Text(slice) => &slice.file,
        MiniBatchWork::Table(slice) => &slice.file,
        MiniBatchWork::Unreadable(bad) => &bad.file,
        _ => return None,
    };
    Some((batch.source, file))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{BadFile, MiniBatchId, TextSlice};

    /// Only files that could not be read at all get a note. With a note on a partly readable file,
    /// the numbers of later mini-batches would shift, and the job could not resume.
    #[test]
    fn only_wholly_unreadable_files_are_noted() {
        let slice = |id, file: &str| {
            let slice = TextSlice { file: file.to_owned(), ..TextSlice::sample() };
            MiniBatch::new(MiniBatchId(id), 0, MiniBatchWork::Text(slice))
        };
        let bad = |id, file: &str| {
            let bad = BadFile { file: file.to_owned(), reason: "broken".to_owned() };
            MiniBatch::new(MiniBatchId(id), 0, MiniBatchWork::Unreadable(bad))
        };
        let mut last = None;
        let first =
            unreadable_notes(&[bad(0, "a"), slice(1, "b"), bad(2, "b"), bad(3, "c")], &mut last);
        assert_eq!(
            first.iter().map(|(key, _)| key.as_str()).collect::<Vec<_>>(),
            ["unreadable 0", "unreadable 3"]
        );
        assert!(unreadable_notes(&[slice(4, "d")], &mut last).is_empty());
        assert!(unreadable_notes(&[bad(5, "d")], &mut last).is_empty(), "in another message");
        assert_eq!(unreadable_notes(&[bad(6, "e")], &mut last).len(), 1);
    }
}
