//! An agent's part in a job whose leader is replaced: the workers go on, and the new leader takes over what they do.

use super::agent_error::AgentError;
use super::agent_options::Wish;
use super::incarnation::{Connected, connect_to};
use super::job_part::JobPart;
use super::kept_reports::ended_attempt;
use super::part_end::PartEnd;
use super::preparing::PreparedPart;
use super::signed_job::{check_asked, is_same_work};
use crate::bus::{FromNode, JobForNode, KeptPart, Link, Offer, Packet, report_messages};
use crate::model::printable;

impl JobPart {
    /// Another leader leads the job. If possible, the workers go on, and this node offers them to that leader.
    pub(super) fn on_later_leader(&mut self) {
        let Some(offer) = self.later.borrow_and_update().clone() else { return };
        let kept = self.kept_part().filter(|_| self.can_follow(&offer));
        match kept.map(|kept| self.follow(offer, kept)) {
            Some(Ok(())) => {}
            None | Some(Err(_)) => self.end = Some(PartEnd::Followed),
        }
    }

    /// What another leader must know of this part.
    fn kept_part(&self) -> Option<KeptPart> {
        let node = self.asked.as_ref()?.node;
        Some(KeptPart { node, rows: self.work.as_ref()?.rows.clone() })
    }

    /// Whether the workers may go on for the leader of this offer.
    fn can_follow(&self, offer: &Offer) -> bool {
        let signer = |offer: &Offer| offer.signature.as_ref().map(|signature| signature.signer);
        let goes_on = self.work.as_ref().is_some_and(|work| !work.running.standing().is_ending);
        let takes_part = matches!(*self.wish.borrow(), Wish::TakePart | Wish::Renew);
        goes_on && takes_part && signer(offer) == signer(&self.offer)
    }

    fn follow(&mut self, offer: Offer, kept: KeptPart) -> Result<(), AgentError> {
        let Connected { bus, channel, incarnation } = connect_to(&offer, &self.options)?;
        // The earlier leader is probably lost. If not, it learns that this node no longer works for it.
        self.channel.publish(&self.bus, &Packet::Gone);
        (self.options.say)(&format!(
            "the job {} has another leader; the workers here go on",
            printable(&offer.job)
        ));
        self.bus = bus;
        self.channel = channel;
        self.incarnation = incarnation;
        self.offer = offer;
        self.link = Link::new(self.now());
        self.parts.clear();
        self.has_joined = false;
        self.has_followed = true;
        self.say_hello(Some(kept));
        Ok(())
    }

    /// Offers the workers to a later leader that has accepted this node.
    pub(super) fn continue_for(&mut self, asked: &JobForNode) {
        let is_same = self.asked.as_ref().is_some_and(|before| is_same_work(before, asked));
        let Some(work) = self.work.as_mut().filter(|_| is_same) else {
            (self.options.say)(&format!(
                "the next leader of the job {} has other settings or another entry script; the workers here end, and the \
                 machine takes part anew",
                printable(&self.offer.job)
            ));
            self.end = Some(PartEnd::Followed);
            return;
        };
        if check_asked(asked, &self.offer).is_err() {
            self.end = Some(PartEnd::Followed);
            return;
        }
        let PreparedPart { component, settings, workers, backends, .. } = &work.prepared;
        let prepared = FromNode::Prepared {
            component: component.clone(),
            settings: settings.clone(),
            workers: *workers,
            backends: backends.clone(),
        };
        let held = work.running.follow_leader();
        let syncing = self.syncing.iter().flat_map(|syncing| syncing.ended.iter().copied());
        let durable = self.unsent.iter().flat_map(FromNode::reports);
        let unsent = durable.chain(&self.outbox).filter_map(ended_attempt);
        let reports = self.kept.for_leader(held, syncing.chain(unsent));
        self.send(&prepared);
        report_messages(reports).iter().for_each(|message| self.send(message));
        for (reports, pack) in self.kept.packs() {
            self.send(&FromNode::StoredBefore(reports, pack));
        }
        self.has_joined = true;
        self.has_changed = true;
        let durable = std::mem::take(&mut self.unsent);
        self.deliver(durable);
    }
}
