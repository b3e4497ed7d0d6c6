//! Locks on folders, so that only one job at a time uses a job directory or writes to an output folder.
//!
//! The lock is on a file in the folder. Only the folder's owner can open this file. Any other user
//! who could open it, even just for reading, could lock it for as long as they like. Earlier
//! versions locked the folder itself. This version takes that lock too, and respects it if a
//! process of this user holds it.

use crate::files::lock_holders;
use crate::model::LOCK_FILE;
use crate::opening::at_its_path;
use rustix::fs::{FlockOperation, Mode, OFlags, flock, fstat, openat, statat, unlinkat};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How many times to try a lock. One try is not enough, because `sandmill status` holds the lock
/// for a moment to find out whether a job is running.
const LOCK_TRIES: u32 = 5;
/// The pause between two tries.
const LOCK_PAUSE: Duration = Duration::from_millis(10);

/// A folder that no other job uses until this value is dropped.
#[derive(Debug)]
pub(super) struct FolderLock {
    folder: File,
    is_removed: AtomicBool,
    /// Holds the lock.
    _file: File,
    /// The lock of earlier versions. `None` if another user holds it.
    _older: Option<File>,
}

impl FolderLock {
    /// Locks a folder at a path without links. Returns `None` if another job holds the lock. Creates and
    /// writes the lock file, which fails if the folder cannot be written to.
    ///
    /// # Errors
    /// If the folder cannot be opened or written to.
    pub(super) fn try_lock(path: &Path) -> io::Result<Option<Self>> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let folder = File::from(at_its_path(path, flags, Mode::empty())?);
        let Some(mut file) = try_lock_file(&folder)? else { return Ok(None) };
        let older = folder.try_clone()?;
        let older = match try_lock(&older)? {
            true => Some(older),
            false if is_held_by(&folder, &[rustix::process::geteuid().as_raw()])? => {
                return Ok(None);
            }
            false => None,
        };
        file.set_len(0)?;
        writeln!(file, "{}", std::process::id())?;
        Ok(Some(Self { folder, is_removed: AtomicBool::new(false), _file: file, _older: older }))
    }

    /// Sets the folder's mode so that only this user can access it, if it belongs to this user.
    ///
    /// # Errors
    /// If the folder's mode cannot be set.
    pub(super) fn make_private(&self) -> io::Result<()> {
        let found = self.folder.metadata()?;
        let user = rustix::process::geteuid().as_raw();
        match found.mode() & 0o077 {
            0 => Ok(()),
            _ if found.uid() != user => Ok(()),
            _ => Ok(rustix::fs::fchmod(&self.folder, Mode::RWXU)?),
        }
    }

    /// Removes the lock file while it is still locked, so that the folder is empty. Another process that
    /// waits for the lock notices that the file is gone.
    pub(super) fn remove_file(&self) {
        if !self.is_removed.swap(true, Ordering::Relaxed) {
            // A file that stays does no harm.
            let _ = unlinkat(&self.folder, LOCK_FILE, rustix::fs::AtFlags::empty());
        }
    }
}

impl Drop for FolderLock {
    fn drop(&mut self) {
        self.remove_file();
    }
}

