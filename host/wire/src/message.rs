//! The messages between leader, planner, workers, and the zygote: the process from which planners and workers
//! are forked.

use sandmill_files::ManifestObject;
use sandmill_model::{
    AttemptReport, BadFile, ByteSize, CallStats, Failure, GpuLease, InferenceSettings, JobModel,
    Limits, MiniBatch, MiniBatchId, Mount, OsSandbox, OutputFormat, Sample, SliceSize, Source,
    TableFormat, TableInput, WallState, WorkerId, WorkerSettings,
};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// The version of all messages and of the framing. Increase it with every change of either.
pub const PROTOCOL_VERSION: u32 = 21;

/// Leader to worker. The first message is `Setup`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum ToWorker {
    /// Everything that a worker needs to know, sent once. (The worker's file descriptor 0 is its socket, and
    /// descriptor 1 is the compiled component.)
    Setup(Box<WorkerSetup>),
    /// Work on this mini-batch, after those already assigned.
    Run(Assignment),
    /// Work on this mini-batch before those already assigned. The leader sends this only to a worker that
    /// [waits](Assignment::awaits_decision) after a failed attempt, and the message ends the wait.
    RunFirst(Assignment),
    /// Continue with the mini-batches already assigned: the wait after a failed attempt is over.
    GoOn,
    /// The rows of this attempt, and of all attempts reported before it, are in the output. The worker may
    /// reuse their space in the part file.
    Reclaimable {
        /// The mini-batch.
        id: MiniBatchId,
        /// From 1.
        attempt: u32,
    },
    /// Call `shutdown` and exit, after the mini-batches already assigned.
    Shutdown,
}

/// One attempt at a mini-batch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Assignment {
    /// What to work on.
    pub mini_batch: MiniBatch,
    /// From 1.
    pub attempt: u32,
    /// Whether this attempt is the last, even if it fails.
    pub is_last: bool,
    /// The objects of stores that the node must fetch before a worker gets the attempt. Empty if the leader's machine
    /// runs the workers: it fetches objects before it grants anything.
    pub objects: Vec<GrantedObject>,
}

/// An object that a node must fetch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GrantedObject {
    /// The position of its file in [`MiniBatch::reads`].
    pub file: u32,
    /// The length, time and version that the leader has found.
    pub known: ManifestObject,
}

impl Assignment {
    /// Whether the node must fetch something before a worker gets the attempt.
    pub fn must_fetch(&self) -> bool {
        !self.objects.is_empty() || self.mini_batch.must_fetch_spill()
    }

    /// Whether the worker, after an attempt with this failure, waits until the leader sends
    /// [`ToWorker::RunFirst`] or [`ToWorker::GoOn`]. The leader may want the retry to run before the
    /// mini-batches that this worker already has in its queue.
    pub fn awaits_decision(&self, failure: &Failure) -> bool {
        Self::awaits_decision_after(failure, self.is_last)
    }

    /// Like [`Assignment::awaits_decision`], for a caller that only has `is_last`.
    pub fn awaits_decision_after(failure: &Failure, is_last: bool) -> bool {
        !is_last && failure.kind.may_succeed_on_retry()
    }
}

