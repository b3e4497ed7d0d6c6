//! `sandmill clean`: removes the directories of jobs that ended long ago, or their commit logs.

use super::datastores::DatastoresArgument;
use super::exit::{Exit, Problem};
use super::job_store_place::open_place;
use super::jobs::{age, list_jobs, stored_in};
use super::jobs_found::{CurrentState, FoundJob, RootArgument};
use super::say;
use super::terminal::{print, print_json};
use crate::engine::JobHold;
use crate::files::{remove_tree, tree_bytes};
use crate::model::{ByteSize, JobDir, on_one_line};
use jiff::Timestamp;
use serde_json::{Value, json};
use std::fmt::Write;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Incremented when the JSON changes incompatibly.
const VERSION: u32 = 1;

#[derive(Debug, clap::Args)]
pub(super) struct CleanArguments {
    #[command(flatten)]
    root: RootArgument,
    /// Removes the commit logs of jobs in this job store, instead of job directories.
    #[arg(long, value_name = "STORE", conflicts_with_all = ["root", "keep_output"])]
    store: Option<PathBuf>,
    #[command(flatten)]
    datastores: DatastoresArgument,
    /// Only jobs that ended at least this long ago: a number of s, min, h or d, such as 30d.
    #[arg(long, value_name = "AGE", value_parser = parse_age)]
    older_than: i64,
    /// Keeps job.json and an output folder inside the job directory.
    #[arg(long)]
    keep_output: bool,
    /// Also jobs that failed, were cancelled or were interrupted, which could be resumed.
    #[arg(long)]
    failed: bool,
    /// Shows what would be removed, and removes nothing.
    #[arg(long)]
    dry_run: bool,
    /// Prints JSON.
    #[arg(long)]
    json: bool,
}

/// Parses an age such as `30d`. Returns seconds.
fn parse_age(text: &str) -> Result<i64, String> {
    let wrong = || "expected a number of s, min, h or d, such as 30d".to_owned();
    let digits = text.find(|letter: char| !letter.is_ascii_digit()).ok_or_else(wrong)?;
    let (number, unit) = text.split_at(digits);
    let unit = match unit {
        "s" => 1,
        "min" => 60,
        "h" => 3_600,
        "d" => 86_400,
        _ => return Err(wrong()),
    };
    let number: i64 = number.parse().map_err(|_| wrong())?;
    number.checked_mul(unit).ok_or_else(wrong)
}

/// A job that was removed, or would be removed with `--dry-run`.
#[derive(Debug)]
struct Removed {
    job: String,
    /// The removed folder, or the address of the removed objects.
    dir: PathBuf,
    state: CurrentState,
    ended: Option<Timestamp>,
    /// The bytes that were freed. `None` if they are unknown.
    bytes: Option<u64>,
}

/// Removes the selected jobs, and prints what was removed.
pub(super) fn clean(arguments: &CleanArguments) -> Result<Exit, Problem> {
    let now = Timestamp::now();
    let (removed, exit) = match &arguments.store {
        Some(store) => clean_store(store, arguments, now)?,
        None => clean_directories(arguments, now)?,
    };
    if arguments.json {
        print_json(&as_json(&removed, arguments))?;
    } else {
        print(&text(&removed, arguments, now))?;
    }
    Ok(exit)
}

fn clean_directories(
    arguments: &CleanArguments,
    now: Timestamp,
) -> Result<(Vec<Removed>, Exit), Problem> {
    let mut removed = Vec::new();
    let mut exit = Exit::Completed;
    for job in list_jobs(&arguments.root.folder()?)? {
        if !is_selected(job.now, job.ended(), arguments, now) {
            continue;
        }
        match remove(&job, arguments) {
            Ok(Some(bytes)) => {
                let state = job.now;
                let ended = job.ended();
                let bytes = Some(bytes);
                removed.push(Removed { job: job.state.name, dir: job.dir, state, ended, bytes });
            }
            Ok(None) => {}
            Err(error) => {
                say(&format!("error: {} cannot be removed: {error}", job.dir.display()));
                exit = Exit::Failed;
            }
        }
    }
    Ok((removed, exit))
}

