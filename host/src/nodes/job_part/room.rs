//! A part in a job when the disk of its machine has no room: the node takes no more attempts, and what runs is finished.
//! If nothing that the node has can free room, it leaves the job, so that another machine can replace it.

use super::super::agent_options::Wish;
use super::super::kept_reports::ended_attempt;
use super::super::part_end::PartEnd;
use super::{JobPart, Work};
use crate::bus::FromNode;
use crate::protocol::{NodeReport, Order, WorkersEnd};
use std::time::Duration;

/// A node that has nothing to do, and no room, leaves after this time.
const ROOM_PATIENCE: Duration = Duration::from_secs(10);

/// What a part does about a full disk.
#[derive(Debug, Default)]
pub(super) struct Room {
    /// Whether the leader knows that the disk is full.
    is_full: bool,
    /// Whether the user has learned it.
    has_said: bool,
    /// Since when the node has nothing to do. `None` if the disk has room, or if the node has work.
    useless_since: Option<Duration>,
    /// Whether an attempt has ended here.
    has_worked: bool,
    /// Why the node leaves.
    leaves: Option<String>,
}

impl Room {
    /// Notes what the node reports.
    pub(super) fn note(&mut self, report: &NodeReport) {
        self.has_worked |= ended_attempt(report).is_some();
    }
}

impl JobPart {
    /// Says why this machine takes no part now. Returns whether that is so.
    pub(super) fn declines_for_room(&mut self) -> bool {
        let Some(full) = self.disk.full() else { return false };
        let reason = full.to_string();
        self.send(&FromNode::NoRoom { name: self.options.name.clone(), reason: reason.clone() });
        self.room.leaves = Some(reason);
        true
    }

    /// Whether the node ends its workers because there is no room.
    pub(super) fn leaves_for_room(&self) -> bool {
        self.room.leaves.is_some()
    }

    /// The end of a part that finishes what its workers run, or that did not begin.
    pub(super) fn drained(&self) -> PartEnd {
        match (&self.room.leaves, *self.wish.borrow()) {
            (Some(reason), Wish::TakePart | Wish::Renew) => {
                let was_useless = self.work.is_some() && !self.room.has_worked;
                PartEnd::NoRoom { reason: reason.clone(), was_useless }
            }
            _ => PartEnd::Stopped,
        }
    }

    /// When to look again, if nothing else happens.
    pub(super) fn room_deadline(&self) -> Duration {
        self.room.useless_since.map_or(Duration::MAX, |since| since + ROOM_PATIENCE)
    }

    /// Passes on whether the disk has room.
    pub(super) fn check_room(&mut self) {
        let full = self.disk.full();
        let Some(work) = &mut self.work else { return };
        if full.is_some() != self.room.is_full {
            self.room.is_full = full.is_some();
            let reports = work.running.set_full(full.is_some());
            self.has_changed = true;
            self.collect(reports);
            if let Some(full) = full.as_ref().filter(|_| !self.room.has_said) {
                self.room.has_said = true;
                self.outbox.push(NodeReport::Notice(format!(
                    "the machine {} takes no more mini-batches for now, because {full}. It goes on when there is \
                     room. Until then, other machines may join",
                    self.options.name
                )));
            }
        }
        if full.is_none() || !self.is_useless() {
            self.room.useless_since = None;
            return;
        }
        let now = self.now();
        let since = *self.room.useless_since.get_or_insert(now);
        let is_due = now >= since + ROOM_PATIENCE;
        if let Some(full) = full.filter(|_| is_due && !self.leaves_for_room()) {
            self.room.leaves = Some(full.to_string());
            self.obey(Order::End(WorkersEnd::Orderly));
        }
    }

    /// Whether nothing that the node does can free room.
    fn is_useless(&self) -> bool {
        let Some(Work { running, .. }) = &self.work else { return false };
        let standing = running.standing();
        let works = standing.starting + standing.loading + standing.running > 0;
        !works && !standing.is_ending && self.has_reported()
    }
}
