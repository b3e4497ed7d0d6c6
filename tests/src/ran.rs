//! The results of a command that has ended.

use crate::{TestJob, redact};
use std::fmt::{self, Write as _};
use std::fs;
use std::path::Path;
use std::time::Duration;

/// A command that ended: its exit code, what it printed, and its folder.
#[derive(Debug)]
pub struct Ran {
    pub(crate) job: TestJob,
    pub(crate) command: String,
    /// The leader's process id.
    pub(crate) leader: u32,
    /// The exit code; after a signal, the negative number of the signal.
    pub code: i32,
    /// The text on stdout.
    pub stdout: String,
    /// The text on stderr.
    pub stderr: String,
    /// Processes of the run that outlived the leader by half a second: id and command line.
    pub left_over: Vec<(u32, String)>,
    /// How long the command ran.
    pub took: Duration,
}

impl Ran {
    /// Fails, and shows everything, unless the command exited with this code and left no process running.
    #[track_caller]
    pub fn exits_with(&self, code: i32) -> &Self {
        assert!(self.code == code, "expected exit code {code}\n{self}");
        assert!(self.left_over.is_empty(), "processes outlived the leader\n{self}");
        self
    }

    /// Fails, and shows everything, unless stderr contains these words.
    #[track_caller]
    pub fn says(&self, words: &str) -> &Self {
        assert!(self.stderr.contains(words), "expected stderr to say: {words}\n{self}");
        self
    }

    /// Stderr for snapshots: everything that differs between runs is redacted.
    pub fn redacted(&self) -> String {
        redact(&self.stderr, self.job.dir())
    }

    /// Stderr for snapshots, as [`Ran::redacted`], but without lines that depend on the speed of the machine,
    /// and with `[WORKER]` instead of the names of workers.
    pub fn messages(&self) -> String {
        let text = self.redacted();
        let is_message = |line: &&str| {
            let is_progress = line.contains("/s, ") || line.ends_with(" mini-batches");
            !is_progress && !line.starts_with("compiled ")
        };
        let lines: Vec<String> =
            text.lines().filter(is_message).map(without_worker_names).collect();
        lines.join("\n")
    }

    /// The rows of `processed_mini-batches.csv` that have this status, as `ID, ATTEMPT`, sorted.
    #[track_caller]
    pub fn attempts(&self, status: &str) -> Vec<String> {
        let mut attempts: Vec<String> = self
            .log("sys/job_report/processed_mini-batches.csv")
            .lines()
            .filter(|row| row.split(',').any(|field| field == status))
            .map(|row| row.split(',').take(2).collect::<Vec<_>>().join(", "))
            .collect();
        attempts.sort();
        attempts
    }

    /// Stdout for snapshots: everything that differs between runs is redacted.
    pub fn redacted_stdout(&self) -> String {
        redact(&self.stdout, self.job.dir())
    }

    /// The job's output as text. The output must be one file with the default name of its format.
    #[track_caller]
    pub fn output(&self) -> String {
        let names =
            ["txt", "csv", "jsonl"].map(|ending| format!("job/output/parallel_run_step.{ending}"));
        let name = names.iter().find(|name| self.job.path(name).exists());
        self.text(name.unwrap_or(&names[0]))
    }

    /// The lines of the output file, sorted, because their order may vary.
    #[track_caller]
    pub fn sorted_output(&self) -> Vec<String> {
        let mut lines: Vec<String> = self.output().lines().map(str::to_owned).collect();
        lines.sort();
        lines
    }

