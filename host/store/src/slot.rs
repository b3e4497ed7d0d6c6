//! The folders that objects lie in.
//!
//! `CACHE/DIGEST-N/data` holds the objects of one place in a store, as files under the names that they have
//! there; N counts the jobs that use the same place at the same time, each with a copy of its own, as an
//! object may change between them. Who uses one holds a lock on `lock`; `used` says by its time when
//! that was. What is on its way lies in `part`, and `list` has the manifest, if there is one. The process that fetches
//! can write to these three and nowhere else, so that no link of its making can stand in their places.

use crate::dataset::{ManifestWriter, is_stand_in};
use crate::model::hex;
use rustix::fs::{FlockOperation, flock};
use sha2::{Digest, Sha256};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use walkdir::WalkDir;

/// The folders of one that the process that fetches writes to.
pub(super) const OPEN: [&str; 3] = ["data", "part", "list"];
/// A time that some file systems round.
const PROBED: Duration = Duration::new(1_234_567_891, 123_456_789);
/// More jobs than this do not read one place at the same time.
const COPIES: usize = 1000;
/// How often it is tried to get a folder that somebody else has, and the pause between.
const TRIES: u32 = 4;
const MOMENT: Duration = Duration::from_millis(5);

/// A folder for objects that is this process's alone until it is dropped.
#[derive(Debug)]
pub(super) struct Slot {
    folder: PathBuf,
    _lock: File,
}

impl Slot {
    /// The first folder that nobody else uses. `place` says of which objects; it may be long.
    pub(super) fn take(cache: &Path, place: &str) -> io::Result<Self> {
        make_private(cache)?;
        let digest = hex(Sha256::digest(place.as_bytes()));
        for copy in 0..COPIES {
            let folder = cache.join(format!("{}-{copy}", &digest[..24]));
            let Some(lock) = claim(&folder)? else { continue };
            for below in OPEN {
                fs::create_dir_all(folder.join(below))?;
            }
            // Of a process that was killed.
            for half in ["part", "list"].map(|below| folder.join(below)) {
                for entry in fs::read_dir(half)?.flatten() {
                    let _ = fs::remove_file(entry.path());
                    let _ = fs::remove_dir_all(entry.path());
                }
            }
            if manifest_path(&folder).symlink_metadata().is_ok() {
                let error = format!("{} cannot be removed", manifest_path(&folder).display());
                return Err(io::Error::other(error));
            }
            File::create(folder.join("used"))?;
            return Ok(Self { folder: folder.canonicalize()?, _lock: lock });
        }
        Err(io::Error::other(format!("{COPIES} jobs use it already")))
    }

    /// The folder.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Where the objects lie.
    pub(super) fn data(&self) -> PathBuf {
        self.folder.join("data")
    }

    /// Whether a path without links leads to where the objects lie, and not to what the process that fetches has put a
    /// link to.
    pub(super) fn holds(&self, path: &Path) -> bool {
        path.starts_with(self.data())
    }

    /// The list of the objects, if there is one.
    pub(super) fn manifest(&self) -> Option<PathBuf> {
        let manifest = manifest_path(&self.folder);
        manifest.symlink_metadata().is_ok_and(|found| found.is_file()).then_some(manifest)
    }
}

/// A manifest is written anew by each job, and may take as much room as objects do.
impl Drop for Slot {
    fn drop(&mut self) {
        // What cannot be removed stays.
        let _ = fs::remove_file(manifest_path(&self.folder));
    }
}

/// Where the list of a folder's objects is, if no stand-ins tell of them.
pub(super) fn manifest_path(folder: &Path) -> PathBuf {
    folder.join("list").join("manifest")
}

/// Begins a list of the objects of a folder. None where a file's time is not kept as it was set, so that no file would
/// be what the list says.
pub(super) fn begin_manifest(folder: &Path) -> io::Result<Option<ManifestWriter>> {
    let part = manifest_path(folder).with_extension("part");
    let probe = File::create(&part)?;
    probe.set_modified(UNIX_EPOCH + PROBED)?;
    let keeps = probe.metadata()?.modified()? == UNIX_EPOCH + PROBED;
    keeps.then(|| ManifestWriter::new(part)).transpose()
}

