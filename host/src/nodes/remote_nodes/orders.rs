//! What the leader tells nodes on other machines while they work.

use super::super::uncommitted_packs::PackInStore;
use super::RemoteNodes;
use crate::bus::{ToNode, messages_of};
use crate::model::{MiniBatchId, NodeId, TableFormat, WorkerId};
use crate::protocol::{FromPlanner, NodeReport, NodeReports, Order};

impl RemoteNodes {
    /// Queues an order for a node.
    pub(crate) fn order(&mut self, node: NodeId, mut order: Order) {
        match &mut order {
            Order::Grant(grants) => {
                grants.iter_mut().for_each(|grant| self.objects.add_to(&mut grant.assignment));
            }
            Order::GrantAhead(ahead) => ahead.iter_mut().for_each(|next| self.objects.add_to(next)),
            _ => {}
        }
        let Some(node) = self.nodes.working(node) else { return };
        if let Order::End(end) = order {
            node.ended = Some(end);
            self.lost_one_at_end = false;
        }
        for message in messages_of(order) {
            node.send(&message);
        }
    }

    /// Notifies a worker's node that the rows of an attempt are in the output.
    pub(crate) fn mark_reclaimable(&mut self, worker: WorkerId, id: MiniBatchId, attempt: u32) {
        self.store.reclaim(worker, id, attempt);
        if let Some(node) = self.nodes.working(worker.node()) {
            node.send(&ToNode::Reclaimable { worker, id, attempt });
        }
    }

    /// Passes on how tables are read.
    pub(crate) fn know_tables(&mut self, tables: &[TableFormat]) {
        self.tables = Some(tables.to_vec());
        for node in self.nodes.values_mut().filter(|node| node.works()) {
            node.send(&ToNode::Tables(tables.to_vec()));
        }
    }

    /// Whether the planner's next message should be read.
    pub(crate) fn has_room_for_plan(&self) -> bool {
        self.spill.has_room()
    }

    /// Passes on what the planner's machine reports. Mini-batches that read the planner's files come later, when the job's
    /// store has what they read.
    pub(crate) fn planned(&mut self, reports: Vec<NodeReport>) -> Vec<NodeReport> {
        let mut passed = Vec::new();
        for report in reports {
            match report {
                NodeReport::Planned(message) => {
                    if let FromPlanner::Tables(tables) = &message {
                        self.know_tables(tables);
                    }
                    passed.extend(self.spill.pass(message).map(NodeReport::Planned));
                }
                report => passed.push(report),
            }
        }
        passed
    }

    /// Whether mini-batches read objects of stores.
    pub(crate) fn have_objects(&self) -> bool {
        self.objects.exist()
    }

    /// Looks up the objects that a mini-batch reads. The answer is a report of the leader's own machine.
    pub(crate) fn find_objects(&mut self, id: MiniBatchId, files: &[(u32, &str)]) {
        let failed = self.objects.find(id, files);
        let reports = vec![NodeReport::Fetched(id.0, failed)];
        self.pending.push_back(NodeReports { node: NodeId::ONLY, reports });
    }

    /// Forgets the objects of mini-batches that have ended, and the packs with their rows.
    pub(crate) fn forget_objects(&mut self, ids: &[MiniBatchId]) {
        self.objects.forget(ids);
        for useless in self.packs.committed(ids) {
            self.forget_pack(useless);
        }
    }

    /// Removes a pack whose mini-batches are committed.
    pub(super) fn forget_pack(&mut self, useless: PackInStore) {
        if let Some(node) = self.nodes.get_mut(&useless.incarnation) {
            node.send(&ToNode::Committed(useless.pack.number));
        }
        self.store.remove_pack(useless);
    }
}
