//! How a job ends: completed, failed or cancelled.

use super::types::{Activity, Ending, Worker};
use super::{Action, Machine, Policy};
use crate::event::EventKind;
use crate::model::{EndedBy, JobResult, JobStatus, OutputAction, WorkerId};

impl Machine {
    /// The job has failed: running mini-batches are killed, what is committed stays.
    pub(super) fn fail(&mut self, by: EndedBy, reason: String) {
        self.end(JobStatus::Failed, by, reason);
        self.kill_all();
    }

    pub(super) fn on_commit_failed(&mut self, text: String) {
        self.committing.clear();
        // A job that seemed to end well has not, if that could not be written down. What ended it
        // before stays the reason.
        self.ending.take_if(|ending| ending.status == JobStatus::Completed);
        self.fail(EndedBy::Commit, text);
    }

    pub(super) fn on_cancel(&mut self, reason: String, at_once: bool) {
        self.end(JobStatus::Cancelled, EndedBy::Cancelled, reason);
        if at_once {
            return self.kill_all();
        }
        let ids: Vec<(WorkerId, Activity)> =
            self.workers.iter().map(|(id, worker)| (*id, worker.activity)).collect();
        for (id, activity) in ids {
            match activity {
                Activity::Idle => self.shut_down(id),
                Activity::Starting(_) | Activity::Loading(_) => self.kill(id),
                // The running mini-batch may end; the next one is left undone.
                Activity::Running(_) => {
                    if let Some(worker) = self.workers.get_mut(&id) {
                        worker.drops_next |= worker.held.len() > 1;
                        worker.held.truncate(1);
                    }
                }
                Activity::ShuttingDown(_) | Activity::Doomed(_) => {}
            }
        }
    }

    /// Decides the end, once: a job only winds down from here.
    fn end(&mut self, status: JobStatus, by: EndedBy, reason: String) {
        if self.ending.is_some() {
            return;
        }
        self.queue.clear();
        // From here the writing of results has its full time (see `progress_deadline`).
        self.progressed();
        self.emit(EventKind::WindingDown { reason: reason.clone() });
        let kill_at = self.now + Policy::CANCEL_GRACE;
        self.ending = Some(Ending { status, by: Some(by), reason, kill_at });
    }

    /// Ends the job once nothing is left to do or to wait for.
    pub(super) fn check_end(&mut self) {
        let busy = !self.queue.is_empty()
            || !self.committing.is_empty()
            || self.workers.values().any(|worker| !worker.held.is_empty());
        if self.ending.is_none() {
            if busy || !self.plan_finished || self.lacks_closer() {
                return self.retire();
            }
            self.all_done();
        }
        if self.workers.is_empty() && self.committing.is_empty() {
            self.finish();
        }
    }

    /// Asks workers to end while the last results are written. Not if there are files among these, which may be
    /// refused: then they are made again. Should other results be, a new worker is started for them.
    fn retire(&mut self) {
        let may_be_refused = || self.committing.values().any(|ended| ended.report.has_files);
        if !self.awaits_commits_only() || may_be_refused() {
            return;
        }
        let idle = self.workers.iter().filter(|(_, worker)| worker.activity == Activity::Idle);
        let ids: Vec<WorkerId> = idle.map(|(id, _)| *id).collect();
        ids.into_iter().for_each(|id| self.shut_down(id));
    }

    /// Whether all mini-batches have ended, and no worker is left that could end in order: the files
    /// that `init` and `shutdown` may make would be lost. Then one is started for them.
    pub(super) fn lacks_closer(&self) -> bool {
        let done = self.plan_finished
            && self.ending.is_none()
            && self.queue.is_empty()
            && self.committing.is_empty()
            && self.succeeded + self.failed > 0;
        let can_close = |worker: &Worker| {
            !matches!(worker.activity, Activity::Starting(_) | Activity::Doomed(_))
        };
        done && !self.closed && !self.writes_nothing() && !self.workers.values().any(can_close)
    }

    /// Every mini-batch has ended within the thresholds.
    fn all_done(&mut self) {
        let (status, by, reason) = if self.writes_nothing() {
            let reason = match (self.succeeded + self.failed, &self.found_nothing) {
                (0, Some(told)) => {
                    format!("the inputs hold no items, so there is nothing to write: {told}")
                }
                (0, None) => {
                    "the inputs hold no items, so there is nothing to write; sandmill plan \
                    says what it finds in them"
                        .to_owned()
                }
                _ => "no item succeeded, so there is nothing to write".to_owned(),
            };
            (JobStatus::Failed, Some(EndedBy::NothingSucceeded), reason)
        } else {
            (JobStatus::Completed, None, String::new())
        };
        // Later than each worker's own deadline for `shutdown`, so that the slow one is named.
        let kill_at = self.now.saturating_add(self.policy.run_timeout + Policy::CANCEL_GRACE);
        self.ending = Some(Ending { status, by, reason, kill_at });
        let ids: Vec<(WorkerId, Activity)> =
            self.workers.iter().map(|(id, worker)| (*id, worker.activity)).collect();
        for (id, activity) in ids {
            match activity {
                // A worker that is still starting is not needed any more.
                Activity::Starting(_) => self.kill(id),
                Activity::Doomed(_) | Activity::ShuttingDown(_) => {}
                _ => self.shut_down(id),
            }
        }
    }

    /// W10: rows are wanted, and no item succeeded, be it that there was none. Void mini-batches have no
    /// items.
    fn writes_nothing(&self) -> bool {
        self.policy.output_action == OutputAction::AppendRow
            && self.items.succeeded == 0
            && (self.items.total > 0 || self.succeeded == 0)
    }

    fn finish(&mut self) {
        let Some(ending) = self.ending.take() else { return };
        self.finished = true;
        self.tell_of_null_numbers();
        self.tell_unknown_keys();
        // The one that matters for the reason.
        let (attempt, init) = (self.first_failure.take(), self.init_failure.take());
        let first_failure = match ending.by {
            Some(EndedBy::InitFailures | EndedBy::StuckInInit) => init.or(attempt),
            _ => attempt.or(init.filter(|_| ending.by.is_some())),
        };
        let result = JobResult {
            status: ending.status,
            reason: ending.reason,
            first_failure,
            ended_by: ending.by,
            mini_batches: self.planned,
            succeeded_mini_batches: self.succeeded,
            failed_mini_batches: self.failed,
            short_mini_batches: self.short,
            restored_mini_batches: self.restored,
            late_attempts: self.late,
            items: self.items,
            rows: self.rows,
            seconds: self.now.as_secs_f64(),
            inference: self.inference,
            os_sandbox: Default::default(),
        };
        self.actions.push(Action::Finish(Box::new(result)));
    }
}
