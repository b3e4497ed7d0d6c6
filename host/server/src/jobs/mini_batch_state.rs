//! The states of mini-batches.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The state of a mini-batch that a worker has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum MiniBatchState {
    /// A worker runs it.
    Running,
    /// It waits for its next attempt.
    Waiting,
    /// It succeeded.
    Succeeded,
    /// It failed for good.
    Failed,
}

impl MiniBatchState {
    /// All states with their names.
    pub(crate) const NAMED: [(&'static str, Self); 4] = [
        ("running", Self::Running),
        ("waiting", Self::Waiting),
        ("succeeded", Self::Succeeded),
        ("failed", Self::Failed),
    ];

    /// The name.
    pub(crate) fn name(self) -> &'static str {
        Self::NAMED.iter().find(|(_, state)| *state == self).map_or("", |(name, _)| name)
    }

    /// The state with this name.
    pub(super) fn named(name: &str) -> Self {
        let found = Self::NAMED.iter().find(|(known, _)| *known == name);
        found.map_or(Self::Waiting, |(_, state)| *state)
    }
}
