//! Attempts that nodes have from an earlier leader of the job. This leader takes them over: it treats them as if it had
//! granted them, with the numbers that they have.
//!
//! - If the mini-batch has ended, the node is ordered to end the attempt.
//! - If another node has the mini-batch, both attempts go on as twins. If they have different numbers, the one with the
//!   higher number is kept.
//! - If the mini-batch is not planned yet, the attempt waits for it, together with its news.

use super::JobMachine;
use super::granted::GrantedMiniBatch;
use super::queue::PendingMiniBatch;
use super::unplanned::UnplannedAttempt;
use crate::event::EventKind;
use crate::model::{MiniBatchId, NodeId, ReceiptEnd};
use crate::protocol::{ContinuedAttempt, NodeNews, Order};
use std::time::Duration;

impl JobMachine {
    pub(super) fn on_continues(&mut self, node: NodeId, attempts: Vec<ContinuedAttempt>) {
        self.progressed();
        for continued in attempts {
            if !self.takes_over(node, &continued) {
                let ContinuedAttempt { id, attempt, .. } = continued;
                self.order(node, Order::Cancel { id, attempt });
            }
        }
    }

    /// Takes over an attempt, if its mini-batch needs it. Returns whether the node may go on with it.
    fn takes_over(&mut self, node: NodeId, continued: &ContinuedAttempt) -> bool {
        let ContinuedAttempt { id, attempt, .. } = *continued;
        let is_known = id.0 < self.same_plan_until && self.ending.is_none();
        if !is_known || !(1..=self.policy.max_try).contains(&attempt) {
            return false;
        }
        if let Some(pending) = self.queue.take(id, attempt) {
            self.adopt(pending, node, continued);
            return true;
        }
        if self.granted.contains_key(&id) {
            return self.takes_over_from(node, continued);
        }
        if let Some(done) = self.committing.get_mut(&id) {
            // If the mini-batch is tried again, this node may get it, and must not confuse the two attempts.
            done.pending.attempt = done.pending.attempt.max(attempt);
            return false;
        }
        let is_unplanned =
            !self.plan_finished && id.0 >= self.planned && !self.done_before.contains(id);
        if is_unplanned {
            let continued = continued.clone();
            let unplanned = UnplannedAttempt { node, continued, news: Vec::new() };
            self.unplanned.entry(id).or_default().push(unplanned);
        }
        is_unplanned
    }

    /// As [`takes_over`](Self::takes_over), for a mini-batch that other nodes have. The attempt with the higher number
    /// is kept. Two attempts with the same number go on as twins.
    fn takes_over_from(&mut self, node: NodeId, continued: &ContinuedAttempt) -> bool {
        let ContinuedAttempt { id, attempt, .. } = *continued;
        let Some(granted) = self.granted.get_mut(&id) else { return false };
        let number = granted.pending.attempt;
        if number == attempt && granted.attempt_on(node).is_some() {
            return true;
        }
        if number > attempt {
            return false;
        }
        if number == attempt {
            if granted.without_twin().is_none() {
                granted.pending.skips_number = true;
                return false;
            }
            granted.add_twin(node, self.now);
            self.begin_continued(node, continued);
            return true;
        }
        let Some(mut granted) = self.granted.remove(&id) else { return false };
        while let Some(other) = granted.remove_last() {
            self.order(other.node, Order::Cancel { id, attempt: number });
            self.issue_unmeasured((id, number), &other, ReceiptEnd::DUPLICATE);
        }
        self.adopt(granted.pending, node, continued);
        true
    }

    fn adopt(&mut self, mut pending: PendingMiniBatch, node: NodeId, continued: &ContinuedAttempt) {
        pending.attempt = continued.attempt;
        self.granted.insert(continued.id, GrantedMiniBatch::new(pending, node, self.now));
        self.begin_continued(node, continued);
    }

    /// Notes that the attempt is inside `run`, if it is.
    fn begin_continued(&mut self, node: NodeId, continued: &ContinuedAttempt) {
        let ContinuedAttempt { id, attempt, runs_on, age } = *continued;
        let granted = self.granted.get_mut(&id).and_then(|granted| granted.attempt_on(node));
        let Some(begun) = granted else { return };
        begun.granted = None;
        let Some(worker) = runs_on else { return };
        begun.runs_on = Some(worker);
        begun.since = self.now.saturating_sub(age);
        self.count_begun(attempt);
        self.emit(EventKind::AttemptStarted { worker: worker.to_string(), id, attempt });
    }

    /// Whether attempts at this mini-batch wait until it is planned.
    #[cfg(test)]
    pub(in crate::machine) fn awaits_plan_of(&self, id: MiniBatchId) -> bool {
        self.unplanned.get(&id).is_some_and(|attempts| !attempts.is_empty())
    }

    /// Takes over attempts at a mini-batch that was just planned.
    pub(super) fn take_over_planned(&mut self, id: MiniBatchId) {
        for unplanned in self.unplanned.remove(&id).into_iter().flatten() {
            let UnplannedAttempt { node, continued, news } = unplanned;
            self.on_continues(node, vec![continued]);
            news.into_iter().for_each(|news| self.on_news(node, news));
        }
    }

    /// The plan is complete: attempts at mini-batches that it does not have must end.
    pub(super) fn decline_unplanned(&mut self) {
        for (id, attempts) in std::mem::take(&mut self.unplanned) {
            for UnplannedAttempt { node, continued, .. } in attempts {
                self.order(node, Order::Cancel { id, attempt: continued.attempt });
            }
        }
    }

    /// Mini-batches from this number on may differ from those of an earlier leader, whose plan has not come that far or is
    /// not known. Their attempts are not taken over.
    pub fn know_plan_until(&mut self, number: u64) {
        self.same_plan_until = number;
    }

    /// Grants nothing until then, so that nodes can first offer what they have from an earlier leader.
    pub fn await_offers(&mut self, until: Duration) {
        self.offers_until = until;
    }

    /// Forgets the attempts of a lost node.
    pub(super) fn forget_unplanned(&mut self, node: NodeId) {
        for attempts in self.unplanned.values_mut() {
            attempts.retain(|unplanned| unplanned.node != node);
        }
    }

    /// Keeps news of attempts whose mini-batches are not planned yet. Returns the other news.
    pub(super) fn without_unplanned(&mut self, node: NodeId, news: NodeNews) -> Option<NodeNews> {
        if self.unplanned.is_empty() {
            return Some(news);
        }
        let (id, attempt) = match &news {
            NodeNews::Started { id, attempt, .. }
            | NodeNews::Lost { id, attempt, .. }
            | NodeNews::Unfetched { id, attempt, .. } => (*id, *attempt),
            NodeNews::Finished { report, .. } => (report.id, report.attempt),
            NodeNews::Returned(attempts) => {
                attempts.iter().for_each(|attempt| self.return_unplanned(node, *attempt));
                return Some(news);
            }
            _ => return Some(news),
        };
        let mut unplanned = self.unplanned.get_mut(&id).into_iter().flatten();
        match unplanned.find(|unplanned| unplanned.is((node, attempt))) {
            Some(unplanned) => {
                unplanned.news.push(news);
                None
            }
            None => Some(news),
        }
    }

    fn return_unplanned(&mut self, node: NodeId, (id, attempt): (MiniBatchId, u32)) {
        if let Some(attempts) = self.unplanned.get_mut(&id) {
            attempts.retain(|unplanned| !unplanned.is((node, attempt)));
        }
    }
}
