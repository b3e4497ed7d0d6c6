//! Where things lie in a job directory.

use super::{MiniBatchId, NODE_ID, WorkerId};
use std::path::{Path, PathBuf};

/// The file in a job directory, or in an output folder elsewhere, that a running job locks.
pub const LOCK_FILE: &str = ".sandmill-lock";

/// The socket in a job directory where its owner asks a running job how it stands, and to end.
pub const CONTROL_SOCKET: &str = "control.sock";

/// A job directory. All of the layout is here; nobody else joins path names.
///
/// ```text
/// .sandmill-lock              locked while the job runs, and then removed
/// control.sock                where a running job is asked how it stands, and to end
/// job.json                    who made it and how it stands
/// journal.sqlite              what is committed
/// parts/process000.part       the rows that a worker wrote
/// work/process000/output/     what the guest sees as its output folder
/// work/process000/copies/     copies on their way there
/// work/process000/staged/     files of attempts that await their commit
/// work/process000/profile/    a profile that is being written, if one is wanted
/// work/reserve                room for the end of a job on a full disk
/// models/NAME/                a model that is a single file
/// links/process000/           links to the files of the running mini-batch, where needed
/// spill/                      rows on their way from files into groups by key, and unpacked texts
/// output/                     results, unless the job file names another place
/// logs/                       the log tree
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobDir(PathBuf);

