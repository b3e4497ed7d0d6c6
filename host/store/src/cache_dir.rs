//! The cache folders that hold objects.
//!
//! A folder `CACHE/2-DIGEST-N` is a slot. Its folder `data` holds the objects of one folder in a
//! store, as files under their names in the store. N distinguishes jobs that use the same objects
//! at the same time. Each job has its own copy, since an object may change in the store after one
//! job has fetched it.
//!
//! - `lock` is locked by the job that uses the slot.
//! - The time of `used` says when a job last took the slot.
//! - `part` holds partial downloads.
//! - `list` holds the manifest of a running job.
//!
//! The fetcher process can write only below `data`, `part` and `list`, so it cannot replace these folders
//! themselves with links.
//!
//! The 2 is the version of the layout. Slots of the first layout, `DIGEST-N`, hold empty placeholder files
//! with the length and time of objects that were not fetched. We do not use these slots, and remove them.

use crate::dataset::{FileVersion, Manifest, ManifestObject, ManifestWriter};
use crate::model::hex;
use rustix::fs::{FlockOperation, flock};
use sha2::{Digest, Sha256};
use std::fs::{self, DirBuilder, File, Metadata, OpenOptions};
use std::io::{self, ErrorKind};
use std::ops::AddAssign;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use walkdir::WalkDir;

/// The folders of a slot that the fetcher process writes to.
pub(super) const WRITABLE_FOLDERS: [&str; 3] = ["data", "part", "list"];
/// The prefix of a slot's name.
const LAYOUT_PREFIX: &str = "2-";
/// The number of letters of the digest in a slot's name.
const DIGEST_LETTERS: usize = 24;
/// The length and time that we give a probe file, to find out whether the file system rounds times.
const PROBE_VERSION: FileVersion =
    FileVersion { length: 0, seconds: 1_234_567_891, nanos: 123_456_789 };
/// The maximum number of jobs that use the same objects at the same time.
const MAX_COPIES: usize = 1000;
/// How often we try to lock a slot that another process holds, and the pause between two attempts.
const LOCK_TRIES: u32 = 4;
const LOCK_PAUSE: Duration = Duration::from_millis(5);

/// A slot, which this process holds exclusively until it drops this value.
#[derive(Debug)]
pub(super) struct CacheDir {
    folder: PathBuf,
    _lock: File,
}

