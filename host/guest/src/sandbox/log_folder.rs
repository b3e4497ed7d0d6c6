//! Limits what a guest leaves in its log folder. All workers of a job share that folder, and its files stay
//! after a call. So the limit covers the whole life of the worker, and also counts what other workers left.

use super::counted::{LimitKind, OverLimit};
use crate::model::Limits;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use walkdir::WalkDir;

/// Counts one worker's share of a job's log folder. Clones share the count, so successive instances do too.
///
/// A worker adds up what it writes, without subtracting what it overwrites or removes. Before its
/// first write, and when the sum reaches the limit, the worker measures the folder and sets the sum
/// to its share of the real size. So the folder stays within about the limits of all workers
/// together, even if workers are replaced, and a worker that cleans up can continue.
#[derive(Clone, Debug)]
pub struct LogFolder(Arc<OpenLogFolder>);

#[derive(Debug)]
struct OpenLogFolder {
    path: PathBuf,
    /// The number of the job's workers that run at the same time, at least 1.
    workers: u64,
    bytes: AtomicU64,
    files: AtomicU64,
}

impl LogFolder {
    /// The log folder at `path`, with its present content, for a job with this many workers.
    pub fn new(path: PathBuf, workers: u32) -> Self {
        // Start above all limits, so that the first write measures the folder.
        let [bytes, files] = [const { AtomicU64::new(u64::MAX) }; 2];
        Self(Arc::new(OpenLogFolder { path, workers: workers.max(1).into(), bytes, files }))
    }

    /// Measures the folder, and sets the counts to this worker's share.
    fn measure(&self) {
        let share = |number: u64| number / self.0.workers;
        // A folder that cannot be measured counts as full, because a guest could hide files in it.
        let content = content(&self.0.path).map(|(bytes, files)| (share(bytes), share(files)));
        let (bytes, files) = content.unwrap_or((u64::MAX, u64::MAX));
        self.0.bytes.store(bytes, Relaxed);
        self.0.files.store(files, Relaxed);
    }

    fn used(&self, counted: LimitKind) -> Option<&AtomicU64> {
        match counted {
            LimitKind::Output => Some(&self.0.bytes),
            LimitKind::Files => Some(&self.0.files),
            LimitKind::Logs => None,
        }
    }

    /// Adds `amount` to the count.
    ///
    /// # Errors
    /// If the folder is full.
    pub(super) fn charge(
        &self,
        counted: LimitKind,
        amount: u64,
        limits: &Limits,
    ) -> Result<(), OverLimit> {
        let Some(used) = self.used(counted) else { return Ok(()) };
        let allowed = if counted == LimitKind::Files { limits.files } else { limits.output.0 };
        let mut asked = used.load(Relaxed).saturating_add(amount);
        if asked > allowed {
            self.measure();
            asked = used.load(Relaxed).saturating_add(amount);
        }
        if asked > allowed {
            return Err(OverLimit { counted, allowed, asked, in_log_folder: true });
        }
        used.store(asked, Relaxed);
        Ok(())
    }

    /// Subtracts the amount of an operation that failed.
    pub(super) fn give_back(&self, counted: LimitKind, amount: u64) {
        if let Some(used) = self.used(counted) {
            used.store(used.load(Relaxed).saturating_sub(amount), Relaxed);
        }
    }
}

/// The total size of the files below a folder in bytes, and the number of files, folders and links. `None` if
/// a part of the folder cannot be read.
fn content(folder: &Path) -> Option<(u64, u64)> {
    let mut bytes = 0_u64;
    let mut files = 0_u64;
    for entry in WalkDir::new(folder).min_depth(1) {
        let found = entry.and_then(|entry| entry.metadata());
        match found {
            Ok(found) => {
                files += 1;
                if !found.is_dir() {
                    bytes = bytes.saturating_add(found.len());
                }
            }
            // Another worker has just removed it, or the folder does not exist yet.
            Err(error)
                if error.io_error().is_some_and(|error| error.kind() == ErrorKind::NotFound) => {}
            Err(_) => return None,
        }
    }
    Some((bytes, files))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ByteSize;
    use std::fs;

    fn limits() -> Limits {
        Limits { output: ByteSize(10), files: 2, ..Limits::default() }
    }

    #[test]
    fn only_remaining_files_count() {
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().join(name);
        let folder = LogFolder::new(root.path().to_owned(), 1);
        let limits = limits();
        for _ in 0..9 {
            assert_eq!(folder.charge(LimitKind::Files, 1, &limits), Ok(()));
            assert_eq!(folder.charge(LimitKind::Output, 7, &limits), Ok(()), "nothing stays");
        }
        fs::write(at("a"), "1234567").unwrap();
        fs::create_dir(at("b")).unwrap();
        let over = |counted, allowed, asked| {
            Err(OverLimit { counted, allowed, asked, in_log_folder: true })
        };
        let again = LogFolder::new(root.path().to_owned(), 1);
        assert_eq!(again.charge(LimitKind::Files, 1, &limits), over(LimitKind::Files, 2, 3));
        assert_eq!(again.charge(LimitKind::Output, 4, &limits), over(LimitKind::Output, 10, 11));
        assert_eq!(folder.charge(LimitKind::Files, 3, &limits), over(LimitKind::Files, 2, 5));
        assert_eq!(folder.charge(LimitKind::Output, 4, &limits), over(LimitKind::Output, 10, 11));
        assert_eq!(folder.charge(LimitKind::Output, 3, &limits), Ok(()));
        folder.give_back(LimitKind::Output, 3);
        fs::remove_dir(at("b")).unwrap();
        assert_eq!(folder.charge(LimitKind::Files, 1, &limits), Ok(()));
        assert_eq!(folder.charge(LimitKind::Logs, u64::MAX, &limits), Ok(()), "not kept here");
    }

    #[test]
    fn each_worker_of_a_job_has_its_share() {
        let root = tempfile::tempdir().unwrap();
        for name in ["a", "b", "c"] {
            fs::write(root.path().join(name), "1234567").unwrap();
        }
        let limits = limits();
        let take = |workers| {
            let folder = LogFolder::new(root.path().to_owned(), workers);
            (
                folder.charge(LimitKind::Files, 1, &limits),
                folder.charge(LimitKind::Output, 3, &limits),
            )
        };
        assert!(matches!(take(1), (Err(_), Err(_))));
        assert_eq!(take(3), (Ok(()), Ok(())));
        let nowhere = LogFolder::new(root.path().join("nowhere"), 1);
        assert_eq!(nowhere.charge(LimitKind::Files, 2, &limits), Ok(()));
    }

    /// A guest must not be able to hide files in paths that are too long for the system.
    #[test]
    fn a_folder_with_unreadable_parts_counts_as_full() {
        use rustix::fs::{Mode, OFlags, mkdirat, openat};
        let root = tempfile::tempdir().unwrap();
        let name = "x".repeat(250);
        let mut folder = fs::File::open(root.path()).unwrap();
        for _ in 0..20 {
            mkdirat(&folder, name.as_str(), Mode::RWXU).unwrap();
            folder = openat(&folder, name.as_str(), OFlags::RDONLY, Mode::empty()).unwrap().into();
        }
        let folder = LogFolder::new(root.path().to_owned(), 2);
        let over = folder.charge(LimitKind::Files, 1, &Limits::default()).unwrap_err();
        assert_eq!(over.asked, u64::MAX, "an unknown size has no share");
    }
}
