//! Tries whether a folder, or another store, can hold commit logs.

use super::files::remove_tree;
use super::folder_store::FolderStore;
use super::log_store::LogStore;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use sandmill_model::random_name;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::thread;

/// How many threads try to create the same object.
const RACERS: u8 = 4;

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

    /// Tries to make a folder, to create an object in it only if it is absent, also if several threads try at the same
    /// time, and to read, list and remove objects. Returns the name of an object that stays.
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
        self.try_race(store, folder)?;
        let listed = store.list(folder).map_err(self.failed("list the files"))?;
        if !listed.iter().any(|found| found == "0") {
            return self.wrong("does not list a file that exists");
        }
        Ok(name)
    }

    /// Lets several threads create the same object. Exactly one must succeed, and its content must stay.
    fn try_race(self, store: &dyn LogStore, folder: &str) -> Result<(), TrialError> {
        let name = &format!("{folder}/1");
        let create = |racer: u8| (racer, store.create(name, &[racer]));
        let results: Vec<(u8, io::Result<bool>)> = thread::scope(|scope| {
            let racers: Vec<_> =
                (0..RACERS).map(|racer| scope.spawn(move || create(racer))).collect();
            racers.into_iter().filter_map(|racer| racer.join().ok()).collect()
        });
        let read = store.read(name).map_err(self.failed("read a file"))?;
        let winner = |(racer, result): &&(u8, io::Result<bool>)| {
            matches!(result, Ok(true))
                || (result.is_err() && read.as_deref() == Some(&[*racer][..]))
        };
        let winners: Vec<u8> = results.iter().filter(winner).map(|(racer, _)| *racer).collect();
        if winners.len() > 1 {
            return self.wrong("lets several threads create one file");
        }
        if read.as_ref() != Some(&winners) {
            let error = results.into_iter().find_map(|(_, result)| result.err());
            return match error {
                Some(error) => Err(self.failed("create a file")(error)),
                None => self.wrong("returns other content than was written"),
            };
        }
        self.try_removal(store, name)
    }

    fn try_removal(self, store: &dyn LogStore, name: &str) -> Result<(), TrialError> {
        store.remove(name).map_err(self.failed("remove a file"))?;
        match store.read(name).map_err(self.failed("read a file"))? {
            None => Ok(()),
            Some(_) => self.wrong("keeps a file that was removed"),
        }
    }
}

/// Tries in a store what a commit log needs: to create an object only if it is absent, and to read, list and remove
/// it. Leaves nothing in the store. `address`: the store, for messages.
///
/// # Errors
/// If one of these does not work.
pub fn try_store(store: &dyn LogStore, address: &str) -> Result<(), TrialError> {
    let advice = "use another store for job_store";
    let tried = Tried { place: address, whose: "the store at", advice };
    let folder = format!(".sandmill-trial-{}", random_name());
    let result = tried.try_objects(store, &folder);
    let result = result.and_then(|name| tried.try_removal(store, &name));
    if result.is_err() {
        let left = [format!("{folder}/0"), format!("{folder}/1")];
        // An object that stays does no harm.
        left.iter().for_each(|name| drop(store.remove(name)));
    }
    result
}

/// Tries in a folder what a commit log needs: to create a file only if it is absent, to sync, read, list and remove it,
/// to replace it by another file, and to lock it. Leaves nothing in the folder. This cannot show whether other machines
/// see the same.
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
    drop((first, second));
    let replacement = trial.join("log/2");
    let replaced = fs::write(&replacement, b"new").and_then(|()| fs::rename(&replacement, &path));
    replaced.map_err(tried.failed("rename a file"))?;
    if fs::read(&path).map_err(tried.failed("read a file"))? != b"new" {
        return tried.wrong("keeps the content of a file that was replaced");
    }
    tried.try_removal(&store, &name)
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
    /// A store that does something else than it should.
    #[derive(Debug)]
    struct Wrong {
        store: FolderStore,
        /// Whether several processes can create the same object.
        races: bool,
        /// Whether objects stay that are removed.
        keeps: bool,
        /// Whether lists are empty.
        hides: bool,
    }

    impl LogStore for Wrong {
        fn make_folder(&self, folder: &str) -> io::Result<()> {
            self.store.make_folder(folder)
        }

        fn create(&self, name: &str, bytes: &[u8]) -> io::Result<bool> {
            let created = self.store.create(name, bytes)?;
            Ok(created || (self.races && name.ends_with("/1")))
        }

        fn make_durable(&self, name: &str) -> io::Result<()> {
            self.store.make_durable(name)
        }

        fn remove(&self, name: &str) -> io::Result<()> {
            if self.keeps { Ok(()) } else { self.store.remove(name) }
        }

        fn read(&self, name: &str) -> io::Result<Option<Vec<u8>>> {
            self.store.read(name)
        }

        fn list(&self, folder: &str) -> io::Result<Vec<String>> {
            if self.hides { Ok(Vec::new()) } else { self.store.list(folder) }
        }

        fn folders(&self, folder: &str) -> io::Result<Vec<String>> {
            self.store.folders(folder)
        }
    }

    #[test]
    fn stores_that_do_not_do_what_they_should_are_found() {
        let said = |races: bool, keeps: bool, hides: bool| {
            let dir = tempfile::tempdir().unwrap();
            let store = FolderStore::new(dir.path().canonicalize().unwrap().join("store"));
            let tried = try_store(&Wrong { store, races, keeps, hides }, "s3://box/");
            tried.map_err(|error| error.to_string())
        };
        assert_eq!(said(false, false, false), Ok(()));
        let advice = "use another store for job_store";
        let wrong = |what: &str| Err(format!("the store at s3://box/ {what}: {advice}"));
        assert_eq!(said(true, false, false), wrong("lets several threads create one file"));
        assert_eq!(said(false, true, false), wrong("keeps a file that was removed"));
        assert_eq!(said(false, false, true), wrong("does not list a file that exists"));
    }
}
