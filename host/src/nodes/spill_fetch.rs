//! Fetches what mini-batches read of the planner's files from the job's store, for the workers of a node.

use super::patient::Patience;
use crate::engine::{LogStore, OBJECT_BYTES, spill_object};
use crate::model::{StoredBytes, StoredSpill, is_full};
use crate::node::{FetchSpill, SpillArrival, SpillCopies, SpillFailure, local_name, local_names};
use crate::opening::at_its_path;
use rustix::fs::{Mode, OFlags};
use sha2::{Digest, Sha256};
use std::collections::{BTreeSet, HashSet};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

/// How many copies are made at the same time.
const FETCHED_AT_ONCE: usize = 4;
/// If a store fails for this long, another node tries.
const PATIENCE: Duration = Duration::from_secs(60);

/// Fetches copies on threads of its own. They end when this is dropped.
#[derive(Debug)]
pub(super) struct SpillFetch {
    shared: Arc<Shared>,
    requests: mpsc::Sender<(u64, StoredSpill)>,
}

#[derive(Debug)]
struct Shared {
    objects: Arc<dyn LogStore>,
    run: String,
    /// The folder from which workers read.
    folder: PathBuf,
    /// The requests whose copies are needed.
    wanted: Mutex<BTreeSet<u64>>,
    /// The files of names that are here. Locked while one is fetched.
    names: Mutex<HashSet<String>>,
    /// Whether nothing more is needed.
    stop: AtomicBool,
}

/// Why a copy could not be made.
#[derive(Debug, thiserror::Error)]
enum FetchError {
    #[error("{name} cannot be read in the job store: {source}")]
    Store { name: String, source: io::Error },
    #[error("{0} is missing in the job store")]
    Missing(String),
    #[error("{0} in the job store is shorter than the leader has written it")]
    Short(String),
    #[error("{0} in the job store is not what the leader has written")]
    Damaged(String),
    #[error("cannot write to {}: {source}", path.display())]
    Disk { path: PathBuf, source: io::Error },
}

impl SpillFetch {
    /// For a run. `folder`: the folder from which workers read.
    ///
    /// # Errors
    /// If no thread can be started.
    pub(super) fn start(
        objects: Arc<dyn LogStore>,
        run: &str,
        folder: PathBuf,
    ) -> io::Result<SpillCopies> {
        let shared = Arc::new(Shared {
            objects,
            run: run.to_owned(),
            folder,
            wanted: Mutex::default(),
            names: Mutex::default(),
            stop: AtomicBool::new(false),
        });
        let (sender, arrivals) = unbounded_channel();
        let (requests, receiver) = mpsc::channel();
        let receiver = Arc::new(Mutex::new(receiver));
        for _ in 0..FETCHED_AT_ONCE {
            let shared = shared.clone();
            let receiver = receiver.clone();
            let sender = sender.clone();
            let fetch = move || shared.fetch_all(&receiver, &sender);
            thread::Builder::new().name("spill-fetch".to_owned()).spawn(fetch)?;
        }
        Ok(SpillCopies { fetcher: Box::new(Self { shared, requests }), arrivals })
    }
}

impl Drop for SpillFetch {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
    }
}

impl FetchSpill for SpillFetch {
    fn fetch(&mut self, number: u64, spill: StoredSpill) {
        lock(&self.shared.wanted).insert(number);
        // If this fails, no thread is left.
        let _ = self.requests.send((number, spill));
    }

    fn release(&mut self, number: u64) {
        if lock(&self.shared.wanted).remove(&number) {
            // If it is still being fetched, the thread removes it.
            let _ = fs::remove_file(self.shared.folder.join(local_name(number)));
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    /// Makes all copies that are requested.
    fn fetch_all(
        &self,
        requests: &Mutex<Receiver<(u64, StoredSpill)>>,
        arrivals: &UnboundedSender<SpillArrival>,
    ) {
        loop {
            let request = lock(requests).recv();
            let Ok((number, spill)) = request else { return };
            if !lock(&self.wanted).contains(&number) {
                continue;
            }
            let failed = self.fetch(number, &spill).err().map(|error| match error {
                FetchError::Disk { source, .. } if is_full(&source) => {
                    SpillFailure::NoSpace(format!("{}: {source}", self.folder.display()))
                }
                error => SpillFailure::Unfetched(error.to_string()),
            });
            // If this fails, the part in the job has ended.
            let _ = arrivals.send(SpillArrival { number, failed });
        }
    }

    fn fetch(&self, number: u64, spill: &StoredSpill) -> Result<(), FetchError> {
        if let Some(names) = &spill.names {
            self.fetch_names(&local_names(spill), names)?;
        }
        let path = self.folder.join(local_name(number));
        let fetched = self.copy(&spill.parts, &path);
        let is_needed = fetched.is_ok() && lock(&self.wanted).contains(&number);
        if !is_needed {
            // What stays is removed with the folder.
            let _ = fs::remove_file(&path);
        }
        fetched
    }

    /// Fetches the names of the input files, and their offsets, unless they are here.
    fn fetch_names(&self, name: &str, [names, index]: &[StoredBytes; 2]) -> Result<(), FetchError> {
        let mut here = lock(&self.names);
        if here.contains(name) {
            return Ok(());
        }
        let path = self.folder.join(name);
        for (path, bytes) in [(&path, names), (&path.with_extension("index"), index)] {
            // An earlier try may have left a part of it.
            let _ = fs::remove_file(path);
            self.copy(bytes, path)?;
        }
        here.insert(name.to_owned());
        Ok(())
    }

    /// Copies bytes of objects to a new file.
    fn copy(&self, bytes: &StoredBytes, path: &Path) -> Result<(), FetchError> {
        let failed = |source| FetchError::Disk { path: path.to_owned(), source };
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
        let file = at_its_path(path, flags, Mode::RUSR | Mode::WUSR);
        let mut file = file.map(File::from).map_err(failed)?;
        let mut digest = Sha256::new();
        let StoredBytes { epoch, object, mut offset, length, .. } = *bytes;
        let mut left = length;
        let mut number = object;
        while left > 0 {
            let some = left.min((OBJECT_BYTES as u64).saturating_sub(offset));
            let name = spill_object(&self.run, epoch, number);
            let found = self.read(&name, offset, some)?;
            digest.update(&found);
            file.write_all(&found).map_err(failed)?;
            left -= some;
            number = number.wrapping_add(1);
            offset = 0;
        }
        let is_same = <[u8; 32]>::from(digest.finalize()) == bytes.sha256;
        is_same
            .then_some(())
            .ok_or_else(|| FetchError::Damaged(spill_object(&self.run, epoch, object)))
    }

    fn read(&self, name: &str, offset: u64, length: u64) -> Result<Vec<u8>, FetchError> {
        let patience = Patience { most: PATIENCE, stop: &self.stop };
        let read = patience.read(|| self.objects.read_range(name, offset, length));
        let failed = |source| FetchError::Store { name: name.to_owned(), source };
        let found = read.map_err(failed)?;
        let found = found.ok_or_else(|| FetchError::Missing(name.to_owned()))?;
        let is_whole = found.len() as u64 == length;
        is_whole.then_some(found).ok_or_else(|| FetchError::Short(name.to_owned()))
    }
}
