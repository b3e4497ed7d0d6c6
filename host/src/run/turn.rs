//! Waits until this process may lead a job, and then prepares the job.

use super::{Options, PrepareError, Prepared, job_objects, prepare_now};
use crate::engine::{self, ClaimError};
use crate::node::{NodeError, NodeOptions};
use crate::spec::JobSpec;
use std::time::Duration;

/// Waits until no other process works in the job's output folder, then prepares the job.
pub(super) fn prepare_in_turn(
    spec: &JobSpec,
    options: &Options,
    say: &mut dyn FnMut(&str),
) -> Result<Prepared, PrepareError> {
    let take_over = options.assignment.as_ref().and_then(|by| by.take_over.as_deref());
    let mut has_waited = take_over.is_some();
    loop {
        has_waited |= engine::wait_for_turn(spec, take_over, &options.cancel, say)?;
        if let Some(reason) = options.cancel.reason() {
            return Err(PrepareError::Node(NodeError::Cancelled(reason)));
        }
        let mut lines = Vec::new();
        let mut keep_line = |line: &str| lines.push(line.to_owned());
        // While this process waits, its tries are shown only if they succeed.
        let shown: &mut dyn FnMut(&str) = if has_waited { &mut keep_line } else { say };
        match prepare_now(spec.clone(), options, has_waited, shown) {
            // Another standby was faster.
            Err(PrepareError::JobDir(ClaimError::OutputInUse(_) | ClaimError::Running { .. })) => {
                has_waited = true;
                std::thread::sleep(Duration::from_millis(500));
            }
            Err(PrepareError::JobDir(ClaimError::LedElsewhere { leader, .. })) => {
                if let Some(run) = take_over {
                    // If this fails, a leader that is cut off from its nodes does not notice this process.
                    let _ = show_successor(spec, run, &options.node());
                }
                if !has_waited {
                    say(&format!(
                        "{leader} leads the job; waiting, to continue the job if that process is lost"
                    ));
                }
                has_waited = true;
            }
            prepared => {
                lines.iter().for_each(|line| say(line));
                return prepared;
            }
        }
    }
}

/// Shows the leader of a run that this process waits to take over.
fn show_successor(spec: &JobSpec, run: &str, node: &NodeOptions) -> Result<(), PrepareError> {
    let Some(place) = &spec.job_store else { return Ok(()) };
    engine::show_successor(&*job_objects(spec, place, node)?, run);
    Ok(())
}
