//! Runs jobs with hostile guests, and checks that such a job leaves no process and no file.

use crate::ran::split_kind;
use crate::{Ran, TestJob};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

/// The expected result of an act. An act is one attempt of a hostile guest to do harm, in one mini-batch.
#[derive(Clone, Debug)]
pub enum Fate {
    /// The mini-batch fails, and the reason contains these words.
    Fails(&'static str),
    /// The mini-batch succeeds and returns these rows.
    Gives(Vec<String>),
}

/// Plays hostile acts in one job. Each act has its own mini-batch. A good mini-batch runs before, between and
/// after the acts, so that the test notices an act that harms other mini-batches.
///
/// The guest learns the act from the name of the mini-batch's file, `NNN-ACT.txt`, or from the mini-batch's
/// id: acts have odd ids. `good` returns the expected row of a good mini-batch, given its id and the name of
/// its file.
///
/// Checks that each act has the expected result, that the output has exactly the expected rows, and that the
/// job left no process and no file.
#[track_caller]
pub fn play(
    entry_script: &Path,
    settings: &str,
    acts: &[(&str, Fate)],
    good: impl Fn(usize, &str) -> String,
) -> Ran {
    play_with(entry_script, settings, acts, good, |_| Vec::new())
}

/// As [`play`], with content for each act's file.
#[track_caller]
pub fn play_with(
    entry_script: &Path,
    settings: &str,
    acts: &[(&str, Fate)],
    good: impl Fn(usize, &str) -> String,
    content: impl Fn(&str) -> Vec<u8>,
) -> Ran {
    let mut job = TestJob::new(entry_script)
        .yaml("inputs: {texts: in}\nmini_batch_size: 1\nrun_max_try: 1\nerror_threshold: -1")
        .yaml(settings)
        .watched();
    let mut rows = Vec::new();
    for id in 0..=2 * acts.len() {
        let act = if id % 2 == 1 { acts[id / 2].0 } else { "good" };
        let name = format!("{id:03}-{act}.txt");
        let content = if act == "good" { Vec::new() } else { content(act) };
        job = job.file(&format!("in/{name}"), content);
        match acts.get(id / 2).filter(|_| id % 2 == 1) {
            None => rows.push(good(id, &name)),
            Some((_, Fate::Gives(returned))) => rows.extend(returned.iter().cloned()),
            Some((_, Fate::Fails(_))) => {}
        }
    }
    let ran = job.run(&[]);
    ran.exits_with(0);
    let reasons = ran.reasons();
    let mut wrong = String::new();
    for (index, (act, fate)) in acts.iter().enumerate() {
        let reason = reasons.get(&(2 * index + 1)).map(String::as_str);
        let is_right = match (fate, reason) {
            (Fate::Fails(words), Some(reason)) => reason.contains(words),
            (Fate::Gives(_), None) => true,
            _ => false,
        };
        if !is_right {
            let _ = writeln!(wrong, "{act}: expected {fate:?}, found {reason:?}");
        }
    }
    assert!(wrong.is_empty(), "{wrong}{ran}");
    rows.sort();
    assert_eq!(ran.sorted_output(), rows, "{ran}");
    ran.left_nothing();
    ran
}

impl TestJob {
    /// Makes the job create its temporary files in the folder `tmp`, which [`Ran::left_nothing`] checks.
    #[must_use]
    pub fn watched(self) -> Self {
        let folder = self.path("tmp");
        fs::create_dir_all(&folder).unwrap();
        self.env("TMPDIR", &folder.display().to_string())
    }

