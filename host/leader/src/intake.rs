//! Checks what the planner sends, and holds mini-batches back until the objects that they need have been
//! fetched, and until the plan is saved in the job's store. If the job continues, the mini-batches of the saved plan come
//! first.

use super::commit::{CommitRequest, Committer};
use super::machine::{ConnectedJob, JobMessage};
use super::nodes::RunningNode;
use super::stored_plan::{PlanFeed, PlanObject, PlanUse, PlanWriter, PlanWritten, StoredPlanError};
use super::verify::{PlanDigest, tables_note};
use crate::journal::unreadable_note;
use crate::model::{MiniBatch, MiniBatchWork, Source, TableFormat};
use crate::protocol::{FromPlanner, PlanPosition};
use std::collections::VecDeque;
use std::io;
use tokio::sync::mpsc::{self, UnboundedReceiver};

/// Backpressure: the leader stops reading the plan while this many mini-batches wait for their objects, or
/// while the descriptors of waiting mini-batches have this many bytes.
const MAX_WAITING: usize = 64;
const MAX_WAITING_BYTES: usize = 1 << 20;

/// If the plan is saved in a store, this many mini-batches may wait until they are saved.
const MAX_UNSAVED: usize = 16 << 10;
/// How many saved mini-batches go to the state machine at once.
const MAX_RELEASED: usize = 256;

/// The plan in the job's store, while the job runs.
#[derive(Debug, Default)]
pub(super) struct PlanStore {
    /// The mini-batches that an earlier leader has planned.
    known: Option<PlanFeed>,
    /// Saves the others, and what it says. `None` if they are not saved.
    writer: Option<(PlanWriter, UnboundedReceiver<PlanWritten>)>,
}

impl PlanStore {
    /// Begins to read what an earlier leader has planned, and to save the rest.
    ///
    /// # Errors
    /// If a thread cannot be started.
    pub(super) fn begin(plan: Option<PlanUse>) -> io::Result<Self> {
        let Some(PlanUse { stored, known, next }) = plan else { return Ok(Self::default()) };
        let known = known.map(PlanFeed::start).transpose()?;
        let begin = |number| {
            let (sender, written) = mpsc::unbounded_channel();
            Ok::<_, io::Error>((PlanWriter::start(stored, number, sender)?, written))
        };
        Ok(Self { known, writer: next.map(begin).transpose()? })
    }
}

/// What happened to the plan in the store.
#[derive(Debug)]
pub(super) enum PlanEvent {
    /// The next mini-batches of an earlier leader. `None` after the last ones.
    Known(Option<Result<PlanObject, StoredPlanError>>),
    /// The plan is saved up to here.
    Written(PlanWritten),
}

/// A mini-batch that waits.
#[derive(Debug)]
struct Waiting {
    batch: MiniBatch,
    /// Whether all its objects have been fetched.
    is_fetched: bool,
    /// Whether it waits until it is saved.
    is_saved_first: bool,
}

