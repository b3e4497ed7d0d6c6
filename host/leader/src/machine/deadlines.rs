//! Time-outs: every stage of a job has one, so that no job waits for ever. Each message names the
//! stage, the setting and its value.
//!
//! | stage | watched by |
//! |---|---|
//! | no mini-batch yet | `first_task_creation_timeout` (prs-semantics A3) |
//! | a worker in `init` | 3 x `run_invocation_timeout` + 30 s (I3) |
//! | loading a mini-batch | `task_overhead_timeout` (A1) |
//! | `run`, `shutdown` | `run_invocation_timeout` (C16) |
//! | planning, waiting, writing results: anything | `progress_update_timeout` (A2) |
//! | the whole job | `limits.job_time` |
//! | winding down | [`Policy::CANCEL_GRACE`], then a kill |
//! | a killed process | [`Policy::KILL_GRACE`] |

use super::types::{Activity, Worker};
use super::{Action, Machine, Policy};
use crate::model::{EndedBy, Failure, FailureKind, FirstFailure, WorkerId};
use std::time::Duration;

impl Machine {
    /// When [`super::Message::Tick`] is due at the latest, if nothing else happens. Always known
    /// while the job is not over.
    pub fn next_deadline(&self) -> Option<Duration> {
        if self.finished {
            return None;
        }
        let doomed = self.workers.values().all(Worker::is_doomed);
        let kill = self.ending.as_ref().filter(|_| !doomed).map(|ending| ending.kill_at);
        let past_init = self.is_one_past_init();
        self.workers
            .values()
            .filter_map(|worker| self.deadline_of(worker, past_init))
            .chain(self.stuck_at())
            .chain(kill)
            .chain(self.first_task_deadline())
            .chain(self.job_deadline())
            .chain(self.progress_deadline())
            .chain(self.init_rules_deadline())
            .chain(self.spawn_again_at.filter(|_| self.ending.is_none()))
            .chain(self.room_again_at.filter(|_| self.ending.is_none()))
            .chain(self.leases.next_end(self.now).filter(|_| self.ending.is_none()))
            .chain(self.queue.next_due(self.now))
            .min()
    }

    /// When something must happen if this worker stays silent.
    fn deadline_of(&self, worker: &Worker, past_init: bool) -> Option<Duration> {
        let (since, longest) = match worker.activity {
            Activity::Loading(since) => (since, self.policy.load_timeout),
            Activity::Running(since) | Activity::ShuttingDown(since) => {
                (since, self.policy.run_timeout)
            }
            Activity::Doomed(since) => (since, Policy::KILL_GRACE),
            // If all of them are, that is I3's affair; see `stuck_at`.
            Activity::Starting(since) if past_init => (since, self.policy.init_timeout()),
            Activity::Starting(_) | Activity::Idle => return None,
        };
        Some(since.saturating_add(longest))
    }

    fn is_one_past_init(&self) -> bool {
        self.workers
            .values()
            .any(|worker| !matches!(worker.activity, Activity::Starting(_) | Activity::Doomed(_)))
    }

    /// I3: every worker is inside `init`; when the last of them has been for too long.
    fn stuck_at(&self) -> Option<Duration> {
        if self.ending.is_some() {
            return None;
        }
        let mut last = None;
        for worker in self.workers.values() {
            match worker.activity {
                Activity::Starting(since) => last = last.max(Some(since)),
                Activity::Doomed(_) => {}
                _ => return None,
            }
        }
        last.map(|since: Duration| since.saturating_add(self.policy.init_timeout()))
    }

    fn first_task_deadline(&self) -> Option<Duration> {
        let waits = self.planned == 0 && !self.plan_finished && self.ending.is_none();
        waits.then(|| self.arrived.saturating_add(self.policy.first_task_timeout))
    }

    /// A job that winds down has other deadlines, but for the writing of results.
    fn progress_deadline(&self) -> Option<Duration> {
        let watched = self.ending.is_none() || !self.committing.is_empty();
        watched.then(|| self.moved.saturating_add(self.policy.progress_timeout))
    }

    /// A process that ends in time is not late, so this is asked for by the clock alone.
    pub(super) fn check_deadlines(&mut self) {
        let now = self.now;
        let past = |at: Option<Duration>| at.is_some_and(|at| now >= at);
        if past(self.job_deadline()) {
            self.end_in_time();
        }
        // None of these returns: a killed process may be late at the same moment.
        if past(self.stuck_at()) {
            self.end_stuck();
        } else if past(self.first_task_deadline()) {
            self.end_without_task();
        }
        if self.ending.as_ref().is_some_and(|ending| self.now >= ending.kill_at) {
            self.kill_all();
        }
        let past_init = self.is_one_past_init();
        let ids: Vec<WorkerId> = self.workers.keys().copied().collect();
        for id in ids {
            // Looked up one by one: one that is late may end the job, and with it the others.
            let worker = self.workers.get(&id);
            let deadline = worker.and_then(|worker| self.deadline_of(worker, past_init));
            if deadline.is_some_and(|at| self.now >= at) {
                self.time_out(id);
            }
        }
        if self.progress_deadline().is_some_and(|at| self.now >= at) {
            self.end_without_progress();
        }
        self.workers.values_mut().for_each(|worker| worker.inferring = None);
    }

    /// The workers whose guest is at something that has a time-out, with how long it has been.
    pub fn inside_guests(&self, now: Duration) -> impl Iterator<Item = (WorkerId, Duration)> {
        self.workers.iter().filter_map(move |(id, worker)| match worker.activity {
            Activity::Starting(since) | Activity::Running(since) => {
                Some((*id, now.saturating_sub(since)))
            }
            _ => None,
        })
    }

