//! Checks what the planner sends, and holds mini-batches back until the objects that they need have been
//! fetched.

use super::commit::{CommitRequest, Committer};
use super::machine::{JobMessage, LocalJob};
use super::nodes::RunningNode;
use super::verify::{PlanDigest, tables_note};
use crate::journal::unreadable_note;
use crate::model::{MiniBatch, MiniBatchWork, Source};
use crate::protocol::FromPlanner;
use std::collections::VecDeque;

/// Backpressure: the leader stops reading the plan while this many mini-batches, or descriptors of this many
/// bytes, wait for their objects.
const ENOUGH: usize = 64;
const ENOUGH_BYTES: usize = 1 << 20;

/// Sits between the planner and the state machine.
#[derive(Debug)]
pub(super) struct PlanIntake {
    /// Whether the planner has reported how to read the tables.
    has_looked: bool,
    /// The number of inputs.
    sources: usize,
    planned: u64,
    /// The file of the last planned mini-batch, with the index of its source.
    last_file: Option<(u32, String)>,
    /// The digest of the plan so far. `None` once the plan is complete.
    digest: Option<PlanDigest>,
    /// Whether objects of stores are fetched only when a mini-batch needs them.
    comes_on_demand: bool,
    /// Mini-batches in the order of the plan, each with whether all its objects have been fetched.
    waiting: VecDeque<(MiniBatch, bool)>,
    /// The total size of these descriptors.
    bytes: usize,
    /// Whether the plan is complete. This is reported after the last mini-batch.
    is_complete: bool,
}

impl PlanIntake {
    /// `again`: files that an earlier run could not read, with the indices of their sources.
    pub(super) fn new(sources: &[Source], comes_on_demand: bool, again: &[(u32, String)]) -> Self {
        Self {
            has_looked: false,
            sources: sources.len(),
            planned: 0,
            last_file: None,
            digest: Some(PlanDigest::new(again)),
            comes_on_demand,
            waiting: VecDeque::new(),
            bytes: 0,
            is_complete: false,
        }
    }

    /// Whether enough mini-batches wait for objects.
    pub(super) fn is_full(&self) -> bool {
        self.waiting.len() >= ENOUGH || self.bytes >= ENOUGH_BYTES
    }

    /// Handles a message of the planner, which is not trusted because it parses untrusted files. Returns
    /// messages for the state machine.
    pub(super) fn take(
        &mut self,
        message: FromPlanner,
        joined: &mut LocalJob<impl RunningNode>,
        committer: &Committer,
    ) -> Vec<JobMessage> {
        match message {
            FromPlanner::Tables(tables) if !self.has_looked => {
                if !tables.is_empty() {
                    let (key, value) = tables_note(&tables);
                    committer.submit(CommitRequest::Note { key, value });
                }
                self.has_looked = true;
                Vec::new()
            }
            FromPlanner::MiniBatches(batches) if self.plausible(&batches) => {
                self.planned += batches.len() as u64;
                if let Some(digest) = &mut self.digest {
                    digest.add(&batches);
                }
                for (key, value) in unreadable_notes(&batches, &mut self.last_file) {
                    committer.submit(CommitRequest::Note { key, value });
                }
                if !self.comes_on_demand {
                    return vec![JobMessage::Planned(batches)];
                }
                for batch in batches {
                    self.wait_for(batch, joined);
                }
                self.ready()
            }
            FromPlanner::Share(share) => vec![JobMessage::PlanShare(share)],
            FromPlanner::Columns(message) => vec![JobMessage::Columns(message)],
            FromPlanner::Notice(message) => vec![JobMessage::Notice(message)],
            FromPlanner::Finished => {
                if let Some(digest) = self.digest.take() {
                    let (key, value) = digest.note();
                    committer.submit(CommitRequest::Note { key, value });
                }
                self.is_complete = true;
                self.ready()
            }
            FromPlanner::Failed(text) => vec![JobMessage::PlanFailed(text)],
            // The node answers the planner's requests, so none should arrive here.
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

    fn plausible(&self, batches: &[MiniBatch]) -> bool {
        self.has_looked
            && (self.planned..).zip(batches).all(|(id, batch)| {
                batch.id.0 == id && (batch.source as usize) < self.sources.max(1)
            })
    }

    fn wait_for(&mut self, batch: MiniBatch, joined: &mut LocalJob<impl RunningNode>) {
        self.bytes += batch.size();
        let files = batch.reads();
        let is_wanted = !files.is_empty() && !joined.job().was_done_before(batch.id);
        if is_wanted {
            joined.node.want(batch.id, &files);
        }
        self.waiting.push_back((batch, !is_wanted));
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
        self.ready()
    }

    /// Releases the mini-batches that need not wait any longer.
    fn ready(&mut self) -> Vec<JobMessage> {
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
        if self.is_complete && self.waiting.is_empty() {
            self.is_complete = false;
            messages.push(JobMessage::PlanFinished);
        }
        messages
    }
}

/// Notes for the journal about files that could not be read at all. A file that broke off after some
/// mini-batches is not noted: its unreadable rest has a place in the plan after these, and keeps it.
/// `last_file`: the file of the mini-batch before `batches`.
fn unreadable_notes(
    batches: &[MiniBatch],
    last_file: &mut Option<(u32, String)>,
) -> Vec<(String, String)> {
    let known = last_file.take();
    let mut before = known.as_ref().map(|(source, file)| (*source, file.as_str()));
    let mut notes = Vec::new();
    for batch in batches {
        let file = cut_from(batch);
        if file != before {
            notes.extend(unreadable_note(batch));
        }
        before = file;
    }
    *last_file = before.map(|(source, file)| (source, file.to_owned()));
    notes
}

/// The file that a mini-batch covers in part or in full, with the index of its source. `None` if it covers
/// several files.
fn cut_from(batch: &MiniBatch) -> Option<(u32, &str)> {
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

    /// Otherwise, a job whose file broke off in the middle could not resume, because the numbers of later
    /// mini-batches would shift.
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
