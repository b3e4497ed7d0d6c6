//! Computes a digest of a folder whose whole content the entry script sees.

use crate::model::hex;
use sha2::{Digest, Sha256};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use walkdir::WalkDir;

/// The digest covers at most this many files.
const MAX_FILES: usize = 100_000;

/// A digest of the names, sizes and times of a folder's files. Skips `job_file`, and the folders of Git and
/// of compilers, whose files change although the user did not change anything.
pub(super) fn content_digest(folder: &Path, job_file: Option<&Path>) -> String {
    let mut seen = Vec::new();
    for name in seen_files(folder, job_file) {
        seen.extend(name.as_os_str().as_bytes());
        seen.push(0);
        // For a link, the metadata of its target.
        if let Ok(metadata) = folder.join(name).metadata() {
            for number in [metadata.size().cast_signed(), metadata.mtime(), metadata.mtime_nsec()] {
                seen.extend(number.to_le_bytes());
            }
        }
    }
    hex(Sha256::digest(&seen))
}

/// The files of a folder that count for its digest, in their order, with their paths in the folder.
pub(super) fn seen_files(folder: &Path, job_file: Option<&Path>) -> Vec<PathBuf> {
    let is_cache = |path: &Path| {
        path.file_name().is_some_and(|name| name == ".git") || path.join("CACHEDIR.TAG").exists()
    };
    let entries = WalkDir::new(folder)
        .sort_by_file_name()
        .into_iter()
        .filter_entry(|entry| !entry.file_type().is_dir() || !is_cache(entry.path()))
        .filter_map(Result::ok)
        .filter(|entry| !entry.file_type().is_dir())
        .filter(|entry| !job_file.is_some_and(|file| is_same(entry.path(), file)));
    let in_folder = |path: &Path| path.strip_prefix(folder).unwrap_or(path).to_owned();
    entries.take(MAX_FILES).map(|entry| in_folder(entry.path())).collect()
}

/// Whether the path is, or links to, this file. `file` is a path without links.
fn is_same(path: &Path, file: &Path) -> bool {
    path.file_name() == file.file_name() && path.canonicalize().is_ok_and(|path| path == file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn content_changes_with_the_files_of_a_folder() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = dir.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("a/model.bin", "1");
        let first = content_digest(dir.path(), None);
        write("target/CACHEDIR.TAG", "");
        write("target/debug/x", "1");
        write(".git/index", "1");
        assert_eq!(content_digest(dir.path(), None), first);
        write("a/model.bin", "12");
        let second = content_digest(dir.path(), None);
        assert_ne!(second, first);
        write("b", "");
        assert_ne!(content_digest(dir.path(), None), second);
    }

    /// Otherwise, a changed time-out in the job file would make the results of an earlier run invalid if the
    /// entry script can see the file (rule C25 in `docs/parallel-run-step.md`).
    #[test]
    fn the_job_file_does_not_change_the_content() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("sub")).unwrap();
        let job = dir.path().canonicalize().unwrap().join("job.yaml");
        let digest = || content_digest(dir.path(), Some(&job));
        fs::write(&job, "run_max_try: 1").unwrap();
        let first = digest();
        fs::write(&job, "run_max_try: 22").unwrap();
        assert_eq!(digest(), first);
        fs::write(dir.path().join("sub/job.yaml"), "another").unwrap();
        assert_ne!(digest(), first);
    }
}
