//! Compares what a node has prepared with what the leader has found, and lets the node work.

use super::super::remote_node::NodeStage;
use super::super::signed_job::differing_settings;
use super::RemoteNodes;
use crate::bus::ToNode;
use crate::model::NodeId;
use crate::protocol::{NodeReport, NodeReports};

impl RemoteNodes {
    /// Lets a node work if it found the same as the leader.
    pub(super) fn on_prepared(
        &mut self,
        incarnation: &str,
        component: &str,
        settings: &[(String, String)],
        workers: u32,
    ) {
        if self.is_over || self.working() >= self.work.node_count as usize {
            let Some(node) = self.nodes.get_mut(incarnation) else { return };
            return node.dismiss(&ToNode::NotNeeded);
        }
        let mut different = differing_settings(&self.work.settings, settings);
        if component != self.work.component {
            different.insert(0, "entry_script".to_owned());
        }
        if workers == 0 || workers > NodeId::WORKER_NUMBERS / 10 {
            different.push("process_count_per_node".to_owned());
        }
        if !different.is_empty() {
            let names = different.join(", ");
            return self.decline(
                incarnation,
                &format!("these differ from what the leader found: {names}"),
            );
        }
        let Some(node) = self.nodes.get_mut(incarnation) else { return };
        let Some(number) = node.number() else { return };
        node.stage = NodeStage::Works(number);
        node.most_workers = workers;
        self.store.copy_logs((number, &node.rows), node.continues);
        if let Some(tables) = &self.tables {
            node.send(&ToNode::Tables(tables.clone()));
        }
        let name = node.name.clone();
        self.pending.push_back(NodeReports {
            node: number,
            reports: vec![
                NodeReport::Joined { workers },
                NodeReport::Notice(format!(
                    "node {number} ({name}) takes part, with {workers} workers"
                )),
            ],
        });
    }

    /// Dismisses a node that cannot run the job.
    pub(super) fn decline(&mut self, incarnation: &str, reason: &str) {
        let Some(node) = self.nodes.get_mut(incarnation) else { return };
        let Some(number) = node.number() else { return };
        node.dismiss(&ToNode::Refused(reason.to_owned()));
        let text = format!("the machine {} takes no part: {reason}", node.name);
        self.say_once(number, text);
    }
}
