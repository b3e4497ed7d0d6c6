//! An agent's part in a job whose leader is replaced: the workers go on, and the new leader takes over what they do.

use super::agent_error::AgentError;
use super::agent_options::Wish;
use super::durable::Durable;
use super::incarnation::{Connected, connect_to};
use super::job_part::JobPart;
use super::kept_reports::ended_attempt;
use super::part_end::PartEnd;
use super::preparing::PreparedPart;
use super::signed_job::{check_asked, is_same_work};
use crate::bus::{FromNode, JobForNode, Link, Offer, Packet, report_messages};
use crate::model::{NodeId, printable};
use crate::protocol::Order;

impl JobPart {
    /// Another leader leads the job. If possible, the workers go on, and this node offers them to that leader.
    pub(super) fn on_later_leader(&mut self) {
        let Some(offer) = self.later.borrow_and_update().clone() else { return };
        let number =
            self.asked.as_ref().map(|asked| asked.node).filter(|_| self.can_follow(&offer));
        match number.map(|number| self.follow(offer, number)) {
            Some(Ok(())) => {}
            None | Some(Err(_)) => self.end = Some(PartEnd::Followed),
        }
    }

    /// Whether the workers may go on for the leader of this offer.
    fn can_follow(&self, offer: &Offer) -> bool {
        let signer = |offer: &Offer| offer.signature.as_ref().map(|signature| signature.signer);
        let goes_on = self.work.as_ref().is_some_and(|work| {
            // Rows in a store are there for one leader only.
            let in_folder = matches!(work.durable, Durable::Folder(..));
            in_folder && !work.running.standing().is_ending
        });
        let takes_part = matches!(*self.wish.borrow(), Wish::TakePart | Wish::Renew);
        goes_on && takes_part && !self.has_spilled && signer(offer) == signer(&self.offer)
    }

    fn follow(&mut self, offer: Offer, number: NodeId) -> Result<(), AgentError> {
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
        self.say_hello(Some(number));
        Ok(())
    }

    /// Offers the workers to a later leader that has accepted this node.
    pub(super) fn continue_for(&mut self, asked: &JobForNode) {
        let is_same = self.asked.as_ref().is_some_and(|before| is_same_work(before, asked));
        let Some(work) = self.work.as_mut().filter(|_| is_same) else {
            self.end = Some(PartEnd::Followed);
            return;
        };
        if check_asked(asked, &self.offer).is_err() {
            self.end = Some(PartEnd::Followed);
            return;
        }
        let PreparedPart { component, settings, workers, .. } = &work.prepared;
        let prepared = FromNode::Prepared {
            component: component.clone(),
            settings: settings.clone(),
            workers: *workers,
        };
        let held = work.running.follow_leader();
        let syncing = self.syncing.iter().flat_map(|syncing| syncing.ended.iter().copied());
        let unsent = syncing.chain(self.outbox.iter().filter_map(ended_attempt));
        let reports = self.kept.for_leader(held, unsent);
        self.send(&prepared);
        report_messages(reports).iter().for_each(|message| self.send(message));
        self.has_joined = true;
        self.has_changed = true;
    }

    /// Whether the workers can do what a leader orders. If they cannot, the part ends, and another one begins.
    pub(super) fn can_obey(&mut self, order: &Order) -> bool {
        self.has_spilled |= order.reads_spill();
        if self.has_spilled && self.has_followed {
            // The workers can read only the files of the earlier leader's planner.
            self.end = Some(PartEnd::Followed);
            return false;
        }
        true
    }
}
