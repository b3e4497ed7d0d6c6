//! The messages.

use sandmill_model::{
    AttemptReport, BadFile, ByteSize, CallStats, Failure, GpuLease, InferenceSettings, Limits,
    MiniBatch, MiniBatchId, Model, Mount, OsSandbox, OutputFormat, Sample, SliceSize, Source,
    TableFormat, TableInput, WallState, WorkerId, WorkerSettings,
};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Changes with every change of a message or of the framing.
pub const PROTOCOL_VERSION: u32 = 18;

/// Leader to worker. The first message is `Setup`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum ToWorker {
    /// Everything a worker needs; once. (Its file descriptor 0 is the socket, its descriptor 1 the
    /// compiled component.)
    Setup(Box<Setup>),
    /// Work on this mini-batch after those already given.
    Run(Assignment),
    /// Work on this mini-batch before those already given. Sent only to a worker that
    /// [waits](Assignment::awaits_word) after a failed attempt, and ends its wait.
    RunFirst(Assignment),
    /// Go on with the mini-batches already given: the wait after a failed attempt is over.
    GoOn,
    /// The rows of this attempt, and of all that were reported before it, are in the output: their
    /// room in the part file is free.
    Free {
        /// The mini-batch.
        id: MiniBatchId,
        /// From 1.
        attempt: u32,
    },
    /// Call `shutdown` and end, after the mini-batches already given.
    Shutdown,
}

/// One attempt to make.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Assignment {
    /// What to work on.
    pub mini_batch: MiniBatch,
    /// From 1.
    pub attempt: u32,
    /// Whether no further attempt follows, whatever becomes of this one.
    pub is_last: bool,
}

impl Assignment {
    /// Whether the worker waits after an attempt with this failure until the leader sends
    /// [`ToWorker::RunFirst`] or [`ToWorker::GoOn`]: the leader may want the next attempt to begin
    /// before the mini-batches that the worker was given ahead.
    pub fn awaits_word(&self, failure: &Failure) -> bool {
        Self::awaits_word_after(failure, self.is_last)
    }

    /// The same of an attempt of which only that is known.
    pub fn awaits_word_after(failure: &Failure, is_last: bool) -> bool {
        !is_last && failure.kind.can_mend()
    }
}

/// What a worker is told at its start.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Setup {
    /// [`PROTOCOL_VERSION`] of the leader.
    pub protocol: u32,
    /// Which worker this is.
    pub worker: WorkerId,
    /// How many workers the job has at the same time.
    pub workers: u32,
    /// The job directory; all of the worker's own paths follow from it.
    pub job_dir: PathBuf,
    /// The program's arguments, the entry script's name first.
    pub arguments: Vec<String>,
    /// The guest's environment.
    pub environment: Vec<(String, String)>,
    /// Side inputs and source folder: shown read-only beside the inputs.
    pub mounts: Vec<Mount>,
    /// Where the source folder is mounted, if there is one.
    pub source_dir: Option<String>,
    /// Whether the guest has a folder for temporary files.
    pub temporary: bool,
    /// The inputs' folders, indexed by [`MiniBatch::source`].
    pub sources: Vec<Source>,
    /// How to read the tables, one for each of `sources`; empty for file inputs.
    pub tables: Vec<TableFormat>,
    /// What the job file says for workers.
    pub settings: WorkerSettings,
    /// The guest's budget.
    pub limits: Limits,
    /// How rows are written.
    pub output_format: OutputFormat,
    /// Whether rows stay in the part file until the job's end; else the leader says when they need not.
    pub rows_stay: bool,
    /// The GPU leased to this worker.
    pub gpu: Option<GpuLease>,
    /// The job's models.
    pub models: Vec<Model>,
    /// What inference may use.
    pub inference: InferenceSettings,
}

impl Setup {
    /// How this worker's code is loaded.
    pub fn loading(&self) -> Loading {
        Loading {
            protocol: self.protocol,
            fuel: self.limits.fuel.is_some(),
            profile: self.settings.profiling_module.is_some(),
            deterministic: self.settings.deterministic,
            stack: self.limits.stack,
        }
    }

