//! Resolves the paths that a job names. Each is resolved only once, so that the job opens the same
//! path that was checked against the operator's policy. If a link later replaces a part of such a
//! path, opening the path fails.

use super::error::NodeError;
use super::staging::Staged;
use crate::model::Mount;
use crate::opening;
use crate::spec::{FetchedScript, JobSpec, JobStorePlace};
use std::path::{Path, PathBuf};

/// The resolved paths of what a job reads besides its inputs and models.
#[derive(Clone, Debug, Default)]
pub(super) struct RealPaths {
    pub(super) entry_script: PathBuf,
    pub(super) source_directory: Option<PathBuf>,
    /// The side inputs, in the order of the job file.
    side_inputs: Vec<PathBuf>,
}

/// The job with resolved paths, for [`OperatorPolicy::check`].
///
/// # Errors
/// If a path cannot be resolved.
///
/// [`OperatorPolicy::check`]: crate::spec::OperatorPolicy::check
pub fn with_real_paths(spec: &JobSpec, staged: &Staged) -> Result<JobSpec, NodeError> {
    let real = RealPaths::find(spec, staged)?;
    let output = spec.output.as_deref().map(resolve).transpose()?;
    let parent = spec.parent.as_ref().map(|parent| resolve(&parent.folder)).transpose()?;
    let job_store = spec.job_store.as_ref().and_then(JobStorePlace::folder);
    let job_store = job_store.map(resolve).transpose()?;
    let mut spec = real.apply_to(spec, staged, output.as_deref(), parent.as_deref());
    spec.job_store = job_store.map(JobStorePlace::Folder).or(spec.job_store);
    Ok(spec)
}

impl RealPaths {
    /// Resolves the paths.
    ///
    /// # Errors
    /// If a path cannot be resolved.
    pub(super) fn find(spec: &JobSpec, staged: &Staged) -> Result<Self, NodeError> {
        let side_inputs = staged.side_inputs.iter().map(|mount| resolve(&mount.host));
        let side_inputs = side_inputs.collect::<Result<_, _>>()?;
        Ok(Self { side_inputs, ..Self::of_script(spec)? })
    }

    /// Resolves the paths of the entry script only.
    ///
    /// # Errors
    /// If a path cannot be resolved.
    pub(super) fn of_script(spec: &JobSpec) -> Result<Self, NodeError> {
        let FetchedScript { entry_script, source_directory } = &spec.fetched;
        let source_directory = source_directory.as_ref().or(spec.source_directory.as_ref());
        Ok(Self {
            entry_script: resolve(entry_script.as_ref().unwrap_or(&spec.entry_script))?,
            source_directory: source_directory.map(|folder| resolve(folder)).transpose()?,
            side_inputs: Vec::new(),
        })
    }

    /// A copy of the job with these paths, and with the staged files. `output`, `parent`: the resolved paths
    /// of the output folder and of the parent job's folder.
    pub(super) fn apply_to(
        &self,
        spec: &JobSpec,
        staged: &Staged,
        output: Option<&Path>,
        parent: Option<&Path>,
    ) -> JobSpec {
        let mut spec = spec.clone();
        spec.entry_script.clone_from(&self.entry_script);
        spec.source_directory.clone_from(&self.source_directory);
        spec.side_inputs = self.side_inputs(&staged.side_inputs);
        spec.models.clone_from(&staged.models);
        spec.output = output.map(Path::to_owned);
        if let (Some(named), Some(real)) = (&mut spec.parent, parent) {
            named.folder = real.to_owned();
        }
        spec
    }

    /// The side inputs at these paths.
    pub(super) fn side_inputs(&self, named: &[Mount]) -> Vec<Mount> {
        let with_path =
            |(mount, real): (&Mount, &PathBuf)| Mount { host: real.clone(), ..mount.clone() };
        named.iter().zip(&self.side_inputs).map(with_path).collect()
    }
}

/// The path without links, even if its last parts do not exist yet.
pub(super) fn resolve(path: &Path) -> Result<PathBuf, NodeError> {
    opening::resolve(path).map_err(|source| NodeError::Path { path: path.to_owned(), source })
}
