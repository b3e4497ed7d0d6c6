//! Watches whether the disks of an agent's machine have room for more work.

use super::scratch::remove_abandoned;
use crate::model::ByteSize;
use rustix::fs::statvfs;
use std::fmt;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// How often the disks are looked at.
const INTERVAL: Duration = Duration::from_secs(1);
/// If a look takes long, because there are many files, the pause before the next one is at least this many times as
/// long.
const PAUSE_FACTOR: u32 = 20;

/// How much of the disk the work of an agent may take.
#[derive(Clone, Debug, Default)]
pub(crate) struct DiskLimits {
    /// The most bytes that the work may take. `None` means no limit.
    pub(crate) work: Option<ByteSize>,
    /// How many bytes stay free on each of the disks. `None` means none.
    pub(crate) free: Option<ByteSize>,
    /// The folder for the files of workers. `None` if it is unknown.
    pub(crate) work_dir: Option<PathBuf>,
    /// The folder of the cache. `None` if it is unknown.
    pub(crate) cache: Option<PathBuf>,
}

/// Why a machine takes no more work. The texts do not contain what changes from moment to moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum DiskFull {
    /// The work takes too much.
    Work(ByteSize),
    /// Too little is free on the disk of this folder.
    Free(ByteSize, PathBuf),
}

impl fmt::Display for DiskFull {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Work(limit) => write!(
                f,
                "the rows and files of its jobs take {} of its disk, or more (machine.node_disk, in the \
                 operator's policy)",
                limit.rounded()
            ),
            Self::Free(least, folder) => write!(
                f,
                "less than {} is free on the disk of {} (machine.node_disk_free, in the operator's policy)",
                least.rounded(),
                folder.display()
            ),
        }
    }
}

/// Whether there is room for more work. Clones watch the same disks.
#[derive(Clone, Debug)]
pub(crate) struct DiskWatch {
    state: watch::Receiver<Option<DiskFull>>,
}

impl DiskWatch {
    /// Looks at the disks once, and then on a thread of its own, until all clones are dropped. `say` receives a line for
    /// the operator whenever there is no more room, or room again.
    ///
    /// # Errors
    /// If the thread cannot be started.
    pub(crate) fn start(
        limits: DiskLimits,
        say: impl Fn(&str) + Send + 'static,
    ) -> io::Result<Self> {
        let (sender, state) = watch::channel(None);
        let watch = Self { state };
        if limits.work.is_none() && limits.free.is_none() {
            return Ok(watch);
        }
        let look = move |sender: &watch::Sender<Option<DiskFull>>| {
            let before = sender.borrow().clone();
            let now = limits.look(before.as_ref());
            if now != before {
                let line = match &now {
                    Some(why) => format!("takes no more work for now, because {why}"),
                    None => "takes work again: its disk has room".to_owned(),
                };
                sender.send_replace(now);
                say(&line);
            }
        };
        look(&sender);
        let run = move || {
            while !sender.is_closed() {
                let begun = Instant::now();
                look(&sender);
                thread::sleep(INTERVAL.max(begun.elapsed().saturating_mul(PAUSE_FACTOR)));
            }
        };
        thread::Builder::new().name("disk".to_owned()).spawn(run)?;
        Ok(watch)
    }

    /// Why there is no room. `None` if there is room.
    pub(crate) fn full(&self) -> Option<DiskFull> {
        self.state.borrow().clone()
    }

    /// Waits until the state has changed.
    pub(super) async fn changed(&mut self) {
        if self.state.changed().await.is_err() {
            // The disks are not watched.
            std::future::pending::<()>().await;
        }
    }
}

impl DiskLimits {
    /// Why there is no room. If there was none `before`, there must be a tenth more than needed, so that the state does not
    /// change all the time.
    fn look(&self, before: Option<&DiskFull>) -> Option<DiskFull> {
        let reserve = |limit: ByteSize| if before.is_some() { limit.0 / 10 } else { 0 };
        if let Some(limit) = self.work {
            let is_full = || {
                let files = self.work_dir.as_deref().map_or(0, bytes_below);
                files >= limit.0 - reserve(limit)
            };
            // Folders of killed processes count until an agent removes them. No job would begin, which removes them, too.
            let has_removed = || self.work_dir.as_deref().is_some_and(remove_abandoned);
            if is_full() && (!has_removed() || is_full()) {
                return Some(DiskFull::Work(limit));
            }
        }
        let least = self.free?;
        let folders = self.work_dir.iter().chain(&self.cache);
        let is_full = |folder: &&PathBuf| {
            let free = free_bytes(folder);
            free.is_some_and(|free| free < least.0.saturating_add(reserve(least)))
        };
        folders.into_iter().find(is_full).map(|folder| DiskFull::Free(least, folder.clone()))
    }
}

