//! Installs a runtime. Nothing else in Sandmill fetches one.

use super::error::InstallError;
use super::find::{file_name, find, folder, installed_in, library_name};
use super::science::Prepare;
use super::{Installed, Runtime, javascript, light, science};
use crate::compile::{Cache, Compiler, Instrumentation};
use crate::opening::Scratch;
use sandmill_files::remove_tree;
use std::fs::{File, TryLockError};
use std::io;
use std::path::Path;

/// The file that an installation holds locked in the folder of runtimes.
const LOCK: &str = ".lock";

/// What the folders are called in which runtimes are made, but for the process's number.
const MAKING: &str = ".making-";

/// How runtimes are installed.
pub struct Installer<'a> {
    /// The `sandmill` binary. A release has runtimes beside it.
    pub program: &'a Path,
    /// What compiles them.
    pub compiler: &'a Compiler,
    /// The folder for compiled code, if not the usual one.
    pub cache_dir: Option<&'a Path>,
    /// A folder with the runtime of a release or with a wheel; nothing is fetched then.
    pub from: Option<&'a Path>,
    /// The folder for the runtime, if not the usual one.
    pub into: Option<&'a Path>,
    /// How it is compiled.
    pub with: Instrumentation,
    /// What runs an interpreter to prepare it.
    pub prepare: Prepare<'a>,
}

impl Installer<'_> {
    /// Installs a runtime and compiles it. Does nothing where that was done. `say` gets lines about what takes time.
    ///
    /// # Errors
    /// If it cannot be fetched, made, written or compiled.
    pub fn install(
        &self,
        runtime: Runtime,
        say: &mut dyn FnMut(&str),
    ) -> Result<Installed, InstallError> {
        let folder = self.into.map(Path::to_owned).or_else(|| folder(self.cache_dir));
        let folder = folder.ok_or(InstallError::NoPlace)?;
        // It makes the folder with the rights that it needs.
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

    /// One installation at a time works in a folder; the others wait, and find what it made.
    fn install_into(
        &self,
        folder: &Path,
        runtime: Runtime,
        say: &mut dyn FnMut(&str),
    ) -> Result<Installed, InstallError> {
        // Tools are started elsewhere.
        let folder = &std::path::absolute(folder).map_err(InstallError::write(folder))?;
        std::fs::create_dir_all(folder).map_err(InstallError::write(folder))?;
        let lock = folder.join(LOCK);
        let file = File::create(&lock).map_err(InstallError::write(&lock))?;
        if let Err(TryLockError::WouldBlock) = file.try_lock() {
            say("waiting for another installation");
        }
        // Where the file system has no locks, each goes its own way.
        let is_alone = file.lock().is_ok();
        if let Some(installed) = installed_in(folder, runtime) {
            return Ok(installed);
        }
        if is_alone {
            remove_leftovers(folder).map_err(InstallError::write(folder))?;
        }
        self.make(runtime, folder, say)?;
        installed_in(folder, runtime)
            .ok_or_else(|| InstallError::Prepare("what was made is gone".to_owned()))
    }

    fn make(
        &self,
        runtime: Runtime,
        folder: &Path,
        say: &mut dyn FnMut(&str),
    ) -> Result<(), InstallError> {
        let scratch = folder.join(format!("{MAKING}{}", std::process::id()));
        let scratch = Scratch::at(scratch.clone()).map_err(InstallError::write(&scratch))?;
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
        // The component comes last: without it the runtime is not there.
        if let Some(name) = library_name(runtime) {
            let target = folder.join(name);
            // Of a removal that did not get to its end.
            remove_tree(&target).map_err(InstallError::write(&target))?;
            std::fs::rename(&library, &target).map_err(InstallError::write(&target))?;
        }
        let target = folder.join(file_name(runtime));
        std::fs::rename(&made, &target).map_err(InstallError::write(&target))
    }
}

/// Removes what installations left that were killed.
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
