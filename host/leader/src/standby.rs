//! Waits while another machine runs a job, to continue the job if that machine is lost.

use super::claim::resolve;
use super::claim_error::ClaimError;
use super::folder_lock::is_locked;
use super::job_store::{successor_file, worker_dir};
use crate::cancel::Cancel;
use crate::spec::{JobSpec, JobStorePlace};
use sandmill_commit_log::is_run_id;
use std::time::Duration;
use std::{fs, process};

/// The time between two looks at the lock of the output folder.
const INTERVAL: Duration = Duration::from_millis(500);

/// Waits until no process works in the job's output folder. `say` receives a line if this takes time. Returns
/// whether it waited. Returns early if the job is cancelled.
///
/// `take_over`: the id of the run whose leader seems lost. If this leader is only cut off from its nodes, it notices
/// that this process waits, and ends.
///
/// # Errors
/// If the output folder cannot be found.
pub fn wait_for_turn(
    spec: &JobSpec,
    take_over: Option<&str>,
    cancel: &Cancel,
    say: &mut dyn FnMut(&str),
) -> Result<bool, ClaimError> {
    let Some(output) = &spec.output else { return Ok(false) };
    let output = resolve(output)?;
    let store = spec.job_store.as_ref().and_then(JobStorePlace::folder);
    let sign = match (take_over.filter(|run| is_run_id(run)), store) {
        (Some(run), Some(store)) => {
            Some(successor_file(&worker_dir(&resolve(store)?.join(&spec.name), run)))
        }
        _ => None,
    };
    let mut has_waited = false;
    let mut looks = 0_u64;
    while is_locked(&output) && cancel.reason().is_none() {
        if !has_waited {
            say(&format!(
                "another process works in the output folder {}; waiting, to continue the job if that process \
                 is lost",
                output.display()
            ));
            has_waited = true;
        }
        // If this fails, the leader does not notice this process, which then waits longer.
        let _ = sign.as_ref().map(|sign| fs::write(sign, format!("{} {looks}", process::id())));
        looks += 1;
        std::thread::sleep(INTERVAL);
    }
    Ok(has_waited)
}
