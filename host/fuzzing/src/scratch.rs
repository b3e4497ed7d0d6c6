//! Temporary files for the targets.

use std::cell::RefCell;
use std::fs;
use std::path::PathBuf;
use tempfile::TempDir;

thread_local! {
    static FOLDERS: RefCell<Vec<TempDir>> = const { RefCell::new(Vec::new()) };
}

/// Makes an empty file with this name in a new folder, in memory if possible. The file and the folder exist
/// as long as the thread.
pub(super) fn file(name: &str) -> PathBuf {
    let created = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
    let folder = created.expect("fuzzing needs a folder for temporary files");
    let path = folder.path().join(name);
    fs::write(&path, b"").expect("fuzzing needs room for temporary files");
    FOLDERS.with_borrow_mut(|folders| folders.push(folder));
    path
}
