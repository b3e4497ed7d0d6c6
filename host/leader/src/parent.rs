//! The folder of the parent job. Each job copies its files into its own folder there, and marks that
//! folder. So no job overwrites or extends another job's copies.

use super::ClaimError;
use crate::opening::{at_its_path, folder_at_its_path, regular_at_its_path};
use rustix::fs::{AtFlags, Mode, OFlags, RenameFlags, renameat_with, unlinkat};
use rustix::io::Errno;
use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::io::{self, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

/// The file that says which job a folder belongs to.
const MARK_FILE: &str = ".sandmill-job";
/// How many characters of the job's mark are in the name of the folder of [`claim_beside`].
const MARK_CHARS_IN_NAME: usize = 8;
const MAX_MARK_BYTES: u64 = 100;

/// Claims `<parent>/logs/<job>` for the job with this mark. Creates the folder if it is missing.
/// Another run of the same job in the same job directory gets the same folder. The parent's path
/// must not contain links.
///
/// # Errors
/// If the folder belongs to another job, or cannot be created.
pub(super) fn claim(parent: &Path, job: &str, mark: &str) -> Result<PathBuf, ClaimError> {
    let folder = copies_folder(parent, job, None);
    let logs = parent.join("logs");
    let failed = |e| ClaimError::folder("use the folder of the parent", &folder, e);
    folder_at_its_path(&logs, Mode::from_raw_mode(0o777)).map_err(failed)?;
    let opened = folder_at_its_path(&folder, Mode::RWXU).map_err(failed)?;
    if read_mark(&folder).map_err(failed)?.is_none() {
        if !is_empty(&folder).map_err(failed)? {
            return Err(ClaimError::ParentTaken(folder));
        }
        // Write the mark atomically, and never replace the mark of a job that came first.
        let random = RandomState::new().hash_one(mark);
        let temporary = format!("{MARK_FILE}.{random:016x}");
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
        let created = at_its_path(&folder.join(&temporary), flags, Mode::RUSR | Mode::WUSR);
        let mut file = File::from(created.map_err(failed)?);
        file.write_all(mark.as_bytes()).map_err(failed)?;
        match renameat_with(&opened, &temporary, &opened, MARK_FILE, RenameFlags::NOREPLACE) {
            Ok(()) => {}
            Err(Errno::EXIST) => {
                let _ = unlinkat(&opened, &temporary, AtFlags::empty());
            }
            Err(errno) => return Err(failed(errno.into())),
        }
    }
    match read_mark(&folder).map_err(failed)? {
        Some(found) if found == mark => Ok(folder),
        _ => Err(ClaimError::ParentTaken(folder)),
    }
}

/// Claims `<parent>/logs/<job>.<the beginning of its mark>`, for a job that cannot have
/// `<parent>/logs/<job>`. Returns `None` unless the job claimed that folder before, or `may_create`
/// is set. A caller sets `may_create` if an earlier version of Sandmill, which wrote no marks, may
/// have made the copies in `<parent>/logs/<job>` for this job.
///
/// # Errors
/// If the folder belongs to another job, or cannot be created.
pub(super) fn claim_beside(
    parent: &Path,
    job: &str,
    mark: &str,
    may_create: bool,
) -> Result<Option<PathBuf>, ClaimError> {
    let folder = copies_folder(parent, job, Some(mark));
    let is_own = || read_mark(&folder).is_ok_and(|found| found.as_deref() == Some(mark));
    if !may_create && !is_own() {
        return Ok(None);
    }
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    claim(parent, &name, mark).map(Some)
}

/// The folder for a job's copies. A job's name is not a path. If the name looks like a path, only the last
/// component counts.
fn copies_folder(parent: &Path, job: &str, mark: Option<&str>) -> PathBuf {
    let name = Path::new(job).file_name().unwrap_or_else(|| "job".as_ref());
    let mut name = name.to_owned();
    if let Some(mark) = mark {
        name.push(format!(".{}", mark.get(..MARK_CHARS_IN_NAME).unwrap_or(mark)));
    }
    parent.join("logs").join(name)
}

/// Removes the folder of a job that does not begin, if nothing was copied into it.
pub(super) fn give_back(folder: &Path) {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY;
    let Ok(opened) = at_its_path(folder, flags, Mode::empty()) else { return };
    if is_empty(folder).is_ok_and(|is_empty| is_empty) {
        // A leftover mark keeps other jobs out, and does no other harm.
        let _ = unlinkat(&opened, MARK_FILE, AtFlags::empty());
        let _ = std::fs::remove_dir(folder);
    }
}

fn read_mark(folder: &Path) -> io::Result<Option<String>> {
    match regular_at_its_path(&folder.join(MARK_FILE)) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        opened => {
            let mut mark = String::new();
            opened?.0.take(MAX_MARK_BYTES).read_to_string(&mut mark)?;
            Ok(Some(mark))
        }
    }
}