/// What a worker receives at its start.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WorkerSetup {
    /// [`PROTOCOL_VERSION`] of the leader.
    pub protocol: u32,
    /// Which worker this is.
    pub worker: WorkerId,
    /// How many workers the job has at the same time.
    pub workers: u32,
    /// The job directory. The paths of the worker's files are below it.
    pub job_dir: PathBuf,
    /// The folder with the planner's spill files and unpacked texts.
    pub spill: PathBuf,
    /// The program's arguments, the entry script's name first.
    pub arguments: Vec<String>,
    /// The guest's environment.
    pub environment: Vec<(String, String)>,
    /// Side inputs and source folder, mounted read-only next to the inputs.
    pub mounts: Vec<Mount>,
    /// Where the source folder is mounted, if there is one.
    pub source_dir: Option<String>,
    /// Whether the guest has a folder for temporary files.
    pub temporary: bool,
    /// The inputs' folders, indexed by [`MiniBatch::source`].
    pub sources: Vec<Source>,
    /// How to read the tables, one for each of `sources`; empty for file inputs.
    pub tables: Vec<TableFormat>,
    /// The worker settings of the job file.
    pub settings: WorkerSettings,
    /// The guest's budget.
    pub limits: Limits,
    /// How rows are written.
    pub output_format: OutputFormat,
    /// Whether rows stay in the part file until the job ends. Otherwise [`ToWorker::Reclaimable`] says when
    /// their space may be reused.
    pub keeps_rows: bool,
    /// The GPU leased to this worker.
    pub gpu: Option<GpuLease>,
    /// The job's models.
    pub models: Vec<JobModel>,
    /// The limits and choices for inference.
    pub inference: InferenceSettings,
}

impl WorkerSetup {
    /// How the compiled code of this worker is loaded.
    pub fn loading(&self) -> Loading {
        Loading {
            protocol: self.protocol,
            fuel: self.limits.fuel.is_some(),
            profile: self.settings.profiling_module.is_some(),
            deterministic: self.settings.deterministic,
            stack: self.limits.stack,
        }
    }

    /// Everything that any worker of the job may use. `cgroups` is the folder of the workers'
    /// cgroups.
    pub fn surroundings(&self, cgroups: Option<PathBuf>) -> ZygoteLimits {
        let models = self.models.iter().map(JobModel::mount);
        ZygoteLimits {
            os_sandbox: self.settings.os_sandbox,
            job_dir: self.job_dir.clone(),
            spill: self.spill.clone(),
            sources: self.sources.clone(),
            mounts: self.mounts.iter().cloned().chain(models).collect(),
            handles: self.limits.handles,
            cgroups,
        }
    }
}

/// Everything that any worker of a job may use. The zygote confines itself to this before it loads
/// the compiled code.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ZygoteLimits {
    /// How much of the process wall must be in place.
    pub os_sandbox: OsSandbox,
    /// The job directory.
    pub job_dir: PathBuf,
    /// The folder with the planner's spill files, or with copies of them. It may be outside of the job directory.
    pub spill: PathBuf,
    /// The inputs' folders.
    pub sources: Vec<Source>,
    /// Side inputs, source folder and models.
    pub mounts: Vec<Mount>,
    /// How many files and folders a guest may have open.
    pub handles: u64,
    /// The folder of the workers' cgroups; `None` if the job has none.
    pub cgroups: Option<PathBuf>,
}

/// How compiled code is loaded; the same for all workers of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Loading {
    /// [`PROTOCOL_VERSION`] of the leader.
    pub protocol: u32,
    /// Whether the code counts fuel.
    pub fuel: bool,
    /// Whether the code reports its position to a profiler.
    pub profile: bool,
    /// Whether the code is compiled for a deterministic job.
    pub deterministic: bool,
    /// `limits.stack`.
    pub stack: ByteSize,
}

/// Leader to zygote: the process from which workers and planners are forked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToZygote {
    /// Fork a planner. Three descriptors come with the message: the planner's standard input,
    /// output and error.
    Plan,
    /// Build a wall that has room for all workers, then load the compiled code from the descriptor that comes
    /// with the message.
    Load(Loading, Box<ZygoteLimits>),
    /// Fork a worker. Three descriptors come with the message: the worker's socket, the pipe for
    /// its reports, and the file for its standard error.
    Fork {
        /// Its working directory.
        folder: PathBuf,
        /// The cgroup for this worker alone.
        cgroup: Option<PathBuf>,
    },
}

/// The answer to [`ToZygote::Plan`] and [`ToZygote::Fork`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FromZygote {
    /// The id of the new process, which is a child of the leader.
    Forked(u32),
    /// Why the zygote could not fork.
    Failed(String),
}

