//! Jobs of a chaos test, and the check of what they leave.

use crate::cluster::sorted;
use sandmill_tests::{TestJob, guest};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

/// How many mini-batches a job has, each with one file.
const FILES: usize = 60;

/// The kinds of jobs: what makes each of them special, and how its rows are read.
const KINDS: [(&str, ReadRows); 9] = [
    ("output_files: error", read_file),
    ("ordered: true", read_file),
    ("output_layout: parts", read_parts),
    ("output_files: append", read_file),
    ("output_action: summary_only", read_nothing),
    ("output_files: overwrite", read_file),
    ("output_format: {compression: gzip}", read_packed),
    ("join: input", read_joined),
    ("join: input\noutput_format: csv", read_joined_table),
];

/// Reads the rows in an output folder.
type ReadRows = fn(&Path) -> String;

fn read_file(output: &Path) -> String {
    fs::read_to_string(output.join("parallel_run_step.txt")).unwrap()
}

fn read_parts(output: &Path) -> String {
    let parts = fs::read_dir(output.join("parallel_run_step")).unwrap();
    parts.map(|part| fs::read_to_string(part.unwrap().path()).unwrap()).collect()
}

fn read_packed(output: &Path) -> String {
    let file = fs::File::open(output.join("parallel_run_step.txt.gz")).unwrap();
    let unpacked = Command::new("gzip").arg("-dc").stdin(file).output().unwrap();
    String::from_utf8(unpacked.stdout).unwrap()
}

/// Takes off the column of the input.
fn read_joined(output: &Path) -> String {
    let without = |row: &str| {
        let (file, row) = row.split_once(' ').unwrap();
        row_of(file, row.trim_matches('"'))
    };
    read_file(output).lines().map(without).collect()
}

fn read_joined_table(output: &Path) -> String {
    let table = fs::read_to_string(output.join("parallel_run_step.csv")).unwrap();
    let mut lines = table.lines();
    assert_eq!(lines.next(), Some("file,value"));
    let without = |row: &str| {
        let (file, row) = row.split_once(',').unwrap();
        row_of(file, row)
    };
    lines.map(without).collect()
}

/// A row of the undisturbed run. It must belong to this file.
fn row_of(file: &str, row: &str) -> String {
    let name = file.strip_prefix("/inputs/texts/").unwrap();
    assert!(row.starts_with(&format!("{name}: ")), "{file}: {row}");
    format!("{row}\n")
}

fn read_nothing(output: &Path) -> String {
    assert!(!output.join("parallel_run_step.txt").exists());
    String::new()
}

/// A folder with inputs, a job store, and any number of jobs.
pub(crate) struct ChaosJobs {
    folder: TestJob,
    /// How many jobs there are.
    pub(crate) count: usize,
    /// The rows of an undisturbed run, sorted.
    rows: Vec<String>,
    /// The files of an undisturbed run. The contents of those that tell the number of the attempt are empty.
    files: BTreeMap<String, String>,
}

impl ChaosJobs {
    /// Runs one job on this machine, undisturbed, and keeps its results for comparisons.
    pub(crate) fn new() -> Self {
        let folder = TestJob::empty();
        let folder = (0..FILES).fold(folder, |folder, number| {
            folder.file(&format!("in/{number}.txt"), "x".repeat(number))
        });
        fs::create_dir_all(folder.path("shared/jobs")).unwrap();
        let calm = folder.file("calm.yaml", job_file("calm", "", 0).replace("node_count: 3\n", ""));
        let ran = calm.command(&["run", "calm.yaml", "--broker", "none"]);
        ran.exits_with(0);
        let output = ran.dir().join("shared/out/calm");
        let rows = sorted(&read_file(&output));
        let files = files_of(&output);
        assert_eq!(rows.len(), FILES);
        assert_eq!(files.len(), 2 * FILES, "{files:?}");
        Self { folder: ran.into_job(), count: 0, rows, files }
    }

    /// The folder of everything.
    pub(crate) fn dir(&self) -> &Path {
        self.folder.dir()
    }

    /// The job store.
    pub(crate) fn store(&self) -> String {
        self.folder.path("shared/jobs").display().to_string()
    }

    /// Writes another job, and returns the path of its file. Its mini-batches take so many milliseconds.
    pub(crate) fn add(&mut self, nap: u64) -> String {
        let name = name_of(self.count);
        let (lines, _) = KINDS[self.count % KINDS.len()];
        self.count += 1;
        let path = self.folder.path(&format!("{name}.yaml"));
        fs::write(&path, job_file(&name, lines, nap)).unwrap();
        path.display().to_string()
    }

    /// The states of all jobs that have begun, by name, as `sandmill jobs` shows them.
    pub(crate) fn states(&self) -> BTreeMap<String, Value> {
        let mut command = Command::new(sandmill_tests::sandmill());
        command.args(["jobs", "--json", "--store", &self.store()]).current_dir("/");
        let output = command.output().unwrap();
        let listed: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        let jobs = listed["jobs"].as_array().cloned().unwrap_or_default();
        let named = |job: Value| Some((job["job"].as_str()?.to_owned(), job));
        jobs.into_iter().filter_map(named).collect()
    }

    /// Fails unless this job has the rows and the files of the undisturbed run.
    #[track_caller]
    pub(crate) fn check(&self, number: usize) {
        let name = name_of(number);
        let output = self.folder.path(&format!("shared/out/{name}"));
        let (lines, read) = KINDS[number % KINDS.len()];
        let rows = sorted(&read(&output));
        if lines.contains("summary_only") {
            let state = &self.states()[&name];
            assert_eq!(state["mini_batches"]["succeeded"], FILES, "{name}: {state}");
        } else {
            assert_eq!(rows, self.rows, "{name}: {lines}");
        }
        assert_eq!(files_of(&output), self.files, "{name}: {lines}");
    }
}

/// The name of the job with this number.
pub(crate) fn name_of(number: usize) -> String {
    format!("chaos-{number}")
}

fn job_file(name: &str, lines: &str, nap: u64) -> String {
    let script = guest("writes_files");
    let script = script.display();
    format!(
        "name: {name}\nentry_script: {script}\ninputs: {{texts: in}}\nmini_batch_size: 1\n\
         process_count_per_node: 2\nnode_count: 3\nrun_max_try: 1000\nrun_invocation_timeout: 20\n\
         arguments: [--nap, '{nap}']\noutput: shared/out/{name}\njob_store: shared/jobs\n{lines}\n"
    )
}

/// The files that the entry script has left in the output: their names, and their contents.
fn files_of(output: &Path) -> BTreeMap<String, String> {
    let named = |folder: &Path| {
        let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        entries.filter(|path| path.is_file()).collect::<Vec<_>>()
    };
    let mut files = BTreeMap::new();
    for path in named(output).into_iter().chain(named(&output.join("batches"))) {
        let name = path.strip_prefix(output).unwrap().display().to_string();
        if name.starts_with("batches/") {
            // Which attempt has written it differs, but only one has.
            let content = fs::read_to_string(&path).unwrap();
            let attempt = content.strip_prefix("attempt ").unwrap_or(&content);
            assert!(attempt.parse::<u32>().is_ok(), "{name}: {content}");
            files.insert(name, String::new());
        } else if name.ends_with(".out") {
            files.insert(name, fs::read_to_string(&path).unwrap());
        }
    }
    files
}