    /// What all workers such as this one may use. `cgroups`: the folder of their cgroups.
    pub fn surroundings(&self, cgroups: Option<PathBuf>) -> Surroundings {
        let models = self.models.iter().map(Model::mount);
        Surroundings {
            os_sandbox: self.settings.os_sandbox,
            job_dir: self.job_dir.clone(),
            sources: self.sources.clone(),
            mounts: self.mounts.iter().cloned().chain(models).collect(),
            handles: self.limits.handles,
            cgroups,
        }
    }
}

/// What the process that workers are forked from is confined to before it loads their code: all that any of them may
/// use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Surroundings {
    /// How much of the process wall must stand.
    pub os_sandbox: OsSandbox,
    /// The job directory.
    pub job_dir: PathBuf,
    /// The inputs' folders.
    pub sources: Vec<Source>,
    /// Side inputs, source folder and models.
    pub mounts: Vec<Mount>,
    /// Files and folders that a guest may have open.
    pub handles: u64,
    /// The folder of the workers' cgroups, where there are any.
    pub cgroups: Option<PathBuf>,
}

/// How compiled code is loaded, which is the same for all workers of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Loading {
    /// [`PROTOCOL_VERSION`] of the leader.
    pub protocol: u32,
    /// Whether it counts fuel.
    pub fuel: bool,
    /// Whether it tells a profiler where it is.
    pub profile: bool,
    /// Whether it is made for a deterministic job.
    pub deterministic: bool,
    /// `limits.stack`.
    pub stack: ByteSize,
}

/// Leader to the process that workers are forked from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToNursery {
    /// Fork a planner. With the message come three descriptors: its standard input, output and error.
    Plan,
    /// Build a wall with room for all workers, then load the compiled code, the descriptor that comes with the message.
    Load(Loading, Box<Surroundings>),
    /// Fork a worker. With the message come three descriptors: its socket, the pipe that it reports by, and the file
    /// for its standard error.
    Fork {
        /// Its working directory.
        folder: PathBuf,
        /// The cgroup that is to be its own.
        cgroup: Option<PathBuf>,
    },
}

/// The answer to [`ToNursery::Plan`] and [`ToNursery::Fork`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FromNursery {
    /// The new process's id. It is a child of the leader.
    Forked(u32),
    /// Why there is none.
    Failed(String),
}

/// Worker to leader.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum FromWorker {
    /// The component is loaded and `init` succeeded, also in a new instance after `Restarting`.
    Ready {
        /// The call of `init`.
        init: CallStats,
        /// The wall around the worker.
        wall: WallState,
    },
    /// Loading or `init` failed; the worker ends. Mini-batches it was given go back.
    InitFailed {
        /// Why.
        failure: Failure,
    },
    /// The data of the mini-batch is loaded and `run` begins: from here its time-out counts.
    Started {
        /// Which one.
        id: MiniBatchId,
    },
    /// An attempt ended, well or not.
    Finished(Box<AttemptReport>),
    /// The instance broke in the attempt just finished; a new one is made, and `Ready` or
    /// `InitFailed` follows.
    Restarting,
}

/// Leader to planner: the first frame on its standard input, and the only one unless it [asks](Self::asks).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlanRequest {
    /// [`PROTOCOL_VERSION`] of the leader.
    pub protocol: u32,
    /// The inputs' folders.
    pub sources: Vec<Source>,
    /// How to cut.
    pub cut: Cut,
    /// By which keys rows or files are grouped, instead of by size. Empty: by size.
    pub partition_keys: Vec<String>,
    /// Where spill files of a shuffle go: a folder of the job directory.
    pub spill: PathBuf,
    /// Processes that a shuffle may use.
    pub processes: u32,
    /// How much of the process wall must stand around the planner and its helpers.
    pub os_sandbox: OsSandbox,
    /// Bytes of memory that an instance of the entry script has, which holds a whole mini-batch.
    pub memory: u64,
    /// Files, each with the index of its source, that an earlier plan could not read: each has one place in the
    /// plan, and what else there is of it comes behind all others.
    pub again: Vec<(u32, String)>,
    /// Whether each file is named before it is looked into: an earlier planner died over one.
    pub tells_files: bool,
    /// Before which files of a store the planner asks whether it may look into them.
    pub asks: Asks,
    /// Files that planners died over, each with the index of its source: they are not looked into.
    pub deadly: Vec<(u32, BadFile)>,
    /// Which of the mini-batches the plan has.
    pub sample: Sample,
}

