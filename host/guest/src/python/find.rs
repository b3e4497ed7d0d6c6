//! Where runtimes lie.

use super::Runtime;
use super::sources::digest;
use crate::compile::{Cache, Instrumentation, Kept, below, clear_below};
use crate::model::shell_word;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// The folder of runtimes, below that for compiled code.
const RUNTIMES: &str = "runtimes";

/// The file of a runtime's library without which its interpreter does not start.
pub(super) const STANDARD_LIBRARY: &str = "python315.zip";

/// The name of a runtime's file. Another version of any of its sources is another name: a program never runs a script with
/// the runtime of another version.
pub(super) fn file_name(runtime: Runtime) -> String {
    format!("{}-{}.wasm", runtime.names().0, digest(runtime))
}

/// The name of the folder with a runtime's library, beside its file, if it has one.
pub(super) fn library_name(runtime: Runtime) -> Option<String> {
    (runtime == Runtime::Science).then(|| format!("{}-{}", runtime.names().0, digest(runtime)))
}

/// A runtime that is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Installed {
    /// The component.
    pub component: PathBuf,
    /// The folder that its scripts see at `/usr/local/lib`, if it needs one.
    pub library: Option<PathBuf>,
}

/// The command line that installs a runtime, as a user types it.
#[derive(Clone, Debug)]
pub struct InstallCommand {
    /// What it installs.
    pub runtime: Runtime,
    /// How the runtime is compiled.
    pub with: Instrumentation,
    /// The folder for compiled code, if not the usual one.
    pub cache_dir: Option<PathBuf>,
}

impl fmt::Display for InstallCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sandmill {}", self.runtime.names().1)?;
        for word in self.with.words() {
            write!(f, " --{word}")?;
        }
        match &self.cache_dir {
            Some(folder) => write!(f, " --cache-dir {}", shell_word(&folder.display().to_string())),
            None => Ok(()),
        }
    }
}

/// A runtime is not there.
#[derive(Debug, thiserror::Error)]
#[error(
    "this script runs in the {runtime} runtime, which is not installed on this machine; install it once: {command}",
    runtime = .0.runtime, command = .0
)]
pub struct NoRuntime(pub InstallCommand);

/// Where a runtime lies: beside the program, where a release has it, or where it was installed.
///
/// # Errors
/// If it is at neither place.
pub fn find(
    runtime: Runtime,
    program: &Path,
    cache_dir: Option<&Path>,
) -> Result<Installed, NoRuntime> {
    let beside = program.canonicalize().ok().and_then(|path| Some(path.parent()?.to_owned()));
    let mut folders = beside.into_iter().chain(folder(cache_dir));
    folders.find_map(|folder| installed_in(&folder, runtime)).ok_or_else(|| {
        let with = Instrumentation::default();
        NoRuntime(InstallCommand { runtime, with, cache_dir: cache_dir.map(Path::to_owned) })
    })
}

/// A runtime in a folder, if it is there as a whole.
pub(super) fn installed_in(folder: &Path, runtime: Runtime) -> Option<Installed> {
    let component = folder.join(file_name(runtime));
    let library = library_name(runtime).map(|name| folder.join(name));
    let is_whole = |library: &PathBuf| library.join(STANDARD_LIBRARY).is_file();
    let whole = component.is_file() && library.as_ref().is_none_or(is_whole);
    whole.then_some(Installed { component, library })
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
        let find = |runtime| find(runtime, &program, Some(&cache));
        let runtimes = cache.join(RUNTIMES);
        std::fs::create_dir_all(&runtimes).unwrap();
        for runtime in [Runtime::Light, Runtime::Science, Runtime::JavaScript] {
            for place in [&runtimes, &folder] {
                let component = place.join(file_name(runtime));
                assert_ne!(
                    find(runtime).ok().map(|found| found.component),
                    Some(component.clone())
                );
                std::fs::write(&component, "").unwrap();
                let library = library_name(runtime).map(|name| place.join(name));
                if let Some(library) = &library {
                    // Without its library it is not there.
                    assert_ne!(
                        find(runtime).ok().map(|found| found.component),
                        Some(component.clone())
                    );
                    std::fs::create_dir(library).unwrap();
                    assert_ne!(
                        find(runtime).ok().map(|found| found.component),
                        Some(component.clone())
                    );
                    std::fs::write(library.join(STANDARD_LIBRARY), "").unwrap();
                }
                assert_eq!(find(runtime).unwrap(), Installed { component, library });
            }
        }
        std::fs::write(cache.join("entry"), "").unwrap();
        let there = Kept { files: 4, bytes: 0 };
        assert_eq!(super::installed(&cache).unwrap(), there);
        assert_eq!(clear_installed(&cache).unwrap(), there);
        std::fs::remove_file(folder.join(file_name(Runtime::Light))).unwrap();
        assert!(cache.join("entry").is_file());
        let advice = find(Runtime::Light).unwrap_err().to_string();
        let command = format!("sandmill python install light --cache-dir {}", cache.display());
        assert!(advice.ends_with(&command), "{advice}");
    }
}
