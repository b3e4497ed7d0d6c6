//! What this machine holds for a prepared job: open files, locks and processes, which no message can carry.

use super::backends::cuda_folders;
use super::error::NodeError;
use super::gpus::LeasedGpus;
use super::models::InspectedModel;
use super::options::NodeOptions;
use super::real_paths::RealPaths;
use super::staging::{Staged, wait_for};
use crate::compile::Compiled;
use crate::machine_slots::MachineSlots;
use crate::model::{InferenceSettings, JobDir, MemoryBudget, NodeId, Source, WorkerId};
use crate::pool::PrestartedProcesses;
use crate::spec::JobSpec;
use std::path::{Path, PathBuf};

/// A prepared job on this machine: its checked settings, and the files and libraries that were found for
/// them.
#[derive(Debug)]
pub struct NodeJob {
    pub(super) spec: JobSpec,
    pub(super) options: NodeOptions,
    pub(super) real: RealPaths,
    /// The entry script: the path in the job file, or the component that was built from the crate there.
    pub(super) entry_script: PathBuf,
    pub(super) staged: Staged,
    /// The settings for inference, with the libraries that were found.
    pub(super) inference: InferenceSettings,
    pub(super) component: Compiled,
    /// The folder with the library of a script's runtime. `None` if the runtime has none.
    pub(super) library: Option<PathBuf>,
    /// What was found when the models were checked, in the order of the models.
    pub(super) inspected_models: Vec<InspectedModel>,
    /// The memory budget of each worker.
    pub(super) budget: MemoryBudget,
    /// The folder of workers' files: the job directory, or a folder that the job's machines share.
    pub(super) job_dir: JobDir,
    pub(super) role: NodeRole,
    /// Whether rows stay in the part files until the job's end.
    pub(super) keeps_rows: bool,
    /// The folder for rows that are being grouped by key, and for unpacked texts, if this machine plans the job.
    /// Otherwise, the folder for copies of what mini-batches read of them.
    pub(super) spill: PathBuf,
    /// The slots for workers on the machine. `None` if the operator sets no caps.
    pub(super) slots: Option<MachineSlots>,
    /// Processes that were started during the preparation, if any.
    pub(super) prestarted: Option<PrestartedProcesses>,
    /// The GPUs that only this job has.
    pub(super) gpus: LeasedGpus,
}

/// What a machine does for a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeRole {
    /// It plans the job, and prepares the folders of workers' files. If no other machine takes part, it also runs
    /// the workers.
    Plans,
    /// It only runs workers, and has this number. Another machine prepares the folders.
    RunsWorkers(NodeId),
}

impl NodeRole {
    /// The numbers of the machine's workers are below this one.
    pub(super) fn worker_limit(self) -> u32 {
        match self {
            Self::Plans => WorkerId::LIMIT,
            Self::RunsWorkers(node) => {
                node.first_worker().map_or(0, |first| first + NodeId::WORKER_NUMBERS)
            }
        }
    }

    /// The machine's number.
    pub(super) fn node(self) -> NodeId {
        match self {
            Self::Plans => NodeId::ONLY,
            Self::RunsWorkers(node) => node,
        }
    }
}

impl NodeJob {
    /// Uses a folder that several machines share for the workers' files. The planner's files stay in the job directory.
    /// Call this before [`start`](Self::start).
    pub fn share(&mut self, folder: JobDir, role: NodeRole) {
        self.job_dir = folder;
        self.role = role;
    }

    /// Lets workers read copies of the planner's files from this folder. Call this after [`share`](Self::share).
    pub fn read_spill_from(&mut self, folder: PathBuf) {
        self.spill = folder;
    }

    /// The folder of workers' files is only this machine's, although another machine commits the results. That machine
    /// has the rows before their space is reused. Call this after [`share`](Self::share).
    pub fn own_folder(&mut self) {
        self.keeps_rows = false;
    }

    /// The folder of the planner's files.
    pub fn planner_folder(&self) -> &Path {
        &self.spill
    }

    /// The sources of the job's inputs.
    pub fn sources(&self) -> &[Source] {
        &self.staged.sources
    }

    /// Some objects are downloaded from stores before the planner or a mini-batch requests them. Waits for all
    /// of these. `say` gets lines for the user.
    pub fn await_objects(&self, say: &mut dyn FnMut(&str)) {
        wait_for(&self.staged.objects, &self.options, say);
    }

    /// The kinds of devices that compute for the job: `CPU`, or the names of the GPUs that it has leased.
    pub fn device_kinds(&self) -> Vec<String> {
        self.gpus.kinds()
    }

    /// Leases the GPUs that the job may have, and prepares them. Returns notices for the user.
    ///
    /// # Errors
    /// If it is not possible to find out which GPUs other jobs have.
    pub fn lease_gpus(&mut self, say: &mut dyn FnMut(&str)) -> Result<Vec<String>, NodeError> {
        let (mut gpus, lacking) = LeasedGpus::acquire(&self.spec, &self.options)?;
        if !gpus.is_empty() {
            self.inference.cuda = cuda_folders(&self.options);
        }
        let unready = gpus.make_ready(&self.spec, &self.inference, &self.options, say);
        self.gpus = gpus;
        Ok(lacking.into_iter().chain(unready).collect())
    }
}