/// Worker to leader.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum FromWorker {
    /// The component is loaded and `init` succeeded. After `Restarting`, this means the new instance.
    Ready {
        /// The call of `init`.
        init: CallStats,
        /// The wall around the worker.
        wall: WallState,
    },
    /// Loading or `init` failed; the worker exits. Its assigned mini-batches return to the queue.
    InitFailed {
        /// Why.
        failure: Failure,
    },
    /// The mini-batch's data is loaded and `run` begins. The time-out of `run` counts from here.
    Started {
        /// The mini-batch.
        id: MiniBatchId,
    },
    /// An attempt ended, with or without success.
    Finished(Box<AttemptReport>),
    /// The instance broke in the attempt that just finished. The worker makes a new one; `Ready` or
    /// `InitFailed` follows.
    Restarting,
}

/// Leader to planner: the first message on the planner's standard input. It is the only message, unless the
/// planner [asks](Self::asks).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlanRequest {
    /// [`PROTOCOL_VERSION`] of the leader.
    pub protocol: u32,
    /// The inputs' folders.
    pub sources: Vec<Source>,
    /// How to cut the inputs into mini-batches.
    pub cut: CutOptions,
    /// The keys by which rows or files are grouped. If empty, inputs are cut by size.
    pub partition_keys: Vec<String>,
    /// The folder, in the job directory, for the spill files of a shuffle.
    pub spill: PathBuf,
    /// How many processes a shuffle may use.
    pub processes: u32,
    /// How much of the process wall must be in place around the planner and its helpers.
    pub os_sandbox: OsSandbox,
    /// Bytes of memory that an instance of the entry script has. A whole mini-batch must fit.
    pub memory: u64,
    /// Files that an earlier plan could not read, each with the index of its source. In that plan, each was
    /// one failing mini-batch. If the planner can read the file now, the file's first mini-batch gets the
    /// number of that failing mini-batch. Its other mini-batches come at the end of the plan.
    pub retried_files: Vec<(u32, String)>,
    /// Whether the planner names each file before it opens it. The leader asks for this after a planner died
    /// while it read a file.
    pub reports_files: bool,
    /// Which objects of a store the planner must ask for before it opens them.
    pub asks: ObjectsToAsk,
    /// Files that planners died on, each with the index of its source. The planner does not open them.
    pub deadly: Vec<(u32, BadFile)>,
    /// Which share of the mini-batches belongs to the plan.
    pub sample: Sample,
    /// Whether the planner reports [positions](FromPlanner::Position).
    pub reports_positions: bool,
    /// Where an earlier planner has got to. The plan continues from there.
    pub continue_from: Option<PlanPosition>,
    /// Whether the leader stores what mini-batches read of spill files. Then the mini-batches of an earlier planner do not
    /// need its spill files.
    pub stores_spill: bool,
}

impl PlanRequest {
    /// A plan by size.
    pub fn new(sources: Vec<Source>, cut: CutOptions) -> Self {
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
            retried_files: Vec::new(),
            reports_files: false,
            asks: ObjectsToAsk::Never,
            deadly: Vec::new(),
            sample: Sample::ALL,
            reports_positions: false,
            continue_from: None,
            stores_spill: false,
        }
    }
}

/// A place in a plan, from which another planner can continue without reading everything before it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanPosition {
    /// How many mini-batches come before.
    pub mini_batches: u64,
    /// The index of the source of the last file that was reached.
    pub source: u32,
    /// The last file that was reached, as a path below its source. Empty if there was none.
    pub file: String,
    /// The place in that file.
    pub place: PlanPlace,
    /// A digest of all files up to that one, in order: of their names, and of the versions of those that were opened.
    pub files: u64,
}

