//! Makes and checks the folders that a job claims.

use super::claim_error::ClaimError;
use crate::model::{JobDir, LOCK_FILE};
use crate::opening::folder_at_its_path;
use rustix::fs::Mode;
use std::fs;
use std::path::{Path, PathBuf};

/// The folder and its ancestors that do not exist, innermost first.
pub(super) fn missing_folders(folder: &Path) -> Vec<PathBuf> {
    let is_missing =
        |path: &&Path| path.symlink_metadata().is_err() && !path.as_os_str().is_empty();
    folder.ancestors().take_while(is_missing).map(Path::to_owned).collect()
}

/// Creates a folder, and its missing ancestors, at a path without links. The user's umask applies.
pub(super) fn make_folder(path: &Path) -> Result<(), ClaimError> {
    make_folder_with_mode(path, Mode::from_raw_mode(0o777))
}

pub(super) fn make_folder_with_mode(path: &Path, mode: Mode) -> Result<(), ClaimError> {
    match folder_at_its_path(path, mode) {
        Err(_) if path.exists() && !path.is_dir() => Err(ClaimError::NotAFolder(path.to_owned())),
        made => {
            made.map(drop).map_err(|source| ClaimError::folder("make the folder", path, source))
        }
    }
}

/// Refuses an output folder that contains the job directory. Also refuses a path at or below a file or folder
/// that the job directory itself needs.
pub(super) fn refuse_misplaced(
    job_dir: &JobDir,
    root: &Path,
    output: &Path,
) -> Result<(), ClaimError> {
    let folders = [job_dir.parts(), job_dir.work(), job_dir.links(), job_dir.spill()];
    let more = [job_dir.models(), job_dir.logs(), job_dir.journal()];
    let is_needed = folders
        .iter()
        .chain(&more)
        .chain([&job_dir.state_file()])
        .filter_map(|path| path.file_name())
        .any(|name| {
            let path = root.join(name);
            output.starts_with(&path)
        });
    if is_needed || root.starts_with(output) {
        return Err(ClaimError::Misplaced { output: output.to_owned(), dir: root.to_owned() });
    }
    Ok(())
}

/// The name of an entry for which `counts` is true. `None` if there is no such entry. Ignores the folder's
/// lock file.
pub(super) fn first_entry(
    folder: &Path,
    counts: impl Fn(&std::ffi::OsStr) -> bool,
) -> Result<Option<String>, ClaimError> {
    let failed = |e| ClaimError::io("list the folder", folder, e);
    for entry in fs::read_dir(folder).map_err(failed)? {
        let name = entry.map_err(failed)?.file_name();
        if name != LOCK_FILE && counts(&name) {
            return Ok(Some(name.to_string_lossy().into_owned()));
        }
    }
    Ok(None)
}
