//! Attempts: their end, the next try, the commit, and what counts as failed.

use super::queue::Pending;
use super::types::{Activity, Committing};
use super::{Action, Machine, Policy, Settled};
use crate::event::EventKind;
use crate::model::{
    AttemptReport, CallStats, EndedBy, FailedItem, Failure, FailureKind, FirstFailure, ItemCounts,
    MiniBatch, MiniBatchId, Place, Work, WorkerId, counted,
};
use crate::protocol::Assignment;
use std::time::Duration;

impl Machine {
    pub(super) fn on_finished(&mut self, id: WorkerId, report: Box<AttemptReport>) {
        if self.abandoned.get(&id) == Some(&(report.id, report.attempt)) {
            return self.discard_late(id, &report);
        }
        let Some(worker) = self.workers.get_mut(&id) else { return };
        // A worker that was killed is late, and one that speaks of something it does not hold is
        // not believed.
        let is_held =
            |first: &&Pending| first.mini_batch.id == report.id && first.attempt == report.attempt;
        let Some(first) = worker.held.front().filter(is_held) else { return self.stray(id) };
        if worker.is_doomed() {
            return;
        }
        if !is_plausible(&report, first) {
            let failure = Failure::new(
                FailureKind::WorkerDied,
                "the worker process sent a report whose numbers cannot be; it was killed",
            );
            return self.kill_and_lose(id, failure);
        }
        let started = worker.picked;
        let Some(pending) = worker.held.pop_front() else { return };
        // It ended before `run` did begin.
        if worker.activity.running_since().is_none() {
            self.begun += 1;
            self.queue.begins(pending.attempt);
        }
        worker.picked = self.now;
        worker.took(report.elapsed_seconds);
        worker.may_restart = true;
        worker.activity =
            if worker.held.is_empty() { Activity::Idle } else { Activity::Loading(self.now) };
        let drops_next = worker.drops_next;
        let failure = report.outcome.as_ref().err();
        let is_spent =
            failure.is_some_and(|failure| failure.kind == FailureKind::DeviceOutOfMemory);
        self.mends_slowly =
            worker.starts_slowly() && failure.is_some_and(|failure| failure.kind.breaks_instance());
        let awaits_word =
            failure.is_some_and(|failure| self.assignment(&pending).awaits_word(failure));
        self.settle(id, pending, started, report);
        match (self.ending.is_some(), drops_next) {
            (true, true) => self.kill(id),
            (true, false) => self.shut_down(id),
            (false, _) => self.awaits_word = awaits_word.then_some(id),
        }
        if is_spent {
            self.awaits_word = None;
            self.part_with(id);
        }
    }

    /// What a worker is told of an attempt.
    pub(super) fn assignment(&self, pending: &Pending) -> Assignment {
        let mini_batch = pending.mini_batch.clone();
        let attempt = pending.attempt;
        let is_last = attempt >= self.policy.max_try || is_beyond_help(&mini_batch);
        Assignment { mini_batch, attempt, is_last }
    }

    /// The attempt was decided when its worker was killed, and may have been given to another since: a
    /// mini-batch is committed once, whoever else still comes with it.
    fn discard_late(&mut self, id: WorkerId, report: &AttemptReport) {
        self.abandoned.remove(&id);
        self.late += 1;
        self.emit(EventKind::AttemptDiscarded {
            worker: id.to_string(),
            id: report.id,
            attempt: report.attempt,
            succeeded: report.outcome.is_ok(),
        });
    }

    /// An attempt that no worker can report on: its worker is gone. With when it began, and when its
    /// `run` did, if it came to that.
    pub(super) fn attempt_lost(
        &mut self,
        worker: WorkerId,
        pending: Pending,
        (started, running): (Duration, Option<Duration>),
        failure: Failure,
    ) {
        let seconds = |since: Duration| self.now.saturating_sub(since).as_secs_f64();
        let total = pending.mini_batch.planned_items();
        let report = AttemptReport {
            id: pending.mini_batch.id,
            attempt: pending.attempt,
            stamp: pending.mini_batch.stamp,
            items: ItemCounts::from_returned(total, 0),
            outcome: Err(failure),
            failed_items: Vec::new(),
            is_short: false,
            surplus_rows: 0,
            null_numbers: 0,
            unknown_keys: None,
            header: None,
            has_files: false,
            elapsed_seconds: seconds(started),
            process_seconds: 0.0,
            run: CallStats { seconds: running.map_or(0.0, seconds), fuel: None },
            inference: crate::model::InferenceStats::default(),
        };
        self.settle(worker, pending, started, Box::new(report));
    }

