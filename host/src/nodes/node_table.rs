//! The nodes of a job on other machines, and when their links have something to send. There may be a thousand nodes, so
//! a message of one node must not cost a look at all of them.

use super::remote_node::{NodeStage, RemoteNode};
use crate::bus::Bus;
use crate::model::{NodeId, count_u32};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// The shortest time between two looks at all links: this, and [`LOOK_PAUSE_OF_NODE`] for each node. Until then, a link may
/// wait with an acknowledgement or a resend.
const LOOK_PAUSE: Duration = Duration::from_millis(10);
const LOOK_PAUSE_OF_NODE: Duration = Duration::from_micros(20);
/// With fewer nodes, the leader handles each message at once.
const MANY_NODES: usize = 16;
/// How long the leader pauses for each node after it has handled messages, and how long at most. It looks at all nodes
/// when it makes decisions. So the more nodes there are, the more messages it should handle together.
const PAUSE_OF_NODE: Duration = Duration::from_micros(5);
const LONGEST_PAUSE: Duration = Duration::from_millis(5);

/// The nodes by the incarnations of their agents.
#[derive(Debug, Default)]
pub(super) struct NodeTable {
    nodes: BTreeMap<String, RemoteNode>,
    /// The incarnations of nodes that have a number.
    numbered: BTreeMap<NodeId, String>,
    /// Nodes whose links may have something to send now.
    touched: BTreeSet<String>,
    /// When a link is due that is not in `touched`.
    due: Duration,
    /// When all links were last looked at.
    looked: Duration,
    /// Whether a node has sent or got a message since the last pause.
    was_used: bool,
}

impl NodeTable {
    /// The number of nodes.
    pub(super) fn len(&self) -> usize {
        self.nodes.len()
    }

    pub(super) fn get(&self, incarnation: &str) -> Option<&RemoteNode> {
        self.nodes.get(incarnation)
    }

    /// A node that will get a message or has sent one.
    pub(super) fn get_mut(&mut self, incarnation: &str) -> Option<&mut RemoteNode> {
        let node = self.nodes.get_mut(incarnation)?;
        self.was_used = true;
        if !self.touched.contains(incarnation) {
            self.touched.insert(incarnation.to_owned());
        }
        Some(node)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&String, &RemoteNode)> {
        self.nodes.iter()
    }

    pub(super) fn values(&self) -> impl Iterator<Item = &RemoteNode> {
        self.nodes.values()
    }

    /// All nodes. All of them may get a message.
    pub(super) fn values_mut(&mut self) -> impl Iterator<Item = &mut RemoteNode> {
        self.due = Duration::ZERO;
        self.looked = Duration::ZERO;
        self.nodes.values_mut()
    }

    pub(super) fn insert(&mut self, incarnation: &str, node: RemoteNode) {
        self.nodes.insert(incarnation.to_owned(), node);
    }

    pub(super) fn remove(&mut self, incarnation: &str) -> Option<RemoteNode> {
        let node = self.nodes.remove(incarnation)?;
        if let Some(number) = node.number() {
            self.numbered.remove(&number);
        }
        Some(node)
    }

    /// Forgets the nodes that take no part and know it.
    pub(super) fn remove_dismissed(&mut self) {
        self.nodes.retain(|_, node| node.stage != NodeStage::Dismissed || !node.link.is_idle());
    }

    /// Whether a node has this number.
    pub(super) fn has_number(&self, number: NodeId) -> bool {
        self.numbered.contains_key(&number)
    }

    /// Notes the number of a node.
    pub(super) fn set_number(&mut self, incarnation: &str, number: NodeId) {
        self.numbered.insert(number, incarnation.to_owned());
    }

    /// The node with this number, if it runs workers.
    pub(super) fn working(&mut self, number: NodeId) -> Option<&mut RemoteNode> {
        let incarnation = self.numbered.get(&number)?.clone();
        self.get_mut(&incarnation).filter(|node| node.stage == NodeStage::Works(number))
    }

    /// When [`flush`](Self::flush) is due. The time is in the past if it is due now.
    pub(super) fn next_deadline(&self) -> Duration {
        if self.touched.is_empty() { self.look_at() } else { Duration::ZERO }
    }

    /// When to look at all links again.
    fn look_at(&self) -> Duration {
        let nodes = count_u32(self.nodes.len());
        self.due.max(self.looked + LOOK_PAUSE + LOOK_PAUSE_OF_NODE.saturating_mul(nodes))
    }

    /// How long the leader should pause now, so that it handles many messages together. `None` if no node has sent or got
    /// a message since the last call, or if there are few nodes.
    pub(super) fn pause(&mut self) -> Option<Duration> {
        let is_due = std::mem::take(&mut self.was_used) && self.numbered.len() >= MANY_NODES;
        let pause = PAUSE_OF_NODE.saturating_mul(count_u32(self.numbered.len()));
        is_due.then(|| pause.min(LONGEST_PAUSE))
    }

    /// Sends what is due.
    pub(super) fn flush(&mut self, bus: &Bus, now: Duration) {
        if now >= self.look_at() {
            self.touched.clear();
            self.looked = now;
            for node in self.nodes.values_mut() {
                node.flush(bus, now);
            }
            let deadlines = self.nodes.values().map(|node| node.link.next_deadline());
            self.due = deadlines.min().unwrap_or(Duration::MAX);
            return;
        }
        for incarnation in std::mem::take(&mut self.touched) {
            if let Some(node) = self.nodes.get_mut(&incarnation) {
                node.flush(bus, now);
                self.due = self.due.min(node.link.next_deadline());
            }
        }
    }
}