/// The free bytes on the disk of a folder, which need not exist yet. `None` if they are unknown.
fn free_bytes(folder: &Path) -> Option<u64> {
    let there = folder.ancestors().find(|path| path.exists())?;
    let disk = statvfs(there).ok()?;
    Some(disk.f_bavail.saturating_mul(disk.f_frsize))
}

/// How much of the disk the files below a folder take. Files that disappear meanwhile do not count.
fn bytes_below(folder: &Path) -> u64 {
    let mut bytes: u64 = 0;
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            // Links are not followed.
            let Ok(metadata) = entry.metadata() else { continue };
            if metadata.is_dir() {
                folders.push(entry.path());
            }
            bytes = bytes.saturating_add(metadata.blocks().saturating_mul(512));
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::super::scratch::Scratch;
    use super::*;

    #[test]
    fn work_beyond_the_limit_fills_the_disk() {
        let dir = tempfile::tempdir().unwrap();
        let limits = DiskLimits {
            work: Some(ByteSize(1 << 20)),
            work_dir: Some(dir.path().to_owned()),
            ..DiskLimits::default()
        };
        assert_eq!(limits.look(None), None);
        fs::create_dir(dir.path().join("a")).unwrap();
        fs::write(dir.path().join("a/b"), vec![1; 1_000_000]).unwrap();
        assert_eq!(limits.look(None), None);
        let full = Some(DiskFull::Work(ByteSize(1 << 20)));
        fs::write(dir.path().join("a/c"), vec![1; 100_000]).unwrap();
        assert_eq!(limits.look(None), full);
        // There must be some room before the machine takes work again.
        assert_eq!(limits.look(full.as_ref()), full);
        fs::write(dir.path().join("a/b"), vec![1; 500_000]).unwrap();
        assert_eq!(limits.look(full.as_ref()), None);
    }

    #[test]
    fn what_killed_processes_have_left_is_removed_before_the_disk_is_full() {
        let dir = tempfile::tempdir().unwrap();
        let limits = DiskLimits {
            work: Some(ByteSize(1 << 20)),
            work_dir: Some(dir.path().to_owned()),
            ..DiskLimits::default()
        };
        let left = dir.path().join("left");
        fs::create_dir(&left).unwrap();
        fs::write(left.join("rows"), vec![1; 2_000_000]).unwrap();
        fs::write(dir.path().join("left.lock"), "").unwrap();
        assert_eq!(limits.look(None), None);
        assert!(!left.exists());
        // Folders that processes use stay.
        let used = Scratch::new(dir.path()).unwrap();
        fs::write(used.dir().root().join("rows"), vec![1; 2_000_000]).unwrap();
        assert!(limits.look(None).is_some());
        assert!(used.dir().root().join("rows").exists());
    }

    #[test]
    fn too_little_free_room_fills_the_disk() {
        let dir = tempfile::tempdir().unwrap();
        let missing = dir.path().join("missing/folder");
        let limits = |bytes| DiskLimits {
            free: Some(ByteSize(bytes)),
            cache: Some(missing.clone()),
            ..DiskLimits::default()
        };
        assert_eq!(limits(1).look(None), None);
        let full = DiskFull::Free(ByteSize(u64::MAX), missing.clone());
        assert_eq!(limits(u64::MAX).look(None), Some(full));
    }

    #[test]
    fn the_operator_learns_of_changes() {
        let dir = tempfile::tempdir().unwrap();
        let (said, lines) = std::sync::mpsc::channel();
        let limits = DiskLimits {
            work: Some(ByteSize(1 << 20)),
            work_dir: Some(dir.path().to_owned()),
            ..DiskLimits::default()
        };
        let say = move |line: &str| said.send(line.to_owned()).unwrap();
        let watch = DiskWatch::start(limits, say).unwrap();
        let file = dir.path().join("file");
        fs::write(&file, vec![1; 2_000_000]).unwrap();
        let line = lines.recv_timeout(Duration::from_secs(20)).unwrap();
        assert!(
            line.starts_with("takes no more work for now, because the rows and files"),
            "{line}"
        );
        assert!(watch.full().is_some());
        fs::remove_file(&file).unwrap();
        let line = lines.recv_timeout(Duration::from_secs(20)).unwrap();
        assert_eq!(line, "takes work again: its disk has room");
        assert!(watch.full().is_none());
    }
}