/// Whether the folder holds nothing but mark files, complete or temporary.
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
    fn a_parent_folder_belongs_to_one_job() {
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
        insta::assert_snapshot!(error.replace(dir.path().canonicalize().unwrap().to_str().unwrap(), "/d"), @"parent: /d/new/parent/logs/digits holds files that another job, or the same job in another job directory, copied there, and Sandmill does not overwrite them: name another folder for `parent`, give the job another name, or move that folder away");
        // An unmarked folder may belong to any job, for example one of an earlier version.
        std::fs::create_dir_all(parent.join("logs/older/sys")).unwrap();
        assert_eq!(claim("older", "one").unwrap_err(), error.replace("digits", "older"));
        std::fs::write(parent.join("logs/letters/.sandmill-job"), "").unwrap();
        claim("letters", "two").unwrap_err();
    }

    /// If a version without marks began the job, the job keeps its old copies, and gets a second
    /// folder beside them. Each run gets the same second folder.
    #[test]
    fn unmarked_copies_stay_and_a_second_folder_is_used() {
        let dir = tempfile::tempdir().unwrap();
        let parent = dir.path().canonicalize().unwrap();
        std::fs::create_dir_all(parent.join("logs/digits/sys")).unwrap();
        let mark = "0123456789abcdef";
        claim(&parent, "digits", mark).unwrap_err();
        assert_eq!(claim_beside(&parent, "digits", mark, false).unwrap(), None);
        let beside = claim_beside(&parent, "digits", mark, true).unwrap().unwrap();
        assert_eq!(beside, parent.join("logs/digits.01234567"));
        assert_eq!(claim_beside(&parent, "digits", mark, false).unwrap(), Some(beside));
        let other = "01234567xxxxxxxx";
        assert_eq!(claim_beside(&parent, "digits", other, false).unwrap(), None);
        claim_beside(&parent, "digits", other, true).unwrap_err();
        assert!(parent.join("logs/digits/sys").exists());
    }

    #[test]
    fn only_an_empty_folder_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let parent = dir.path().canonicalize().unwrap();
        let folder = claim(&parent, "digits", "one").unwrap();
        give_back(&folder);
        assert!(!folder.exists());
        claim(&parent, "digits", "two").unwrap();
        std::fs::write(folder.join("readme.txt"), "").unwrap();
        give_back(&folder);
        claim(&parent, "digits", "one").unwrap_err();
    }

    /// If several jobs claim the folder at the same time, one of them gets it.
    #[test]
    fn only_one_of_many_jobs_gets_a_folder() {
        let dir = tempfile::tempdir().unwrap();
        let parent = dir.path().canonicalize().unwrap();
        let claimed = std::sync::atomic::AtomicU32::new(0);
        std::thread::scope(|scope| {
            for number in 0..8 {
                let parent = &parent;
                let claimed = &claimed;
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