/// A job directory in which no job can begin until this value is dropped. For callers that remove files in
/// it.
#[derive(Debug)]
pub struct JobHold(#[expect(dead_code, reason = "holds the lock")] FolderLock);

impl JobHold {
    /// Locks the directory at this path. `None` if a job is running in it.
    ///
    /// # Errors
    /// If the directory cannot be opened or written to.
    pub fn try_lock(dir: &Path) -> io::Result<Option<Self>> {
        Ok(FolderLock::try_lock(&dir.canonicalize()?)?.map(Self))
    }

    /// Whether this path is the directory's lock file. The drop of this value removes that file.
    pub fn is_own(path: &Path) -> bool {
        path.file_name().is_some_and(|name| name == LOCK_FILE)
    }
}

/// Opens, creates and locks the lock file. `None` if another process holds the lock.
fn try_lock_file(folder: &File) -> io::Result<Option<File>> {
    let flags =
        OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    loop {
        let file = File::from(openat(folder, LOCK_FILE, flags, Mode::RUSR | Mode::WUSR)?);
        if !try_lock(&file)? {
            return Ok(None);
        }
        // The previous holder may have removed this file after we opened it.
        let named = statat(folder, LOCK_FILE, rustix::fs::AtFlags::SYMLINK_NOFOLLOW);
        let opened = fstat(&file)?;
        if named.is_ok_and(|named| (named.st_dev, named.st_ino) == (opened.st_dev, opened.st_ino)) {
            return Ok(Some(file));
        }
    }
}

/// Takes the lock. Returns false if another process holds it.
fn try_lock(file: &File) -> io::Result<bool> {
    for attempt in 1.. {
        match flock(file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(true),
            Err(Errno::WOULDBLOCK) if attempt == LOCK_TRIES => break,
            Err(Errno::WOULDBLOCK) => std::thread::sleep(LOCK_PAUSE),
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(false)
}

/// Whether a process of one of these users holds a lock on the folder itself, as a job of an
/// earlier version does. Also true if this process cannot see the holder. The lock of another user
/// does not count, because no job holds it. The lock of a process that has ended does not count
/// either, even if other processes have inherited it.
fn is_held_by(folder: &File, users: &[u32]) -> io::Result<bool> {
    let found = folder.metadata()?;
    let holders = lock_holders(&found);
    let is_theirs = |pid: &u32| effective_user(*pid).is_some_and(|user| users.contains(&user));
    Ok(holders.is_empty() || holders.iter().any(is_theirs))
}

/// The effective user of a process. `None` if the process has ended.
fn effective_user(pid: u32) -> Option<u32> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let users = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    users.split_whitespace().nth(1)?.parse().ok()
}

/// The process ID in the lock file of a folder. The process may be on another machine. `None` if the file cannot be read.
pub(super) fn lock_holder(path: &Path) -> Option<u32> {
    std::fs::read_to_string(path.join(LOCK_FILE)).ok()?.trim().parse().ok()
}

/// Whether a job holds the folder at this path. The caller and the job may run as different users.
pub fn is_locked(path: &Path) -> bool {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let try_shared = |path: &Path| {
        let file = rustix::fs::open(path, flags, Mode::empty()).ok()?;
        let lock = flock(&file, FlockOperation::NonBlockingLockShared);
        Some((lock == Err(Errno::WOULDBLOCK), File::from(file)))
    };
    match try_shared(&path.join(LOCK_FILE)) {
        Some((is_held, _)) if is_held => true,
        // A job of an earlier version locks only the folder itself.
        _ => try_shared(path).is_some_and(|(is_held, folder)| {
            // Jobs run as the folder's owner, or as root in a folder of another user.
            let users = folder.metadata().map(|found| [found.uid(), 0]);
            is_held && users.and_then(|users| is_held_by(&folder, &users)).unwrap_or(true)
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn mode(path: &Path) -> u32 {
        path.metadata().unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn a_folder_can_be_locked_only_once() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().canonicalize().unwrap();
        assert!(!is_locked(&path));
        let lock = FolderLock::try_lock(&path).unwrap().expect("it is free");
        assert!(is_locked(&path));
        assert!(FolderLock::try_lock(&path).unwrap().is_none());
        assert_eq!(mode(&path.join(LOCK_FILE)), 0o600);
        drop(lock);
        assert!(!is_locked(&path) && !path.join(LOCK_FILE).exists());
        drop(FolderLock::try_lock(&path).unwrap().expect("it is free again"));
        // A killed process leaves its file.
        std::fs::write(path.join(LOCK_FILE), "1\n").unwrap();
        assert!(!is_locked(&path) && FolderLock::try_lock(&path).unwrap().is_some());
    }

    /// Threads that take and release the lock concurrently never hold it at the same time.
    #[test]
    fn threads_never_hold_the_lock_at_once() {
        use std::sync::atomic::AtomicU32;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().canonicalize().unwrap();
        let inside = AtomicU32::new(0);
        let taken = AtomicU32::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..20 {
                        let Some(_lock) = FolderLock::try_lock(&path).unwrap() else { continue };
                        assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                        std::thread::yield_now();
                        inside.fetch_sub(1, Ordering::SeqCst);
                        taken.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
        });
        assert!(taken.into_inner() > 4);
    }

    /// If the same user runs an earlier version, that version locks the folder itself, and ignores
    /// the lock file.
    #[test]
    fn the_locks_of_earlier_versions_count() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().canonicalize().unwrap();
        let older = File::open(&path).unwrap();
        flock(&older, FlockOperation::LockExclusive).unwrap();
        assert!(is_locked(&path));
        assert!(FolderLock::try_lock(&path).unwrap().is_none());
        drop(older);
        let _lock = FolderLock::try_lock(&path).unwrap().expect("it is free");
        let older = File::open(&path).unwrap();
        assert_eq!(flock(&older, FlockOperation::NonBlockingLockExclusive), Err(Errno::WOULDBLOCK));
    }

    /// Another user who can read the folder may lock it. That does not keep jobs out.
    #[test]
    fn the_locks_of_other_users_do_not_count() {
        if !rustix::process::geteuid().is_root() {
            eprintln!("not tested: another user's lock, because only root can become another user");
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().canonicalize().unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
        // `exec` keeps this in one process. A lock that outlives its process would not count.
        let path_text = path.display();
        let holds = format!("exec flock -x -F '{path_text}' sh -c 'echo held; exec sleep 30'");
        let mut command = std::process::Command::new("sh");
        std::os::unix::process::CommandExt::uid(&mut command, 65534);
        let command = command.args(["-c", &holds]).current_dir("/");
        let Ok(mut other) = command.stdout(std::process::Stdio::piped()).spawn() else {
            eprintln!("not tested: another user's lock, because no shell can be started");
            return;
        };
        let mut line = [0; 4];
        let read = io::Read::read_exact(other.stdout.as_mut().unwrap(), &mut line);
        if read.is_ok() {
            assert!(!is_locked(&path));
            let lock = FolderLock::try_lock(&path).unwrap().expect("no job has it");
            lock.make_private().unwrap();
            assert_eq!(mode(&path), 0o700);
            assert!(FolderLock::try_lock(&path).unwrap().is_none());
        } else {
            eprintln!("not tested: another user's lock, because there is no flock");
        }
        // If the folder's owner runs a job there, a user with sufficient rights sees that the job is running.
        if read.is_ok() {
            rustix::fs::chown(&path, Some(rustix::fs::Uid::from_raw(65534)), None).unwrap();
            let _ = std::fs::remove_file(path.join(LOCK_FILE));
            assert!(is_locked(&path));
        }
        other.kill().unwrap();
        other.wait().unwrap();
    }
}
