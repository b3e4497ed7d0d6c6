//! Where workers leave what is to be committed: rows in part files, and other files in staged folders. The
//! committer reaches both only through this module.

use super::disk::{open_part, sync_file_system_of};
use super::error::CommitError;
use crate::files::remove_tree;
use crate::model::{JobDir, MiniBatchId, WorkerId};
use rustix::io::Errno;
use std::collections::{BTreeSet, HashSet};
use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Where the part files and staged files of a job's workers are.
#[derive(Clone, Debug)]
pub(crate) struct WorkerFolders {
    dir: JobDir,
    are_shared: bool,
}

impl WorkerFolders {
    /// Folders in the job directory.
    pub(crate) fn in_job_dir(dir: JobDir) -> Self {
        Self { dir, are_shared: false }
    }

    /// Folders in the job's store, which all machines of the job can reach.
    pub(crate) fn in_store(dir: JobDir) -> Self {
        Self { dir, are_shared: true }
    }

    /// The place of the folders, as the journal records it. `None` for the job directory.
    pub(super) fn place(&self) -> Option<String> {
        self.are_shared.then(|| self.dir.root().to_string_lossy().into_owned())
    }

    #[cfg(any(test, feature = "testing"))]
    pub(super) fn job_dir(&self) -> &JobDir {
        &self.dir
    }

    /// Whether no worker can write to its part file at the job's end. The worker of a lost node may still run.
    pub(super) fn are_ended(&self) -> bool {
        !self.are_shared
    }

    pub(super) fn part_file(&self, worker: WorkerId) -> PathBuf {
        self.dir.part_file(worker)
    }

    pub(super) fn open_part(&self, worker: WorkerId) -> Result<File, Errno> {
        open_part(&self.part_file(worker))
    }

    /// The folder with the files of an attempt.
    pub(super) fn staged(&self, worker: WorkerId, id: MiniBatchId, attempt: u32) -> PathBuf {
        self.dir.staged(worker, id, attempt)
    }

    /// The folder with the files that a worker's `init` and `shutdown` left.
    pub(super) fn lifecycle_folder(&self, worker: WorkerId) -> PathBuf {
        self.dir.worker_output(worker)
    }

    /// Syncs all files of workers.
    pub(super) fn sync_files(&self) -> Result<(), CommitError> {
        sync_file_system_of(&self.dir.work())
    }

    /// The name of a folder in the journal: its path relative to the job directory.
    pub(super) fn journal_name(&self, folder: &Path) -> String {
        folder.strip_prefix(self.dir.root()).unwrap_or(folder).to_string_lossy().into_owned()
    }

    /// The folder that has this name in the journal.
    pub(super) fn folder_named(&self, name: &str) -> PathBuf {
        self.dir.root().join(name)
    }

    /// All folders from which files are published.
    pub(super) fn publishable(&self) -> Result<HashSet<PathBuf>, CommitError> {
        let mut folders = HashSet::new();
        for worker in paths_in(&self.dir.work())? {
            folders.extend(paths_in(&worker.join("staged"))?);
            folders.extend(Some(worker.join("output")).filter(|folder| folder.is_dir()));
        }
        Ok(folders)
    }

    /// The highest number of a worker that has any files. `None` if there are no files.
    pub(super) fn highest_worker(&self) -> Option<WorkerId> {
        let folders = [self.dir.parts(), self.dir.work()];
        folders.iter().filter_map(|folder| highest_worker(folder)).max()
    }

    /// Removes everything that workers left.
    pub(super) fn remove_all(&self) -> Result<(), CommitError> {
        for folder in [self.dir.parts(), self.dir.work()] {
            for path in paths_in(&folder)? {
                let is_of_worker =
                    path.file_name().and_then(|name| worker_of(name.to_str()?)).is_some();
                if is_of_worker {
                    remove_tree(&path).map_err(|e| CommitError::disk("remove", &path, e))?;
                }
            }
        }
        Ok(())
    }

    /// Removes the files of earlier runs' workers, except the output of the workers in `done`, which must
    /// still be published. Files that stay do no harm: nothing refers to them. Workers on other machines may still run:
    /// their files stay until the job's end.
    pub(super) fn clean_up(&self, done: &BTreeSet<WorkerId>) {
        if self.are_shared {
            return;
        }
        for folder in [self.dir.models(), self.dir.links()] {
            let _ = remove_tree(&folder);
        }
        for folder in paths_in(&self.dir.work()).unwrap_or_default() {
            let name = folder.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            if !worker_of(name).is_some_and(|worker| done.contains(&worker)) {
                let _ = remove_tree(&folder);
                continue;
            }
            for inner in paths_in(&folder).unwrap_or_default() {
                if inner.file_name().is_none_or(|name| name != "output") {
                    let _ = remove_tree(&inner);
                }
            }
        }
    }
}

/// The paths of the folder's entries. Empty if there is no such folder.
fn paths_in(folder: &Path) -> Result<Vec<PathBuf>, CommitError> {
    let read = match fs::read_dir(folder) {
        Ok(read) => read,
        Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Ok(Vec::new());
        }
        Err(e) => return Err(CommitError::disk("read", folder, e)),
    };
    let paths: Result<Vec<_>, _> = read.map(|entry| entry.map(|entry| entry.path())).collect();
    paths.map_err(|e| CommitError::disk("read", folder, e))
}

/// The highest worker number among the names in the folder.
fn highest_worker(folder: &Path) -> Option<WorkerId> {
    let entries = fs::read_dir(folder).ok()?.flatten();
    entries.filter_map(|entry| worker_of(entry.file_name().to_str()?)).max()
}

/// The worker after which a folder or part file is named.
pub(crate) fn worker_of(name: &str) -> Option<WorkerId> {
    let name = name.strip_suffix(".part").unwrap_or(name);
    let worker = WorkerId(name.strip_prefix("process")?.parse().ok()?);
    (worker.0 < WorkerId::LIMIT && worker.to_string() == name).then_some(worker)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_valid_names_are_parsed_as_workers() {
        for (name, worker) in [("process007", Some(7)), ("process1000.part", Some(1000))] {
            assert_eq!(worker_of(name).map(|worker| worker.0), worker);
        }
        // The last of these would leave no number for the next worker.
        for name in ["process7", "process+07", "process", "x007", "process4294967295.part"] {
            assert_eq!(worker_of(name), None, "{name}");
        }
    }
}
