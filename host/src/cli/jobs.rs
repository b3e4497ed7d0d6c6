//! `sandmill jobs`: all jobs below a folder and their states.

use super::datastores::DatastoresArgument;
use super::exit::{Exit, Problem};
use super::job_store_place::open_place;
use super::jobs_found::{CurrentState, FoundJob, RootArgument, jobs_below};
use super::say;
use super::terminal::{print, print_json};
use crate::engine::{CancelRequest, StorePlace, StoredJob, stored_jobs};
use crate::machine_slots;
use crate::model::{MachineCaps, on_one_line};
use anyhow::Context;
use jiff::Timestamp;
use serde_json::{Value, json};
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// Incremented when the JSON changes incompatibly.
const VERSION: u32 = 1;

#[derive(Debug, clap::Args)]
pub(super) struct JobsArguments {
    #[command(flatten)]
    root: RootArgument,
    /// Lists the jobs whose commit logs are in this job store, instead of job directories. They may run on other
    /// machines.
    #[arg(long, value_name = "STORE", conflicts_with = "root")]
    store: Option<PathBuf>,
    #[command(flatten)]
    datastores: DatastoresArgument,
    /// Only jobs of this tenant.
    #[arg(long, value_name = "NAME")]
    pub(super) tenant: Option<String>,
    /// Only jobs in this state; may be given many times.
    #[arg(long, value_name = "STATE")]
    pub(super) state: Vec<CurrentState>,
    /// Prints JSON.
    #[arg(long)]
    pub(super) json: bool,
    #[command(flatten)]
    policy: super::PolicyArgument,
}

impl JobsArguments {
    fn selects(&self, tenant: &str, state: CurrentState) -> bool {
        let is_of_tenant = self.tenant.as_deref().is_none_or(|wanted| wanted == tenant);
        is_of_tenant && (self.state.is_empty() || self.state.contains(&state))
    }
}

pub(super) fn jobs(arguments: &JobsArguments) -> Result<Exit, Problem> {
    if let Some(store) = &arguments.store {
        return stored(arguments, store);
    }
    let root = &arguments.root.folder()?;
    let found = selected_jobs(arguments, root)?;
    let caps = arguments.policy.load()?.machine();
    let holders = if found.iter().any(|job| job.now == CurrentState::Waiting) {
        holders(&caps)
    } else {
        Vec::new()
    };
    let now = Timestamp::now();
    if arguments.json {
        let jobs: Vec<Value> = found.iter().map(|job| as_json(job, &holders, now)).collect();
        let value = json!({"version": VERSION, "root": root, "jobs": jobs});
        print_json(&format!("{value:#}\n"))?;
    } else if found.is_empty() {
        say(&format!("no such job below {}", root.display()));
    } else {
        print(&table(&found, &holders, now))?;
    }
    Ok(Exit::Completed)
}

/// The jobs that the options select.
fn selected_jobs(arguments: &JobsArguments, root: &Path) -> Result<Vec<FoundJob>, Problem> {
    let mut found = list_jobs(root)?;
    found.retain(|job| arguments.selects(job.tenant(), job.now));
    Ok(found)
}

/// The jobs below a folder. Prints a warning for each directory that cannot be read.
pub(super) fn list_jobs(root: &Path) -> Result<Vec<FoundJob>, Problem> {
    let found = jobs_below(root);
    let cannot = || format!("the jobs below {} cannot be listed", root.display());
    let (found, troubles) = found.with_context(cannot).map_err(Problem::usage)?;
    troubles.iter().for_each(|trouble| say(&format!("warning: skipped: {trouble}")));
    Ok(found)
}

/// The processes that hold slots for workers on this machine, each with its number of slots.
fn holders(caps: &MachineCaps) -> Vec<(u32, u32)> {
    machine_slots::holders(caps).unwrap_or_else(|error| {
        say(&format!(
            "warning: Sandmill cannot find out which jobs hold this machine's slots for workers: \
             {error}"
        ));
        Vec::new()
    })
}

/// Lists the jobs in a job store.
fn stored(arguments: &JobsArguments, store: &Path) -> Result<Exit, Problem> {
    let place = open_place(store, &arguments.datastores)?;
    let mut found: Vec<(StoredJob, CurrentState)> = stored_in(&place)?
        .into_iter()
        .map(|job| {
            let state = CurrentState::of_stored(&job);
            (job, state)
        })
        .collect();
    found.retain(|(job, state)| arguments.selects(&job.tenant, *state));
    if arguments.json {
        let jobs: Vec<Value> =
            found.iter().map(|(job, state)| stored_as_json(job, *state)).collect();
        print_json(&format!("{:#}\n", json!({"version": VERSION, "store": store, "jobs": jobs})))?;
    } else if found.is_empty() {
        say(&format!("no such job in {}", store.display()));
    } else {
        print(&stored_table(&found, Timestamp::now()))?;
    }
    Ok(Exit::Completed)
}

