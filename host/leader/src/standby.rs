//! Waits while another machine runs a job, to continue the job if that machine is lost.

use super::claim::resolve;
use super::claim_error::ClaimError;
use super::folder_lock::is_locked;
use crate::cancel::Cancel;
use crate::spec::JobSpec;
use std::time::Duration;

/// The time between two looks at the lock of the output folder.
const INTERVAL: Duration = Duration::from_millis(500);

/// Waits until no process works in the job's output folder. `say` receives a line if this takes time. Returns
/// whether it waited. Returns early if the job is cancelled.
///
/// # Errors
/// If the output folder cannot be found.
pub fn wait_for_turn(
    spec: &JobSpec,
    cancel: &Cancel,
    say: &mut dyn FnMut(&str),
) -> Result<bool, ClaimError> {
    let Some(output) = &spec.output else { return Ok(false) };
    let output = resolve(output)?;
    let mut has_waited = false;
    while is_locked(&output) && cancel.reason().is_none() {
        if !has_waited {
            say(&format!(
                "another process works in the output folder {}; waiting, to continue the job if that process \
                 is lost",
                output.display()
            ));
            has_waited = true;
        }
        std::thread::sleep(INTERVAL);
    }
    Ok(has_waited)
}
