//! The text of `sandmill logs`: the output of the entry script, or the attempts at a mini-batch.

use super::history::read_events;
use super::log_folders::LogFolders;
use super::phrases::node_of;
use crate::event::{Event, EventKind};
use crate::model::{MiniBatchId, printable};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Which logs to show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogFilter {
    /// The logs of all workers.
    All,
    /// The logs of the worker with this name.
    Worker(String),
    /// The logs of one mini-batch.
    MiniBatch(MiniBatchId),
}

/// The longest line that is not split, in bytes.
const MAX_LINE_BYTES: u64 = 1 << 20;

/// Writes the logs. Returns false if there is nothing to show.
///
/// # Errors
/// If a file cannot be read, or if `out` cannot be written.
pub fn print_logs(
    logs: impl Into<LogFolders>,
    filter: &LogFilter,
    out: &mut dyn Write,
) -> io::Result<bool> {
    let logs = &logs.into();
    match filter {
        LogFilter::All => print_workers(logs, None, out),
        LogFilter::Worker(name) => print_workers(logs, Some(name), out),
        LogFilter::MiniBatch(id) => print_mini_batch(logs, *id, out),
    }
}

/// Passes each line of the logs to `visit`, for programs: the output of workers, or the events of a
/// mini-batch's attempts. Returns false if there are none.
///
/// # Errors
/// If a file cannot be read, or if `visit` fails.
pub fn logs_json(
    logs: impl Into<LogFolders>,
    filter: &LogFilter,
    visit: &mut dyn FnMut(&Value) -> io::Result<()>,
) -> io::Result<bool> {
    let logs = &logs.into();
    let worker = match filter {
        LogFilter::All => None,
        LogFilter::Worker(name) => Some(name.as_str()),
        LogFilter::MiniBatch(id) => {
            let attempts = attempts(logs, *id)?;
            for event in &attempts {
                visit(&serde_json::to_value(event)?)?;
            }
            return Ok(!attempts.is_empty());
        }
    };
    let mut found = false;
    for (folder, suffix) in LOG_FOLDERS {
        let kind = folder.rsplit('/').next().unwrap_or(folder);
        for FoundFile { path, shown: file } in log_files(logs, folder, worker, suffix)? {
            found = true;
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let worker = name.split('.').next().unwrap_or_default();
            each_line(&path, |line| {
                visit(&json!({"worker": worker, "kind": kind, "file": file, "line": line}))
            })?;
        }
    }
    Ok(found)
}

/// The `AttemptFinished` events of a mini-batch.
fn attempts(logs: &LogFolders, id: MiniBatchId) -> io::Result<Vec<Event>> {
    let mut attempts = Vec::new();
    read_events(logs, &mut |event: Event| {
        if matches!(&event.kind, EventKind::AttemptFinished { report, .. } if report.id == id) {
            attempts.push(event);
        }
    })?;
    Ok(attempts)
}

/// The folders with the output of entry scripts, and the suffixes of their files, in the order in which they
/// are shown.
pub const LOG_FOLDERS: [(&str, &str); 4] = [
    ("user/entry_script_log", ".log.txt"),
    ("user/stdout", ".stdout.txt"),
    ("user/stderr", ".stderr.txt"),
    ("user/error", ".txt"),
];

fn print_workers(logs: &LogFolders, worker: Option<&str>, out: &mut dyn Write) -> io::Result<bool> {
    let mut found = false;
    for (folder, suffix) in LOG_FOLDERS {
        for FoundFile { path, shown } in log_files(logs, folder, worker, suffix)? {
            found = true;
            writeln!(out, "==> {} <==", shown.display())?;
            print_file(&path, out)?;
        }
    }
    Ok(found)
}

/// A file of the log tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FoundFile {
    /// Where it is.
    pub(super) path: PathBuf,
    /// Its path in a job directory, which users see.
    pub(super) shown: PathBuf,
}

/// The non-empty files of one worker or of all workers, including rotated files, in this folder of the log
/// tree. The files are sorted by node, and then by name.
pub(super) fn log_files(
    logs: &LogFolders,
    folder: &str,
    worker: Option<&str>,
    suffix: &str,
) -> io::Result<Vec<FoundFile>> {
    let nodes = match worker {
        Some(worker) => [node_of(worker)].into(),
        None => logs.nodes_in(folder)?,
    };
    let mut found = Vec::new();
    for node in nodes {
        let mut of_node = Vec::new();
        for dir in logs.all() {
            let folder = dir.logs().join(folder).join(node.to_string());
            let paths = files_of_node(&folder, worker, suffix)?.into_iter();
            of_node.extend(paths.filter(|path| !logs.is_copy(dir, path)).map(|path| {
                let shown = path.strip_prefix(dir.root()).unwrap_or(&path).to_owned();
                FoundFile { path, shown }
            }));
        }
        // The sort is stable: the files of an earlier leader stay first.
        of_node.sort_by(|one, other| one.shown.cmp(&other.shown));
        found.extend(of_node);
    }
    Ok(found)
}