impl CacheDir {
    /// Acquires the first slot for these objects that no other job uses. `cache_key` identifies the objects;
    /// it may be long.
    pub(super) fn acquire(cache: &Path, cache_key: &str) -> io::Result<Self> {
        make_private(cache)?;
        let digest = hex(Sha256::digest(cache_key.as_bytes()));
        for copy in 0..MAX_COPIES {
            let folder = cache.join(format!("{LAYOUT_PREFIX}{}-{copy}", &digest[..DIGEST_LETTERS]));
            let Some(lock) = claim(&folder)? else { continue };
            for below in WRITABLE_FOLDERS {
                fs::create_dir_all(folder.join(below))?;
            }
            // A process that was killed may have left files.
            for leftovers in ["part", "list"].map(|below| folder.join(below)) {
                for entry in fs::read_dir(leftovers)?.flatten() {
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
        Err(io::Error::other(format!("{MAX_COPIES} jobs use the same objects already")))
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// The folder that holds the objects.
    pub(super) fn data(&self) -> PathBuf {
        self.folder.join("data")
    }

    /// Whether a path is in the folder of objects. The path's links must be resolved: the fetcher process may
    /// have made links in the folder.
    pub(super) fn holds(&self, path: &Path) -> bool {
        path.starts_with(self.data())
    }

    /// The path of the manifest. `None` if it is not a regular file: the fetcher process could have made a
    /// link.
    pub(super) fn manifest(&self) -> Option<PathBuf> {
        let manifest = manifest_path(&self.folder);
        manifest.symlink_metadata().is_ok_and(|found| found.is_file()).then_some(manifest)
    }

    /// Returns a function that says whether a path belongs to an object, fetched or not.
    pub(super) fn lookup(&self) -> impl FnMut(&Path) -> bool {
        let data = self.data();
        let mut manifest = Manifest::open(&manifest_path(&self.folder)).ok();
        move |path| {
            let name = path.strip_prefix(&data).ok().and_then(Path::to_str);
            let found = name.and_then(|name| manifest.as_mut()?.find(name).ok()?);
            found.is_some()
        }
    }
}

/// Removes the manifest: each job writes its own, and it may be as large as the objects.
impl Drop for CacheDir {
    fn drop(&mut self) {
        // If it cannot be removed, the next job removes it.
        let _ = fs::remove_file(manifest_path(&self.folder));
    }
}

pub(super) fn manifest_path(folder: &Path) -> PathBuf {
    folder.join("list").join("manifest")
}

pub(super) fn begin_manifest(folder: &Path) -> io::Result<ManifestWriter> {
    ManifestWriter::new(manifest_path(folder).with_extension("part"))
}

/// How precisely the file system of a slot stores modification times.
#[derive(Debug)]
pub(super) struct TimeResolution {
    probe: File,
    keeps_times: bool,
}

impl TimeResolution {
    /// Probes the file system of a slot.
    pub(super) fn probe(folder: &Path) -> io::Result<Self> {
        let path = folder.join("list").join("probe");
        let mut times = Self { probe: File::create(&path)?, keeps_times: false };
        times.keeps_times = times.record(PROBE_VERSION)? == PROBE_VERSION.into();
        if times.keeps_times {
            // If it cannot be removed, the next job removes it.
            let _ = fs::remove_file(path);
        }
        Ok(times)
    }

    /// Whether files keep exactly the times that we set. If not, files of different versions of an object may
    /// look the same.
    pub(super) fn keeps_times(&self) -> bool {
        self.keeps_times
    }

    /// The manifest's record of an object whose file gets this length and time. The record has the
    /// time that the file system will store.
    pub(super) fn record(&self, wanted: FileVersion) -> io::Result<ManifestObject> {
        let mut object = ManifestObject::from(wanted);
        if !self.keeps_times {
            self.probe.set_modified(modification_time(&wanted))?;
            object.found =
                FileVersion { length: wanted.length, ..FileVersion::from(&self.probe.metadata()?) };
        }
        Ok(object)
    }
}

/// The modification time of an object's file.
pub(super) fn modification_time(version: &FileVersion) -> SystemTime {
    UNIX_EPOCH + Duration::new(version.seconds.max(0).cast_unsigned(), version.nanos)
}

/// Removes the objects that this job does not want or that the store no longer has. A file that cannot be
/// removed stays; the planner finds and reports it.
pub(super) fn remove_others(data: &Path, is_wanted: impl Fn(&str) -> bool) {
    for entry in WalkDir::new(data).min_depth(1).contents_first(true).into_iter().flatten() {
        if entry.file_type().is_dir() {
            // Fails if the folder is not empty.
            let _ = fs::remove_dir(entry.path());
            continue;
        }
        let name = entry.path().strip_prefix(data).ok().and_then(|name| name.to_str());
        if !name.is_some_and(&is_wanted) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Creates a slot and locks it. `None` if another process holds the lock.
fn claim(folder: &Path) -> io::Result<Option<File>> {
    for _ in 0..LOCK_TRIES {
        match DirBuilder::new().mode(0o700).create(folder) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        match try_lock(folder) {
            Ok(Some(lock)) => return Ok(Some(lock)),
            // A process that tidies up holds the lock only briefly.
            Ok(None) => thread::sleep(LOCK_PAUSE),
            // The folder was removed meanwhile.
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

/// Locks a slot. `None` if another process holds the lock. Fails with [`ErrorKind::NotFound`] if the slot
/// is removed meanwhile.
fn try_lock(folder: &Path) -> io::Result<Option<File>> {
    let path = folder.join("lock");
    let mut options = OpenOptions::new();
    let lock =
        options.read(true).write(true).create(true).truncate(false).mode(0o600).open(&path)?;
    match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(errno) if errno == rustix::io::Errno::WOULDBLOCK => return Ok(None),
        Err(errno) => return Err(errno.into()),
    }
    // The previous holder may have removed the file.
    let locked = lock.metadata()?;
    let current = fs::metadata(&path)?;
    if (locked.dev(), locked.ino()) == (current.dev(), current.ino()) {
        Ok(Some(lock))
    } else {
        Err(ErrorKind::NotFound.into())
    }
}

/// Makes sure that only this user can write to the cache: other users could plant objects there.
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
            "it belongs to user {} with mode {:03o}, but must belong to this user, and must not be \
             writable by others (chmod 700)",
            metadata.uid(),
            metadata.mode() & 0o777
        )));
    }
    Ok(())
}

/// Removes slots that no job uses: first all slots of the old layout, then the least recently used ones,
/// until the remaining unused slots take at most `max_bytes`. A slot that cannot be removed stays.
pub(super) fn prune(cache: &Path, max_bytes: u64) {
    let idle = fs::read_dir(cache).into_iter().flatten().flatten().filter_map(|entry| {
        let folder = entry.path();
        let used = folder.join("used").metadata().ok()?.modified().ok()?;
        // The lock is released immediately, since a job may want the slot.
        drop(try_lock(&folder).ok()??);
        Some((used, folder))
    });
    let (old, idle): (Vec<_>, Vec<_>) = idle.partition(|(_, folder)| has_first_layout(folder));
    for (_, folder) in old {
        remove(&folder);
    }
    let with_size =
        |(used, folder): (SystemTime, PathBuf)| (used, CachedObjects::scan(&folder).bytes, folder);
    let mut idle: Vec<(SystemTime, u64, PathBuf)> = idle.into_iter().map(with_size).collect();
    idle.sort_unstable();
    let mut total: u64 = idle.iter().map(|(_, bytes, _)| bytes).sum();
    for (_, bytes, folder) in &idle {
        if total <= max_bytes {
            break;
        }
        if remove(folder) {
            total -= bytes;
        }
    }
}

/// Removes a slot, unless a job uses it by now. Returns whether the slot was removed.
fn remove(folder: &Path) -> bool {
    let Ok(Some(_lock)) = try_lock(folder) else { return false };
    // We remove the data first, and then the lock file with the rest. After that, a job that waits
    // for the lock finds that the folder no longer exists, and creates a new one.
    fs::remove_dir_all(folder.join("data")).is_ok() && fs::remove_dir_all(folder).is_ok()
}

/// Removes all slots that no job uses. Returns what was removed and what is left.
pub(super) fn clear(cache: &Path) -> io::Result<(CachedObjects, CachedObjects)> {
    let mut removed = CachedObjects::default();
    let mut left = CachedObjects::default();
    for folder in slots(cache)? {
        let held = CachedObjects::scan(&folder);
        *(if remove(&folder) { &mut removed } else { &mut left }) += held;
    }
    Ok((removed, left))
}

/// The objects of a cache. A cache that does not exist holds none.
pub(super) fn held(cache: &Path) -> io::Result<CachedObjects> {
    let mut total = CachedObjects::default();
    slots(cache)?.iter().for_each(|folder| total += CachedObjects::scan(folder));
    Ok(total)
}

/// The slots of both layouts. Other files in the cache are ignored.
fn slots(cache: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(cache) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut folders = Vec::new();
    for entry in entries {
        let entry = entry?;
        let path = entry.path();
        if entry.file_type()?.is_dir() && (has_current_layout(&path) || has_first_layout(&path)) {
            folders.push(path);
        }
    }
    Ok(folders)
}

/// Objects that are on this machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CachedObjects {
    /// The number of objects.
    pub objects: u64,
    /// The sum of their lengths, in bytes.
    pub bytes: u64,
}

impl CachedObjects {
    fn scan(folder: &Path) -> Self {
        let mut held = Self::default();
        for entry in WalkDir::new(folder.join("data")).into_iter().flatten() {
            if let Some(found) = entry.metadata().ok().filter(Metadata::is_file) {
                held += Self { objects: 1, bytes: found.len() };
            }
        }
        held
    }
}

impl AddAssign for CachedObjects {
    fn add_assign(&mut self, other: Self) {
        self.objects += other.objects;
        self.bytes += other.bytes;
    }
}

/// Whether a folder is a slot of the current layout.
fn has_current_layout(folder: &Path) -> bool {
    let name = folder.file_name().and_then(|name| name.to_str());
    name.and_then(|name| name.strip_prefix(LAYOUT_PREFIX))
        .is_some_and(|name| has_first_layout(Path::new(name)))
}

/// Whether a folder is a slot of the first layout.
fn has_first_layout(folder: &Path) -> bool {
    let name = folder.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let parts = name.split_once('-');
    parts.is_some_and(|(digest, copy)| {
        let is_hex = |letter: u8| letter.is_ascii_digit() || (b'a'..=b'f').contains(&letter);
        digest.len() == DIGEST_LETTERS && digest.bytes().all(is_hex) && copy.parse::<u16>().is_ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn concurrent_jobs_have_separate_folders() {
        let dir = tempfile::tempdir().unwrap();
        let cache = dir.path().join("a/stores");
        let one = CacheDir::acquire(&cache, "s3://b/x").unwrap();
        let two = CacheDir::acquire(&cache, "s3://b/x").unwrap();
        let other = CacheDir::acquire(&cache, "s3://b/y").unwrap();
        assert_ne!(one.folder(), two.folder());
        assert_ne!(one.folder(), other.folder());
        let was = one.folder().to_owned();
        drop(one);
        assert_eq!(CacheDir::acquire(&cache, "s3://b/x").unwrap().folder(), was);
    }

    #[test]
    fn a_folder_that_others_can_write_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let cache = dir.path().join("stores");
        fs::create_dir(&cache).unwrap();
        fs::set_permissions(&cache, std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
        let error = CacheDir::acquire(&cache, "x").unwrap_err().to_string();
        assert!(error.contains("with mode 777"), "{error}");
    }

    #[test]
    fn the_least_recently_used_folder_is_removed_first() {
        let dir = tempfile::tempdir().unwrap();
        let cache = dir.path().join("stores");
        let fill = |cache_key: &str, age: u64| {
            let slot = CacheDir::acquire(&cache, cache_key).unwrap();
            fs::write(slot.data().join("object"), [0; 100]).unwrap();
            let used = File::options().write(true).open(slot.folder().join("used")).unwrap();
            used.set_modified(SystemTime::now() - Duration::from_secs(age)).unwrap();
            slot
        };
        let old = fill("old", 20);
        let new = fill("new", 10);
        let busy = fill("busy", 30);
        let old_folder = old.folder().to_owned();
        let new_folder = new.folder().to_owned();
        drop((old, new));
        prune(&cache, 100);
        assert!(!old_folder.exists() && new_folder.exists() && busy.folder().exists());
        prune(&cache, 0);
        assert!(!new_folder.exists() && busy.data().join("object").exists());
    }

    #[test]
    fn clear_removes_folders_that_no_job_uses() {
        let dir = tempfile::tempdir().unwrap();
        let cache = dir.path().join("stores");
        assert_eq!(held(&cache).unwrap(), CachedObjects::default());
        assert_eq!(clear(&cache).unwrap(), Default::default());
        let fill = |cache_key: &str| {
            let slot = CacheDir::acquire(&cache, cache_key).unwrap();
            fs::create_dir(slot.data().join("a")).unwrap();
            fs::write(slot.data().join("a/object"), [0; 100]).unwrap();
            slot
        };
        let busy = fill("busy");
        let idle = fill("idle").folder().to_owned();
        let old = cache
            .join(idle.file_name().unwrap().to_str().unwrap().strip_prefix(LAYOUT_PREFIX).unwrap());
        fs::create_dir_all(old.join("data")).unwrap();
        // The operator chooses the cache folder, so it may hold other files.
        fs::create_dir_all(cache.join("photos/data")).unwrap();
        fs::write(cache.join("photos/data/one"), "mine").unwrap();
        let one = CachedObjects { objects: 1, bytes: 100 };
        assert_eq!(held(&cache).unwrap(), CachedObjects { objects: 2, bytes: 200 });
        assert_eq!(clear(&cache).unwrap(), (one, one));
        assert!(busy.data().join("a/object").exists() && cache.join("photos/data/one").exists());
        assert!(!idle.exists() && !old.exists());
        drop(busy);
        assert_eq!(clear(&cache).unwrap(), (one, CachedObjects::default()));
    }

    /// A file of the first layout may have an object's length and time, but no content.
    #[test]
    fn folders_of_earlier_versions_are_removed() {
        let dir = tempfile::tempdir().unwrap();
        let cache = dir.path().join("stores");
        let slot = CacheDir::acquire(&cache, "s3://b/x").unwrap();
        let name = slot.folder().file_name().unwrap().to_str().unwrap();
        let old = cache.join(name.strip_prefix(LAYOUT_PREFIX).unwrap());
        drop(slot);
        for below in WRITABLE_FOLDERS {
            fs::create_dir_all(old.join(below)).unwrap();
        }
        File::create(old.join("used")).unwrap();
        let placeholder = File::create(old.join("data/object")).unwrap();
        placeholder.set_len(1 << 40).unwrap();
        placeholder.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o1000)).unwrap();
        std::os::unix::fs::symlink("/not-fetched: it broke", old.join("data/mark")).unwrap();
        let slot = CacheDir::acquire(&cache, "s3://b/x").unwrap();
        assert_ne!(slot.folder(), old);
        assert_eq!(fs::read_dir(slot.data()).unwrap().count(), 0);
        // A job of an earlier version of Sandmill may still use the old slot.
        let used = try_lock(&old).unwrap().unwrap();
        prune(&cache, u64::MAX);
        assert!(old.join("data/object").exists());
        drop(used);
        prune(&cache, u64::MAX);
        assert!(!old.exists() && slot.folder().exists());
    }

    #[test]
    fn the_time_resolution_of_a_file_system_is_probed() {
        let dir = tempfile::tempdir().unwrap();
        let slot = CacheDir::acquire(&dir.path().join("stores"), "x").unwrap();
        let mut times = TimeResolution::probe(slot.folder()).unwrap();
        let found = FileVersion { length: 3, ..PROBE_VERSION };
        for keeps_times in [times.keeps_times(), false] {
            times.keeps_times = keeps_times;
            let object = times.record(found).unwrap();
            let file = slot.data().join("object");
            fs::write(&file, "abc").unwrap();
            let opened = File::options().write(true).open(&file).unwrap();
            opened.set_modified(modification_time(&found)).unwrap();
            assert!(object.found.is_at(&file));
            assert_eq!(object.version, PROBE_VERSION.nanos);
        }
    }

    #[test]
    fn the_manifest_distinguishes_objects_from_folders() {
        let dir = tempfile::tempdir().unwrap();
        let slot = CacheDir::acquire(&dir.path().join("stores"), "x").unwrap();
        assert!(!(slot.lookup())(&slot.data().join("a")));
        let mut list = begin_manifest(slot.folder()).unwrap();
        list.add("a", Ok(PROBE_VERSION.into())).unwrap();
        list.add("b/c", Err("it broke".to_owned())).unwrap();
        list.finish(&manifest_path(slot.folder())).unwrap();
        let mut is_object = slot.lookup();
        for (name, expected) in
            [("b/c", true), ("b", false), ("a", true), ("", false), ("../a", false)]
        {
            assert_eq!(is_object(&slot.data().join(name)), expected, "{name}");
        }
        assert!(!is_object(Path::new("a")) && !is_object(Path::new("/etc/passwd")));
    }

    /// If another process removes a slot while a job waits for the slot's lock, the job gets a new
    /// slot.
    #[test]
    fn a_removed_folder_is_created_again_when_claimed() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("x-0");
        fs::create_dir(&folder).unwrap();
        let lock = try_lock(&folder).unwrap().unwrap();
        assert!(try_lock(&folder).unwrap().is_none());
        thread::scope(|scope| {
            let waiting = scope.spawn(|| claim(&folder).unwrap());
            thread::sleep(LOCK_PAUSE / 2);
            fs::remove_dir_all(&folder).unwrap();
            drop(lock);
            let found = waiting.join().unwrap().unwrap().metadata().unwrap();
            assert_eq!(found.ino(), folder.join("lock").metadata().unwrap().ino());
        });
    }
}
