//! The plan of a run in the job's store: the descriptors of its mini-batches, and how tables are read. A leader that
//! continues the run grants these mini-batches at once, and its planner continues after them.
//!
//! Object n of the folder `plan` follows object n - 1 without a gap. The leader writes it before it grants any
//! mini-batch in it. The commit log decides what counts, also here: if two leaders write, they write parts of the same
//! plan, because each has checked that the inputs are those of the plan so far.
//!
//! - `object` is the content of one object. `reading` reads all of them, and `writing` is the thread that writes them.
//!
//! This module imports `protocol`, `model` and the commit log.

mod object;
mod reading;
#[cfg(test)]
mod tests;
mod writing;

pub(super) use object::PlanObject;
pub(super) use reading::{KnownPlan, PlanFeed, PlanUse, StoredPlan, StoredPlanError};
pub(super) use writing::{PlanWriter, PlanWritten};