    /// Gives the job its own cache of compiled code, in the folder `cache`.
    #[must_use]
    pub fn own_cache(self) -> Self {
        let folder = self.path("cache").display().to_string();
        self.env("SANDMILL_CACHE_DIR", &folder)
    }
}

/// The entries of the job directory that a job always leaves.
const ENTRIES: [&str; 4] = ["job.json", "journal.sqlite", "logs", "output"];
/// More entries that an incomplete job leaves for a resume: rows, and folders without files.
const ENTRIES_FOR_RESUME: [&str; 3] = ["links", "parts", "work"];

impl Ran {
    /// Fails unless the host is as clean as after a good guest: no process of the job runs, no process has a
    /// file of the job open, and no temporary file is left, neither in the job's folders nor in the cache of
    /// compiled code. No control character of a guest has reached the terminal or the reports.
    #[track_caller]
    pub fn left_nothing(&self) -> &Self {
        assert!(self.left_over.is_empty(), "processes outlived the leader\n{self}");
        let open = open_files_below(self.dir());
        assert!(open.is_empty(), "files of the job are still open: {open:?}\n{self}");
        for folder in ["tmp", "job/work", "job/links", "job/spill"] {
            let files = files_below(&self.dir().join(folder));
            assert!(files.is_empty(), "{folder} holds {files:?}\n{self}");
        }
        let for_resume: &[&str] = if self.code == 0 { &[] } else { &ENTRIES_FOR_RESUME };
        for name in names(&self.dir().join("job")) {
            let is_known = ENTRIES.contains(&name.as_str()) || for_resume.contains(&name.as_str());
            assert!(is_known, "job/{name} is left\n{self}");
        }
        // All tests share a cache, to which other jobs write at the same time. So an unfinished file there
        // counts only if this job's leader made it. In the test's own cache, every unfinished file counts.
        let of_this_leader = format!("tmp-{}-", self.leader);
        let shared = crate::root().join("target/test-cache");
        for (cache, prefix) in
            [(shared, of_this_leader.as_str()), (self.dir().join("cache"), "tmp-")]
        {
            let mut left = names(&cache).into_iter().filter(|name| name.starts_with(prefix));
            assert!(left.next().is_none(), "{} holds {prefix}*\n{self}", cache.display());
        }
        let is_forbidden = |c: char| c.is_control() && c != '\n' && c != '\t';
        for (source, text) in [
            ("stdout", self.stdout.clone()),
            ("stderr", self.stderr.clone()),
            ("failed_items.csv", self.log_if_any("failed_items.csv")),
            ("error.txt", self.log_if_any("user/error.txt")),
            ("job_result.txt", self.log_if_any("job_result.txt")),
        ] {
            let bad = text.lines().find(|line| line.contains(is_forbidden));
            assert!(bad.is_none(), "{source} holds a control character: {bad:?}\n{self}");
        }
        self
    }

    /// A file of the log tree; empty if the file is missing.
    fn log_if_any(&self, inside: &str) -> String {
        let bytes = fs::read(self.dir().join("job/logs").join(inside)).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// The reasons of failed mini-batches by id, from `failed_items.csv`: the second to last column.
    #[track_caller]
    pub fn reasons(&self) -> BTreeMap<usize, String> {
        let reason = |line: &str| {
            let (id, rest) = line.split_once(',')?;
            let (_, from_worker) = rest.split_once(",process")?;
            Some((id.parse().ok()?, split_kind(from_worker.split_once(',')?.1).0.to_owned()))
        };
        self.log_if_any("failed_items.csv").lines().filter_map(reason).collect()
    }
}

/// The names of the entries of a folder; empty if the folder is missing.
fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

/// The files, links and devices below a folder.
fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => found.extend(files_below(&entry.path())),
            _ => found.push(entry.path()),
        }
    }
    found
}

/// The paths below a folder that any process has open or mapped. Empty on a system without /proc.
fn open_files_below(folder: &Path) -> Vec<String> {
    let folder = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    let mut found = Vec::new();
    for process in fs::read_dir("/proc").into_iter().flatten().flatten() {
        if process.file_name().as_encoded_bytes().iter().any(|byte| !byte.is_ascii_digit()) {
            continue;
        }
        for part in ["fd", "map_files"] {
            let links = fs::read_dir(process.path().join(part)).into_iter().flatten().flatten();
            let open = links.filter_map(|link| fs::read_link(link.path()).ok());
            let below = open.filter(|path| path.starts_with(&folder));
            found
                .extend(below.map(|path| format!("{:?}: {}", process.file_name(), path.display())));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leftover_files_are_found() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a/b/left");
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        assert!(files_below(folder.path()).is_empty(), "folders do not count");
        let file = fs::File::create(&path).unwrap();
        assert_eq!(files_below(folder.path()), [path]);
        if cfg!(target_os = "linux") {
            assert_eq!(open_files_below(folder.path()).len(), 1);
        }
        drop(file);
        assert!(open_files_below(folder.path()).is_empty());
    }
}