fn files_of_node(folder: &Path, worker: Option<&str>, suffix: &str) -> io::Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name();
        let metadata = entry.metadata()?;
        let Some(name) = name.to_str() else { continue };
        let stem = name.split('.').next().unwrap_or_default();
        let is_match = worker.is_none_or(|worker| worker == stem) && name.contains(suffix);
        if is_match && metadata.is_file() && metadata.len() > 0 {
            found.push(entry.path());
        }
    }
    Ok(found)
}

/// Prints a file line by line, because the file may be large.
fn print_file(path: &Path, out: &mut dyn Write) -> io::Result<()> {
    each_line(path, |line| writeln!(out, "{line}"))
}

/// Opens a file, but does not follow a link or block on a fifo: the entry script may have replaced the file.
pub(super) fn open_file(path: &Path) -> io::Result<File> {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    OpenOptions::new().read(true).custom_flags(flags).open(path)
}

fn each_line(path: &Path, mut visit: impl FnMut(&str) -> io::Result<()>) -> io::Result<()> {
    let mut reader = BufReader::new(open_file(path)?);
    let mut line = Vec::new();
    // A longer line is split.
    while reader.by_ref().take(MAX_LINE_BYTES).read_until(b'\n', &mut line)? > 0 {
        visit(&printable(String::from_utf8_lossy(&line).trim_end_matches(['\n', '\r'])))?;
        line.clear();
    }
    Ok(())
}

fn print_mini_batch(logs: &LogFolders, id: MiniBatchId, out: &mut dyn Write) -> io::Result<bool> {
    let attempts = attempts(logs, id)?;
    for event in &attempts {
        let EventKind::AttemptFinished { worker, report, location, started, .. } = &event.kind
        else {
            continue;
        };
        let outcome = match &report.outcome {
            Ok(segment) => format!("succeeded with {} rows", segment.rows),
            Err(failure) => format!("{}: {}", failure.kind, failure.message),
        };
        writeln!(
            out,
            "mini-batch {id}, attempt {} ({worker}, {started:.3}, {:.3} s, of that {:.3} s in run): {}",
            report.attempt,
            report.elapsed_seconds,
            report.run.seconds,
            printable(&outcome)
        )?;
        writeln!(out, "  {}", printable(location))?;
        if let Err(failure) = &report.outcome {
            for line in printable(&failure.detail).lines() {
                writeln!(out, "  {line}")?;
            }
        }
        // If the whole mini-batch failed, its items have no reasons.
        for item in report.failed_items.iter().filter(|_| report.outcome.is_ok()) {
            writeln!(out, "  {}: {}", printable(&item.item), printable(&item.reason))?;
        }
        let seconds = SignedDuration::try_from_secs_f64(report.elapsed_seconds).unwrap_or_default();
        let end = started.checked_add(seconds).unwrap_or(event.at);
        print_logged(logs, worker, *started, end, out)?;
    }
    Ok(!attempts.is_empty())
}

/// Prints what a worker's entry script logged in a span of time. Each log line begins with its time.
fn print_logged(
    logs: &LogFolders,
    worker: &str,
    from: Timestamp,
    to: Timestamp,
    out: &mut dyn Write,
) -> io::Result<()> {
    each_logged(logs, worker, (from, to), &mut |line| writeln!(out, "  | {line}"))
}

/// The lines that a worker's entry script logged in a span of time, at most so many, and whether there are more. Control
/// characters are escaped.
///
/// # Errors
/// If a file cannot be read.
pub fn logged_lines(
    logs: impl Into<LogFolders>,
    worker: &str,
    span: (Timestamp, Timestamp),
    most: usize,
) -> io::Result<(Vec<String>, bool)> {
    let mut lines = Vec::new();
    let read = each_logged(&logs.into(), worker, span, &mut |line| {
        if lines.len() >= most {
            // The rest of the files is not read.
            return Err(ErrorKind::Interrupted.into());
        }
        lines.push(line.to_owned());
        Ok(())
    });
    match read {
        Ok(()) => Ok((lines, false)),
        Err(error) if error.kind() == ErrorKind::Interrupted => Ok((lines, true)),
        Err(error) => Err(error),
    }
}

/// Passes each line that a worker's entry script logged in a span of time to `visit`.
fn each_logged(
    logs: &LogFolders,
    worker: &str,
    (from, to): (Timestamp, Timestamp),
    visit: &mut dyn FnMut(&str) -> io::Result<()>,
) -> io::Result<()> {
    let slack = SignedDuration::from_millis(2);
    let from = from.checked_sub(slack).unwrap_or(from);
    let to = to.checked_add(slack).unwrap_or(to);
    let (folder, suffix) = LOG_FOLDERS[0];
    for FoundFile { path, .. } in log_files(logs, folder, Some(worker), suffix)? {
        // A line without a time belongs to the line before it.
        let mut is_in_span = false;
        each_line(&path, |line| {
            let time = line.split([' ', '|']).next().and_then(|word| word.parse().ok());
            if let Some(time) = time {
                is_in_span = (from..=to).contains(&time);
            }
            if is_in_span { visit(line) } else { Ok(()) }
        })?;
    }
    Ok(())
}
