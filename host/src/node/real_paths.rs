//! The paths that a job names, resolved once. What is held against the operator's policy is then what is opened: a link
//! that comes in the place of one of their parts meanwhile is refused where the path is opened.

use super::error::NodeError;
use crate::opening;
use crate::spec::JobSpec;
use std::path::{Path, PathBuf};

/// Paths without links, of what a job names beside its inputs and its models. The last parts may not exist yet.
#[derive(Clone, Debug, Default)]
pub(crate) struct RealPaths {
    pub(crate) entry_script: PathBuf,
    pub(crate) source_directory: Option<PathBuf>,
    /// In the order of the job file.
    pub(crate) side_inputs: Vec<PathBuf>,
    pub(crate) output: Option<PathBuf>,
    pub(crate) parent: Option<PathBuf>,
    pub(crate) job_dir: PathBuf,
}

/// A job with paths without links in the place of those that it names, for [`OperatorPolicy::check`].
///
/// # Errors
/// If one cannot be looked up.
///
/// [`OperatorPolicy::check`]: crate::spec::OperatorPolicy::check
pub fn with_real_paths(spec: &JobSpec) -> Result<JobSpec, NodeError> {
    let nowhere = Path::new("/");
    Ok(RealPaths::find(spec, nowhere)?.of(spec))
}

impl RealPaths {
    /// Resolves the paths.
    ///
    /// # Errors
    /// If one cannot be looked up.
    pub(crate) fn find(spec: &JobSpec, job_dir: &Path) -> Result<Self, NodeError> {
        let side_inputs = spec.side_inputs.iter().map(|mount| resolve(&mount.host));
        Ok(Self {
            entry_script: resolve(&spec.entry_script)?,
            source_directory: spec.source_directory.as_deref().map(resolve).transpose()?,
            side_inputs: side_inputs.collect::<Result<_, _>>()?,
            output: spec.output.as_deref().map(resolve).transpose()?,
            parent: spec.parent.as_ref().map(|parent| resolve(&parent.folder)).transpose()?,
            job_dir: resolve(job_dir)?,
        })
    }

    /// The job with these paths in the place of those that it names.
    pub(crate) fn of(&self, spec: &JobSpec) -> JobSpec {
        let mut spec = spec.clone();
        spec.entry_script.clone_from(&self.entry_script);
        spec.source_directory.clone_from(&self.source_directory);
        for (mount, real) in spec.side_inputs.iter_mut().zip(&self.side_inputs) {
            mount.host.clone_from(real);
        }
        spec.output.clone_from(&self.output);
        if let (Some(parent), Some(real)) = (&mut spec.parent, &self.parent) {
            parent.folder.clone_from(real);
        }
        spec
    }
}

/// The path without links, also where its last parts do not exist yet.
pub(crate) fn resolve(path: &Path) -> Result<PathBuf, NodeError> {
    opening::resolve(path).map_err(|source| NodeError::Path { path: path.to_owned(), source })
}
