//! A file that is written anew for each input.

use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

thread_local! {
    static FOLDER: TempDir = folder();
}

/// In memory where that is possible.
fn folder() -> TempDir {
    let made = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
    made.expect("fuzzing needs a folder for temporary files")
}

/// Makes the folder, puts these bytes into a file of it, and gives the folder's path to `visit`.
pub(super) fn with_file<T>(name: &str, bytes: &[u8], visit: impl FnOnce(&Path) -> T) -> T {
    let folder: PathBuf = FOLDER.with(|folder| folder.path().to_owned());
    fs::write(folder.join(name), bytes).expect("fuzzing needs room for temporary files");
    visit(&folder)
}
