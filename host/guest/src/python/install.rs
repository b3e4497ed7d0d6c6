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

/// A file in the folder of runtimes that a running installation locks.
const LOCK: &str = ".lock";

/// The prefix of the folders in which runtimes are built. The process id follows.
const MAKING: &str = ".making-";

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
    /// Installs and compiles a runtime, unless that has been done. `say` receives lines about slow steps.
    ///
    /// # Errors
    /// If it cannot be downloaded, built, written or compiled.
    pub fn install(
        &self,
        runtime: Runtime,
        say: &mut dyn FnMut(&str),
    ) -> Result<Installed, InstallError> {
        let folder = self.into.map(Path::to_owned).or_else(|| folder(self.cache_dir));
        let folder = folder.ok_or(InstallError::NoPlace)?;
        // Open the cache first: this creates the folder with the permissions that it needs.
        let cache = Cache::open(self.cache_dir, self.compiler)?;
        let ready = || match self.into {
            Some(_) => installed_in(&folder, runtime),
            None => find(runtime, self.program, self.cache_dir).ok(),
        };
        let installed = match ready() {
            Some(installed) => installed,
            None => self.install_into(&folder, runtime, say)?,
        };
        cache.prepare(&installed.component, self.with, say)?;
        Ok(installed)
    }

    /// Only one installation at a time works in a folder. The others wait, and use its result.
    fn install_into(
        &self,
        folder: &Path,
        runtime: Runtime,
        say: &mut dyn FnMut(&str),
    ) -> Result<Installed, InstallError> {
        // Tools run in another folder, so the path must be absolute.
        let folder = &std::path::absolute(folder).map_err(InstallError::write(folder))?;
        std::fs::create_dir_all(folder).map_err(InstallError::write(folder))?;
        let lock = folder.join(LOCK);
        let file = File::create(&lock).map_err(InstallError::write(&lock))?;
        if let Err(TryLockError::WouldBlock) = file.try_lock() {
            say("waiting for another installation");
        }
        // On a file system without locks, installations run concurrently.
        let is_alone = file.lock().is_ok();
        if let Some(installed) = installed_in(folder, runtime) {
            return Ok(installed);
        }
        if is_alone {
            remove_leftovers(folder).map_err(InstallError::write(folder))?;
        }
        self.make(runtime, folder, say)?;
        installed_in(folder, runtime)
            .ok_or_else(|| InstallError::Prepare("the result is gone".to_owned()))
    }

    fn make(
        &self,
        runtime: Runtime,
        folder: &Path,
        say: &mut dyn FnMut(&str),
    ) -> Result<(), InstallError> {
        let scratch = folder.join(format!("{MAKING}{}", std::process::id()));
        let scratch = ScratchFolder::at(scratch.clone()).map_err(InstallError::write(&scratch))?;
        let made = scratch.path().join("runtime.wasm");
        let library = scratch.path().join("library");
        match self.from.and_then(|from| installed_in(from, runtime)) {
            Some(ready) => copy(&ready, &made, &library).map_err(InstallError::write(&made))?,
            None => match runtime {
                Runtime::JavaScript => {
                    if let Some(folder) = self.from {
                        return Err(InstallError::NotMade { folder: folder.to_owned() });
                    }
                    javascript::make(scratch.path(), &made, say)?;
                }
                Runtime::Light => light::make(scratch.path(), &made, self.from, say)?,
                Runtime::Science => science::make(
                    self.compiler,
                    self.prepare,
                    scratch.path(),
                    (&made, &library),
                    self.from,
                    say,
                )?,
            },
        }
        // The component is moved last, because only its presence makes the runtime count as installed.
        if let Some(name) = library_name(runtime) {
            let target = folder.join(name);
            // An incomplete removal may have left it.
            remove_tree(&target).map_err(InstallError::write(&target))?;
            std::fs::rename(&library, &target).map_err(InstallError::write(&target))?;
        }
        let target = folder.join(file_name(runtime));
        std::fs::rename(&made, &target).map_err(InstallError::write(&target))
    }
}

/// Removes what killed installations left.
fn remove_leftovers(folder: &Path) -> io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_name().as_encoded_bytes().starts_with(MAKING.as_bytes()) {
            remove_tree(&entry.path())?;
        }
    }
    Ok(())
}

fn copy(ready: &Installed, component: &Path, library: &Path) -> io::Result<()> {
    std::fs::copy(&ready.component, component)?;
    let Some(from) = &ready.library else { return Ok(()) };
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
