//! Who made an attempt.

use crate::model::{NodeId, WorkerId};

/// Who made an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Performer {
    pub(super) node: NodeId,
    pub(super) worker: WorkerId,
}
