//! Measures and removes the compiled code in a cache.
//!
//! Only cache entries and temporary files are removed; all other files in the folder stay. A running job does
//! not notice that an entry is removed, because its workers map the open file. The next job compiles again.

use super::cache::{TEMPORARY_PREFIX, is_left_over, open};
use cap_std::ambient_authority;
use cap_std::fs::Dir;
use std::collections::HashSet;
use std::io::{self, ErrorKind};
use std::ops::AddAssign;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The lengths of the two digests in an entry's name: the digest of the entry script, and the digest of the
/// engine's settings.
const DIGEST_LENGTHS: (usize, usize) = (64, 32);

/// A number of files, and their total size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileCount {
    /// The number of files.
    pub files: u64,
    /// The sum of their lengths, in bytes.
    pub bytes: u64,
}

impl AddAssign for FileCount {
    fn add_assign(&mut self, other: Self) {
        self.files += other.files;
        self.bytes += other.bytes;
    }
}

/// Measures the compiled code in a cache's folder. A missing folder counts as empty.
///
/// # Errors
/// If the folder cannot be read.
pub fn compiled(folder: &Path) -> io::Result<FileCount> {
    let Some(dir) = open_folder(folder)? else { return Ok(FileCount::default()) };
    let mut total = FileCount::default();
    for name in entries(&dir)? {
        total += file_count_of(&dir, &name);
    }
    Ok(total)
}

/// Removes a cache's compiled code, and temporary files that no process is writing. Returns the number and
/// size of the removed files.
///
/// # Errors
/// If the folder cannot be read, or a file in it cannot be removed.
pub fn clear_compiled(folder: &Path) -> io::Result<FileCount> {
    let mut removed = FileCount::default();
    let Some(dir) = open_folder(folder)? else { return Ok(removed) };
    for name in entries(&dir)? {
        // Keeps the lock of a temporary file until the removal: see `Cache::remove_stale`.
        let mut temporary = None;
        if name.starts_with(TEMPORARY_PREFIX) {
            temporary = open(&dir, &name).ok().filter(is_left_over);
            if temporary.is_none() {
                continue;
            }
        }
        let count = file_count_of(&dir, &name);
        match dir.remove_file(&name) {
            Ok(()) => removed += count,
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => {
                let path = folder.join(&name);
                return Err(io::Error::new(error.kind(), format!("{}: {error}", path.display())));
            }
        }
        drop(temporary);
    }
    Ok(removed)
}

/// Measures all files below a folder. A file with several hard links counts once. A missing folder counts as
/// empty. Symbolic links are not followed.
pub(crate) fn measure_folder(folder: &Path) -> io::Result<FileCount> {
    let mut total = FileCount::default();
    let mut seen = HashSet::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        let entries = match std::fs::read_dir(&folder) {
            // Another process may be removing it.
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            entries => entries?,
        };
        for entry in entries {
            let entry = entry?;
            let Ok(found) = entry.metadata() else { continue };
            if found.is_dir() {
                folders.push(entry.path());
            } else if found.nlink() < 2 || seen.insert((found.dev(), found.ino())) {
                total += FileCount { files: 1, bytes: found.len() };
            }
        }
    }
    Ok(total)
}

/// Removes a folder. Returns the number and size of its files.
pub(crate) fn clear_folder(folder: &Path) -> io::Result<FileCount> {
    let removed = measure_folder(folder)?;
    match std::fs::remove_dir_all(folder) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(io::Error::new(error.kind(), format!("{}: {error}", folder.display())))
        }
        _ => Ok(removed),
    }
}

fn open_folder(folder: &Path) -> io::Result<Option<Dir>> {
    match Dir::open_ambient_dir(folder, ambient_authority()) {
        Ok(dir) => Ok(Some(dir)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// The names of entries and of temporary files.
fn entries(dir: &Dir) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in dir.entries()? {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_str().filter(|name| is_entry(name) || is_temporary(name));
        names.extend(
            name.filter(|_| entry.file_type().is_ok_and(|kind| kind.is_file())).map(str::to_owned),
        );
    }
    Ok(names)
}

fn is_entry(name: &str) -> bool {
    let is_hex = |text: &str, length| {
        text.len() == length && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    };
    let parts = name.split_once('-');
    parts.is_some_and(|(script, engine)| {
        is_hex(script, DIGEST_LENGTHS.0) && is_hex(engine, DIGEST_LENGTHS.1)
    })
}

/// Whether the name has the form `tmp-PROCESS-COUNT`.
fn is_temporary(name: &str) -> bool {
    let numbers = name.strip_prefix(TEMPORARY_PREFIX).and_then(|name| name.split_once('-'));
    let is_number = |text: &str| text.parse::<u64>().is_ok();
    numbers.is_some_and(|(process, count)| is_number(process) && is_number(count))
}

/// The size of one file; zero if another process has removed it.
fn file_count_of(dir: &Dir, name: &str) -> FileCount {
    let length = dir.symlink_metadata(name).map(|found| found.len());
    length.map_or_else(|_| FileCount::default(), |bytes| FileCount { files: 1, bytes })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn entries_are_removed_and_other_files_stay() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path();
        let entry = format!("{}-{}", "a".repeat(64), "0".repeat(32));
        fs::write(folder.join(&entry), [0; 100]).unwrap();
        let mapped = fs::File::open(folder.join(&entry)).unwrap();
        fs::write(folder.join("tmp-1-0"), [0; 10]).unwrap();
        fs::write(folder.join("tmp-1-1"), [0; 10]).unwrap();
        let written = fs::File::open(folder.join("tmp-1-1")).unwrap();
        written.lock().unwrap();
        for other in ["tmp-notes", "thesis.txt", &entry[1..], &entry.replace('a', "A")] {
            fs::write(folder.join(other), "mine").unwrap();
        }
        fs::create_dir(folder.join(entry.replace('a', "b"))).unwrap();
        std::os::unix::fs::symlink("thesis.txt", folder.join(entry.replace('a', "c"))).unwrap();
        assert_eq!(compiled(folder).unwrap(), FileCount { files: 3, bytes: 120 });
        assert_eq!(clear_compiled(folder).unwrap(), FileCount { files: 2, bytes: 110 });
        assert_eq!(
            compiled(folder).unwrap(),
            FileCount { files: 1, bytes: 10 },
            "a process is writing it"
        );
        assert!(folder.join("tmp-1-1").exists());
        assert_eq!(mapped.metadata().unwrap().len(), 100, "a job still has it open");
        assert_eq!(fs::read_dir(folder).unwrap().count(), 7);
    }

    #[test]
    fn a_missing_cache_counts_as_empty() {
        let folder = Path::new("/nonexistent/cache");
        assert_eq!(compiled(folder).unwrap(), FileCount::default());
        assert_eq!(clear_compiled(folder).unwrap(), FileCount::default());
    }
}