/// Removes what an earlier job wanted and this one does not, or the store has no more. What cannot be removed is told by
/// the planner, who finds it.
pub(super) fn remove_others(data: &Path, is_wanted: impl Fn(&str) -> bool) {
    for entry in WalkDir::new(data).min_depth(1).contents_first(true).into_iter().flatten() {
        if entry.file_type().is_dir() {
            // Fails if there is anything in it.
            let _ = fs::remove_dir(entry.path());
            continue;
        }
        let name = entry.path().strip_prefix(data).ok().and_then(|name| name.to_str());
        if !name.is_some_and(&is_wanted) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Makes a folder and locks it; none if somebody else uses it.
fn claim(folder: &Path) -> io::Result<Option<File>> {
    for _ in 0..TRIES {
        match DirBuilder::new().mode(0o700).create(folder) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        match hold(folder) {
            Ok(Some(lock)) => return Ok(Some(lock)),
            // Somebody who tidies up holds it for a moment only.
            Ok(None) => thread::sleep(MOMENT),
            // Removed meanwhile.
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

/// A lock on a folder; none if somebody else has one. Fails with [`ErrorKind::NotFound`] if the folder is
/// removed meanwhile.
fn hold(folder: &Path) -> io::Result<Option<File>> {
    let path = folder.join("lock");
    let mut options = OpenOptions::new();
    let lock =
        options.read(true).write(true).create(true).truncate(false).mode(0o600).open(&path)?;
    match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(errno) if errno == rustix::io::Errno::WOULDBLOCK => return Ok(None),
        Err(errno) => return Err(errno.into()),
    }
    // Whoever had it before may have removed it.
    let (own, there) = (lock.metadata()?, fs::metadata(&path)?);
    if (own.dev(), own.ino()) == (there.dev(), there.ino()) {
        Ok(Some(lock))
    } else {
        Err(ErrorKind::NotFound.into())
    }
}

/// Nobody else may put objects where they are taken for a store's.
fn make_private(folder: &Path) -> io::Result<()> {
    if let Some(parent) = folder.parent() {
        fs::create_dir_all(parent)?;
    }
    match DirBuilder::new().mode(0o700).create(folder) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let metadata = fs::metadata(folder)?;
    let user = rustix::process::geteuid().as_raw();
    if metadata.uid() != user || metadata.mode() & 0o022 != 0 {
        return Err(io::Error::other(format!(
            "it belongs to user {} with mode {:03o}, and must be this user's, and writable for nobody \
             else (chmod 700)",
            metadata.uid(),
            metadata.mode() & 0o777
        )));
    }
    Ok(())
}

/// Removes folders that nobody uses, the one that was not used for the longest time first, until those that
/// nobody uses hold no more than so many bytes together. Whatever cannot be removed stays.
pub(super) fn prune(cache: &Path, most: u64) {
    let mut idle: Vec<(SystemTime, u64, PathBuf)> = fs::read_dir(cache)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| {
            let folder = entry.path();
            let used = folder.join("used").metadata().ok()?.modified().ok()?;
            // For no longer than that: somebody may want it.
            drop(hold(&folder).ok()??);
            Some((used, size(&folder), folder))
        })
        .collect();
    idle.sort_unstable();
    let mut all: u64 = idle.iter().map(|(_, bytes, _)| bytes).sum();
    for (_, bytes, folder) in &idle {
        if all <= most {
            break;
        }
        let Ok(Some(_lock)) = hold(folder) else { continue };
        // The lock's file last: whoever waits for it finds no folder, and makes one.
        if fs::remove_dir_all(folder.join("data")).is_ok() && fs::remove_dir_all(folder).is_ok() {
            all -= bytes;
        }
    }
}

/// Bytes of the objects that are here.
fn size(folder: &Path) -> u64 {
    let entries = WalkDir::new(folder.join("data")).into_iter().flatten();
    entries
        .filter_map(|entry| entry.metadata().ok())
        .filter(|it| it.is_file() && !is_stand_in(it))
        .map(|it| it.len())
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_at_the_same_time_have_folders_of_their_own() {
        let dir = tempfile::tempdir().unwrap();
        let cache = dir.path().join("a/stores");
        let one = Slot::take(&cache, "s3://b/x").unwrap();
        let two = Slot::take(&cache, "s3://b/x").unwrap();
        let other = Slot::take(&cache, "s3://b/y").unwrap();
        assert_ne!(one.folder(), two.folder());
        assert_ne!(one.folder(), other.folder());
        let was = one.folder().to_owned();
        drop(one);
        assert_eq!(Slot::take(&cache, "s3://b/x").unwrap().folder(), was);
    }

    #[test]
    fn a_folder_of_others_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let cache = dir.path().join("stores");
        fs::create_dir(&cache).unwrap();
        fs::set_permissions(&cache, std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
        let error = Slot::take(&cache, "x").unwrap_err().to_string();
        assert!(error.contains("with mode 777"), "{error}");
    }

    #[test]
    fn what_was_not_used_for_long_goes_first() {
        let dir = tempfile::tempdir().unwrap();
        let cache = dir.path().join("stores");
        let fill = |place: &str, age: u64| {
            let slot = Slot::take(&cache, place).unwrap();
            fs::write(slot.data().join("object"), [0; 100]).unwrap();
            let used = File::options().write(true).open(slot.folder().join("used")).unwrap();
            used.set_modified(SystemTime::now() - Duration::from_secs(age)).unwrap();
            slot
        };
        let (old, new) = (fill("old", 20), fill("new", 10));
        let busy = fill("busy", 30);
        let (old_folder, new_folder) = (old.folder().to_owned(), new.folder().to_owned());
        drop((old, new));
        prune(&cache, 100);
        assert!(!old_folder.exists() && new_folder.exists() && busy.folder().exists());
        prune(&cache, 0);
        assert!(!new_folder.exists() && busy.data().join("object").exists());
    }

    /// A job that waits for a folder while another one removes it gets one that is there.
    #[test]
    fn a_folder_that_was_removed_is_nobodys() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("x-0");
        fs::create_dir(&folder).unwrap();
        let lock = hold(&folder).unwrap().unwrap();
        assert!(hold(&folder).unwrap().is_none());
        thread::scope(|scope| {
            let waiting = scope.spawn(|| claim(&folder).unwrap());
            thread::sleep(MOMENT / 2);
            fs::remove_dir_all(&folder).unwrap();
            drop(lock);
            let found = waiting.join().unwrap().unwrap().metadata().unwrap();
            assert_eq!(found.ino(), folder.join("lock").metadata().unwrap().ino());
        });
    }
}
