//! Where runtimes lie.

use super::sources::file_name;
use crate::compile::{Cache, Kept, below, clear_below};
use std::io;
use std::path::{Path, PathBuf};

/// The folder of runtimes, below that for compiled code.
const RUNTIMES: &str = "runtimes";

/// The light runtime is not there.
#[derive(Debug, thiserror::Error)]
#[error(
    "a Python script runs in the light runtime, which is not installed on this machine; install it once: \
     sandmill python install light"
)]
pub struct NoRuntime;

/// The component of the light runtime: beside the program, where a release has it, or where it was installed.
///
/// # Errors
/// If it is at neither place.
pub fn find(program: &Path, cache_dir: Option<&Path>) -> Result<PathBuf, NoRuntime> {
    let name = file_name();
    let beside = program.canonicalize().ok().and_then(|path| Some(path.parent()?.join(&name)));
    let installed = folder(cache_dir).map(|folder| folder.join(&name));
    beside.into_iter().chain(installed).find(|path| path.is_file()).ok_or(NoRuntime)
}

/// Where runtimes are installed; `None` where there is no folder for compiled code.
pub(super) fn folder(cache_dir: Option<&Path>) -> Option<PathBuf> {
    let cache = cache_dir.map(Path::to_owned).or_else(Cache::default_folder)?;
    Some(installed_folder(&cache))
}

/// The runtimes that were installed. `cache_dir` is the folder for compiled code.
///
/// # Errors
/// If the folder cannot be read.
pub fn installed(cache_dir: &Path) -> io::Result<Kept> {
    below(&installed_folder(cache_dir))
}

/// Where runtimes are installed, below the folder for compiled code.
#[must_use]
pub fn installed_folder(cache_dir: &Path) -> PathBuf {
    cache_dir.join(RUNTIMES)
}

/// Removes the runtimes that were installed, and returns what was removed. Jobs that run hold theirs open.
///
/// # Errors
/// If the folder cannot be read, or a file of it cannot be removed.
pub fn clear_installed(cache_dir: &Path) -> io::Result<Kept> {
    clear_below(&installed_folder(cache_dir))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_runtime_lies_beside_the_program_or_in_the_cache() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().canonicalize().unwrap();
        let program = folder.join("sandmill");
        let cache = folder.join("cache");
        std::fs::write(&program, "").unwrap();
        assert!(find(&program, Some(&cache)).is_err());
        let installed = cache.join(RUNTIMES).join(file_name());
        std::fs::create_dir_all(installed.parent().unwrap()).unwrap();
        std::fs::write(&installed, "").unwrap();
        assert_eq!(find(&program, Some(&cache)).unwrap(), installed);
        std::fs::write(cache.join("entry"), "").unwrap();
        let there = Kept { files: 1, bytes: 0 };
        assert_eq!(super::installed(&cache).unwrap(), there);
        assert_eq!(clear_installed(&cache).unwrap(), there);
        assert!(find(&program, Some(&cache)).is_err() && cache.join("entry").is_file());
        let beside = folder.join(file_name());
        std::fs::write(&beside, "").unwrap();
        assert_eq!(find(&program, Some(&cache)).unwrap(), beside);
    }
}
