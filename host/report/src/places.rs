//! Where the files of a job lie, and what else its reports must know of it.

use super::budget::ReportBudget;
use super::progress_line::Unit;
use super::resume::Resume;
use crate::model::{JobDir, shell_word, unfinished};
use std::path::{Path, PathBuf};

/// Where the files lie that a result points to, and what else the reports must know of a job.
#[derive(Clone, Debug)]
pub struct Places {
    /// The job's name.
    pub job: String,
    /// What the job file says of the job, for people; empty if nothing.
    pub description: String,
    /// The job directory.
    pub job_dir: JobDir,
    /// The output file, or the output folder of a job that writes no output file.
    pub output: PathBuf,
    /// The columns of its inputs as its last run found them ([`earlier_columns`](crate::earlier_columns)).
    pub earlier_columns: Vec<String>,
    /// What its items are.
    pub unit: Unit,
    /// Whether rows are only counted (`summary_only`).
    pub drops_rows: bool,
    /// Whether rows come into the output only when the job ends: in parts, or in a format with types.
    pub made_at_end: bool,
    /// Files below this folder are shown relative to it: where the user stands.
    pub shown_from: PathBuf,
    /// The job that this one is a part of, if its folder is to get copies.
    pub parent: Option<ParentFolder>,
    /// Put before the names of the job's metrics (prs-semantics A7).
    pub metrics_name_prefix: String,
    /// How it goes on where it does not come to its end.
    pub resume: Resume,
    /// What the reports may take.
    pub reports: ReportBudget,
}

/// This job's own folder among those of the job that it is a part of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParentFolder {
    /// The folder, `<parent>/logs/<job>`. Absolute, without links; no other job writes to it.
    pub folder: PathBuf,
    /// Whether overview, progress and logs are copied into it (A6).
    pub copy_logs: bool,
    /// Whether metrics are appended to `metrics.jsonl` in it (A8).
    pub push_metrics: bool,
}

impl Places {
    /// Of a job whose reports tell no more than where things are.
    pub fn new(job: String, job_dir: JobDir, output: PathBuf, shown_from: PathBuf) -> Self {
        Self {
            job,
            description: String::new(),
            job_dir,
            output,
            earlier_columns: Vec::new(),
            unit: Unit::default(),
            drops_rows: false,
            made_at_end: false,
            shown_from,
            parent: None,
            metrics_name_prefix: String::new(),
            resume: Resume::default(),
            reports: ReportBudget::default(),
        }
    }

    /// What has the job go on, for the end of a sentence; `set` is a setting that is to be another, or empty.
    pub fn go_on(&self, set: &str) -> String {
        self.resume.go_on(&shell_word(&self.show(self.job_dir.root())), set)
    }

    /// Where the rows of a job are that has not come to its end: an output that is made at the end has its
    /// name only then.
    pub(super) fn kept(&self) -> PathBuf {
        let name = self.output.file_name().unwrap_or_default().to_string_lossy();
        let appended = self.output.with_file_name(unfinished(&name));
        let all = [self.output.clone(), appended, self.job_dir.parts()];
        all.into_iter().find(|path| path.exists()).unwrap_or_else(|| self.output.clone())
    }

    pub(super) fn show(&self, path: &Path) -> String {
        match path.strip_prefix(&self.shown_from) {
            Ok(below) if !below.as_os_str().is_empty() => below.display().to_string(),
            _ => path.display().to_string(),
        }
    }
}