impl JobDir {
    /// The job directory at `root`.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self(root.into())
    }

    /// The directory itself.
    pub fn root(&self) -> &Path {
        &self.0
    }

    /// The job's state: name, id, status, output folder.
    pub fn state_file(&self) -> PathBuf {
        self.0.join("job.json")
    }

    /// Where a running job is asked how it stands, and to end.
    pub fn control_socket(&self) -> PathBuf {
        self.0.join(CONTROL_SOCKET)
    }

    /// The journal.
    pub fn journal(&self) -> PathBuf {
        self.0.join("journal.sqlite")
    }

    /// The folder of part files.
    pub fn parts(&self) -> PathBuf {
        self.0.join("parts")
    }

    /// The part file of a worker.
    pub fn part_file(&self, worker: WorkerId) -> PathBuf {
        self.parts().join(format!("{worker}.part"))
    }

    /// The folder that holds all workers' folders.
    pub fn work(&self) -> PathBuf {
        self.0.join("work")
    }

    /// Room that is set aside for the end of a job on a full disk.
    pub fn reserve(&self) -> PathBuf {
        self.work().join("reserve")
    }

    /// The folders of models and side inputs that are single files. It lies beside [`work`](Self::work), and not in it:
    /// these are links to the files themselves, and workers write there.
    pub fn models(&self) -> PathBuf {
        self.0.join("models")
    }

    /// The folder that holds a model that is a single file, and nothing else.
    pub fn model(&self, name: &str) -> PathBuf {
        self.models().join(name)
    }

    /// The folder that holds the side input of this number, a single file, and nothing else. It lies among those of
    /// models, whose names do not begin so.
    pub fn side_input(&self, index: usize) -> PathBuf {
        self.models().join(format!(".side_input_{index}"))
    }

    /// The folder with copies of a Python script and of what lies beside it. It lies among those of models, whose names do
    /// not begin so.
    pub fn python_source(&self) -> PathBuf {
        self.models().join(".python_source")
    }

    /// A worker's own folder.
    pub fn worker_dir(&self, worker: WorkerId) -> PathBuf {
        self.work().join(worker.to_string())
    }

    /// The files that a worker opens for what its guest says, also those that nothing may come into.
    pub fn script_files(&self, worker: WorkerId) -> Vec<PathBuf> {
        let files =
            [self.script_log(worker), self.script_stdout(worker), self.script_stderr(worker)];
        let all = |first: PathBuf| [rotated(&first, 1), rotated(&first, 2), first];
        files.into_iter().flat_map(all).collect()
    }

    /// What the guest of a worker sees as its output folder.
    pub fn worker_output(&self, worker: WorkerId) -> PathBuf {
        self.worker_dir(worker).join("output")
    }

    /// What the guest of a worker sees as its folder for temporary files, if it has one.
    pub fn worker_temporary(&self, worker: WorkerId) -> PathBuf {
        self.worker_dir(worker).join("tmp")
    }

    /// What a worker is at with a model: an [`InferenceNote`](super::InferenceNote).
    pub fn worker_inference(&self, worker: WorkerId) -> PathBuf {
        self.worker_dir(worker).join("inference")
    }

    /// The folder that holds the links of all workers. It lies beside [`work`](Self::work), and not in it: a process
    /// that may write in a folder cannot link there what it may only read.
    pub fn links(&self) -> PathBuf {
        self.0.join("links")
    }

    /// Where a worker links the files of a mini-batch whose folder must not be shown whole.
    pub fn worker_inputs(&self, worker: WorkerId) -> PathBuf {
        self.links().join(worker.to_string())
    }

    /// Where a worker makes the copies that take the place of links, before they are whole.
    pub fn worker_copies(&self, worker: WorkerId) -> PathBuf {
        self.worker_dir(worker).join("copies")
    }

    /// Where the files of a worker's attempts wait to be published.
    pub fn worker_staged(&self, worker: WorkerId) -> PathBuf {
        self.worker_dir(worker).join("staged")
    }

    /// Where the files of one attempt wait to be published.
    pub fn staged(&self, worker: WorkerId, id: MiniBatchId, attempt: u32) -> PathBuf {
        self.worker_staged(worker).join(format!("{id}-{attempt}"))
    }

    /// Where rows lie that are grouped by key.
    pub fn spill(&self) -> PathBuf {
        self.0.join("spill")
    }

    /// Results, unless the job file names another place.
    pub fn default_output(&self) -> PathBuf {
        self.0.join("output")
    }

    /// The log tree.
    pub fn logs(&self) -> PathBuf {
        self.0.join("logs")
    }

    /// The outcome in words, the first file to read.
    pub fn result_file(&self) -> PathBuf {
        self.logs().join("job_result.txt")
    }

    /// What the columns of the inputs were taken to be, an input a line.
    pub fn columns(&self) -> PathBuf {
        self.logs().join("sys/columns.txt")
    }

    /// Items that failed, with the reason.
    pub fn failed_items(&self) -> PathBuf {
        self.logs().join("failed_items.csv")
    }

    /// How the job stands, as of now.
    pub fn overview(&self) -> PathBuf {
        self.logs().join("job_progress_overview.txt")
    }

    /// How the job stood in the course of the hour `stamp` (`yyyymmddhh`) and what followed.
    pub fn overview_since(&self, stamp: &str) -> PathBuf {
        self.logs().join(format!("job_progress_overview.{stamp}.txt"))
    }

    /// What went wrong, in a few lines.
    pub fn job_errors(&self) -> PathBuf {
        self.logs().join("job_error.txt")
    }

    /// What the log tree holds.
    pub fn log_readme(&self) -> PathBuf {
        self.logs().join("readme.txt")
    }

    /// What the leader did in the run that began at `stamp` (`yyyymmddhhmmss`).
    pub fn master_role(&self, stamp: &str) -> PathBuf {
        self.logs().join(format!("sys/master_role.{stamp}.txt"))
    }

    /// One row for each worker process.
    pub fn process_summary(&self) -> PathBuf {
        self.logs().join("sys/job_report/process_summary.csv")
    }

    /// One row for each node and run.
    pub fn node_summary(&self) -> PathBuf {
        self.logs().join("sys/job_report/node_summary.csv")
    }

    /// Progress in numbers, for the run that began at `stamp` (`yyyymmddhhmmss`).
    pub fn progress(&self, stamp: &str) -> PathBuf {
        self.logs().join(format!("sys/metrics/{stamp}/progress.csv"))
    }

    /// The job's metrics, one JSON object a line.
    pub fn metrics(&self) -> PathBuf {
        self.logs().join("sys/metrics/metrics.jsonl")
    }

    /// Worker processes as they come and go.
    pub fn node_main(&self) -> PathBuf {
        self.logs().join(format!("sys/node/{NODE_ID}/_main.txt"))
    }

    /// The mini-batches that a worker picked and finished.
    pub fn worker_log(&self, worker: WorkerId) -> PathBuf {
        self.logs().join(format!("sys/node/{NODE_ID}/{worker}.txt"))
    }

    /// Failures of the machine or of Sandmill that hit a worker.
    pub fn worker_system_errors(&self, worker: WorkerId) -> PathBuf {
        self.logs().join(format!("sys/error/{NODE_ID}/{worker}.txt"))
    }

    /// Failures of the machine or of Sandmill that hit the leader.
    pub fn leader_errors(&self) -> PathBuf {
        self.logs().join(format!("sys/error/{NODE_ID}/_main.txt"))
    }

    /// Every event, one JSON object a line.
    pub fn events(&self) -> PathBuf {
        self.logs().join("sys/events.jsonl")
    }

    /// One row for each attempt.
    pub fn mini_batch_report(&self) -> PathBuf {
        self.logs().join("sys/job_report/processed_mini-batches.csv")
    }

    /// What a worker process itself wrote to stderr (never the guest).
    pub fn worker_stderr(&self, worker: WorkerId) -> PathBuf {
        self.logs().join(format!("sys/node/{NODE_ID}/{worker}.stderr.txt"))
    }

    /// Where a worker writes the profile of its guest's code. The leader puts it among the logs when
    /// the worker has ended: another's logs lie there.
    pub fn worker_new_profile(&self, worker: WorkerId) -> PathBuf {
        self.worker_dir(worker).join(format!("profile/{worker}.profile.json"))
    }

    /// The profile of a worker's guest code, once the worker has ended.
    pub fn worker_profile(&self, worker: WorkerId) -> PathBuf {
        self.logs().join(format!("sys/node/{NODE_ID}/{worker}.profile.json"))
    }

    /// Samples of what the machine and the job's processes use.
    pub fn perf(&self) -> PathBuf {
        self.logs().join(format!("perf/{NODE_ID}"))
    }

    /// The folder that guests see as their log folder. Nothing that Sandmill itself opens may lie in
    /// it: a guest may put a link in its place.
    pub fn script_log_dir(&self) -> PathBuf {
        self.logs().join(format!("user/entry_script_log/{NODE_ID}/files"))
    }

    /// What the guest wrote through the log call: beside the folder that guests see, not in it.
    pub fn script_log(&self, worker: WorkerId) -> PathBuf {
        self.logs().join(format!("user/entry_script_log/{NODE_ID}/{worker}.log.txt"))
    }

    /// The folder of all that entry scripts and their guests write to the log tree.
    pub fn user_logs(&self) -> PathBuf {
        self.logs().join("user")
    }

    /// What the guest wrote to stdout.
    pub fn script_stdout(&self, worker: WorkerId) -> PathBuf {
        self.logs().join(format!("user/stdout/{NODE_ID}/{worker}.stdout.txt"))
    }

    /// What the guest wrote to stderr.
    pub fn script_stderr(&self, worker: WorkerId) -> PathBuf {
        self.logs().join(format!("user/stderr/{NODE_ID}/{worker}.stderr.txt"))
    }

    /// A digest of the entry script's errors.
    pub fn user_errors(&self) -> PathBuf {
        self.logs().join("user/error.txt")
    }

    /// Full stacks of a worker's failures in user code.
    pub fn worker_errors(&self, worker: WorkerId) -> PathBuf {
        self.logs().join(format!("user/error/{NODE_ID}/{worker}.txt"))
    }
}

/// Where a log goes on whose file is full: `process000.stdout.txt.1`, or another number.
pub fn rotated(path: &Path, number: u32) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{number}"));
    PathBuf::from(name)
}
