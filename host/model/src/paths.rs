//! The layout of a job directory.

use super::{MiniBatchId, NodeId, WorkerId};
use std::ffi::OsStr;
use std::path::{Component, Path, PathBuf};

/// The file that a running job locks, in its job directory or in an output folder elsewhere.
pub const LOCK_FILE: &str = ".sandmill-lock";

/// The socket in a job directory. Through it, the job's owner queries the status of a running job, or ends
/// the job.
pub const CONTROL_SOCKET: &str = "control.sock";

/// Whether a path is relative, has a part, and cannot lead out of the folder that it is below.
pub fn is_inside(path: &Path) -> bool {
    let mut parts = path.components();
    !path.as_os_str().is_empty() && parts.all(|part| matches!(part, Component::Normal(_)))
}

/// The only part of a path. `None` if it has several parts, or leads to another folder.
pub fn only_name(path: &Path) -> Option<&OsStr> {
    let mut parts = path.components();
    match (parts.next(), parts.next()) {
        (Some(Component::Normal(name)), None) => Some(name),
        _ => None,
    }
}

/// A job directory. All paths in it are built here.
///
/// ```text
/// .sandmill-lock              locked while the job runs, and then removed
/// control.sock                the socket for the status of a running job, and for ending it
/// job.json                    the owner and the state of the job
/// journal.sqlite              the journal of committed results
/// parts/process000.part       the rows that a worker wrote
/// work/process000/output/     what the guest sees as its output folder
/// work/process000/copies/     copies of input files that are not complete yet
/// work/process000/staged/     files of attempts that await their commit
/// work/process000/profile/    the profile that is being written, if the job has profiling_module
/// work/reserve                reserves disk space for the end of a job on a full disk
/// models/NAME/                a model that is a single file
/// links/process000/           links to the files of the running mini-batch, where needed
/// spill/                      rows that are being grouped by key, and unpacked texts
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

    /// The job's state: its name, id, status and output folder.
    pub fn state_file(&self) -> PathBuf {
        self.0.join("job.json")
    }

    /// The socket through which the owner queries or ends a running job.
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

    /// A file that reserves disk space, so that a job can still end properly on a full disk.
    pub fn reserve(&self) -> PathBuf {
        self.work().join("reserve")
    }

    /// The folder for models and side inputs that are single files. Each has a folder in it, with a link to
    /// the file. This folder is beside [`work`](Self::work), because workers can write below `work`.
    pub fn models(&self) -> PathBuf {
        self.0.join("models")
    }

    /// The folder for a model that is a single file. It holds no other file.
    pub fn model(&self, name: &str) -> PathBuf {
        self.models().join(name)
    }

    /// The folder for the side input with this number, if it is a single file. It is among the models'
    /// folders. No model has this name, because a model's name does not begin with a dot.
    pub fn side_input(&self, index: usize) -> PathBuf {
        self.models().join(format!(".side_input_{index}"))
    }

    /// The folder with copies of a Python script and of the files beside it. It is among the models' folders.
    /// No model has this name, because a model's name does not begin with a dot.
    pub fn python_source(&self) -> PathBuf {
        self.models().join(".python_source")
    }

    /// The folder of one worker.
    pub fn worker_dir(&self, worker: WorkerId) -> PathBuf {
        self.work().join(worker.to_string())
    }

    /// The files that a worker opens for its guest's output, including rotated ones that may never be
    /// written.
    pub fn script_files(&self, worker: WorkerId) -> Vec<PathBuf> {
        let files =
            [self.script_log(worker), self.script_stdout(worker), self.script_stderr(worker)];
        let with_rotated = |first: PathBuf| [rotated(&first, 1), rotated(&first, 2), first];
        files.into_iter().flat_map(with_rotated).collect()
    }

    /// The folder that a worker's guest sees as its output folder.
    pub fn worker_output(&self, worker: WorkerId) -> PathBuf {
        self.worker_dir(worker).join("output")
    }

    /// The folder that a worker's guest sees as its folder for temporary files, if it has one.
    pub fn worker_temporary(&self, worker: WorkerId) -> PathBuf {
        self.worker_dir(worker).join("tmp")
    }

    /// The file in which a worker records its current model call: an [`InferenceNote`](super::InferenceNote).
    pub fn worker_inference(&self, worker: WorkerId) -> PathBuf {
        self.worker_dir(worker).join("inference")
    }

    /// The folder that holds the links of all workers. It is not below [`work`](Self::work),
    /// because workers can write there. Behind the process wall, a process that may only read a
    /// file cannot link the file into a folder that it can write to.
    pub fn links(&self) -> PathBuf {
        self.0.join("links")
    }

    /// The folder in which a worker links the files of a mini-batch, if the guest must not see all files of
    /// the folder that contains them.
    pub fn worker_inputs(&self, worker: WorkerId) -> PathBuf {
        self.links().join(worker.to_string())
    }

    /// The folder in which a worker copies files that it cannot link. A copy stays in this folder until it is
    /// complete.
    pub fn worker_copies(&self, worker: WorkerId) -> PathBuf {
        self.worker_dir(worker).join("copies")
    }

    /// The folder in which the files of a worker's attempts wait to be published.
    pub fn worker_staged(&self, worker: WorkerId) -> PathBuf {
        self.worker_dir(worker).join("staged")
    }

    /// The folder in which the files of one attempt wait to be published.
    pub fn staged(&self, worker: WorkerId, id: MiniBatchId, attempt: u32) -> PathBuf {
        self.worker_staged(worker).join(format!("{id}-{attempt}"))
    }

    /// The folder of rows that are being grouped by key.
    pub fn spill(&self) -> PathBuf {
        self.0.join("spill")
    }

    /// The folder of results, unless the job file names another one.
    pub fn default_output(&self) -> PathBuf {
        self.0.join("output")
    }

    /// The log tree.
    pub fn logs(&self) -> PathBuf {
        self.0.join("logs")
    }

    /// The result of the job as text: the first file that a user should read.
    pub fn result_file(&self) -> PathBuf {
        self.logs().join("job_result.txt")
    }

    /// The columns that were found in the inputs, one line for each input.
    pub fn columns(&self) -> PathBuf {
        self.logs().join("sys/columns.txt")
    }

    /// The items that failed, with their reasons.
    pub fn failed_items(&self) -> PathBuf {
        self.logs().join("failed_items.csv")
    }

    /// The current progress of the job.
    pub fn overview(&self) -> PathBuf {
        self.logs().join("job_progress_overview.txt")
    }

    /// The progress of the job from the hour `stamp` (`yyyymmddhh`) on.
    pub fn overview_since(&self, stamp: &str) -> PathBuf {
        self.logs().join(format!("job_progress_overview.{stamp}.txt"))
    }

    /// A short summary of what went wrong.
    pub fn job_errors(&self) -> PathBuf {
        self.logs().join("job_error.txt")
    }

    /// A description of the log tree.
    pub fn log_readme(&self) -> PathBuf {
        self.logs().join("readme.txt")
    }

    /// The leader's log of the run that began at `stamp` (`yyyymmddhhmmss`).
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

    /// The job's metrics, one JSON object on each line.
    pub fn metrics(&self) -> PathBuf {
        self.logs().join("sys/metrics/metrics.jsonl")
    }

    /// The starts and ends of a node's worker processes.
    pub fn node_main(&self, node: NodeId) -> PathBuf {
        self.logs().join(format!("sys/node/{node}/_main.txt"))
    }

    /// The mini-batches that a worker began and finished.
    pub fn worker_log(&self, worker: WorkerId) -> PathBuf {
        self.logs().join(format!("sys/node/{}/{worker}.txt", worker.node()))
    }

    /// Failures of the machine or of Sandmill that affected a worker.
    pub fn worker_system_errors(&self, worker: WorkerId) -> PathBuf {
        self.logs().join(format!("sys/error/{}/{worker}.txt", worker.node()))
    }

    /// Failures of the machine or of Sandmill that affected the leader.
    pub fn leader_errors(&self) -> PathBuf {
        self.logs().join(format!("sys/error/{}/_main.txt", NodeId::ONLY))
    }

    /// Every event, one JSON object on each line.
    pub fn events(&self) -> PathBuf {
        self.logs().join("sys/events.jsonl")
    }

    /// One row for each attempt.
    pub fn mini_batch_report(&self) -> PathBuf {
        self.logs().join("sys/job_report/processed_mini-batches.csv")
    }

    /// The stderr of the worker process itself, never of the guest.
    pub fn worker_stderr(&self, worker: WorkerId) -> PathBuf {
        self.logs().join(format!("sys/node/{}/{worker}.stderr.txt", worker.node()))
    }

    /// The file to which a worker writes the profile of its guest's code. The worker cannot write to the log
    /// tree, because the logs of other workers are there. So the leader moves the file there after the worker
    /// has ended.
    pub fn worker_new_profile(&self, worker: WorkerId) -> PathBuf {
        self.worker_dir(worker).join(format!("profile/{worker}.profile.json"))
    }

    /// The profile of a worker's guest code, once the worker has ended.
    pub fn worker_profile(&self, worker: WorkerId) -> PathBuf {
        self.logs().join(format!("sys/node/{}/{worker}.profile.json", worker.node()))
    }

    /// Samples of the resources that a node and the job's processes on it use.
    pub fn perf(&self, node: NodeId) -> PathBuf {
        self.logs().join(format!("perf/{node}"))
    }

    /// The folder that a node's guests see as their log folder. Sandmill must not open any file in it, because a guest
    /// may replace the file by a link.
    pub fn script_log_dir(&self, node: NodeId) -> PathBuf {
        self.logs().join(format!("user/entry_script_log/{node}/files"))
    }

    /// The messages of the guest's log call. The file is outside of the folder that guests see.
    pub fn script_log(&self, worker: WorkerId) -> PathBuf {
        self.logs().join(format!("user/entry_script_log/{}/{worker}.log.txt", worker.node()))
    }

    /// The folder for everything that entry scripts write to the log tree.
    pub fn user_logs(&self) -> PathBuf {
        self.logs().join("user")
    }

    /// The guest's stdout.
    pub fn script_stdout(&self, worker: WorkerId) -> PathBuf {
        self.logs().join(format!("user/stdout/{}/{worker}.stdout.txt", worker.node()))
    }

    /// The guest's stderr.
    pub fn script_stderr(&self, worker: WorkerId) -> PathBuf {
        self.logs().join(format!("user/stderr/{}/{worker}.stderr.txt", worker.node()))
    }

    /// A summary of the entry script's errors.
    pub fn user_errors(&self) -> PathBuf {
        self.logs().join("user/error.txt")
    }

    /// The full stacks of a worker's failures in user code.
    pub fn worker_errors(&self, worker: WorkerId) -> PathBuf {
        self.logs().join(format!("user/error/{}/{worker}.txt", worker.node()))
    }
}

/// The file in which a log continues once the file at `path` is full: `process000.stdout.txt.1` for number 1.
pub fn rotated(path: &Path, number: u32) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{number}"));
    PathBuf::from(name)
}
