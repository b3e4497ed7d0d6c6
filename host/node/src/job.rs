//! What this machine holds for a prepared job and cannot send in a message: open files, locks, processes.

use super::backends::cuda_folders;
use super::error::NodeError;
use super::gpus::LeasedGpus;
use super::models::InspectedModel;
use super::options::NodeOptions;
use super::real_paths::RealPaths;
use super::staging::{Staged, wait_for};
use crate::compile::Compiled;
use crate::machine_slots::MachineSlots;
use crate::model::{InferenceSettings, JobDir, MemoryBudget};
use crate::pool::PrestartedProcesses;
use crate::spec::JobSpec;
use std::path::PathBuf;

/// A prepared job on this machine: its settings as they were checked, and what was found for them here.
#[derive(Debug)]
pub struct NodeJob {
    pub(super) spec: JobSpec,
    pub(super) options: NodeOptions,
    pub(super) real: RealPaths,
    /// Its name in the job, or where it was built.
    pub(super) entry_script: PathBuf,
    pub(super) staged: Staged,
    /// The settings for inference, with the libraries that were found.
    pub(super) inference: InferenceSettings,
    pub(super) component: Compiled,
    /// The library of a script's runtime.
    pub(super) library: Option<PathBuf>,
    /// The models as they were checked.
    pub(super) seen: Vec<InspectedModel>,
    /// The memory budget of each worker.
    pub(super) budget: MemoryBudget,
    pub(super) job_dir: JobDir,
    /// The machine's caps. `None` if there are none.
    pub(super) turns: Option<MachineSlots>,
    /// Processes that were started during the preparation, if any.
    pub(super) standby: Option<PrestartedProcesses>,
    /// The GPUs that only this job has.
    pub(super) gpus: LeasedGpus,
}

impl NodeJob {
    /// Waits for all objects of stores that are downloaded without a request. `say` gets lines for people.
    pub fn await_objects(&self, say: &mut dyn FnMut(&str)) {
        wait_for(&self.staged.objects, &self.options, say);
    }

    /// Takes the GPUs that the job may have, and prepares them. Returns notices for the user.
    ///
    /// # Errors
    /// If it is not possible to find out which GPUs other jobs have.
    pub fn take_gpus(&mut self, say: &mut dyn FnMut(&str)) -> Result<Vec<String>, NodeError> {
        let (mut gpus, lacking) = LeasedGpus::take(&self.spec, &self.options)?;
        if !gpus.is_empty() {
            self.inference.cuda = cuda_folders(&self.options);
        }
        let unready = gpus.make_ready(&self.spec, &self.inference, &self.options, say);
        self.gpus = gpus;
        Ok(lacking.into_iter().chain(unready).collect())
    }
}
