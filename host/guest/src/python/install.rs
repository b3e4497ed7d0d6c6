//! Installs a runtime. No other part of Sandmill downloads one.

use super::error::InstallError;
use super::find::{file_name, find, folder, installed_in, library_name};
use super::science::Prepare;
use super::{Installed, Runtime, javascript, light, science};
use crate::compile::{Cache, Compiler, Instrumentation};
use crate::opening::ScratchFolder;
use sandmill_files::remove_tree;
use std::fs::{File, TryLockError};
use std::io;
use std::path::Path;

/// A file in the folder of runtimes. A running installation locks this file.
const LOCK_FILE: &str = ".lock";

/// The prefix of the temporary folders in which runtimes are built. The process id follows.
const SCRATCH_PREFIX: &str = ".making-";

/// The settings of an installation.
pub struct Installer<'a> {
    /// The `sandmill` binary. In a release, runtimes are next to it.
    pub program: &'a Path,
    /// Compiles the runtimes.
    pub compiler: &'a Compiler,
    /// The folder for compiled code, if it is not the default.
    pub cache_dir: Option<&'a Path>,
    /// A folder with a release's runtime, or with a wheel; if it is given, nothing is downloaded.
    pub from: Option<&'a Path>,
    /// The folder for the runtime, if it is not the default.
    pub into: Option<&'a Path>,
    /// How the runtime is compiled.
    pub with: Instrumentation,
    /// Runs an interpreter to prepare it.
    pub prepare: Prepare<'a>,
}

impl Installer<'_> {
    /// Installs and compiles a runtime, unless it is already installed and compiled. `say` receives lines
    /// about slow steps.
    ///
    /// # Errors
    /// If it cannot be downloaded, built, written or compiled.
    pub fn install(
        &self,
        runtime: Runtime,
        say: &mut dyn FnMut(&str),
    ) -> Result<Installed, InstallError> {
        let folder = self.into.map(Path::to_owned).or_else(|| folder(self.cache_dir));
        let folder = folder.ok_or(InstallError::NoFolder)?;
        // Open the cache first, because this creates the folder with the permissions that the cache requires.
        let cache = Cache::open(self.cache_dir, self.compiler)?;
        let find_installed = || match self.into {
            Some(_) => installed_in(&folder, runtime),
            None => find(runtime, self.program, self.cache_dir).ok(),
        };
        let installed = match find_installed() {
            Some(installed) => installed,
            None => self.install_into(&folder, runtime, say)?,
        };
        cache.prepare(&installed.component, self.with, say)?;
        Ok(installed)
    }

    /// Installs a runtime into a folder. Only one installation at a time works in a folder; other
    /// installations wait, and use the result.
    fn install_into(
        &self,
        folder: &Path,
        runtime: Runtime,
        say: &mut dyn FnMut(&str),
    ) -> Result<Installed, InstallError> {
        // Tools run in another folder, so the path must be absolute.
        let folder = &std::path::absolute(folder).map_err(InstallError::write(folder))?;
        std::fs::create_dir_all(folder).map_err(InstallError::write(folder))?;
        let lock = folder.join(LOCK_FILE);
        let file = File::create(&lock).map_err(InstallError::write(&lock))?;
        if let Err(TryLockError::WouldBlock) = file.try_lock() {
            say("waiting for another installation");
        }
        // On a file system without locks, installations run concurrently.
        let has_lock = file.lock().is_ok();
        if let Some(installed) = installed_in(folder, runtime) {
            return Ok(installed);
        }
        if has_lock {
            remove_leftovers(folder).map_err(InstallError::write(folder))?;
        }
        self.make(runtime, folder, say)?;
        installed_in(folder, runtime).ok_or_else(|| {
            InstallError::Prepare("the installed runtime has disappeared".to_owned())
        })
    }

    fn make(
        &self,
        runtime: Runtime,
        folder: &Path,
        say: &mut dyn FnMut(&str),
    ) -> Result<(), InstallError> {
        let scratch = folder.join(format!("{SCRATCH_PREFIX}{}", std::process::id()));
        let scratch = ScratchFolder::at(scratch.clone()).map_err(InstallError::write(&scratch))?;
        let component = scratch.path().join("runtime.wasm");
        let library = scratch.path().join("library");
        match self.from.and_then(|from| installed_in(from, runtime)) {
            Some(installed) => {
                copy(&installed, &component, &library).map_err(InstallError::write(&component))?;
            }
            None => match runtime {
                Runtime::JavaScript => {
                    if let Some(folder) = self.from {
                        return Err(InstallError::NotMade { folder: folder.to_owned() });
                    }
                    javascript::make(scratch.path(), &component, say)?;
                }
                Runtime::Light => light::make(scratch.path(), &component, self.from, say)?,
                Runtime::Science => science::make(
                    self.compiler,
                    self.prepare,
                    scratch.path(),
                    (&component, &library),
                    self.from,
                    say,
                )?,
            },
        }
        // The component is moved last, because only its presence makes the runtime count as installed.
        if let Some(name) = library_name(runtime) {
            let target = folder.join(name);
            // An incomplete removal may have left the folder.
            remove_tree(&target).map_err(InstallError::write(&target))?;
            std::fs::rename(&library, &target).map_err(InstallError::write(&target))?;
        }
        let target = folder.join(file_name(runtime));
        std::fs::rename(&component, &target).map_err(InstallError::write(&target))
    }
}

/// Removes the temporary folders of killed installations.
fn remove_leftovers(folder: &Path) -> io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_name().as_encoded_bytes().starts_with(SCRATCH_PREFIX.as_bytes()) {
            remove_tree(&entry.path())?;
        }
    }
    Ok(())
}

fn copy(installed: &Installed, component: &Path, library: &Path) -> io::Result<()> {
    std::fs::copy(&installed.component, component)?;
    let Some(from) = &installed.library else { return Ok(()) };
    for entry in walkdir::WalkDir::new(from) {
        let entry = entry?;
        let target = library.join(entry.path().strip_prefix(from).unwrap_or(entry.path()));
        if entry.file_type().is_dir() {
            std::fs::create_dir_all(target)?;
        } else {
            std::fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}
