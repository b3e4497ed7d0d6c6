//! The paths of a job's files, and other facts about the job that its reports need.

use super::budget::ReportBudget;
use super::log_folders::LogFolders;
use super::progress_line::Unit;
use super::resume::Resume;
use crate::model::{JobDir, shell_word, unfinished};
use std::path::{Path, PathBuf};

/// The paths that a result names, and other facts about the job that the reports need.
#[derive(Clone, Debug)]
pub struct ReportPaths {
    /// The job's name.
    pub job: String,
    /// The description from the job file, for people; may be empty.
    pub description: String,
    /// The job directory. For a job in a job store, the folder with copies of its latest leader's logs.
    pub job_dir: JobDir,
    /// The folders with the log tree. `None` if the job directory has all of it.
    pub logs: Option<LogFolders>,
    /// The job as commands name it. `None` if they name it by its directory.
    pub word: Option<String>,
    /// The output file; the output folder if the job writes no output file.
    pub output: PathBuf,
    /// The columns of the inputs, as the last run of the job found them
    /// ([`earlier_columns`](crate::earlier_columns)).
    pub earlier_columns: Vec<String>,
    /// What the items of the job are.
    pub unit: Unit,
    /// Whether rows are only counted (`summary_only`).
    pub drops_rows: bool,
    /// Whether rows are written to the output only when the job ends, as for output in parts and for typed
    /// formats.
    pub made_at_end: bool,
    /// The user's working directory: files below this folder are shown relative to it.
    pub shown_from: PathBuf,
    /// The folder in the parent job's logs into which this job's reports are copied; `None` if the reports
    /// are not to be copied.
    pub parent: Option<ParentFolder>,
    /// Prefix of the names of the job's metrics (docs/parallel-run-step.md A7).
    pub metrics_name_prefix: String,
    /// How to resume the job.
    pub resume: Resume,
    /// The byte budget of the reports.
    pub reports: ReportBudget,
}

/// The folder for this job's reports within its parent job's folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParentFolder {
    /// The folder, `<parent>/logs/<job>`. The path is absolute and has no links; no other job writes there.
    pub folder: PathBuf,
    /// Whether overview, progress and logs are copied there (A6).
    pub copy_logs: bool,
    /// Whether metrics are appended to `metrics.jsonl` there (A8).
    pub push_metrics: bool,
}

impl ReportPaths {
    /// The paths of a job. All other fields have their defaults.
    pub fn new(job: String, job_dir: JobDir, output: PathBuf, shown_from: PathBuf) -> Self {
        Self {
            job,
            description: String::new(),
            logs: None,
            word: None,
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

    /// The command that resumes the job, as the end of a sentence. `set` is a setting to be changed, or
    /// empty.
    pub fn resume_command(&self, set: &str) -> String {
        self.resume.advice(&self.job_word(), set)
    }

    /// Where this file of the job directory is. `None` if it is in none of the folders with the log tree, or empty.
    pub(super) fn find_log(&self, path: &Path) -> Option<PathBuf> {
        let in_job_dir = || LogFolders::from(&self.job_dir);
        let inside = path.strip_prefix(self.job_dir.root()).ok()?;
        self.logs.clone().unwrap_or_else(in_job_dir).find(inside)
    }

    /// The job as written on a command line.
    pub(super) fn job_word(&self) -> String {
        let by_dir = || shell_word(&self.show(self.job_dir.root()));
        self.word.clone().unwrap_or_else(by_dir)
    }

    /// For a job that did not complete: the file or folder in which its rows are. An output that is made when
    /// the job completes gets its final name only then.
    pub(super) fn rows_path(&self) -> PathBuf {
        let name = self.output.file_name().unwrap_or_default().to_string_lossy();
        let appended = self.output.with_file_name(unfinished(&name));
        let candidates = [self.output.clone(), appended, self.job_dir.parts()];
        candidates.into_iter().find(|path| path.exists()).unwrap_or_else(|| self.output.clone())
    }

    /// The path as users see it: relative to their working directory, if the path is below it.
    pub(super) fn show(&self, path: &Path) -> String {
        match path.strip_prefix(&self.shown_from) {
            Ok(below) if !below.as_os_str().is_empty() => below.display().to_string(),
            _ => path.display().to_string(),
        }
    }
}
