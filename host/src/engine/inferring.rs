//! What the machine is told of who computes with which model, for the words of a time-out: a backend may hang, and a
//! killed worker says nothing any more.

use super::machine::{Machine, Message};
use crate::model::JobDir;
use crate::node::SetupTemplate;
use std::time::Instant;

/// What the machine is told once somebody may be late: who is at what, and that time has passed. `start`:
/// when its own clock began.
pub(super) fn tick(
    job_dir: &JobDir,
    template: &SetupTemplate,
    machine: &Machine,
    start: Instant,
) -> Vec<Message> {
    let noted = |(worker, most)| {
        let words = template.inferring(job_dir, worker, most)?;
        Some(Message::Inferring(worker, words))
    };
    let mut messages: Vec<_> = machine.inside_guests(start.elapsed()).filter_map(noted).collect();
    messages.push(Message::Tick);
    messages
}
