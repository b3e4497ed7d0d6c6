//! Compares what a node has prepared with what the leader has found, and lets the node work.

use super::super::remote_node::NodeStage;
use super::super::signed_job::differing_settings;
use super::RemoteNodes;
use crate::bus::{NodeBackends, ToNode};
use crate::model::{NodeId, printable};
use crate::protocol::{NodeReport, NodeReports};

/// The most characters of a node's backends in a message.
const MAX_BACKENDS: usize = 500;

impl RemoteNodes {
    /// Lets a node work if it found the same as the leader.
    pub(super) fn on_prepared(
        &mut self,
        incarnation: &str,
        (component, settings): (&str, &[(String, String)]),
        workers: u32,
        backends: &NodeBackends,
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
        let expected = self.expected_backends(incarnation, backends);
        let other = (expected != *backends).then(|| shown(backends));
        match &other {
            Some(other) if !self.work.allow_mixed => {
                let reason = format!(
                    "models would be computed there by {other}, and the job uses {}: install the same libraries, use \
                     the same kind of devices, or start the job with --allow-mixed",
                    shown(&expected)
                );
                self.decline(incarnation, &reason);
            }
            _ => self.admit(incarnation, workers, other),
        }
    }

    /// What computes with the job's models. If no node has joined before, this is what the leader has found, on the devices
    /// of this node.
    fn expected_backends(&mut self, incarnation: &str, node: &NodeBackends) -> NodeBackends {
        if self.work.backends.is_empty() {
            return NodeBackends::default();
        }
        if let Some(known) = &self.backends {
            return known.clone();
        }
        let libraries = self.work.backends.clone();
        let first = NodeBackends { libraries, devices: node.devices.clone() };
        // A node that is declined does not count.
        if self.work.allow_mixed || first == *node {
            self.backends = Some(first.clone());
            // Plain data always serialises.
            self.store.record_backends(incarnation, serde_json::to_vec(&first).unwrap_or_default());
        }
        first
    }

    /// Takes over what the store records of the job's backends.
    pub(super) fn know_backends(&mut self, recorded: Option<&[u8]>) {
        let recorded = recorded.and_then(|bytes| serde_json::from_slice(bytes).ok());
        self.backends = self.backends.take().or(recorded);
    }

    /// `other`: the backends of the node, if they are not those of the job.
    fn admit(&mut self, incarnation: &str, workers: u32, other: Option<String>) {
        let Some(node) = self.nodes.get_mut(incarnation) else { return };
        let Some(number) = node.number() else { return };
        node.stage = NodeStage::Works(number);
        node.most_workers = workers;
        self.store.copy_logs((number, &node.rows), node.continues);
        if let Some(tables) = &self.tables {
            node.send(&ToNode::Tables(tables.clone()));
        }
        let name = &node.name;
        let mut reports = vec![
            NodeReport::Joined { workers },
            NodeReport::Notice(format!(
                "node {number} ({name}) takes part, with {workers} workers"
            )),
        ];
        reports.extend(other.map(NodeReport::MixedBackends));
        self.pending.push_back(NodeReports { node: number, reports });
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

/// `onnxruntime 1.24.1 and tract 0.22.1 on NVIDIA H200`.
fn shown(backends: &NodeBackends) -> String {
    let NodeBackends { libraries, devices } = backends;
    let joined = |names: &[String]| match names {
        [] => "nothing".to_owned(),
        names => names.join(" and "),
    };
    let text = format!("{} on {}", joined(libraries), joined(devices));
    printable(&text).chars().take(MAX_BACKENDS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backends_are_shown_with_their_versions_and_devices() {
        let backends = NodeBackends {
            libraries: vec!["tract 0.22.1".to_owned(), "onnxruntime 1.24.1".to_owned()],
            devices: vec!["CPU".to_owned()],
        };
        assert_eq!(shown(&backends), "tract 0.22.1 and onnxruntime 1.24.1 on CPU");
        assert_eq!(shown(&NodeBackends::default()), "nothing on nothing");
    }
}