    pub(super) fn on_inferring(&mut self, id: WorkerId, words: String) {
        if let Some(worker) = self.workers.get_mut(&id) {
            worker.inferring = Some(words);
        }
    }

    fn end_stuck(&mut self) {
        let limit = self.policy.init_timeout().as_secs_f64();
        let starting = self.workers.iter().find(|(_, worker)| !worker.is_doomed());
        let worker = starting.map(|(id, _)| id.to_string());
        let message = format!("init had not ended after {limit} s");
        self.init_failure.get_or_insert(FirstFailure {
            mini_batch: None,
            worker,
            item: None,
            failure: Failure::new(FailureKind::Timeout, message),
        });
        self.fail(
            EndedBy::StuckInInit,
            format!(
                "no progress: every worker has been inside init for more than {limit} s (3 x \
                 run_invocation_timeout + 30 s); see what init waits for, do less in it, or raise \
                 run_invocation_timeout"
            ),
        );
    }

    fn end_without_task(&mut self) {
        self.fail(
            EndedBy::FirstTaskTimeout,
            format!(
                "no mini-batch existed {} s after the job's start{}, longer than \
                 first_task_creation_timeout allows ({} s): the inputs take too long to list or to \
                 read. Raise it, or make the inputs smaller: fewer files in a folder, a list of \
                 files, faster storage",
                (self.now - self.arrived).as_secs_f64().floor(),
                if self.arrived.is_zero() { "" } else { ", or after the last object came" },
                self.policy.first_task_timeout.as_secs_f64()
            ),
        );
    }

    fn end_without_progress(&mut self) {
        let still = self.now.saturating_sub(self.moved).as_secs_f64().floor();
        let limit = self.policy.progress_timeout.as_secs_f64();
        let unwritten = self.committing.len();
        if self.ending.is_none() {
            let stage = self.stage();
            self.fail(
                EndedBy::ProgressTimeout,
                format!(
                    "no progress for {still} s, longer than progress_update_timeout allows ({limit} \
                     s); at that time {stage}. See logs/sys/error, then a profile \
                     (profiling_module); raise progress_update_timeout if that was only slow"
                ),
            );
        }
        if unwritten > 0 {
            // Nothing else would end a job whose disk has stopped to answer.
            self.committing.clear();
            self.notice(format!(
                "{unwritten} finished mini-batches could not be written within {limit} s \
                 (progress_update_timeout); a resumed job does them again"
            ));
        }
    }

    /// What everybody is at, for people.
    fn stage(&self) -> String {
        let mut counts = [0_usize; 6];
        for worker in self.workers.values() {
            counts[match worker.activity {
                Activity::Starting(_) => 0,
                Activity::Idle => 1,
                Activity::Loading(_) => 2,
                Activity::Running(_) => 3,
                Activity::ShuttingDown(_) => 4,
                Activity::Doomed(_) => 5,
            }] += 1;
        }
        let words = [
            "inside init",
            "idle",
            "loading a mini-batch",
            "inside run",
            "inside shutdown",
            "being killed",
        ];
        let workers = counts.iter().zip(words).filter(|(count, _)| **count > 0);
        let mut parts: Vec<String> = workers
            .map(|(count, what)| {
                format!(
                    "{count} {} {what}",
                    if *count == 1 { "worker was" } else { "workers were" }
                )
            })
            .collect();
        if parts.is_empty() {
            parts.push("no worker ran".to_owned());
        }
        parts.push(match self.plan_finished {
            true => format!("{} mini-batches waited for a worker", self.queue.len()),
            false => "the inputs were still being cut into mini-batches".to_owned(),
        });
        if !self.committing.is_empty() {
            parts.push(format!("{} mini-batches waited to be written", self.committing.len()));
        }
        parts.join(", ")
    }

    fn time_out(&mut self, id: WorkerId) {
        let Some(worker) = self.workers.get(&id) else { return };
        let run_timeout = self.policy.run_timeout.as_secs_f64();
        let inferring = match &worker.inferring {
            Some(words) => format!(", and was {words}"),
            None => String::new(),
        };
        let failure = match worker.activity {
            Activity::Running(_) => Failure::new(
                FailureKind::Timeout,
                format!(
                    "run took longer than run_invocation_timeout ({run_timeout} s){inferring}; the worker \
                     was killed. Raise it, or make mini-batches smaller (mini_batch_size)"
                ),
            ),
            Activity::Loading(_) => Failure::new(
                FailureKind::LoadTimeout,
                format!(
                    "loading the mini-batch took longer than task_overhead_timeout ({} s); the \
                     worker was killed. Raise it, or make mini-batches smaller (mini_batch_size)",
                    self.policy.load_timeout.as_secs_f64()
                ),
            ),
            Activity::ShuttingDown(_) => {
                self.notice(format!(
                    "{id}: shutdown took longer than run_invocation_timeout ({run_timeout} s); the \
                     worker was killed"
                ));
                return self.kill(id);
            }
            Activity::Starting(_) => return self.time_out_init(id, &inferring),
            Activity::Doomed(_) => {
                self.workers.remove(&id);
                self.actions.push(Action::Kill(id));
                return self.notice(format!(
                    "{id} was killed and does not end; the job goes on without it"
                ));
            }
            Activity::Idle => return,
        };
        self.kill_and_lose(id, failure);
    }

    /// One worker hangs in `init`, while others do not.
    fn time_out_init(&mut self, id: WorkerId, inferring: &str) {
        let failure = Failure::new(
            FailureKind::Timeout,
            format!(
                "init took longer than {} s (3 x run_invocation_timeout + 30 s){inferring}; the worker was \
                 killed. Do less in init, or raise run_invocation_timeout",
                self.policy.init_timeout().as_secs_f64()
            ),
        );
        self.kill_in_init(id, failure);
    }
}
