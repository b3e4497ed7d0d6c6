//! Lists, shows and changes the jobs of a server.

use super::super::exit::{Exit, Problem};
use super::super::jobs::{age, aligned};
use super::super::say;
use super::super::terminal::{self, print, print_json};
use super::client::ServerClient;
use crate::model::on_one_line;
use anyhow::anyhow;
use jiff::Timestamp;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::thread::sleep;
use std::time::Duration;

/// The pause between two looks at a job.
const INTERVAL: Duration = Duration::from_secs(1);

/// The id of a job, as a part of a path.
///
/// # Errors
/// If none is given, or it cannot be one.
pub(super) fn id_of(given: Option<&std::path::Path>) -> Result<String, Problem> {
    let given = given.map(|given| given.to_string_lossy().into_owned());
    let is_id = |id: &String| !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_alphanumeric());
    given.filter(is_id).ok_or_else(|| {
        Problem::usage(anyhow!("name the id of a job of the server; sandmill jobs lists them"))
    })
}

/// Refuses options that a command does not have on a server. Each is given or not.
pub(in crate::cli) fn refuse_options(options: &[(&str, bool)]) -> Result<(), Problem> {
    match options.iter().find(|(_, is_given)| *is_given) {
        Some((option, _)) => Err(Problem::usage(anyhow!(
            "{option} does not work with a job of a server (--server): leave it out"
        ))),
        None => Ok(()),
    }
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

/// How long ago a time was. Empty if there is none.
fn ago(value: &Value, key: &str, now: Timestamp) -> String {
    let at: Option<Timestamp> = text(value, key).parse().ok();
    at.map(|at| age(at, now)).unwrap_or_default()
}

/// Lists jobs. `phases`: only those in these phases.
pub(in crate::cli) fn list(
    server: &ServerClient,
    phases: &[String],
    tenant: Option<&str>,
    as_json: bool,
) -> Result<Exit, Problem> {
    let mut query = "limit=1000".to_owned();
    if !phases.is_empty() {
        // Writing to a string cannot fail.
        let _ = write!(query, "&phase={}", phases.join(","));
    }
    if let Some(tenant) = tenant {
        let _ = write!(query, "&tenant={tenant}");
    }
    let mut jobs = Vec::new();
    let mut cursor = String::new();
    loop {
        let page = server.get(&format!("/v1/jobs?{query}{cursor}"))?;
        jobs.extend(page["items"].as_array().cloned().unwrap_or_default());
        match page["next"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    if as_json {
        print_json(&format!("{:#}\n", json!({"server": server.url(), "jobs": jobs})))?;
    } else if jobs.is_empty() {
        say(&format!("no such job on {}", server.url()));
    } else {
        print(&table(&jobs, Timestamp::now()))?;
    }
    Ok(Exit::Completed)
}

fn table(jobs: &[Value], now: Timestamp) -> String {
    let mut rows = vec![["ID", "JOB", "STATE", "PROGRESS", "AGE", "TENANT"].map(str::to_owned)];
    rows.extend(jobs.iter().map(|job| {
        let shown = |key| on_one_line(text(job, key)).into_owned();
        let state = wished(job);
        [
            shown("id"),
            shown("name"),
            state,
            progress(job),
            ago(job, "submitted", now),
            shown("tenant"),
        ]
    }));
    aligned(&rows)
}

/// What a job does, and what it will do.
fn wished(job: &Value) -> String {
    match (text(job, "phase"), text(job, "wish")) {
        (phase @ ("queued" | "running"), wish @ ("pause" | "cancel")) => {
            format!("{phase}, to {wish}")
        }
        (phase @ ("queued" | "running"), "cancel_at_once") => format!("{phase}, to cancel"),
        (phase, _) => phase.to_owned(),
    }
}

fn progress(job: &Value) -> String {
    let count = |key: &str| job["counts"][key].as_u64().unwrap_or_default();
    let (done, failed) = (count("succeeded") + count("failed"), count("failed"));
    let planned = count("planned").max(done);
    let mut text = match job["counts"]["planning_finished"].as_bool() {
        Some(true) if planned > 0 => format!("{} % ({done}/{planned})", done * 100 / planned),
        _ => format!("{done}/{planned}"),
    };
    if failed > 0 {
        // Writing to a string cannot fail.
        let _ = write!(text, ", {failed} failed");
    }
    text
}

/// Shows a job.
pub(in crate::cli) fn status(
    server: &ServerClient,
    job: Option<&std::path::Path>,
    (as_json, watch, exit_code): (bool, bool, bool),
) -> Result<Exit, Problem> {
    let id = id_of(job)?;
    loop {
        let job = server.get(&format!("/v1/jobs/{id}"))?;
        match as_json {
            true => print_json(&format!("{job:#}\n"))?,
            false => {
                if watch {
                    terminal::clear_screen();
                }
                print(&status_text(&job, Timestamp::now()))?;
            }
        }
        let exit = exit_of(&job);
        if !watch || exit != Exit::Unfinished {
            return Ok(if exit_code { exit } else { Exit::Completed });
        }
        sleep(INTERVAL);
    }
}

fn status_text(job: &Value, now: Timestamp) -> String {
    let shown = |key: &str| on_one_line(text(job, key)).into_owned();
    let mut lines = format!("Job {} ({}) is {}.\n", shown("name"), shown("id"), wished(job));
    let mut line = |label: &str, value: String| {
        if !value.is_empty() {
            // Writing to a string cannot fail.
            let _ = writeln!(lines, "  {label:<14}{value}");
        }
    };
    line("progress", progress(job));
    let number = |key: &str| job["counts"][key].as_u64().unwrap_or_default();
    line(
        "items",
        format!("{} succeeded, {} failed", number("items_succeeded"), number("items_failed")),
    );
    line("rows", number("rows").to_string());
    if let Some(rate) = job["rate"].as_f64() {
        line("rate", format!("{rate:.1} mini-batches a second"));
    }
    if let Some(left) = job["seconds_left"].as_f64() {
        line("time left", format!("about {left:.0} s"));
    }
    line("waits", shown("waits"));
    line("reason", shown("reason"));
    let failure = &job["first_failure"];
    line("first failure", on_one_line(text(failure, "message")).into_owned());
    let word = ago(job, "last_word", now);
    if exit_of(job) == Exit::Unfinished && !word.is_empty() {
        line("last word", format!("{word} ago"));
    }
    lines
}

/// How `run` would exit.
fn exit_of(job: &Value) -> Exit {
    match text(job, "phase") {
        "completed" => Exit::Completed,
        "failed" => Exit::Failed,
        "cancelled" => Exit::Cancelled,
        _ => Exit::Unfinished,
    }
}

/// Waits until a job has ended, and says how. Returns how `run` would exit.
pub(super) fn wait_for_end(server: &ServerClient, id: &str) -> Result<Exit, Problem> {
    loop {
        let job = server.get(&format!("/v1/jobs/{id}"))?;
        let exit = exit_of(&job);
        if exit != Exit::Unfinished {
            say(status_text(&job, Timestamp::now()).trim_end());
            return Ok(exit);
        }
        sleep(INTERVAL);
    }
}

/// Explains a job.
pub(in crate::cli) fn explain(
    server: &ServerClient,
    job: Option<&std::path::Path>,
    as_json: bool,
) -> Result<Exit, Problem> {
    let found = server.get(&format!("/v1/jobs/{}/explain", id_of(job)?))?;
    match as_json {
        true => print_json(&format!("{found:#}\n"))?,
        false => print(text(&found, "text"))?,
    }
    Ok(Exit::Completed)
}

/// Cancels a job.
pub(in crate::cli) fn cancel(
    server: &ServerClient,
    job: Option<&std::path::Path>,
    (at_once, wait): (bool, bool),
) -> Result<Exit, Problem> {
    let id = id_of(job)?;
    let job = server.post(&format!("/v1/jobs/{id}/cancel"), &json!({"at_once": at_once}))?;
    let name = on_one_line(text(&job, "name"));
    say(&format!(
        "Job {name} is asked to end. What is committed is kept; resume it later with: sandmill resume {id}"
    ));
    if wait {
        // How the job ended is not how this command ended.
        wait_for_end(server, &id)?;
    }
    Ok(Exit::Completed)
}

/// Pauses a job.
pub(in crate::cli) fn pause(server: &ServerClient, id: &str) -> Result<Exit, Problem> {
    let id = id_of(Some(id.as_ref()))?;
    let job = server.post(&format!("/v1/jobs/{id}/pause"), &json!({}))?;
    let name = on_one_line(text(&job, "name"));
    say(&format!(
        "Job {name} finishes its running mini-batches and pauses; go on with: sandmill resume {id}"
    ));
    Ok(Exit::Completed)
}

/// Resumes a job.
pub(in crate::cli) fn resume(
    server: &ServerClient,
    job: Option<&std::path::Path>,
) -> Result<Exit, Problem> {
    let id = id_of(job)?;
    let job = server.post(&format!("/v1/jobs/{id}/resume"), &json!({}))?;
    say(&format!(
        "Job {} goes on; see it with: sandmill status {id}",
        on_one_line(text(&job, "name"))
    ));
    Ok(Exit::Completed)
}
