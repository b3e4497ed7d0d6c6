//! Data that a submitter has uploaded into its job's own folder of the job store. The job may read it, although other jobs
//! must not read job stores.

use super::file::{OperatorPolicy, PolicySettings};
use super::folder_use::FolderUse;
use super::real::real_path;
use crate::JobStorePlace;
use crate::model::is_uploaded;
use std::path::{Path, PathBuf};

impl OperatorPolicy {
    /// The policy for the job of this name, which may also read what was uploaded into its own folder of this job store.
    #[must_use]
    pub fn for_job(&self, store: Option<&JobStorePlace>, name: &str) -> Self {
        Self(self.0.as_ref().map(|settings| settings.for_job(store, name)))
    }
}

impl PolicySettings {
    pub(super) fn for_job(&self, store: Option<&JobStorePlace>, name: &str) -> Self {
        Self { job_folder: self.folder_of(store, name), ..self.clone() }
    }

    /// The job's folder in its store, without links. `None` if the store is not a folder, or is not allowed.
    fn folder_of(&self, store: Option<&JobStorePlace>, name: &str) -> Option<PathBuf> {
        let stores = self.roots.as_ref()?.0.iter();
        let mut stores = stores.filter(|root| root.folder_use == FolderUse::JobStores);
        let store = real_path(store?.folder()?).ok()?;
        let is_allowed = |folder: &PathBuf| store.starts_with(folder);
        let is_allowed = stores.any(|root| root.folders.iter().any(is_allowed));
        is_allowed.then(|| store.join(name))
    }

    /// Whether this path, which has no links, is in uploaded data of the job. A job must name the digest: a glob over all
    /// digests is refused.
    pub(super) fn is_uploaded(&self, folder_use: FolderUse, real: &Path) -> bool {
        let is_data =
            matches!(folder_use, FolderUse::Inputs | FolderUse::SideInputs | FolderUse::Models);
        is_data && self.job_folder.as_ref().is_some_and(|job| is_uploaded(job, real))
    }
}
