//! Time-outs. Every stage of a job has a time-out, so that no job waits forever. Each error message names the
//! stage, the setting and its value.
//!
//! | stage | time-out |
//! |---|---|
//! | no mini-batch yet | `first_task_creation_timeout` (docs/parallel-run-step.md A3) |
//! | a worker in `init` | 3 x `run_invocation_timeout` + 30 s (I3) |
//! | `init` fails on all nodes | [`RetryPolicy::HOPELESS_WAIT`](crate::machine::RetryPolicy::HOPELESS_WAIT) for another node (I1) |
//! | loading a mini-batch | `task_overhead_timeout` (A1) |
//! | `run`, `shutdown` | `run_invocation_timeout` (C16) |
//! | no progress in planning, running or writing results | `progress_update_timeout` (A2) |
//! | the whole job | `limits.job_time` |
//! | a cancellation | [`RetryPolicy::CANCEL_GRACE`](crate::machine::RetryPolicy::CANCEL_GRACE), then a kill |
//! | the end of a killed process | [`NodePolicy::KILL_GRACE`](crate::protocol::NodePolicy::KILL_GRACE) |

use super::JobMachine;
use super::node::JobNode;
use crate::model::{EndedBy, Failure, FailureKind, FirstFailure};
use crate::protocol::{NodePolicy, WorkersEnd, WorkersStanding};
use std::time::Duration;

impl JobMachine {
    /// When [`Tick`](super::JobMessage::Tick) is due at the latest, if nothing else happens. Until the job is
    /// over, this deadline or that of a node is always set.
    pub fn next_deadline(&self) -> Option<Duration> {
        if self.finished {
            return None;
        }
        let has_live = self.nodes.values().any(|node| node.standing.live() > 0);
        let kill = self.ending.as_ref().filter(|_| has_live).and_then(|ending| ending.kill_at);
        self.init_deadline()
            .into_iter()
            .chain(kill)
            .chain(self.first_task_deadline())
            .chain(self.job_deadline())
            .chain(self.progress_deadline())
            .chain(self.init_rules_deadline())
            .chain(self.slow_check)
            .chain(Some(self.offers_until).filter(|at| *at > self.now))
            .chain(self.queue.next_due(self.now))
            .min()
    }

    /// Rule I3: the time at which the job fails if every worker is still inside `init`. The time-out
    /// begins when the last worker enters `init`. `None` if a worker is past `init`.
    fn init_deadline(&self) -> Option<Duration> {
        if self.ending.is_some() || self.is_one_past_init() {
            return None;
        }
        let last_start = self.nodes.values().filter_map(|node| node.last_start).max();
        last_start
            .map(|since| since.saturating_add(NodePolicy::init_timeout(self.policy.run_timeout)))
    }

    fn first_task_deadline(&self) -> Option<Duration> {
        let waits = self.planned == 0 && !self.plan_finished && self.ending.is_none();
        waits.then(|| self.last_arrival.saturating_add(self.policy.first_task_timeout))
    }

    /// When the job fails for lack of progress. While a job winds down, this applies only to the writing of results.
    ///
    /// A job may wait for nodes, for room on their disks, or for a node that can fetch the objects of a mini-batch. It
    /// makes no progress then, and does not fail for it. Nodes on which `init` keeps failing do not count.
    fn progress_deadline(&self) -> Option<Duration> {
        let is_useful = |node: &JobNode| node.can_make_progress() && !self.is_hopeless(node);
        let has_node = self.nodes.values().any(is_useful);
        let waits_for_node = !has_node || self.hopeless_since.is_some();
        let can_work = self.ending.is_none() && !waits_for_node;
        let watched = can_work || !self.committing.is_empty();
        let since = self.last_progress.max(self.queue.troubled_until().unwrap_or_default());
        watched.then(|| since.saturating_add(self.policy.progress_timeout))
    }