/// A place in a file, or after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PlanPlace {
    /// In a text, between two records.
    Text {
        /// How many bytes come before.
        offset: u64,
        /// How many lines come before.
        lines: u64,
    },
    /// In a table: after this many mini-batches of the file.
    Table {
        /// The number of mini-batches.
        mini_batches: u64,
    },
    /// After the file.
    FileEnd,
    /// The end of the plan.
    PlanEnd,
}

/// Which objects of a store the planner must ask for before it opens them. After it has asked, it waits for a
/// [`MayOpen`], which says that the object is on this machine, or why it cannot be fetched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ObjectsToAsk {
    /// No objects, because no input is in a store.
    #[default]
    Never,
    /// Objects that are not on this machine yet. All objects of the input are fetched, and stay.
    Absent,
    /// Every object. Objects are fetched on demand and removed again.
    Each,
}

impl ObjectsToAsk {
    /// Whether the planner asks at all, and receives answers.
    pub fn are_answered(self) -> bool {
        self != Self::Never
    }
}

/// How to cut inputs into mini-batches.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum CutOptions {
    /// Mini-batches of this many files.
    Files {
        /// At least 1.
        count: u64,
    },
    /// Tables.
    Tables {
        /// The size of a mini-batch.
        size: SliceSize,
        /// For each source, what the job file says about its input.
        inputs: Vec<TableInput>,
        /// Whether types are inferred from the whole input instead of its beginning.
        full_inference: bool,
    },
    /// Void mini-batches: `run` gets no data. The sources are ignored.
    Void {
        /// How many mini-batches.
        count: u64,
    },
}

/// Leader to planner, on its standard input: the answer to a [`FromPlanner::Opening`] that waits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MayOpen {
    /// The index of the file's source.
    pub source: u32,
    /// The file's path below its source.
    pub file: String,
    /// Why the file cannot be fetched from its store, as text for the user. `None` if the file is on this
    /// machine. It stays there until the planner asks for another file, sends [`FromPlanner::Closed`], or has
    /// finished.
    pub unfetched: Option<String>,
}

/// Planner to leader, on its standard output. The order is `Tables`, any number of `MiniBatches`, then
/// `Finished`; `Failed` and `CannotContinue` may come at any time, as the last message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum FromPlanner {
    /// How to read the tables, one for each source; empty for file inputs.
    Tables(Vec<TableFormat>),
    /// The next mini-batches; their ids rise by one from 0, or from [`PlanRequest::continue_from`].
    MiniBatches(Vec<MiniBatch>),
    /// The columns that the planner found in an input, in one line.
    Columns(String),
    /// Something that the user should know, e.g. that a file is empty.
    Notice(String),
    /// The plan is complete.
    Finished,
    /// The inputs cannot be read or cut. The text is the complete error message for the user.
    Failed(String),
    /// The file that the planner opens next. Sent if the request has `reports_files`, or if the planner asks.
    /// All mini-batches of the files before this one have been sent, and the planner no longer opens those
    /// files.
    Opening {
        /// The index of the file's source.
        source: u32,
        /// The file's path below its source.
        file: String,
        /// Whether the planner [asks](PlanRequest::asks) for the file, and waits for a [`MayOpen`].
        waits: bool,
        /// The files of this source that are likely to follow, if the planner asks. The leader may fetch them
        /// in advance.
        next: Vec<String>,
    },
    /// The planner opens no more files; mini-batches may still follow.
    Closed,
    /// The share of all inputs that is planned, in thousandths. It includes the mini-batches of the
    /// next message. Sent only if the share is known.
    Share(u16),
    /// Where the planner is after the next message, which is `MiniBatches`, or `Finished` at the end. Sent only if
    /// another planner can continue from there. If it is not sent, none of the later positions is sent either.
    Position(PlanPosition),
    /// The planner continues from the position in its request: the files before it are those that the earlier planner
    /// found. Comes before the first `MiniBatches`.
    Continues,
    /// The planner cannot continue from the position in its request, because files before it have changed.
    CannotContinue,
}