impl PlanRequest {
    /// A plan by size.
    pub fn new(sources: Vec<Source>, cut: Cut) -> Self {
        let partition_keys = Vec::new();
        let spill = PathBuf::new();
        let os_sandbox = OsSandbox::default();
        Self {
            protocol: PROTOCOL_VERSION,
            sources,
            cut,
            partition_keys,
            spill,
            processes: 1,
            os_sandbox,
            memory: u64::MAX,
            again: Vec::new(),
            tells_files: false,
            asks: Asks::Never,
            deadly: Vec::new(),
            sample: Sample::ALL,
        }
    }
}

/// Which objects of a store the planner names before it looks into them. It then waits until a [`MayOpen`] says that the
/// object is here, or why it cannot be had.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Asks {
    /// None: no input lies in a store.
    #[default]
    Never,
    /// Those that are not here yet: all of them come, and stay.
    Absent,
    /// Each: they come on demand, and go again.
    Each,
}

impl Asks {
    /// Whether the planner may ask, and is answered.
    pub fn are_answered(self) -> bool {
        self != Self::Never
    }
}

/// How to cut inputs into mini-batches.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Cut {
    /// So many files each.
    Files {
        /// At least 1.
        count: u64,
    },
    /// Tables.
    Tables {
        /// Of which size each.
        size: SliceSize,
        /// For each source: what the job file says of its input.
        inputs: Vec<TableInput>,
        /// Infer types from all of the input, not from its first part.
        full_inference: bool,
    },
    /// So many void mini-batches, whatever the sources.
    Void {
        /// How many.
        count: u64,
    },
}

/// Leader to planner, on its standard input, as the answer to an [`FromPlanner::Opening`] that waits for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MayOpen {
    /// The index of the file's source.
    pub source: u32,
    /// Its path below that.
    pub file: String,
    /// Why it cannot be had from its store, for people; none if it is here. It stays until the planner names
    /// another one, or says [`FromPlanner::Closed`] or that it has finished.
    pub unfetched: Option<String>,
}

/// Planner to leader, on its standard output, in this order: `Tables`, any number of `MiniBatches`,
/// then `Finished`; or `Failed` at any time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum FromPlanner {
    /// How to read the tables, one for each source; empty for file inputs.
    Tables(Vec<TableFormat>),
    /// The next mini-batches, ids rising by one from 0.
    MiniBatches(Vec<MiniBatch>),
    /// What the columns of an input are taken to be, in one line.
    Columns(String),
    /// Something worth telling, e.g. that a file is empty.
    Notice(String),
    /// That was all.
    Finished,
    /// The inputs cannot be read or cut; for people, complete.
    Failed(String),
    /// The file that is looked into next, where the request wants to be told, behind all mini-batches of those
    /// before it, which are not looked into any more.
    Opening {
        /// The index of its source.
        source: u32,
        /// Its path below that.
        file: String,
        /// Whether the planner [asks](PlanRequest::asks) for it, and waits for a [`MayOpen`].
        waits: bool,
        /// Those of this source that are likely to follow, if it asks: they may be brought in advance.
        next: Vec<String>,
    },
    /// No file is looked into any more; mini-batches may follow.
    Closed,
    /// How much of all inputs is cut with the mini-batches that follow, in thousandths; only where that is known.
    Share(u16),
}
