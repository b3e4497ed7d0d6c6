//! What the leader tells nodes on other machines while they work.

use super::RemoteNodes;
use crate::bus::{ToNode, messages_of};
use crate::model::{MiniBatchId, NodeId, TableFormat, WorkerId};
use crate::protocol::{NodeReport, NodeReports, Order};

/// Why a job cannot continue whose inputs the planner has unpacked.
const SPILL: &str = "with a broker and a job_store in a store, packed texts (gzip, zstd) cannot be read yet: unpack the \
                     inputs, or let job_store and output be folders that all machines share";

impl RemoteNodes {
    /// Queues an order for a node.
    pub(crate) fn order(&mut self, node: NodeId, mut order: Order) {
        if self.store.has_rows() && order.reads_spill() {
            // Other machines cannot reach the planner's files.
            let reports = vec![NodeReport::NoSpace(SPILL.to_owned())];
            return self.pending.push_back(NodeReports { node: NodeId::ONLY, reports });
        }
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
        if self.store.has_rows() {
            return self.store.reclaim(worker, id, attempt);
        }
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

    /// Forgets the objects of mini-batches that have ended.
    pub(crate) fn forget_objects(&mut self, ids: &[MiniBatchId]) {
        self.objects.forget(ids);
    }
}
