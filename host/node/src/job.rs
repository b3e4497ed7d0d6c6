//! What this machine holds for a job that is prepared, and cannot be told: open files, locks, processes.

use super::backends::cuda_folders;
use super::error::NodeError;
use super::gpus::Gpus;
use super::models::Seen;
use super::options::NodeOptions;
use super::real_paths::RealPaths;
use super::staging::{Staged, wait_for};
use crate::compile::Compiled;
use crate::model::{InferenceSettings, JobDir, MemoryBudget};
use crate::pool::Standby;
use crate::spec::JobSpec;
use crate::turns::Turns;
use std::path::PathBuf;

/// What this machine holds for a job. The job's settings are as they were checked; what was found of them here stands
/// beside them.
#[derive(Debug)]
pub struct NodeJob {
    pub(super) spec: JobSpec,
    pub(super) options: NodeOptions,
    pub(super) real: RealPaths,
    /// By the name that the job gives it, or where it was built.
    pub(super) entry_script: PathBuf,
    pub(super) staged: Staged,
    /// What inference may use, with the libraries that were found.
    pub(super) inference: InferenceSettings,
    pub(super) component: Compiled,
    /// The library of the runtime that runs a Python script.
    pub(super) library: Option<PathBuf>,
    /// The models as they were when they were looked at.
    pub(super) seen: Vec<Seen>,
    /// What each worker may hold.
    pub(super) budget: MemoryBudget,
    pub(super) job_dir: JobDir,
    /// The machine's caps; none if there are none.
    pub(super) turns: Option<Turns>,
    /// Processes that were started meanwhile, if any.
    pub(super) standby: Option<Standby>,
    /// The GPUs that are this job's alone.
    pub(super) gpus: Gpus,
}

impl NodeJob {
    /// Waits for all objects of stores that come unasked. `say` gets lines for people.
    pub fn await_objects(&self, say: &mut dyn FnMut(&str)) {
        wait_for(&self.staged.objects, &self.options, say);
    }

    /// Takes the GPUs that the job may have, and makes them ready. Returns what the user should know of them.
    ///
    /// # Errors
    /// If it cannot be seen which GPUs other jobs have.
    pub fn take_gpus(&mut self, say: &mut dyn FnMut(&str)) -> Result<Vec<String>, NodeError> {
        let (mut gpus, lacking) = Gpus::take(&self.spec, &self.options)?;
        if !gpus.is_empty() {
            self.inference.cuda = cuda_folders(&self.options);
        }
        let unready = gpus.make_ready(&self.spec, &self.inference, &self.options, say);
        self.gpus = gpus;
        Ok(lacking.into_iter().chain(unready).collect())
    }
}
