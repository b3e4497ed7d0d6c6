//! How a job ends: completed, failed or cancelled.

use super::types::{Activity, Policy};
use super::{Action, Ending, Machine};
use crate::event::EventKind;
use crate::model::{JobResult, JobStatus, OutputAction, WorkerId};

impl Machine {
    /// The job has failed: running mini-batches are killed, what is committed stays.
    pub(super) fn fail(&mut self, reason: String) {
        self.end(JobStatus::Failed, reason);
        self.kill_all();
    }

    pub(super) fn on_commit_failed(&mut self, text: String) {
        self.committing.clear();
        // A job that seemed to end well has not, if that could not be written down. What ended it
        // before stays the reason.
        self.ending.take_if(|ending| ending.status == JobStatus::Completed);
        self.fail(text);
    }

    pub(super) fn on_cancel(&mut self, reason: String, at_once: bool) {
        self.end(JobStatus::Cancelled, reason);
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
    fn end(&mut self, status: JobStatus, reason: String) {
        if self.ending.is_some() {
            return;
        }
        self.queue.clear();
        self.emit(EventKind::WindingDown { reason: reason.clone() });
        self.ending = Some(Ending { status, reason, kill_at: self.now + Policy::CANCEL_GRACE });
    }

    /// Ends the job once nothing is left to do or to wait for.
    pub(super) fn check_end(&mut self) {
        let busy = !self.queue.is_empty()
            || !self.committing.is_empty()
            || self.workers.values().any(|worker| !worker.held.is_empty());
        if self.ending.is_none() {
            if busy || !self.plan_finished {
                return;
            }
            self.all_done();
        }
        if self.workers.is_empty() && self.committing.is_empty() {
            self.finish();
        }
    }

    /// Every mini-batch has ended within the thresholds.
    fn all_done(&mut self) {
        let nothing = self.items.total > 0 && self.items.succeeded == 0;
        let (status, reason) = if nothing && self.policy.output_action == OutputAction::AppendRow {
            (JobStatus::Failed, "no item succeeded, so there is nothing to write".to_owned())
        } else {
            (JobStatus::Completed, String::new())
        };
        // Later than each worker's own deadline for `shutdown`, so that the slow one is named.
        let kill_at = self.now + self.policy.run_timeout + Policy::CANCEL_GRACE;
        self.ending = Some(Ending { status, reason, kill_at });
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

    fn finish(&mut self) {
        let Some(ending) = self.ending.take() else { return };
        self.finished = true;
        let result = JobResult {
            status: ending.status,
            reason: ending.reason,
            first_failure: self.first_failure.take(),
            ended_by: None,
            mini_batches: self.planned,
            succeeded_mini_batches: self.succeeded,
            failed_mini_batches: self.failed,
            short_mini_batches: 0,
            restored_mini_batches: 0,
            items: self.items,
            rows: self.rows,
            seconds: self.now.as_secs_f64(),
        };
        self.actions.push(Action::Finish(Box::new(result)));
    }
}
