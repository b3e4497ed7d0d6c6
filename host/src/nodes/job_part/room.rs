//! A part in a job when the disk of its machine has no room: the node takes no more attempts, and what runs is finished.
//! If nothing that the node has can free room, it leaves the job, so that another machine can replace it.

use super::super::agent_options::Wish;
use super::super::part_end::PartEnd;
use super::{JobPart, Work};
use crate::bus::FromNode;
use crate::protocol::{NodeReport, Order, WorkersEnd};
use std::time::Duration;

/// A node that has nothing to do, and no room, leaves after this time.
const ROOM_PATIENCE: Duration = Duration::from_secs(10);
/// The same, if rows of the node in a shared folder may still get into the output, which makes room.
const ROWS_PATIENCE: Duration = Duration::from_secs(30);

/// What a part does about a full disk.
#[derive(Debug, Default)]
pub(super) struct Room {
    /// Whether the leader knows that the disk is full.
    is_full: bool,
    /// Whether the user has learned it.
    has_said: bool,
    /// Since when the node has nothing to do, and none of its rows got into the output. `None` if the disk has room, or if the
    /// node has work.
    useless_since: Option<Duration>,
    /// How many bytes of rows were not in the output then.
    unfreed: u64,
    /// Why the node leaves.
    leaves: Option<String>,
}

impl Room {
    /// Notes that the node has nothing to do, and how many bytes of its rows are not in the output.
    fn note_useless(&mut self, unfreed: u64, now: Duration) {
        if self.useless_since.is_none() || unfreed < self.unfreed {
            self.useless_since = Some(now);
        }
        self.unfreed = unfreed;
    }

    /// When the node leaves. Rows of an ordered job get into the output only at the job's end, so the node does not wait for
    /// them forever.
    fn leaves_at(&self) -> Option<Duration> {
        let patience = if self.unfreed > 0 { ROWS_PATIENCE } else { ROOM_PATIENCE };
        self.useless_since.map(|since| since + patience)
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
                PartEnd::NoRoom { reason: reason.clone(), has_joined: self.work.is_some() }
            }
            _ => PartEnd::Stopped,
        }
    }

    /// When to look again, if nothing else happens.
    pub(super) fn room_deadline(&self) -> Duration {
        self.room.leaves_at().unwrap_or(Duration::MAX)
    }

    /// Passes on whether the disk has room.
    pub(super) fn check_room(&mut self) {
        let unfreed = match &self.work {
            // Its rows are in a folder that all machines share.
            Some(work) if !work.prepared.is_folder_own => self.kept.bytes(),
            // The watch sees the files of workers.
            _ => 0,
        };
        self.unfreed.set(unfreed);
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
        self.room.note_useless(unfreed, now);
        let is_due = self.room.leaves_at().is_some_and(|at| now >= at);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_without_work_leaves_also_if_its_rows_stay() {
        let mut room = Room::default();
        assert_eq!(room.leaves_at(), None);
        let second = Duration::from_secs;
        room.note_useless(0, second(5));
        room.note_useless(0, second(9));
        assert_eq!(room.leaves_at(), Some(second(15)));
        let mut room = Room::default();
        room.note_useless(100, second(5));
        assert_eq!(room.leaves_at(), Some(second(35)));
        // Rows got into the output.
        room.note_useless(60, second(20));
        room.note_useless(60, second(40));
        assert_eq!(room.leaves_at(), Some(second(50)));
        room.note_useless(0, second(41));
        assert_eq!(room.leaves_at(), Some(second(51)));
    }
}