    /// A success goes to the journal; a failure is tried again, or goes there too.
    fn settle(
        &mut self,
        worker: WorkerId,
        pending: Pending,
        started: Duration,
        report: Box<AttemptReport>,
    ) {
        self.progressed();
        if let Err(failure) = &report.outcome
            && failure.kind == FailureKind::NoSpace
        {
            // Left undone: once there is room, it is no failure.
            return self.fail(EndedBy::Commit, failure.message.clone());
        }
        let can_mend = |kind: FailureKind| {
            kind.can_mend()
                && pending.attempt < self.policy.max_try
                && !is_beyond_help(&pending.mini_batch)
        };
        let kind = report.outcome.as_ref().err().map(|failure| failure.kind);
        let again = kind.filter(|kind| can_mend(*kind));
        if report.outcome.is_err() {
            self.rough_until = self.now + Policy::SMOOTH;
            let will_retry = again.is_some() && self.ending.is_none();
            self.emit_attempt(worker, &pending, started, report.clone(), will_retry);
        }
        if let Some(kind) = again {
            // After the job's end is decided, a failed attempt is simply left undone.
            if self.ending.is_none() {
                self.queue.push_back(pending.retry(worker, kind, self.turns()));
            }
            return;
        }
        self.actions.push(Action::Commit(Settled { worker, report: report.clone() }));
        let id = pending.mini_batch.id;
        let failed = report.outcome.is_err();
        let items = report.items;
        self.note_first_failure(worker, &report);
        let is_short = report.is_short;
        self.committing.insert(id, Committing { pending, worker, report, started });
        if failed {
            self.failed += 1;
            self.items += items;
        } else {
            self.unwritten_failures += items.failed;
            self.unwritten_short += u64::from(is_short);
        }
    }

    /// The answer of the committer to an attempt that ended well.
    fn is_answered(&mut self, report: &AttemptReport) {
        self.unwritten_failures -= report.items.failed;
        self.unwritten_short -= u64::from(report.is_short);
    }

    pub(super) fn on_committed(&mut self, id: MiniBatchId) {
        let Some(done) = self.committing.remove(&id) else { return };
        self.progressed();
        let Ok(segment) = &done.report.outcome else { return }; // Counted when it failed.
        self.is_answered(&done.report);
        self.succeeded += 1;
        self.rows += segment.rows;
        let surplus = done.report.surplus_rows;
        self.items += done.report.items;
        self.short += u64::from(done.report.is_short); // W4.
        self.null_numbers = self.null_numbers.saturating_add(done.report.null_numbers);
        self.warn_of_surplus(id, surplus);
        self.count_unknown_keys(&done.pending.mini_batch, done.report.unknown_keys.as_ref());
        self.emit_attempt(done.worker, &done.pending, done.started, done.report, false);
    }

    /// The mini-batch's own files cannot be published: its attempt has failed after all.
    pub(super) fn on_rejected(&mut self, id: MiniBatchId, failure: Failure) {
        let Some(mut done) = self.committing.remove(&id) else { return };
        if done.report.outcome.is_ok() {
            self.is_answered(&done.report);
        }
        let total = done.report.items.total;
        done.report.items = ItemCounts::from_returned(total, 0);
        done.report.outcome = Err(failure);
        done.report.has_files = false;
        done.report.is_short = false;
        done.report.unknown_keys = None;
        done.report.failed_items.clear();
        self.settle(done.worker, done.pending, done.started, done.report);
    }

    fn emit_attempt(
        &mut self,
        worker: WorkerId,
        pending: &Pending,
        started: Duration,
        mut report: Box<AttemptReport>,
        will_retry: bool,
    ) {
        // The journal has the report as it came, and each attempt is told once.
        self.tell_in_short(&mut report);
        if let Err(failure) = &report.outcome {
            report.failed_items = match will_retry {
                true => Vec::new(),
                false => self.items_of(&pending.mini_batch, failure.kind),
            };
        }
        self.warn_of_fallback(worker, report.inference.fell_back);
        self.inference += report.inference;
        self.emit(EventKind::AttemptFinished {
            worker: worker.to_string(),
            report,
            location: pending.mini_batch.location(&self.sources),
            started: self.timestamp(started),
            will_retry,
        });
    }