    /// The lines of all output parts, sorted, for a job with `output_layout: parts`. Each part must begin
    /// with this header, which may be empty.
    #[track_caller]
    pub fn sorted_parts(&self, header: &str) -> Vec<String> {
        let mut lines = Vec::new();
        for entry in fs::read_dir(self.job.path("job/output/parallel_run_step")).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            assert!(name.starts_with("part-process"), "{name}\n{self}");
            let text = fs::read_to_string(&path).unwrap();
            let rows = text.strip_prefix(header).unwrap_or_else(|| panic!("{name}: {text}"));
            assert!(!rows.is_empty(), "{name} has no rows\n{self}");
            lines.extend(rows.lines().map(str::to_owned));
        }
        lines.sort();
        lines
    }

    /// `failed_items.csv` with `[WORKER]` instead of the names of workers, and without the last column, the
    /// kinds.
    #[track_caller]
    pub fn failed_items(&self) -> String {
        let text = self.log("failed_items.csv");
        text.lines().map(|line| without_worker_names(split_kind(line).0) + "\n").collect()
    }

    /// The kind of each failure: the last column of `failed_items.csv`.
    #[track_caller]
    pub fn failed_kinds(&self) -> Vec<String> {
        let text = self.log("failed_items.csv");
        text.lines().skip(1).filter_map(|line| split_kind(line).1.map(str::to_owned)).collect()
    }

    /// The text of a file of the log tree, e.g. `job_result.txt`.
    #[track_caller]
    pub fn log(&self, inside: &str) -> String {
        self.text(&format!("job/logs/{inside}"))
    }

    /// The text of any file in the folder of the run.
    #[track_caller]
    pub fn text(&self, inside: &str) -> String {
        match fs::read(self.job.path(inside)) {
            Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            Err(error) => panic!("{inside}: {error}\n{self}"),
        }
    }

    /// Whether the folder of the run has this file or folder.
    pub fn has(&self, inside: &str) -> bool {
        self.job.path(inside).exists()
    }

    /// The job's folder, to run another command in it.
    pub fn into_job(self) -> TestJob {
        self.job
    }

    /// The folder of the run.
    pub fn dir(&self) -> &Path {
        self.job.dir()
    }
}

impl fmt::Display for Ran {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut files = String::new();
        tree(self.job.dir(), 0, &mut files);
        writeln!(f, "`{}` ended with {} after {:?}", self.command, self.code, self.took)?;
        if !self.left_over.is_empty() {
            writeln!(f, "still running: {:?}", self.left_over)?;
        }
        writeln!(f, "---- files\n{files}---- stdout\n{}---- stderr\n{}", self.stdout, self.stderr)
    }
}

/// Splits a line of `failed_items.csv` into the kind at its end and the rest. The kind is `None` if the
/// reason continues on the next line.
pub(crate) fn split_kind(line: &str) -> (&str, Option<&str>) {
    let is_kind =
        |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
    match line.rsplit_once(',') {
        Some((rest, kind)) if is_kind(kind) => (rest, Some(kind)),
        _ => (line, None),
    }
}

/// Replaces the names of workers in a line with `[WORKER]`.
fn without_worker_names(line: &str) -> String {
    let mut pieces = line.split("process");
    let mut text = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        match piece.get(..3) {
            Some(number) if number.bytes().all(|b| b.is_ascii_digit()) => {
                text.push_str("[WORKER]");
                text.push_str(&piece[3..]);
            }
            _ => {
                text.push_str("process");
                text.push_str(piece);
            }
        }
    }
    text
}

/// Lists the content of a folder, with sizes. Shows only the first entries of a large folder.
fn tree(folder: &Path, depth: usize, list: &mut String) {
    const MOST_ENTRIES: usize = 20;
    let mut entries: Vec<_> = fs::read_dir(folder).into_iter().flatten().flatten().collect();
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries.iter().take(MOST_ENTRIES) {
        let name = entry.file_name();
        let size = entry.metadata().map_or(0, |metadata| metadata.len());
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        let suffix = if is_folder { "/".to_owned() } else { format!(" ({size} bytes)") };
        let _ = writeln!(list, "{:1$}{2}{suffix}", "", depth * 2, name.to_string_lossy());
        if is_folder {
            tree(&entry.path(), depth + 1, list);
        }
    }
    if entries.len() > MOST_ENTRIES {
        let _ = writeln!(list, "{:1$}and {2} more", "", depth * 2, entries.len() - MOST_ENTRIES);
    }
}
