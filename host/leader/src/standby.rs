//! Waits while another machine runs a job, to continue the job if that machine is lost.

use super::claim::resolve;
use super::claim_error::ClaimError;
use super::folder_lock::is_locked;
use super::job_store::{successor_file, worker_dir};
use crate::cancel::Cancel;
use crate::model::random_name;
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
        show_successor(spec, take_over);
        std::thread::sleep(INTERVAL);
    }
    Ok(has_waited)
}

/// Shows a leader that this process waits to lead the job. Call this again and again. `take_over`: as in
/// [`wait_for_turn`]. If this fails, the leader does not notice this process, which then waits longer.
fn show_successor(spec: &JobSpec, take_over: Option<&str>) {
    let store = spec.job_store.as_ref().and_then(JobStorePlace::folder);
    if let (Some(run), Some(store)) = (take_over.filter(|run| is_run_id(run)), store)
        && let Ok(store) = resolve(store)
    {
        let sign = successor_file(&worker_dir(&store.join(&spec.name), run));
        let _ = fs::write(sign, format!("{} {}", process::id(), random_name()));
    }
}
