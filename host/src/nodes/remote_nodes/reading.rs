//! The order in which the leader passes on what nodes report, if it must first read their rows in the job's store.

use super::super::remote_node::{NodeStage, RemoteNode, Reported, ReportedPack};
use super::super::store_work::{FetchError, GivenNumber, StoreOutcome, StoreResult};
use super::super::uncommitted_packs::PackInStore;
use super::super::upload::rows_name;
use super::RemoteNodes;
use crate::bus::ToNode;
use crate::model::NodeId;
use crate::protocol::{NodeReport, NodeReports};

impl RemoteNodes {
    /// Asks a node that has a number now to prepare the job.
    fn on_number(&mut self, incarnation: &str, given: Result<GivenNumber, String>, proof: String) {
        let now = self.now();
        let number = given.map(|GivenNumber { number, backends }| {
            self.know_backends(backends.as_deref());
            number
        });
        let is_waiting = |node: &&mut RemoteNode| node.stage == NodeStage::Waits;
        let is_taken = number.as_ref().is_ok_and(|number| self.nodes.has_number(*number));
        let Some(node) = self.nodes.get_mut(incarnation).filter(is_waiting) else { return };
        if is_taken {
            // Another node has kept the number meanwhile.
            node.claimed = None;
            return self.store.take_number(incarnation, None);
        }
        match number {
            Ok(number) => {
                let kept = node.claimed.take().filter(|kept| kept.node == number);
                node.continues = kept.is_some();
                let new = || rows_name(self.epoch, incarnation);
                node.rows = kept.map_or_else(new, |kept| kept.rows);
                node.stage = NodeStage::Prepares(number);
                node.since = now;
                let job = self.leader.job_for(&self.work, number, proof);
                node.send(&ToNode::Accepted(Box::new(job)));
                self.nodes.set_number(incarnation, number);
            }
            Err(error) => {
                let reason = format!("the leader cannot write to the job's store: {error}");
                node.dismiss(&ToNode::Refused(reason));
            }
        }
    }

    /// Takes reports of a node, in their order.
    pub(super) fn on_reports(
        &mut self,
        incarnation: &str,
        number: NodeId,
        reports: Vec<NodeReport>,
        pack: Option<ReportedPack>,
    ) {
        let Some(node) = self.nodes.get_mut(incarnation) else { return };
        if !node.may_report(&reports, number) {
            return self.lose(incarnation, "it reported what it cannot know");
        }
        node.inbox.push_back(Reported { reports, pack });
        self.read_inbox(incarnation);
    }

    /// Passes on what a node has reported, until rows must be read in the store.
    fn read_inbox(&mut self, incarnation: &str) {
        while let Some(node) = self.nodes.get_mut(incarnation).filter(|node| !node.is_fetching) {
            let (Some(Reported { reports, pack }), Some(number)) =
                (node.inbox.pop_front(), node.number())
            else {
                if let Some(why) = node.is_gone.take() {
                    self.lose(incarnation, &why);
                }
                return;
            };
            match pack {
                Some(pack) => {
                    node.is_fetching = true;
                    self.store.fetch(incarnation, (number, &node.rows), reports, pack);
                }
                None => {
                    node.observe(&reports);
                    self.pending.push_back(NodeReports { node: number, reports });
                }
            }
        }
    }

    pub(super) fn on_stored(&mut self, result: StoreResult) {
        let StoreResult { incarnation, outcome } = result;
        match outcome {
            StoreOutcome::Number(number, proof) => self.on_number(&incarnation, number, proof),
            StoreOutcome::Fetched(fetched, pack) => self.on_fetched(&incarnation, fetched, pack),
            StoreOutcome::Recorded => {}
            StoreOutcome::NotRecorded(error) => {
                let text = format!(
                    "the backends of the job's models cannot be recorded in its store: {error}; another leader would \
                     not compare nodes with them"
                );
                self.notice(NodeId::ONLY, text);
            }
        }
        self.flush_links();
    }

    fn on_fetched(
        &mut self,
        incarnation: &str,
        fetched: Result<Vec<NodeReport>, FetchError>,
        pack: PackInStore,
    ) {
        let Some(node) = self.nodes.get_mut(incarnation) else { return };
        node.is_fetching = false;
        match fetched {
            Ok(reports) => {
                if let Some(useless) = self.packs.add(pack, &reports) {
                    self.forget_pack(useless);
                }
                let Some(node) = self.nodes.get_mut(incarnation) else { return };
                node.inbox.push_front(Reported { reports, pack: None });
                self.read_inbox(incarnation);
            }
            Err(error) => {
                node.inbox.clear();
                let text = error.to_string();
                if matches!(error, FetchError::Disk(_)) {
                    let reports = vec![NodeReport::NoSpace(text.clone())];
                    self.pending.push_back(NodeReports { node: NodeId::ONLY, reports });
                }
                self.lose(incarnation, &text);
            }
        }
    }
}
