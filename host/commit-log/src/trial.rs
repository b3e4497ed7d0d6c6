//! Tries whether a folder can hold commit logs.

use super::files::remove_tree;
use super::folder_store::FolderStore;
use super::log_store::LogStore;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use sandmill_model::random_name;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

/// Why a folder cannot hold commit logs. The texts are shown to users.
#[derive(Debug, thiserror::Error)]
pub enum TrialError {
    /// There is no such folder.
    #[error("{} is not a folder: make it, or mount the shared folder", .0.display())]
    NotAFolder(PathBuf),
    /// A step failed.
    #[error("it cannot {step} in {}: {source}", folder.display())]
    Failed {
        /// What was tried, as in "create a file".
        step: &'static str,
        /// The folder.
        folder: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// The file system does something else than it should.
    #[error("the file system of {} {what}: put the job store on another file system", folder.display())]
    Wrong {
        /// What it does.
        what: &'static str,
        /// The folder.
        folder: PathBuf,
    },
}

/// Tries in a folder what a commit log needs: to create a file only if it is absent, to sync and to read it, and
/// to lock a file. Leaves nothing in the folder. This cannot show whether other machines see the same.
///
/// # Errors
/// If one of these does not work.
pub fn try_folder(folder: &Path) -> Result<(), TrialError> {
    let folder = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    if !folder.is_dir() {
        return Err(TrialError::NotAFolder(folder));
    }
    let trial = folder.join(format!(".sandmill-trial-{}", random_name()));
    let result = try_all(&folder, &trial);
    // If the folder stays, the user sees by its name what it was for.
    let _ = remove_tree(&trial);
    result
}

fn try_all(folder: &Path, trial: &Path) -> Result<(), TrialError> {
    let failed =
        |step| move |source| TrialError::Failed { step, folder: folder.to_owned(), source };
    let wrong = |what| Err(TrialError::Wrong { what, folder: folder.to_owned() });
    let store = FolderStore::new(trial.to_owned());
    store.make_folder("log").map_err(failed("make a folder"))?;
    let create = || store.create("log/0", b"trial").map_err(failed("create a file"));
    if !create()? {
        return wrong("reports a new file as existing");
    }
    if create()? {
        return wrong("replaces a file that exists");
    }
    let read = store.read("log/0").map_err(failed("read a file"))?;
    if read.as_deref() != Some(b"trial") {
        return wrong("returns other content than was written");
    }
    let path = trial.join("log/0");
    let open = || File::open(&path).map_err(failed("open a file"));
    let (first, second) = (open()?, open()?);
    let lock = |file: &File| flock(file, FlockOperation::NonBlockingLockExclusive);
    lock(&first).map_err(io::Error::from).map_err(failed("lock a file"))?;
    match lock(&second) {
        Err(Errno::WOULDBLOCK) => {}
        Ok(()) => return wrong("lets two processes lock one file"),
        Err(errno) => return Err(failed("lock a file")(errno.into())),
    }
    store.remove("log/0").map_err(failed("remove a file"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_tried_and_left_empty() {
        let dir = tempfile::tempdir().unwrap();
        try_folder(dir.path()).unwrap();
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
        let missing = dir.path().join("missing");
        assert!(matches!(try_folder(&missing), Err(TrialError::NotAFolder(_))));
        // Nothing can be created in a folder of `/proc`.
        let error = try_folder("/proc/self/task".as_ref()).unwrap_err();
        assert!(error.to_string().starts_with("it cannot make a folder in"), "{error}");
    }
}
