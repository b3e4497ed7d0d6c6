//! Finds installed runtimes.

use super::Runtime;
use super::known_digest::KnownDigest;
use super::sources::digest;
use crate::compile::{
    Cache, CompileError, Compiler, EntryFile, FileCount, Instrumentation, clear_folder,
    measure_folder,
};
use crate::model::shell_word;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// The name of the folder of runtimes, which is in the folder for compiled code.
const RUNTIMES_FOLDER: &str = "runtimes";

/// The file of the Python standard library in a runtime's library folder.
pub(super) const STANDARD_LIBRARY: &str = "python315.zip";

/// The file name of a runtime. It contains a digest of the runtime's sources, so that a program never uses a
/// runtime of another version.
pub(super) fn file_name(runtime: Runtime) -> String {
    format!("{}-{}.wasm", runtime.names().0, digest(runtime))
}

/// The name of the folder with a runtime's library, which is next to the runtime's file. `None` if
/// the runtime has no library.
pub(super) fn library_name(runtime: Runtime) -> Option<String> {
    (runtime == Runtime::Science).then(|| format!("{}-{}", runtime.names().0, digest(runtime)))
}

/// An installed runtime.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Installed {
    /// The runtime's component.
    pub component: PathBuf,
    /// The folder that scripts see at `/usr/local/lib`; `None` if the runtime needs no library.
    pub library: Option<PathBuf>,
}

impl Installed {
    /// Opens the component. `cache_dir` is the folder for compiled code, if it is not the default.
    /// The digests of runtimes are stored there.
    ///
    /// # Errors
    /// If the component cannot be read.
    pub fn open(
        &self,
        compiler: &Compiler,
        cache_dir: Option<&Path>,
    ) -> Result<EntryFile, CompileError> {
        let name = self.component.file_name().unwrap_or_default().to_string_lossy();
        let Some(folder) = folder(cache_dir) else {
            return EntryFile::open(&self.component, compiler);
        };
        let known = KnownDigest::for_component(&name, folder);
        EntryFile::open_with(&self.component, |file, metadata| {
            known.digest(file, metadata, &|| compiler.is_stopped())
        })
    }
}

/// The command that installs a runtime, as the user types it.
#[derive(Clone, Debug)]
pub struct InstallCommand {
    /// The runtime to install.
    pub runtime: Runtime,
    /// How the runtime is compiled.
    pub with: Instrumentation,
    /// The folder for compiled code, if it is not the default.
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

/// The runtime is not installed.
#[derive(Debug, thiserror::Error)]
#[error(
    "this script runs in the {runtime} runtime, which is not installed on this machine; install it once: {command}",
    runtime = .0.runtime, command = .0
)]
pub struct NoRuntime(pub InstallCommand);

/// Finds a runtime: next to the program (as in a release), or in the folder of installed runtimes.
///
/// # Errors
/// If the runtime is in neither folder.
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

/// A runtime in a folder, if it is complete.
pub(super) fn installed_in(folder: &Path, runtime: Runtime) -> Option<Installed> {
    let component = folder.join(file_name(runtime));
    // Processes with other current folders open the library, and refuse links in its path.
    let library =
        library_name(runtime).map(|name| folder.join(name).canonicalize()).transpose().ok()?;
    let is_complete = |library: &PathBuf| library.join(STANDARD_LIBRARY).is_file();
    let has_all_files = component.is_file() && library.as_ref().is_none_or(is_complete);
    has_all_files.then_some(Installed { component, library })
}

/// The folder for installed runtimes; `None` if there is no folder for compiled code.
pub(super) fn folder(cache_dir: Option<&Path>) -> Option<PathBuf> {
    let cache = cache_dir.map(Path::to_owned).or_else(Cache::default_folder)?;
    Some(installed_folder(&cache))
}

/// Measures the installed runtimes. `cache_dir` is the folder for compiled code.
///
/// # Errors
/// If the folder cannot be read.
pub fn installed(cache_dir: &Path) -> io::Result<FileCount> {
    measure_folder(&installed_folder(cache_dir))
}

/// The folder for installed runtimes, in the folder for compiled code.
#[must_use]
pub fn installed_folder(cache_dir: &Path) -> PathBuf {
    cache_dir.join(RUNTIMES_FOLDER)
}

/// Removes the installed runtimes. Returns the number and size of the removed files. Running jobs have their
/// runtimes open, and are not affected.
///
/// # Errors
/// If the folder cannot be read, or a file in it cannot be removed.
pub fn clear_installed(cache_dir: &Path) -> io::Result<FileCount> {
    clear_folder(&installed_folder(cache_dir))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runtimes_are_found_beside_the_program_or_in_the_cache() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().canonicalize().unwrap();
        let program = folder.join("sandmill");
        let cache = folder.join("cache");
        std::fs::write(&program, "").unwrap();
        let find = |runtime| find(runtime, &program, Some(&cache));
        let runtimes = cache.join(RUNTIMES_FOLDER);
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
                    // Without its library the runtime is not found.
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
        let expected = FileCount { files: 4, bytes: 0 };
        assert_eq!(super::installed(&cache).unwrap(), expected);
        assert_eq!(clear_installed(&cache).unwrap(), expected);
        std::fs::remove_file(folder.join(file_name(Runtime::Light))).unwrap();
        assert!(cache.join("entry").is_file());
        let advice = find(Runtime::Light).unwrap_err().to_string();
        let command = format!("sandmill python install light --cache-dir {}", cache.display());
        assert!(advice.ends_with(&command), "{advice}");
    }
}
