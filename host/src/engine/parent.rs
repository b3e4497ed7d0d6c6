//! The folder of the parent job: what a job copies there goes into a folder of its own, which it marks. So no job
//! overwrites what another one copied, or adds to it.

use super::ClaimError;
use crate::opening::{at_its_path, folder_at_its_path, regular_at_its_path};
use rustix::fs::{AtFlags, Mode, OFlags, RenameFlags, renameat_with, unlinkat};
use rustix::io::Errno;
use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::io::{self, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

/// Says whose folder it is.
const MARK_FILE: &str = ".sandmill-job";
/// Bytes of a mark, at most.
const MARK_BYTES: u64 = 100;

/// Takes `<parent>/logs/<job>` for the job with this mark, and makes it if it is missing. A run of the same job, in the
/// same job directory, gets it again. The parent's path is without links.
///
/// # Errors
/// If the folder holds what another job made, or cannot be made.
pub(super) fn claim(parent: &Path, job: &str, mark: &str) -> Result<PathBuf, ClaimError> {
    // The name of a job is no path. Should it be one, only its last part counts.
    let name = Path::new(job).file_name().unwrap_or_else(|| "job".as_ref());
    let logs = parent.join("logs");
    let folder = logs.join(name);
    let failed = |e| ClaimError::folder("use the folder of the parent", &folder, e);
    folder_at_its_path(&logs, Mode::from_raw_mode(0o777)).map_err(failed)?;
    let opened = folder_at_its_path(&folder, Mode::RWXU).map_err(failed)?;
    if read_mark(&folder).map_err(failed)?.is_none() {
        if !is_empty(&folder).map_err(failed)? {
            return Err(ClaimError::ParentTaken(folder));
        }
        // Whole or not at all, and never over the mark of a job that came first.
        let random = RandomState::new().hash_one(mark);
        let new = format!("{MARK_FILE}.{random:016x}");
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
        let made = at_its_path(&folder.join(&new), flags, Mode::RUSR | Mode::WUSR);
        let mut file = File::from(made.map_err(failed)?);
        file.write_all(mark.as_bytes()).map_err(failed)?;
        match renameat_with(&opened, &new, &opened, MARK_FILE, RenameFlags::NOREPLACE) {
            Ok(()) => {}
            Err(Errno::EXIST) => {
                let _ = unlinkat(&opened, &new, AtFlags::empty());
            }
            Err(errno) => return Err(failed(errno.into())),
        }
    }
    match read_mark(&folder).map_err(failed)? {
        Some(found) if found == mark => Ok(folder),
        _ => Err(ClaimError::ParentTaken(folder)),
    }
}

fn read_mark(folder: &Path) -> io::Result<Option<String>> {
    match regular_at_its_path(&folder.join(MARK_FILE)) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        opened => {
            let mut mark = String::new();
            opened?.0.take(MARK_BYTES).read_to_string(&mut mark)?;
            Ok(Some(mark))
        }
    }
}

/// Whether there is nothing in it but marks that are being made.
fn is_empty(folder: &Path) -> io::Result<bool> {
    for entry in std::fs::read_dir(folder)? {
        if !entry?.file_name().to_string_lossy().starts_with(MARK_FILE) {
            return Ok(false);
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_one_jobs() {
        let dir = tempfile::tempdir().unwrap();
        let parent = dir.path().canonicalize().unwrap().join("new/parent");
        let claim = |job: &str, mark: &str| {
            super::claim(&parent, job, mark).map_err(|error| error.to_string())
        };
        let folder = claim("digits", "one").unwrap();
        assert_eq!(folder, parent.join("logs/digits"));
        std::fs::write(folder.join("readme.txt"), "one's").unwrap();
        claim("digits", "one").unwrap();
        claim("letters", "two").unwrap();
        claim("../../digits", "one").unwrap();
        let error = claim("digits", "two").unwrap_err();
        insta::assert_snapshot!(error.replace(dir.path().canonicalize().unwrap().to_str().unwrap(), "/d"), @"parent: /d/new/parent/logs/digits holds what another job, or the same job in another job directory, copied there, and nothing of that is overwritten: name another folder for `parent`, give the job another name, or move that folder away");
        // What lies there may be anybody's, an earlier version's, too.
        std::fs::create_dir_all(parent.join("logs/older/sys")).unwrap();
        assert_eq!(claim("older", "one").unwrap_err(), error.replace("digits", "older"));
        std::fs::write(parent.join("logs/letters/.sandmill-job"), "").unwrap();
        claim("letters", "two").unwrap_err();
    }

    /// Of jobs that come at the same time one gets it.
    #[test]
    fn one_of_many_is_first() {
        let dir = tempfile::tempdir().unwrap();
        let parent = dir.path().canonicalize().unwrap();
        let claimed = std::sync::atomic::AtomicU32::new(0);
        std::thread::scope(|scope| {
            for number in 0..8 {
                let (parent, claimed) = (&parent, &claimed);
                scope.spawn(move || {
                    if claim(parent, "x", &format!("mark {number}")).is_ok() {
                        claimed.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                    }
                });
            }
        });
        assert_eq!(claimed.into_inner(), 1);
    }
}
