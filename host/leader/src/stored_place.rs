//! A job store as commands see it: a folder, or an address in a store.

use super::view_error::ViewError;
use crate::model::{Address, only_name};
use sandmill_commit_log::{FolderStore, JobLogs, LogStore, StoreBelow};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A job store that commands read.
#[derive(Clone, Debug)]
pub struct StorePlace {
    objects: Arc<dyn LogStore>,
    /// The folder, whose path is absolute and has no links. `None` if the store is at an address.
    folder: Option<PathBuf>,
    /// The folder or the address, for messages.
    shown: String,
}

/// A job's part of a job store.
#[derive(Clone, Debug)]
pub(super) struct StoredPlace {
    /// The job's name.
    pub(super) name: String,
    pub(super) logs: JobLogs,
    /// The job's folder. `None` if the store is at an address.
    pub(super) folder: Option<PathBuf>,
    /// The job's folder or address, for messages.
    pub(super) shown: String,
}

impl StorePlace {
    /// The job store in a folder.
    ///
    /// # Errors
    /// If there is no such folder.
    pub fn in_folder(folder: &Path) -> Result<Self, ViewError> {
        let none = || ViewError::NoStore(folder.to_owned());
        let folder = folder.canonicalize().ok().filter(|folder| folder.is_dir());
        let folder = folder.ok_or_else(none)?;
        Ok(Self {
            objects: Arc::new(FolderStore::new(folder.clone())),
            shown: folder.display().to_string(),
            folder: Some(folder),
        })
    }

    /// The job store whose objects are below an address.
    pub fn at_address(address: &Address, objects: Arc<dyn LogStore>) -> Self {
        let shown = address.to_string().trim_end_matches('/').to_owned();
        Self { objects, folder: None, shown }
    }

    /// The folder or the address, for messages.
    pub fn shown(&self) -> &str {
        &self.shown
    }

    /// The names of the jobs, sorted.
    ///
    /// # Errors
    /// If the store fails.
    pub(super) fn names(&self) -> io::Result<Vec<String>> {
        let mut names = self.objects.folders("")?;
        // A folder may hold other things, too.
        let is_job = |name: &String| match &self.folder {
            Some(folder) => folder.join(name).join("runs").is_dir(),
            None => true,
        };
        names.retain(is_job);
        names.sort();
        Ok(names)
    }

    /// The names of the jobs that have begun, sorted. An object of a removed job may stay in a store at an address.
    ///
    /// # Errors
    /// If the store fails.
    pub(super) fn begun(&self) -> io::Result<Vec<String>> {
        let mut begun = Vec::new();
        for name in self.names()? {
            if self.find(&name)?.is_some() {
                begun.push(name);
            }
        }
        Ok(begun)
    }

    /// The part of the job with this name. `None` if there is no such job.
    ///
    /// # Errors
    /// If the store fails.
    pub(super) fn find(&self, name: &str) -> io::Result<Option<StoredPlace>> {
        let is_name = only_name(name.as_ref()).is_some_and(|only| only == name);
        // A folder that is being removed has such a name.
        if !is_name || name.starts_with('.') {
            return Ok(None);
        }
        let has_runs = self.objects.folders(name)?.iter().any(|folder| folder == "runs");
        Ok(has_runs.then(|| self.job(name)))
    }

    /// The part of the job with this name, which consists of one part of a path.
    pub(super) fn job(&self, name: &str) -> StoredPlace {
        let objects = StoreBelow::new(self.objects.clone(), name.to_owned());
        StoredPlace {
            name: name.to_owned(),
            logs: JobLogs::new(Arc::new(objects)),
            folder: self.folder.as_ref().map(|folder| folder.join(name)),
            shown: format!("{}/{name}", self.shown),
        }
    }
}
