//! One node on another machine, as its leader sees it.

use super::reports::is_allowed;
use crate::bus::{Bus, Channel, KeptPart, Link, StoredPack, ToNode, queue};
use crate::model::{NodeId, WorkerId};
use crate::protocol::{NodeNews, NodePolicy, NodeReport, WorkersEnd};
use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

/// What a node does for the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NodeStage {
    /// It has sent nothing that counts.
    New,
    /// It waits for its number.
    Waits,
    /// It has a number, and prepares the job.
    Prepares(NodeId),
    /// It runs workers.
    Works(NodeId),
    /// It takes no part.
    Dismissed,
}

/// The leader's connection to one incarnation of an agent.
#[derive(Debug)]
pub(super) struct RemoteNode {
    pub(super) link: Link,
    pub(super) channel: Channel,
    pub(super) stage: NodeStage,
    /// When this stage began.
    pub(super) since: Duration,
    /// How the node was ordered to end its workers. `None` if it was not.
    pub(super) ended: Option<WorkersEnd>,
    /// Whether the node has reported that its workers have ended.
    pub(super) is_done: bool,
    /// The most workers that the node runs at the same time. 0 until it has prepared the job.
    pub(super) most_workers: u32,
    /// Whether the node can do nothing for the job: `init` has failed so often (rule I1 in
    /// docs/parallel-run-step.md), or that its disk is full and it has nothing to do. Another node may then replace it.
    pub(super) is_hopeless: bool,
    /// The agent's name, for the user.
    pub(super) name: String,
    /// The agent's id, if it may lead the job.
    pub(super) may_lead: Option<String>,
    /// What the node has from an earlier leader, if it wants to go on with its attempts.
    pub(super) claimed: Option<KeptPart>,
    /// The name of the folder for its rows in the job's store.
    pub(super) rows: String,
    /// Whether the node may go on with attempts of an earlier leader.
    pub(super) continues: bool,
    /// The workers that have not exited, as far as the node has reported.
    pub(super) workers: BTreeSet<WorkerId>,
    /// What the node has reported while its rows are still being read in the store, in order.
    pub(super) inbox: VecDeque<Reported>,
    /// Whether its rows are being read.
    pub(super) is_fetching: bool,
    /// Why nothing more comes from the node. What is in the inbox still counts.
    pub(super) is_gone: Option<String>,
}

/// What a node has reported.
#[derive(Debug)]
pub(super) struct Reported {
    pub(super) reports: Vec<NodeReport>,
    /// The rows and files that the reports speak of, if these are in the job's store.
    pub(super) pack: Option<ReportedPack>,
}

/// The pack of some reports.
#[derive(Debug)]
pub(super) struct ReportedPack {
    pub(super) pack: StoredPack,
    /// Whether an earlier leader has got the reports, too. Then the pack may be gone.
    pub(super) was_reported: bool,
}

impl RemoteNode {
    pub(super) fn new(channel: Channel, now: Duration) -> Self {
        Self {
            link: Link::new(now),
            channel,
            stage: NodeStage::New,
            since: now,
            ended: None,
            is_done: false,
            most_workers: 0,
            is_hopeless: false,
            name: String::new(),
            may_lead: None,
            claimed: None,
            rows: String::new(),
            continues: false,
            workers: BTreeSet::new(),
            inbox: VecDeque::new(),
            is_fetching: false,
            is_gone: None,
        }
    }

    /// The node's number. `None` if it takes no part in the job.
    pub(super) fn number(&self) -> Option<NodeId> {
        match self.stage {
            NodeStage::Prepares(number) | NodeStage::Works(number) => Some(number),
            NodeStage::New | NodeStage::Waits | NodeStage::Dismissed => None,
        }
    }

    /// Whether the leader still has to read what the node has reported.
    pub(super) fn has_unread(&self) -> bool {
        self.is_fetching || !self.inbox.is_empty()
    }

    /// Whether the node runs workers.
    pub(super) fn works(&self) -> bool {
        matches!(self.stage, NodeStage::Works(_))
    }

    /// Whether the node can run mini-batches until the job's end.
    pub(super) fn is_useful(&self) -> bool {
        self.works() && self.ended.is_none() && !self.is_hopeless && self.is_gone.is_none()
    }

    /// Whether the node may send these reports. It may go on with attempts of an earlier leader only once, and only if it
    /// has kept its number.
    pub(super) fn may_report(&mut self, reports: &[NodeReport], number: NodeId) -> bool {
        let continues =
            |report: &&NodeReport| matches!(report, NodeReport::News(NodeNews::Continues(_)));
        let count = reports.iter().filter(continues).count();
        let is_expected = count <= usize::from(self.continues);
        self.continues &= count == 0;
        is_expected && reports.iter().all(|report| is_allowed(report, number))
    }

    /// Notes which workers the node has, and whether it has ended them.
    pub(super) fn observe(&mut self, reports: &[NodeReport]) {
        for report in reports {
            match report {
                NodeReport::News(NodeNews::Spawned { worker, .. }) => {
                    self.workers.insert(*worker);
                }
                NodeReport::News(NodeNews::Standing(standing)) => {
                    self.is_done = standing.is_ending && standing.workers() == 0;
                    let allowed = NodePolicy::init_failures_allowed(self.most_workers);
                    let is_useless = standing.is_full && standing.loading + standing.running == 0;
                    self.is_hopeless =
                        is_useless || (standing.init_failures >= allowed && !standing.has_good);
                }
                NodeReport::WorkerGone(worker) => {
                    self.workers.remove(worker);
                }
                _ => {}
            }
        }
    }

    /// What the leader must learn if the node is lost.
    pub(super) fn last_reports(&self) -> Vec<NodeReport> {
        let exited = self.workers.iter().flat_map(|worker| {
            let how = "ended, because its node is lost".to_owned();
            let exited = NodeNews::Exited { worker: *worker, how, expected: false };
            [NodeReport::News(exited), NodeReport::WorkerGone(*worker)]
        });
        exited.chain([NodeReport::Lost]).collect()
    }

    /// Queues a message. [`flush`](Self::flush) sends it.
    pub(super) fn send(&mut self, message: &ToNode) {
        queue(&mut self.link, message);
    }

    /// Takes no part from now on. `why` is the message to the node.
    pub(super) fn dismiss(&mut self, why: &ToNode) {
        self.send(why);
        self.stage = NodeStage::Dismissed;
    }

    /// Sends what is due.
    pub(super) fn flush(&mut self, bus: &Bus, now: Duration) {
        self.channel.publish_frames(bus, &mut self.link, now);
    }
}
