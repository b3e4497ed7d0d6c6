//! The mini-batches that wait for a worker: first attempts in the order of the plan, and retries, which come
//! first.
//!
//! A retry is handed out as soon as a worker is free. So if a mini-batch always fails and the job tolerates
//! no failure, the job ends early, and not at the end of the input. Two rules protect the other mini-batches.
//! After [`RetryPolicy::MAX_RETRIES_IN_A_ROW`] retries, a first attempt is next. And the retry of a
//! mini-batch that could not be read waits a moment, because a store or a disk may need time to recover.
//! Neither rule applies to a retry that is [overdue](QueueTurns::is_overdue), so that all retries begin in
//! time.

use super::fetch_trouble::FetchTrouble;
use super::performer::AttemptWorker;
use crate::machine::RetryPolicy;
use crate::model::{Failure, FailureKind, MiniBatch, MiniBatchId};
use crate::protocol::QueuePolicy;
use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

/// A mini-batch that waits for a worker, or that a worker holds.
#[derive(Clone, Debug)]
pub(super) struct PendingMiniBatch {
    pub(super) mini_batch: MiniBatch,
    /// The number of the attempt, from 1.
    pub(super) attempt: u32,
    /// Whether a node has had another attempt with this number. So if the mini-batch is granted again, it gets the next
    /// number.
    pub(super) skips_number: bool,
    /// The worker whose attempt failed last.
    pub(super) failed_on: Option<AttemptWorker>,
    /// How many attempts of the job had begun when the last attempt failed.
    begun: u64,
    /// When the next attempt may begin.
    due: Duration,
    /// How many nodes were lost while running this mini-batch.
    pub(super) losses: u32,
    /// A digest of the previous attempt's trap. `None` if the attempt did not end in a trap.
    trap_digest: Option<u64>,
    /// The objects that a node could not fetch, if another node shall try.
    pub(super) trouble: Option<Box<FetchTrouble>>,
}

impl PendingMiniBatch {
    pub(super) fn first(mini_batch: MiniBatch) -> Self {
        Self {
            mini_batch,
            attempt: 1,
            skips_number: false,
            failed_on: None,
            begun: 0,
            due: Duration::ZERO,
            losses: 0,
            trap_digest: None,
            trouble: None,
        }
    }

    /// The next attempt, after the failure of this one.
    pub(super) fn retry(self, by: AttemptWorker, failure: &Failure, turns: QueueTurns) -> Self {
        let pause = match failure.kind {
            FailureKind::LoadFailed | FailureKind::HostFault => {
                RetryPolicy::retry_pause(self.attempt)
            }
            _ => Duration::ZERO,
        };
        Self {
            attempt: self.attempt + 1,
            skips_number: false,
            failed_on: Some(by),
            begun: turns.begun,
            due: turns.now.saturating_add(pause),
            trap_digest: trap_digest(failure),
            // The objects have come.
            trouble: None,
            ..self
        }
    }

    /// Whether the previous attempt trapped in exactly the same way: with the same message, stack and output.
    pub(super) fn has_trapped_like(&self, failure: &Failure) -> bool {
        self.trap_digest.is_some() && self.trap_digest == trap_digest(failure)
    }

    pub(super) fn is_retry(&self) -> bool {
        self.attempt > 1
    }
}

/// A digest of a trap, such as a panic. `None` for other failures, which may be temporary.
fn trap_digest(failure: &Failure) -> Option<u64> {
    let mut hasher = DefaultHasher::new();
    (&failure.message, &failure.detail).hash(&mut hasher);
    (failure.kind == FailureKind::Trap).then(|| hasher.finish())
}

/// The state that decides which mini-batch is next.
#[derive(Clone, Copy, Debug)]
pub(super) struct QueueTurns {
    pub(super) now: Duration,
    /// How many attempts have begun.
    pub(super) begun: u64,
    /// How many workers are wanted.
    pub(super) workers: u32,
}

impl QueueTurns {
    /// Whether the retry must not wait any longer: since its failure, half as many attempts have begun as
    /// there are workers.
    fn is_overdue(self, retry: &PendingMiniBatch) -> bool {
        self.begun.saturating_sub(retry.begun) >= u64::from(self.workers.div_ceil(2))
    }

    fn is_due(self, retry: &PendingMiniBatch) -> bool {
        self.now >= retry.due || self.is_overdue(retry)
    }
}

/// The mini-batches that wait for a worker.
#[derive(Debug, Default)]
pub(super) struct MiniBatchQueue {
    first: VecDeque<PendingMiniBatch>,
    /// Retries in the order in which their attempts failed.
    retries: VecDeque<PendingMiniBatch>,
    /// Mini-batches whose objects a node could not fetch. Another node shall try.
    troubled: VecDeque<PendingMiniBatch>,
    /// How many retries were handed out since a first attempt began.
    retries_in_a_row: u32,
    /// The memory that the waiting mini-batches take.
    bytes: usize,
}

