//! What an agent's part in a job reports to its leader, after rows and files are durable.

use super::super::durable::{Durable, DurableReports, has_results};
use super::super::kept_reports::ended_attempt;
use super::super::upload::last_attempts;
use super::{JobPart, Syncing, Work};
use crate::bus::{FromNode, report_messages};
use crate::protocol::{NodeNews, NodeReport};

impl JobPart {
    /// Sends the collected reports. What they say of rows and files is made durable first, on another thread, so
    /// that a slow disk or store does not silence this agent.
    pub(super) fn send_reports(&mut self) {
        let with_logs = self.should_store_logs();
        let Some(work) = &mut self.work else { return };
        if self.syncing.is_some() || !self.has_joined {
            return;
        }
        if std::mem::take(&mut self.has_changed) {
            let standing = work.running.standing();
            self.outbox.push(NodeReport::News(NodeNews::Standing(standing)));
        }
        let reports = std::mem::take(&mut self.outbox);
        if with_logs {
            // The last samples belong to the logs.
            work.running.end_watch();
            self.has_stored_logs = true;
        }
        if with_logs || reports.iter().any(has_results) {
            let ended = reports.iter().filter_map(ended_attempt).collect();
            let messages = report_messages(reports);
            let durable = work.durable.clone();
            if let Durable::Store(_, next) = &mut work.durable {
                *next += messages.len().max(1) as u64;
            }
            let make = move || durable.make_durable(messages, with_logs);
            let task = tokio::task::spawn_blocking(make);
            self.syncing = Some(Syncing { ended, task, since: self.now() });
        } else if !reports.is_empty() {
            self.deliver(report_messages(reports));
        }
    }

    /// Whether all workers have ended, so that their logs must go to the store now.
    fn should_store_logs(&self) -> bool {
        let uses_store = |work: &Work| matches!(work.durable, Durable::Store(..));
        !self.has_stored_logs && self.has_ended() && self.work.as_ref().is_some_and(uses_store)
    }

    pub(super) fn on_synced(&mut self, synced: DurableReports) {
        if self.syncing.take().is_none() {
            return;
        }
        match synced {
            Ok(messages) => self.deliver(messages),
            Err(error) => self.broken = Some(error),
        }
    }

    /// Sends reports to the leader.
    pub(in super::super) fn deliver(&mut self, messages: Vec<FromNode>) {
        if !self.has_joined {
            // A later leader gets them when it has accepted this node.
            return self.unsent.extend(messages);
        }
        for message in messages {
            match &message {
                FromNode::Stored(reports, pack) => self.kept.note_pack(reports, pack),
                message => message.reports().iter().for_each(|report| self.kept.note(report)),
            }
            self.release_rows(&message);
            self.send(&message);
        }
    }

    /// Lets workers reuse the space of rows that are in the store.
    fn release_rows(&mut self, message: &FromNode) {
        let (FromNode::Stored(reports, _), Some(work)) = (message, &mut self.work) else { return };
        for (worker, (id, attempt)) in last_attempts(&mut reports.clone()) {
            work.running.mark_reclaimable(worker, id, attempt);
        }
    }
}