/// The jobs in a job store. Prints a warning for each log that cannot be read.
pub(super) fn stored_in(store: &StorePlace) -> Result<Vec<StoredJob>, Problem> {
    let cannot = || format!("the job store {} cannot be read", store.shown());
    let (jobs, troubles) = stored_jobs(store).with_context(cannot).map_err(Problem::usage)?;
    troubles.iter().for_each(|trouble| say(&format!("warning: skipped: {trouble}")));
    Ok(jobs)
}

fn stored_table(jobs: &[(StoredJob, CurrentState)], now: Timestamp) -> String {
    let heads = ["JOB", "STATE", "PROGRESS", "LAST WORD", "TENANT", "MACHINE", "OUTPUT"];
    let mut rows = vec![heads.map(str::to_owned)];
    let shown = |text: &str| on_one_line(text).into_owned();
    rows.extend(jobs.iter().map(|(job, state)| {
        let (succeeded, failed) = job.mini_batches;
        let failed = if failed > 0 { format!(", {failed} failed") } else { String::new() };
        [
            shown(&job.name),
            stored_state_text(job, *state),
            format!("{succeeded} done{failed}"),
            format!("{} ago", age(job.last_sign(), now)),
            shown(&job.tenant),
            shown(job.machine().unwrap_or_default()),
            shown(&job.output.as_deref().unwrap_or(Path::new("")).display().to_string()),
        ]
    }));
    aligned(&rows)
}

fn stored_state_text(job: &StoredJob, state: CurrentState) -> String {
    let more = match (&job.cancel, job.is_unpublished) {
        (_, true) if state.is_live() => ", writes its results",
        (_, true) => ", results not written",
        (Some(_), false) => ", cancel requested",
        (None, false) => "",
    };
    format!("{state}{more}")
}

/// A request to cancel a job, for programs.
pub(super) fn cancel_json(cancel: Option<&CancelRequest>) -> Value {
    cancel.map_or(Value::Null, |cancel| {
        let CancelRequest { at, host, uid, at_once, .. } = cancel;
        json!({"at": at, "machine": host, "uid": uid, "at_once": at_once})
    })
}

fn stored_as_json(job: &StoredJob, state: CurrentState) -> Value {
    let (succeeded, failed) = job.mini_batches;
    json!({
        "job": job.name,
        "log": job.place(),
        "state": state,
        "unpublished": job.is_unpublished,
        "tenant": job.tenant,
        "machine": job.machine(),
        "pid": job.pid(),
        "last_record": job.last_record,
        "last_word": job.last_sign(),
        "cancel_requested": cancel_json(job.cancel.as_ref()),
        "mini_batches": {"succeeded": succeeded, "failed": failed},
        "output": job.output,
    })
}

fn table(jobs: &[FoundJob], holders: &[(u32, u32)], now: Timestamp) -> String {
    let mut rows = vec![["JOB", "STATE", "PROGRESS", "AGE", "TENANT", "DIRECTORY"].map(Into::into)];
    rows.extend(jobs.iter().map(|job| row(job, now)));
    let mut text = aligned(&rows);
    if !holders.is_empty() {
        let _ = writeln!(text, "\nSlots for workers are held by {}.", holders_text(jobs, holders));
    }
    text
}

/// The rows of a table, in columns.
pub(super) fn aligned<const COLUMNS: usize>(rows: &[[String; COLUMNS]]) -> String {
    let mut widths = [0; COLUMNS];
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut text = String::new();
    for row in rows {
        let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}"));
        let line = cells.collect::<Vec<_>>().join("  ");
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text
}