impl MiniBatchQueue {
    /// While the descriptors of waiting mini-batches take this much memory, the leader does not read more of
    /// the plan.
    const ENOUGH_BYTES: usize = 4 << 20;

    /// Adds a mini-batch at the end of its queue: first attempts or retries.
    pub(super) fn push_back(&mut self, pending: PendingMiniBatch) {
        self.bytes += pending.mini_batch.size();
        self.queue_of(&pending).push_back(pending);
    }

    /// Puts a mini-batch back at the front of its queue.
    pub(super) fn push_front(&mut self, pending: PendingMiniBatch) {
        self.bytes += pending.mini_batch.size();
        self.queue_of(&pending).push_front(pending);
    }

    fn queue_of(&mut self, pending: &PendingMiniBatch) -> &mut VecDeque<PendingMiniBatch> {
        match (&pending.trouble, pending.is_retry()) {
            (Some(_), _) => &mut self.troubled,
            (None, true) => &mut self.retries,
            (None, false) => &mut self.first,
        }
    }

    /// The mini-batch at this place among those whose objects another node shall fetch.
    pub(super) fn troubled(&self, place: usize) -> Option<&FetchTrouble> {
        self.troubled.get(place)?.trouble.as_deref()
    }

    /// Removes this mini-batch.
    pub(super) fn take_troubled(&mut self, place: usize) -> Option<PendingMiniBatch> {
        let pending = self.troubled.remove(place)?;
        self.bytes -= pending.mini_batch.size();
        Some(pending)
    }

    /// The retry that is next. `None` if a first attempt is next, or if nothing is waiting.
    pub(super) fn due_retry(&self, turns: QueueTurns) -> Option<&PendingMiniBatch> {
        let retry = self.retries.iter().find(|retry| turns.is_due(retry))?;
        let yields =
            self.retries_in_a_row >= RetryPolicy::MAX_RETRIES_IN_A_ROW && !self.first.is_empty();
        (!yields || turns.is_overdue(retry)).then_some(retry)
    }

    /// Removes the retry that [`due_retry`](Self::due_retry) returns.
    pub(super) fn pop_retry(&mut self, turns: QueueTurns) -> Option<PendingMiniBatch> {
        let index = self.retries.iter().position(|retry| turns.is_due(retry))?;
        let retry = self.retries.remove(index)?;
        self.bytes -= retry.mini_batch.size();
        self.retries_in_a_row += 1;
        Some(retry)
    }

    pub(super) fn pop_first(&mut self) -> Option<PendingMiniBatch> {
        let pending = self.first.pop_front()?;
        self.bytes -= pending.mini_batch.size();
        Some(pending)
    }

    /// Removes a mini-batch whose next attempt has at most this number.
    pub(super) fn take(&mut self, id: MiniBatchId, attempt: u32) -> Option<PendingMiniBatch> {
        let taken = [&mut self.first, &mut self.retries, &mut self.troubled].into_iter().find_map(
            |queue| {
                let fits = |pending: &PendingMiniBatch| {
                    pending.mini_batch.id == id && pending.attempt <= attempt
                };
                let index = queue.iter().position(fits)?;
                queue.remove(index)
            },
        )?;
        self.bytes -= taken.mini_batch.size();
        Some(taken)
    }

    /// Records that an attempt has begun.
    pub(super) fn on_begun(&mut self, attempt: u32) {
        if attempt == 1 {
            self.retries_in_a_row = 0;
        }
    }

    /// Until when mini-batches wait for another node that may fetch their objects. `None` if there are none.
    pub(super) fn troubled_until(&self) -> Option<Duration> {
        let troubled = self.troubled.iter().filter_map(|pending| pending.trouble.as_deref());
        troubled.map(|trouble| trouble.due).max()
    }

    /// The next time at which a retry becomes due.
    pub(super) fn next_due(&self, now: Duration) -> Option<Duration> {
        let troubled = self.troubled.iter().filter_map(|pending| pending.trouble.as_deref());
        let troubled = troubled.map(|trouble| trouble.due);
        let retries = self.retries.iter().map(|retry| retry.due);
        retries.chain(troubled).filter(|due| *due > now).min()
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// The number of first attempts that are waiting.
    pub(super) fn first_attempts(&self) -> usize {
        self.first.len()
    }

    pub(super) fn has_retries(&self) -> bool {
        !self.retries.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.first.len() + self.retries.len() + self.troubled.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.first.is_empty() && self.retries.is_empty() && self.troubled.is_empty()
    }

    /// Whether enough mini-batches are waiting to keep this many workers with such queues busy.
    pub(super) fn is_full(&self, workers: u32, queues: QueuePolicy) -> bool {
        self.len() >= 64 + queues.most as usize * workers as usize
            || self.bytes >= Self::ENOUGH_BYTES
    }
}
