//! Attempts that wait until their mini-batches are planned.

use crate::model::NodeId;
use crate::protocol::{ContinuedAttempt, NodeNews};

/// An attempt of an earlier leader whose mini-batch is not planned yet.
#[derive(Debug)]
pub(super) struct UnplannedAttempt {
    pub(super) node: NodeId,
    pub(super) continued: ContinuedAttempt,
    /// What the node has reported of it since.
    pub(super) news: Vec<NodeNews>,
}

impl UnplannedAttempt {
    /// Whether it is the attempt with this number on this node.
    pub(super) fn is(&self, (node, attempt): (NodeId, u32)) -> bool {
        self.node == node && self.continued.attempt == attempt
    }
}