/// `par-b (process 411): 2, process 412: 1`.
fn holders_text(jobs: &[FoundJob], holders: &[(u32, u32)]) -> String {
    let one = |(pid, slots): &(u32, u32)| match job_name(jobs, *pid) {
        Some(name) => format!("{} (process {pid}): {slots}", on_one_line(name)),
        None => format!("process {pid}: {slots}"),
    };
    holders.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// The name of the live job with this process.
fn job_name(jobs: &[FoundJob], pid: u32) -> Option<&str> {
    let held_by = |job: &&FoundJob| job.now.is_live() && job.state.pid == pid;
    jobs.iter().find(held_by).map(|job| job.state.name.as_str())
}

fn row(job: &FoundJob, now: Timestamp) -> [String; 6] {
    let history = &job.history;
    let done = history.succeeded + history.failed;
    let planned = history.planned.max(done);
    let mut progress = match (history.plan_finished && planned > 0, job.now.is_live()) {
        // Integer arithmetic, so that an unfinished job never shows 100 %.
        (true, _) => format!("{} % ({done}/{planned})", done.saturating_mul(100) / planned),
        (false, true) => format!("{done}/{planned}+"),
        (false, false) => format!("{done}/{planned}"),
    };
    if history.failed > 0 {
        let _ = write!(progress, ", {} failed", history.failed);
    }
    let state = match history.waits_since.filter(|_| job.now == CurrentState::Waiting) {
        Some(since) => format!("waiting for {}", age(since, now)),
        None => job.now.to_string(),
    };
    let shown = |text: &str| on_one_line(text).into_owned();
    [
        shown(&job.state.name),
        state,
        progress,
        age(job.state.started, now),
        shown(job.tenant()),
        shown(&job.dir.display().to_string()),
    ]
}

/// `12 s`, `5 min`, `3 h` or `9 d`.
pub(super) fn age(then: Timestamp, now: Timestamp) -> String {
    let seconds = now.duration_since(then).as_secs().max(0);
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7_200 => format!("{} min", seconds / 60),
        7_200..172_800 => format!("{} h", seconds / 3_600),
        _ => format!("{} d", seconds / 86_400),
    }
}

fn as_json(job: &FoundJob, holders: &[(u32, u32)], now: Timestamp) -> Value {
    let FoundJob { dir, state, history, .. } = job;
    let waiting = history.waits_since.filter(|_| job.now == CurrentState::Waiting).map(|since| {
        let slots: Vec<Value> =
            holders.iter().map(|(pid, slots)| json!({"pid": pid, "workers": slots})).collect();
        json!({"since": since, "held_by": slots})
    });
    json!({
        "job": state.name,
        "dir": std::path::absolute(dir).unwrap_or_else(|_| dir.clone()),
        "state": job.now,
        "unpublished": state.is_unpublished,
        "tenant": job.tenant(),
        "pid": job.now.is_live().then_some(state.pid),
        "run": state.id,
        "begun": state.begun,
        "started": state.started,
        "ended": job.ended(),
        "age_seconds": now.duration_since(state.started).as_secs(),
        "mini_batches": {
            "planned": history.planned, "planning_finished": history.plan_finished,
            "succeeded": history.succeeded, "failed": history.failed,
        },
        "items": history.items,
        "rows": history.rows,
        "waiting": waiting,
        "reason": state.result.as_ref().map(|result| &result.reason).filter(|_| !job.now.is_live()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::jobs_found::testing::job;

    #[test]
    fn jobs_are_listed_as_a_table_and_as_json() {
        let dir = tempfile::tempdir().unwrap();
        job(&dir.path().join("iris"), "2026-11-01T10:00:00Z", "completed");
        job(&dir.path().join("a-longer-name"), "2026-11-03T09:00:00Z", "running");
        let (mut jobs, _) = jobs_below(dir.path()).unwrap();
        let now: Timestamp = "2026-11-03T10:00:00Z".parse().unwrap();
        let waits = &mut jobs[0];
        (waits.now, waits.history.planned) = (CurrentState::Waiting, 3);
        waits.history.waits_since = Some("2026-11-03T09:59:50Z".parse().unwrap());
        let ended = &mut jobs[1].history;
        ended.tenant = "ada".to_owned();
        (ended.planned, ended.plan_finished) = (8, true);
        (ended.succeeded, ended.failed) = (7, 1);
        let text = table(&jobs, &[(4_000_000, 2), (17, 1)], now);
        let text = text.replace(&dir.path().display().to_string(), "jobs");
        insta::assert_snapshot!(text, @"
        JOB            STATE             PROGRESS               AGE     TENANT  DIRECTORY
        a-longer-name  waiting for 10 s  0/3+                   60 min          jobs/a-longer-name
        iris           completed         100 % (8/8), 1 failed  2 d     ada     jobs/iris

        Slots for workers are held by a-longer-name (process 4000000): 2, process 17: 1.
        ");
        let value = as_json(&jobs[0], &[(17, 1)], now);
        assert_eq!(value["waiting"]["held_by"][0]["pid"], 17);
        assert_eq!(value["state"], "waiting");
        assert_eq!(as_json(&jobs[1], &[], now)["waiting"], Value::Null);
    }
}