/// Removes the selected commit logs of a job store.
fn clean_store(
    store: &Path,
    arguments: &CleanArguments,
    now: Timestamp,
) -> Result<(Vec<Removed>, Exit), Problem> {
    let jobs = stored_in(&open_place(store, &arguments.datastores)?)?;
    let mut removed = Vec::new();
    let mut exit = Exit::Completed;
    for job in jobs {
        let state = CurrentState::of_stored(&job);
        let ended = Some(job.last_record);
        if !is_selected(state, ended, arguments, now) {
            continue;
        }
        let bytes = job.bytes();
        match if arguments.dry_run { Ok(true) } else { job.remove() } {
            Ok(true) => {
                let dir = PathBuf::from(job.place());
                removed.push(Removed { job: job.name, dir, state, ended, bytes });
            }
            Ok(false) => say(&format!(
                "{} is kept: the job may be running, or its output folder is not on this machine",
                job.place()
            )),
            Err(error) => {
                say(&format!("error: {} cannot be removed: {error}", job.place()));
                exit = Exit::Failed;
            }
        }
    }
    Ok((removed, exit))
}

fn is_selected(
    state: CurrentState,
    ended: Option<Timestamp>,
    arguments: &CleanArguments,
    now: Timestamp,
) -> bool {
    let is_ended = match state {
        CurrentState::Running | CurrentState::Waiting => false,
        CurrentState::Completed => true,
        CurrentState::Failed | CurrentState::Cancelled | CurrentState::Interrupted => {
            arguments.failed
        }
    };
    let ended = ended.filter(|_| is_ended);
    ended.is_some_and(|ended| now.duration_since(ended).as_secs() >= arguments.older_than)
}

/// Removes a job's directory, or the part of it that is not kept. Returns the bytes that were freed, or would
/// be freed with `--dry-run`. `None` if a job has begun in the directory meanwhile, or if there is nothing
/// to remove.
fn remove(job: &FoundJob, arguments: &CleanArguments) -> io::Result<Option<u64>> {
    // While we hold the directory, no job can begin in it.
    let Some(hold) = JobHold::try_lock(&job.dir)? else { return Ok(None) };
    // The job may have been run again meanwhile.
    let state = crate::engine::JobState::read(&JobDir::new(&job.dir)).map_err(io::Error::other)?;
    if state.is_none_or(|state| state.id != job.state.id) {
        return Ok(None);
    }
    let kept = kept(job, arguments.keep_output);
    let mut bytes = 0;
    let mut to_remove = Vec::new();
    for entry in fs::read_dir(&job.dir)? {
        let path = entry?.path();
        if !kept.contains(&path) && !JobHold::is_own(&path) {
            bytes += tree_bytes(&path)?;
            to_remove.push(path);
        }
    }
    if to_remove.is_empty() {
        return Ok(None);
    }
    if arguments.dry_run {
        return Ok(Some(bytes));
    }
    // Remove the job's state last. If the removal is interrupted, the directory still counts as a job, so
    // a later call can remove the rest.
    to_remove.sort_by_key(|path| *path == JobDir::new(&job.dir).state_file());
    for path in &to_remove {
        remove_tree(path)?;
    }
    drop(hold);
    if kept.is_empty() {
        // Fails if another program has put a file into the directory meanwhile.
        let _ = fs::remove_dir(&job.dir);
    }
    Ok(Some(bytes))
}

/// The paths in a job's directory that are kept. With the output, the state (`job.json`) is kept, too: it has
/// the job's result, and says which folder is the output.
fn kept(job: &FoundJob, keep_output: bool) -> Vec<PathBuf> {
    if !keep_output {
        return Vec::new();
    }
    let output = job.dir.join(&job.state.output);
    // The entry of the job directory that contains the output.
    let inside = output.strip_prefix(&job.dir).ok().and_then(|path| path.components().next());
    let output = inside.map(|part| job.dir.join(part));
    [Some(JobDir::new(&job.dir).state_file()), output].into_iter().flatten().collect()
}

