//! What a job's events say, as far as they were read.

use super::heat::HeatMap;
use super::index::{
    AttemptRow, FailureGroupRow, Index, IndexError, MiniBatchRow, MiniBatchesAsked,
};
use super::outcome::counts_of;
use crate::state::JobCounts;
use jiff::Timestamp;
use sandmill_model::JobDir;
use sandmill_model::event::Event;
use sandmill_report::{EventTail, History};
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

/// One refresh reads for at most this long, so that a page appears although a job has very many events. The next refresh
/// continues.
const LONGEST_REFRESH: Duration = Duration::from_secs(20);

/// Why a job's events could not be shown.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ViewError {
    /// They could not be read.
    #[error("the job's events: {0}")]
    Events(#[from] io::Error),
    /// There are so many that only a part was read so far.
    #[error("the job has very many events, and not all of them were read yet")]
    Partial,
    /// The index failed.
    #[error(transparent)]
    Index(#[from] IndexError),
}

/// The events of one job: its history, and an index of its mini-batches.
#[derive(Debug)]
pub(crate) struct JobView {
    tail: EventTail,
    history: History,
    index: Index,
    /// The run and number of the last event. Empty before the first one.
    last: String,
}

impl JobView {
    /// Views the job in this directory. Makes the index at this path.
    ///
    /// # Errors
    /// If the index cannot be made.
    pub(crate) fn open(dir: &JobDir, index: &Path) -> Result<Self, ViewError> {
        Ok(Self::with_index(dir, Index::create(index)?))
    }

    /// Views the job in this directory. The index is in a temporary file.
    ///
    /// # Errors
    /// If the index cannot be made.
    pub(crate) fn open_temporary(dir: &JobDir) -> Result<Self, ViewError> {
        Ok(Self::with_index(dir, Index::temporary()?))
    }

    fn with_index(dir: &JobDir, index: Index) -> Self {
        Self { tail: EventTail::new(dir), history: History::default(), index, last: String::new() }
    }

    /// Reads what the job has written since the last call.
    ///
    /// # Errors
    /// If the events cannot be read, or if there are so many that only a part was read. The next call reads on.
    pub(crate) fn refresh(&mut self) -> Result<(), ViewError> {
        let begun = Instant::now();
        loop {
            let mut events: Vec<Event> = Vec::new();
            let has_more = self.tail.read_some(&mut |event| events.push(event))?;
            if let Some(last) = events.last() {
                self.last = format!("{}.{}", last.run, last.seq);
                self.index.add(&events)?;
                events.into_iter().for_each(|event| self.history.add(event));
            }
            if !has_more {
                return Ok(());
            }
            if begun.elapsed() > LONGEST_REFRESH {
                return Err(ViewError::Partial);
            }
        }
    }

    /// The job's history.
    pub(crate) fn history(&self) -> &History {
        &self.history
    }

    /// How far the job has come.
    pub(crate) fn counts(&self) -> JobCounts {
        counts_of(&self.history)
    }

    /// A text that changes with each event.
    pub(crate) fn last(&self) -> &str {
        &self.last
    }

    /// The mini-batches that end in a second, averaged over the job's run so far, and the seconds until all that are known have
    /// ended. `None` if none has ended in this run.
    #[expect(clippy::cast_precision_loss, reason = "these are estimates")]
    pub(crate) fn pace(&self, now: Timestamp) -> Option<(f64, f64)> {
        let history = &self.history;
        let seconds = now.duration_since(history.began?).as_secs_f64();
        let all_ended = history.succeeded + history.failed;
        // Attempts of this run; earlier runs may have ended more mini-batches.
        let ended = history.attempts.min(all_ended);
        if ended == 0 || seconds <= 0.0 {
            return None;
        }
        let rate = ended as f64 / seconds;
        Some((rate, history.planned.saturating_sub(all_ended) as f64 / rate))
    }

    /// Lists mini-batches.
    ///
    /// # Errors
    /// If the index fails.
    pub(crate) fn mini_batches(
        &self,
        asked: &MiniBatchesAsked,
    ) -> Result<Vec<MiniBatchRow>, ViewError> {
        Ok(self.index.mini_batches(asked)?)
    }

    /// The states of all mini-batches, in at most so many cells of equal size.
    ///
    /// # Errors
    /// If the index fails.
    pub(crate) fn heat(&self, most: u64) -> Result<HeatMap, ViewError> {
        Ok(self.index.heat(self.history.planned, most)?)
    }

    /// A mini-batch and its attempts. `None` if no worker has begun it.
    ///
    /// # Errors
    /// If the index fails.
    pub(crate) fn mini_batch(
        &self,
        id: u64,
    ) -> Result<Option<(MiniBatchRow, Vec<AttemptRow>)>, ViewError> {
        Ok(self.index.mini_batch(id)?)
    }

    /// The failed mini-batches by the kinds of their failures.
    ///
    /// # Errors
    /// If the index fails.
    pub(crate) fn failure_groups(&self) -> Result<Vec<FailureGroupRow>, ViewError> {
        Ok(self.index.failure_groups()?)
    }
}