    /// Checks all deadlines except the one for progress. `decide` checks that one later, because a time-out
    /// on a node at the same moment counts as progress.
    pub(super) fn check_deadlines(&mut self) {
        let now = self.now;
        let is_past = |deadline: Option<Duration>| deadline.is_some_and(|at| now >= at);
        if is_past(self.job_deadline()) {
            self.fail_for_job_time();
        }
        // Do not return after a failure: the kill deadline may be due at the same moment.
        if is_past(self.init_deadline()) {
            self.fail_stuck_in_init();
        } else if is_past(self.first_task_deadline()) {
            self.fail_without_mini_batch();
        }
        let kill_at = self.ending.as_mut().map(|ending| &mut ending.kill_at);
        // Order the kill only once: after it, nodes have their own time-outs for workers that do not end.
        if kill_at.is_some_and(|at| at.take_if(|at| now >= *at).is_some()) {
            self.order_end(WorkersEnd::AtOnce);
        }
        self.find_slow();
        self.ticked = true;
    }

    pub(super) fn check_progress(&mut self) {
        if self.progress_deadline().is_some_and(|at| self.now >= at) {
            self.fail_without_progress();
        }
    }

    fn fail_stuck_in_init(&mut self) {
        let limit = NodePolicy::init_timeout(self.policy.run_timeout).as_secs_f64();
        let starting = self.nodes.values().find_map(|node| node.standing.first_starting);
        let worker = starting.map(|id| id.to_string());
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

    fn fail_without_mini_batch(&mut self) {
        self.fail(
            EndedBy::FirstTaskTimeout,
            format!(
                "no mini-batch existed {} s after the job's start{}, longer than \
                 first_task_creation_timeout allows ({} s): the inputs take too long to list or to \
                 read. Raise first_task_creation_timeout, or make the inputs faster to list: fewer \
                 files in a folder, a list of files, or faster storage",
                (self.now - self.last_arrival).as_secs_f64().floor(),
                if self.last_arrival.is_zero() { "" } else { ", or after the last object arrived" },
                self.policy.first_task_timeout.as_secs_f64()
            ),
        );
    }

    fn fail_without_progress(&mut self) {
        let idle_seconds = self.now.saturating_sub(self.last_progress).as_secs_f64().floor();
        let limit = self.policy.progress_timeout.as_secs_f64();
        let unwritten = self.committing.len();
        if self.ending.is_none() {
            let stage = self.stage();
            self.fail(
                EndedBy::ProgressTimeout,
                format!(
                    "no progress for {idle_seconds} s, longer than progress_update_timeout allows ({limit} \
                     s); at that time {stage}. See logs/sys/error, then a profile \
                     (profiling_module); raise progress_update_timeout if the job was only slow"
                ),
            );
        }
        if unwritten > 0 {
            // Give up these results. Otherwise, a job whose disk does not respond would never end.
            self.committing.clear();
            self.notice(format!(
                "{unwritten} finished mini-batches could not be written within {limit} s \
                 (progress_update_timeout); a resumed job runs them again"
            ));
        }
    }

    /// What all workers are doing, as text for the user.
    fn stage(&self) -> String {
        let sum = |count: fn(&WorkersStanding) -> u32| {
            self.nodes.values().map(|node| count(&node.standing)).sum::<u32>()
        };
        let counts = [
            (sum(|workers| workers.starting), "inside init"),
            (sum(|workers| workers.idle), "idle"),
            (sum(|workers| workers.loading), "loading a mini-batch"),
            (sum(|workers| workers.running), "inside run"),
            (sum(|workers| workers.closing), "inside shutdown"),
            (sum(|workers| workers.doomed), "being killed"),
        ];
        let workers = counts.into_iter().filter(|(count, _)| *count > 0);
        let mut parts: Vec<String> = workers
            .map(|(count, activity)| {
                format!(
                    "{count} {} {activity}",
                    if count == 1 { "worker was" } else { "workers were" }
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
}