fn text(removed: &[Removed], arguments: &CleanArguments, now: Timestamp) -> String {
    let (did, freed) = match arguments.dry_run {
        true => ("would remove", "would be freed"),
        false => ("removed", "freed"),
    };
    let mut text = String::new();
    for Removed { dir, state, ended, bytes, .. } in removed {
        let ended = ended.map(|ended| age(ended, now)).unwrap_or_default();
        let dir = dir.display().to_string();
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "{did} {} ({state}, ended {ended} ago){}",
            on_one_line(&dir),
            bytes.map(|bytes| format!(": {}", ByteSize(bytes).rounded())).unwrap_or_default()
        );
    }
    let jobs = if removed.len() == 1 { "job" } else { "jobs" };
    let total = total(removed).map(|total| format!(", {} {freed}", ByteSize(total).rounded()));
    let _ = writeln!(text, "{} {jobs}{}", removed.len(), total.unwrap_or_default());
    text
}

/// The bytes that were freed. `None` if they are unknown.
fn total(removed: &[Removed]) -> Option<u64> {
    removed.iter().map(|removed| removed.bytes).sum()
}

fn as_json(removed: &[Removed], arguments: &CleanArguments) -> String {
    let jobs: Vec<Value> = removed
        .iter()
        .map(|Removed { job, dir, state, ended, bytes }| {
            json!({"job": job, "dir": dir, "state": state, "ended": ended, "bytes": bytes})
        })
        .collect();
    let value = json!({
        "version": VERSION, "dry_run": arguments.dry_run, "jobs": jobs, "bytes": total(removed),
    });
    format!("{value:#}\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::jobs_found::testing::job;

    fn older_than_a_day(root: &Path) -> CleanArguments {
        CleanArguments {
            root: RootArgument { root: Some(root.to_owned()) },
            store: None,
            datastores: DatastoresArgument::default(),
            older_than: 86_400,
            keep_output: false,
            failed: false,
            dry_run: false,
            json: false,
        }
    }

    fn left(root: &Path) -> Vec<String> {
        let entries = fs::read_dir(root).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn only_ended_jobs_are_removed() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        let outside = tempfile::tempdir().unwrap();
        fs::write(outside.path().join("file"), "theirs").unwrap();
        let now = Timestamp::now().to_string();
        job(&root.join("old"), "2026-01-01T10:00:00Z", "completed");
        std::os::unix::fs::symlink(outside.path(), root.join("old/output/link")).unwrap();
        job(&root.join("young"), &now, "completed");
        job(&root.join("failed"), "2026-01-01T10:00:00Z", "failed");
        job(&root.join("killed"), "2026-01-01T10:00:00Z", "running");
        job(&root.join("runs"), "2026-01-01T10:00:00Z", "running");
        let runs = JobHold::try_lock(&root.join("runs")).unwrap().expect("it is free");
        let all = left(root);
        clean(&CleanArguments { dry_run: true, failed: true, ..older_than_a_day(root) }).unwrap();
        assert_eq!(left(root), all);
        clean(&older_than_a_day(root)).unwrap();
        assert_eq!(left(root), ["failed", "killed", "runs", "young"]);
        assert!(outside.path().join("file").exists(), "a link was followed");
        clean(&CleanArguments { failed: true, ..older_than_a_day(root) }).unwrap();
        assert_eq!(left(root), ["runs", "young"]);
        drop(runs);
    }

    #[test]
    fn the_output_may_be_kept() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        job(&root.join("old"), "2026-01-01T10:00:00Z", "completed");
        fs::create_dir_all(root.join("old/logs/sys")).unwrap();
        fs::write(root.join("old/logs/sys/events.jsonl"), "").unwrap();
        let keeps = CleanArguments { keep_output: true, ..older_than_a_day(root) };
        clean(&keeps).unwrap();
        assert_eq!(left(&root.join("old")), ["job.json", "output"]);
        assert_eq!(left(&root.join("old/output")), ["rows.txt"]);
        let (found, _) = crate::cli::jobs_found::jobs_below(root).unwrap();
        assert_eq!(remove(&found[0], &keeps).unwrap(), None, "nothing is left to remove");
    }

    #[test]
    fn ages_have_a_unit() {
        assert_eq!(
            ["90s", "5min", "2h", "30d"].map(parse_age),
            [Ok(90), Ok(300), Ok(7_200), Ok(2_592_000)]
        );
        for wrong in ["", "30", "d", "1w", "-1d", "99999999999999999999d", "999999999999999999d"] {
            assert!(parse_age(wrong).is_err(), "{wrong}");
        }
    }
}
