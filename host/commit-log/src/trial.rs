//! Tries whether a folder, or another store, can hold commit logs.

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
    #[error("it cannot {step} in {place}: {source}")]
    Failed {
        /// What was tried, as in "create a file".
        step: &'static str,
        /// The folder or the address.
        place: String,
        /// Why it failed.
        source: io::Error,
    },
    /// The file system does something else than it should.
    #[error("{whose} {place} {what}: {advice}")]
    Wrong {
        /// "the file system of", or "the store at".
        whose: &'static str,
        /// The folder or the address.
        place: String,
        /// What it does.
        what: &'static str,
        /// What the user can do.
        advice: &'static str,
    },
}

/// What is tried, for messages.
#[derive(Clone, Copy)]
struct Tried<'a> {
    /// The folder or the address.
    place: &'a str,
    whose: &'static str,
    advice: &'static str,
}

impl Tried<'_> {
    fn failed(self, step: &'static str) -> impl Fn(io::Error) -> TrialError {
        move |source| TrialError::Failed { step, place: self.place.to_owned(), source }
    }

    fn wrong<T>(self, what: &'static str) -> Result<T, TrialError> {
        let Self { place, whose, advice } = self;
        Err(TrialError::Wrong { whose, place: place.to_owned(), what, advice })
    }

    /// Tries to make a folder, to create an object in it only if it is absent, and to read the object. Returns
    /// the name of the object.
    fn try_objects(self, store: &dyn LogStore, folder: &str) -> Result<String, TrialError> {
        store.make_folder(folder).map_err(self.failed("make a folder"))?;
        let name = format!("{folder}/0");
        let create = || store.create(&name, b"trial").map_err(self.failed("create a file"));
        if !create()? {
            return self.wrong("reports a new file as existing");
        }
        if create()? {
            return self.wrong("replaces a file that exists");
        }
        let read = store.read(&name).map_err(self.failed("read a file"))?;
        if read.as_deref() != Some(b"trial") {
            return self.wrong("returns other content than was written");
        }
        Ok(name)
    }
}

/// Tries in a store what a commit log needs: to create an object only if it is absent, and to read it. Leaves
/// nothing in the store. `address`: the store, for messages.
///
/// # Errors
/// If one of these does not work.
pub fn try_store(store: &dyn LogStore, address: &str) -> Result<(), TrialError> {
    let advice = "use another store for job_store";
    let tried = Tried { place: address, whose: "the store at", advice };
    let name = tried.try_objects(store, &format!(".sandmill-trial-{}", random_name()))?;
    store.remove(&name).map_err(tried.failed("remove a file"))
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
    let place = folder.display().to_string();
    let advice = "put the job store on another file system";
    let tried = Tried { place: &place, whose: "the file system of", advice };
    let store = FolderStore::new(trial.to_owned());
    let name = tried.try_objects(&store, "log")?;
    let path = trial.join(&name);
    let open = || File::open(&path).map_err(tried.failed("open a file"));
    let (first, second) = (open()?, open()?);
    let lock = |file: &File| flock(file, FlockOperation::NonBlockingLockExclusive);
    lock(&first).map_err(io::Error::from).map_err(tried.failed("lock a file"))?;
    match lock(&second) {
        Err(Errno::WOULDBLOCK) => {}
        Ok(()) => return tried.wrong("lets two processes lock one file"),
        Err(errno) => return Err(tried.failed("lock a file")(errno.into())),
    }
    store.remove(&name).map_err(tried.failed("remove a file"))
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
