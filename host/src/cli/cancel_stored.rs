//! `sandmill cancel --store`: leaves a request in the job's store. The job's leader reads it within about a second. If
//! the leader is dead, the next one reads it first.

use super::exit::{Exit, Problem};
use super::job_source::{leader_of, resume_elsewhere, stored_state};
use super::jobs::age;
use super::say;
use crate::engine::{CancelRequest, JobStanding, JobState, StoredView};
use crate::model::{on_one_line, shell_word};
use anyhow::anyhow;
use jiff::Timestamp;
use std::thread::sleep;
use std::time::Duration;

/// The pause between two looks at a job that is to end.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Asks a job in a job store to end.
pub(super) fn cancel_stored(
    view: &mut StoredView,
    at_once: bool,
    wait: bool,
) -> Result<Exit, Problem> {
    let state = stored_state(view)?;
    if view.status().is_some() && !view.is_live() {
        return Err(not_running(&state));
    }
    if state.is_unpublished {
        return Err(writes_results(&state, &leader_of(view, &state)));
    }
    let now = Timestamp::now();
    let is_enough = |request: &&CancelRequest| request.at_once || !at_once;
    if let Some(request) = view.cancel_request().filter(is_enough) {
        say(&already_asked(view, request, now));
    } else {
        view.request_cancel(at_once).map_err(Problem::usage)?;
        say(&asked(view, &state, at_once, now));
    }
    while wait && view.is_live() {
        sleep(POLL_INTERVAL);
        view.read_state().map_err(Problem::usage)?;
    }
    Ok(Exit::Completed)
}

fn asked(view: &StoredView, state: &JobState, at_once: bool, now: Timestamp) -> String {
    let name = view.name();
    if !view.is_live() {
        let silent = view.last_word().map(|word| format!(" (last word {} ago)", age(word.at, now)));
        return format!(
            "Job {name} has no process now{}. The request stays in the job store: nodes that still run workers of \
             the job end them, and the next process that leads the job ends it as cancelled. Committed results \
             are kept.",
            silent.unwrap_or_default()
        );
    }
    let how = match at_once {
        true => "ends immediately",
        false => "finishes its running mini-batches, and begins no new ones",
    };
    format!(
        "Job {name} ({}) {how}, as soon as it reads the request in the job store. Committed results are kept; \
         resume later with: {}",
        leader_of(view, state),
        resume_elsewhere(state).advice(name, "")
    )
}

fn already_asked(view: &StoredView, request: &CancelRequest, now: Timestamp) -> String {
    let host = on_one_line(&request.host);
    let ago = age(request.at, now);
    let how = if request.at_once { " at once" } else { "" };
    let waits = if view.is_live() {
        ""
    } else {
        " It has no process now, and the next one that leads it ends it as cancelled."
    };
    format!("Job {} was already asked to end{how}, {ago} ago on {host}.{waits}", view.name())
}

/// The error for a job whose mini-batches are done. `process`: the one that writes the results.
pub(super) fn writes_results(state: &JobState, process: &str) -> Problem {
    Problem::usage(anyhow!(
        "job {} can no longer be cancelled: its mini-batches are done, and {process} writes the results to {}; to stop \
         this, press Ctrl-C where that process runs, or end it with kill",
        state.name,
        state.output_shown().display()
    ))
}

/// The error for a job that has no process. If it has a job store, the message says how to cancel it there.
pub(super) fn not_running(state: &JobState) -> Problem {
    if state.is_unpublished {
        return Problem::usage(anyhow!(
            "job {} does not run: its mini-batches are done, and its results are not all in {}; sandmill status says \
             how to write them there",
            state.name,
            state.output_shown().display()
        ));
    }
    let store = state.run_folder.as_ref().filter(|_| state.status == JobStanding::Running);
    let store = store.and_then(|run| run.parent()?.parent());
    if let Some(store) = store {
        return Problem::usage(anyhow!(
            "job {} does not run: it was interrupted; to have the next process that leads it end it as cancelled: \
             sandmill cancel {} --store {}",
            state.name,
            state.name,
            shell_word(&store.display().to_string())
        ));
    }
    let ended = state.ended.map(|ended| format!(" at {ended:.0}")).unwrap_or_default();
    Problem::usage(anyhow!("job {} does not run: it {}{ended}", state.name, state.status.how()))
}
