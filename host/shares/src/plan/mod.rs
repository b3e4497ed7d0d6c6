//! Computes who gets what. First, `fill` decides how many workers each job shall have, as if the cluster were empty.
//! Then `hand_out` decides which of them the jobs may start now, while other jobs still hold workers that they have
//! to give back. At last, `explain` says it in the terms of the callers.

mod dimensions;
mod explain;
mod fill;
mod hand_out;
mod queue;
mod table;

use crate::grants::Grants;
use crate::state::State;
use explain::Plan;
use fill::Fill;
use queue::Queues;
use std::time::Duration;
use table::Table;

/// Computes the grants for this state. Changes nothing.
pub(crate) fn plan(state: &State, now: Duration) -> Grants {
    let mut table = Table::new(state, now);
    let queues = Queues::new(&table);
    let (taken, steps) = Fill::run(&mut table, &queues);
    let added = hand_out::hand_out(&mut table, &steps);
    Plan { table: &table, order: queues.arrivals, taken, added, now }.grants(state)
}
