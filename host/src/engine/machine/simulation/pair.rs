//! The machine that was one, beside the two that it became: from the same messages come the same actions.

use super::super::{Action, Message, Policy, old};
use crate::model::{Restored, Source, WorkerId};
use jiff::Timestamp;
use std::time::Duration;

/// Both.
#[derive(Debug)]
pub(super) struct Machine {
    new: super::super::Machine,
    old: old::Machine,
}

impl Machine {
    pub(super) fn new(
        policy: Policy,
        sources: Vec<Source>,
        began: Timestamp,
        restored: Restored,
    ) -> Self {
        let old = old::Policy {
            workers: policy.workers,
            max_try: policy.max_try,
            error_threshold: policy.error_threshold,
            run_timeout: policy.run_timeout,
            load_timeout: policy.load_timeout,
            allowed_failed_count: policy.allowed_failed_count,
            allowed_failed_percent: policy.allowed_failed_percent,
            first_task_timeout: policy.first_task_timeout,
            progress_timeout: policy.progress_timeout,
            gpus: policy.gpus.clone(),
            output_action: policy.output_action,
            limits: policy.limits.clone(),
        };
        Self {
            old: old::Machine::new(old, sources.clone(), began, restored.clone()),
            new: super::super::Machine::new(policy, sources, began, restored),
        }
    }

    pub(super) fn handle(&mut self, message: Message, now: Duration) -> Vec<Action> {
        let told = message.clone();
        let expected = self.old.handle(message.clone(), now);
        let actions = self.new.handle(message, now);
        // Numbers that are none differ from themselves.
        if expected != actions {
            assert_eq!(format!("{expected:#?}"), format!("{actions:#?}"), "after {told:?}");
        }
        assert_eq!(self.old.next_deadline(), self.new.next_deadline(), "after {told:?}");
        assert_eq!(self.old.wants_plan(), self.new.wants_plan(), "after {told:?}");
        assert_eq!(self.old.wants_commits(), self.new.wants_commits(), "after {told:?}");
        assert_eq!(self.old.may_pause(), self.new.may_pause(), "after {told:?}");
        let inside: Vec<(WorkerId, Duration)> = self.old.inside_guests(now).collect();
        assert_eq!(inside, self.new.inside_guests(now).collect::<Vec<_>>(), "after {told:?}");
        self.old.reuse(expected);
        actions
    }

    pub(super) fn reuse(&mut self, done: Vec<Action>) {
        self.new.reuse(done);
    }

    pub(super) fn next_deadline(&self) -> Option<Duration> {
        self.new.next_deadline()
    }

    pub(super) fn wants_plan(&self) -> bool {
        self.new.wants_plan()
    }
}