/// Sits between the planner and the state machine.
#[derive(Debug)]
pub(super) struct PlanIntake {
    store: PlanStore,
    /// How the tables are to be read. `None` until the planner, or an earlier leader, has reported it.
    tables: Option<Vec<TableFormat>>,
    /// Whether the planner still has to report it, because it is known from an earlier leader.
    awaits_tables: bool,
    /// The position after the planner's next message.
    position: Option<PlanPosition>,
    /// How many mini-batches are saved.
    saved: u64,
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
    /// Mini-batches in the order of the plan.
    waiting: VecDeque<Waiting>,
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
        store: PlanStore,
    ) -> Self {
        Self {
            store,
            tables: None,
            awaits_tables: false,
            position: None,
            saved: 0,
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

    /// Whether the planner's next message should be read. `wanted`: whether the state machine wants mini-batches. If the
    /// plan is saved, this reads ahead, so that the state machine does not wait for the store.
    pub(super) fn wants_plan(&self, wanted: bool) -> bool {
        let saves = self.store.writer.is_some();
        self.store.known.is_none() && !self.is_full() && (wanted || saves)
    }

    fn is_full(&self) -> bool {
        let saves = self.store.writer.is_some();
        let most = if saves { MAX_UNSAVED } else { MAX_WAITING };
        self.waiting.len() >= most || self.bytes >= MAX_WAITING_BYTES
    }

    /// Waits for what happens to the plan in the store. `wanted`: as in [`wants_plan`](Self::wants_plan). The future can
    /// be dropped while it waits.
    pub(super) async fn next(&mut self, wanted: bool) -> PlanEvent {
        let wanted = wanted && !self.is_full();
        let PlanStore { known, writer } = &mut self.store;
        tokio::select! {
            object = next_known(known), if wanted => PlanEvent::Known(object),
            Some(written) = next_written(writer) => PlanEvent::Written(written),
            else => std::future::pending().await,
        }
    }

    /// Handles what happened to the plan in the store. Returns messages for the state machine.
    pub(super) fn on_event(
        &mut self,
        event: PlanEvent,
        connected_job: &mut ConnectedJob<impl RunningNode>,
        committer: &Committer,
    ) -> Vec<JobMessage> {
        match event {
            PlanEvent::Known(None) => {
                self.store.known = None;
                Vec::new()
            }
            PlanEvent::Known(Some(Ok(PlanObject { tables, batches, .. }))) => {
                if self.tables.is_none() {
                    connected_job.node.know_tables(&tables);
                    self.awaits_tables = true;
                    self.note_tables(tables, committer);
                }
                self.planned += batches.len() as u64;
                if let Some(digest) = &mut self.digest {
                    digest.add(&batches);
                }
                self.last_file =
                    batches.last().and_then(single_file).map(|(at, file)| (at, file.to_owned()));
                if !self.fetches_on_demand && self.waiting.is_empty() {
                    return vec![JobMessage::Planned(batches)];
                }
                for batch in batches {
                    self.enqueue(batch, false, connected_job);
                }
                self.release_ready()
            }
            PlanEvent::Known(Some(Err(error))) => {
                self.store.known = None;
                vec![JobMessage::PlanFailed(format!(
                    "{error}; run the job again, which plans it again"
                ))]
            }
            PlanEvent::Written(PlanWritten::Until(saved)) => {
                self.saved = saved;
                Vec::new()
            }
            PlanEvent::Written(PlanWritten::Stopped(text)) => {
                self.store.writer = None;
                self.saved = u64::MAX;
                vec![JobMessage::Notice(text)]
            }
        }
    }

    fn note_tables(&mut self, tables: Vec<TableFormat>, committer: &Committer) {
        if !tables.is_empty() {
            let (key, value) = tables_note(&tables);
            committer.submit(CommitRequest::Note { key, value });
        }
        self.tables = Some(tables);
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
            FromPlanner::Tables(tables) if self.tables.is_none() => {
                self.note_tables(tables, committer);
                Vec::new()
            }
            FromPlanner::Tables(tables) if self.awaits_tables => {
                self.awaits_tables = false;
                if self.tables == Some(tables) { Vec::new() } else { vec![inputs_changed()] }
            }
            FromPlanner::Position(position) => {
                self.position = Some(position);
                Vec::new()
            }
            FromPlanner::Continues => Vec::new(),
            FromPlanner::CannotContinue => vec![inputs_changed()],
            FromPlanner::MiniBatches(batches) if self.are_plausible(&batches) => {
                self.planned += batches.len() as u64;
                if let Some(digest) = &mut self.digest {
                    digest.add(&batches);
                }
                for (key, value) in unreadable_notes(&batches, &mut self.last_file) {
                    committer.submit(CommitRequest::Note { key, value });
                }
                let is_saved_first = self.save(&batches);
                if !self.fetches_on_demand && !is_saved_first && self.waiting.is_empty() {
                    return vec![JobMessage::Planned(batches)];
                }
                for batch in batches {
                    self.enqueue(batch, is_saved_first, connected_job);
                }
                self.release_now()
            }
            FromPlanner::Share(share) => vec![JobMessage::PlanShare(share)],
            FromPlanner::Columns(message) => vec![JobMessage::Columns(message)],
            FromPlanner::Notice(message) => vec![JobMessage::Notice(message)],
            FromPlanner::Finished => {
                if let Some(digest) = self.digest.take() {
                    let (key, value) = digest.note();
                    committer.submit(CommitRequest::Note { key, value });
                }
                self.save(&[]);
                self.has_unreported_end = true;
                self.release_now()
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
        self.tables.is_some()
            && !self.awaits_tables
            && (self.planned..).zip(batches).all(|(id, batch)| {
                batch.id.0 == id && (batch.source as usize) < self.source_count.max(1)
            })
    }

    /// Saves the next mini-batches, if another planner can continue after them. Returns whether they are being saved.
    fn save(&mut self, batches: &[MiniBatch]) -> bool {
        let Some(position) = self.position.take() else {
            // No later position follows.
            self.store.writer = self.store.writer.take().filter(|_| self.waits_for_store());
            return false;
        };
        let Some((writer, _)) = &self.store.writer else { return false };
        let is_first = self.planned == batches.len() as u64;
        let tables = self.tables.as_ref().filter(|_| is_first).cloned().unwrap_or_default();
        writer.add(tables, batches.to_vec(), position);
        true
    }

    /// Whether a mini-batch waits until it is saved.
    fn waits_for_store(&self) -> bool {
        self.waiting.iter().any(|waiting| waiting.is_saved_first)
    }

    fn enqueue(
        &mut self,
        batch: MiniBatch,
        is_saved_first: bool,
        connected_job: &mut ConnectedJob<impl RunningNode>,
    ) {
        self.bytes += batch.size();
        let files = batch.reads();
        let needs_objects = self.fetches_on_demand
            && !files.is_empty()
            && !connected_job.job().was_done_before(batch.id);
        if needs_objects {
            connected_job.node.request(batch.id, &files);
        }
        self.waiting.push_back(Waiting { batch, is_fetched: !needs_objects, is_saved_first });
    }

    /// Records that the objects of a mini-batch have been fetched, except those in `failed`. Returns messages
    /// for the state machine.
    pub(super) fn arrived(&mut self, number: u64, failed: Vec<(u32, String)>) -> Vec<JobMessage> {
        let found = self.waiting.iter_mut().find(|waiting| waiting.batch.id.0 == number);
        let Some(waiting) = found else { return Vec::new() };
        waiting.batch.set_unfetched(failed);
        waiting.is_fetched = true;
        self.release_now()
    }

    /// Releases mini-batches that need not wait any longer, if the state machine wants some. Returns messages for it.
    pub(super) fn release(&mut self, wanted: bool) -> Vec<JobMessage> {
        if wanted || self.waiting.is_empty() { self.release_ready() } else { Vec::new() }
    }

    /// As [`release`](Self::release). If the plan is saved, the driver releases them, because this reads ahead.
    fn release_now(&mut self) -> Vec<JobMessage> {
        if self.store.writer.is_some() { Vec::new() } else { self.release_ready() }
    }

    fn release_ready(&mut self) -> Vec<JobMessage> {
        let mut batches = Vec::new();
        let saved = self.saved;
        let is_ready = |waiting: &mut Waiting| {
            waiting.is_fetched && (!waiting.is_saved_first || waiting.batch.id.0 < saved)
        };
        while batches.len() < MAX_RELEASED
            && let Some(Waiting { batch, .. }) = self.waiting.pop_front_if(is_ready)
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

/// The planner that continues found other inputs than the check before the job began.
fn inputs_changed() -> JobMessage {
    JobMessage::PlanFailed(
        "the inputs have changed while the job was about to continue; run it again".to_owned(),
    )
}

async fn next_known(known: &mut Option<PlanFeed>) -> Option<Result<PlanObject, StoredPlanError>> {
    match known {
        Some(feed) => feed.next().await,
        None => std::future::pending().await,
    }
}

async fn next_written(
    writer: &mut Option<(PlanWriter, UnboundedReceiver<PlanWritten>)>,
) -> Option<PlanWritten> {
    writer.as_mut()?.1.recv().await
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
