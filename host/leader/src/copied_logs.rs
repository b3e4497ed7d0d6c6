//! Copies of the logs of jobs in job stores, in the user's cache folder.

use crate::files::remove_tree;
use sha2::{Digest, Sha256};
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// Copies that were not used for this long are removed.
const UNUSED_AFTER: Duration = Duration::from_secs(7 * 24 * 3600);

/// The folder of all copies in the user's cache folder.
pub fn copied_logs_folder(cache: &Path) -> PathBuf {
    cache.join("stored-jobs")
}

/// The folder for copies of a job's logs. Jobs of one name in several stores have different folders. `place`: the
/// job's folder or address in its store.
pub(super) fn copies_of(cache: &Path, place: &str, name: &str) -> PathBuf {
    let digest = hex::encode(Sha256::digest(place));
    copied_logs_folder(cache).join(format!("{name}-{}", &digest[..12]))
}

/// The file that says what the folder of copies of one job has.
pub(super) fn state_file(copies: &Path) -> PathBuf {
    copies.join("copied.json")
}

/// Removes copies that were not used lately. `all`: the folder of all copies.
pub(super) fn remove_unused(all: &Path) {
    for entry in fs::read_dir(all).into_iter().flatten().flatten() {
        let used = state_file(&entry.path()).metadata().and_then(|found| found.modified());
        let age = used.ok().and_then(|used| SystemTime::now().duration_since(used).ok());
        if age.is_some_and(|age| age > UNUSED_AFTER) {
            // Copies that stay do no harm.
            let _ = remove_tree(&entry.path());
        }
    }
}

/// The number of files with copied logs in a cache folder, and their bytes.
///
/// # Errors
/// If the folder cannot be read.
pub fn copied_logs(cache: &Path) -> io::Result<(u64, u64)> {
    let (mut files, mut bytes) = (0, 0);
    for entry in walkdir::WalkDir::new(copied_logs_folder(cache)) {
        let found = entry.and_then(|entry| entry.metadata());
        match found.map_err(io::Error::from) {
            Ok(found) if found.is_file() => (files, bytes) = (files + 1, bytes + found.len()),
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok((files, bytes))
}

/// Removes all copied logs from a cache folder. Returns what [`copied_logs`] found before.
///
/// # Errors
/// If they cannot be removed.
pub fn clear_copied_logs(cache: &Path) -> io::Result<(u64, u64)> {
    let found = copied_logs(cache)?;
    remove_tree(&copied_logs_folder(cache)).map(|()| found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    #[test]
    fn copies_are_counted_and_old_ones_are_removed() {
        let cache = tempfile::tempdir().unwrap();
        assert_eq!(copied_logs(cache.path()).unwrap(), (0, 0));
        let [old, new] = ["/store/a", "/store/b"].map(|folder| {
            let copies = copies_of(cache.path(), folder, "iris");
            fs::create_dir_all(copies.join("run/0")).unwrap();
            fs::write(copies.join("run/0/x"), "12345").unwrap();
            fs::write(state_file(&copies), "{}").unwrap();
            copies
        });
        assert_ne!(old, new);
        let week_ago = SystemTime::now() - UNUSED_AFTER - Duration::from_secs(1);
        File::open(state_file(&old)).unwrap().set_modified(week_ago).unwrap();
        assert_eq!(copied_logs(cache.path()).unwrap(), (4, 14));
        remove_unused(&copied_logs_folder(cache.path()));
        assert!(!old.exists() && new.exists());
        assert_eq!(clear_copied_logs(cache.path()).unwrap(), (2, 7));
        assert_eq!(clear_copied_logs(cache.path()).unwrap(), (0, 0));
    }
}