    /// The files of a mini-batch that failed as a whole, as many as a report names; of rows, where they begin.
    fn items_of(&self, batch: &MiniBatch, kind: FailureKind) -> Vec<FailedItem> {
        let name = |(at, Place { source, file, line, row }): (u32, Place<'_>)| {
            let source = self.sources.get(source as usize);
            let folder = source.map_or("", |source| source.guest.as_str());
            let reason = batch.why_unfetched(at).unwrap_or_default().to_owned();
            FailedItem { item: format!("{folder}/{file}"), line, row, reason, kind }
        };
        (0..).zip(batch.places()).take(AttemptReport::MAX_FAILED_ITEMS).map(name).collect()
    }

    /// A model that is meant for a GPU may run on the CPU if the job allows it, and never in silence.
    fn warn_of_fallback(&mut self, worker: WorkerId, fell_back: bool) {
        if fell_back && !self.inference.fell_back {
            self.notice(format!(
                "a model that is meant for a GPU ran on the CPU in {worker}, which has no GPU that \
                 a backend can use; the job allows that with fallback: cpu (told once per job)"
            ));
        }
    }

    /// E8: more rows than items is accepted, and told once.
    fn warn_of_surplus(&mut self, id: MiniBatchId, surplus: u64) {
        if surplus > 0 && !self.warned_of_surplus {
            self.warned_of_surplus = true;
            self.emit(EventKind::Notice {
                message: format!(
                    "mini-batch {id} returned {surplus} more rows than it has items; the rows are \
                     kept, and items are never counted above their number (told once per job)"
                ),
            });
        }
    }

    /// JSON has no numbers for what is none: told once, when all are counted.
    pub(super) fn tell_of_null_numbers(&mut self) {
        let (values, are) = match self.null_numbers {
            0 => return,
            1 => ("1 value".to_owned(), "is"),
            count => (format!("{count} values"), "are"),
        };
        self.notice(format!(
            "{values} of the rows {are} null in the output: nan and infinite numbers, which JSON does not have \
             (output_format.type parquet or arrow keeps them)"
        ));
    }

    fn note_first_failure(&mut self, worker: WorkerId, report: &AttemptReport) {
        if self.first_failure.is_some() || report.items.failed == 0 && report.outcome.is_ok() {
            return;
        }
        let item = report.failed_items.first().cloned();
        let failure = match (&report.outcome, &item) {
            (Err(failure), _) => failure.clone(),
            (Ok(_), Some(item)) => Failure::new(item.kind, item.reason.clone()),
            (Ok(_), None) => {
                let ItemCounts { succeeded: rows, total, .. } = report.items;
                let rows = if rows == 0 { "no row".to_owned() } else { counted(rows, "row") };
                let message = format!(
                    "run returned {rows} for {}: an item without a row counts as failed",
                    counted(total, "item")
                );
                Failure::new(FailureKind::ShortResults, message)
            }
        };
        self.first_failure = Some(FirstFailure {
            mini_batch: Some(report.id),
            worker: Some(worker.to_string()),
            item,
            failure,
        });
    }
}

/// A file that could not be read while planning cannot be read by a worker, nor what did not come.
fn is_beyond_help(batch: &MiniBatch) -> bool {
    matches!(batch.work, Work::Unreadable(_)) || batch.is_unfetched()
}

/// A worker that its guest has taken over may say anything; sums and limits must hold all the same.
fn is_plausible(report: &AttemptReport, pending: &Pending) -> bool {
    let items = report.items;
    let rows = report.outcome.as_ref().map_or(0, |segment| segment.rows);
    items.total == pending.mini_batch.planned_items()
        && items.succeeded.checked_add(items.failed) == Some(items.total)
        && rows.max(report.surplus_rows).max(report.null_numbers) < 1 << 40
        && (!report.is_short || items.failed > 0 && report.outcome.is_ok())
        && report.failed_items.len() <= AttemptReport::MAX_FAILED_ITEMS
        && report.unknown_keys.as_ref().is_none_or(|keys| keys.is_plausible(items.total))
        && report.inference.is_plausible()
}
