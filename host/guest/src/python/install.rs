//! Installs a runtime. Nothing else in Sandmill fetches one.

use super::error::InstallError;
use super::find::{file_name, folder, installed_in, library_name};
use super::science::Prepare;
use super::{Installed, Runtime, light, science};
use crate::compile::{Cache, Compiler, Instrumentation};
use crate::opening::Scratch;
use std::io;
use std::path::Path;

/// How runtimes are installed.
pub struct Installer<'a> {
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
        let installed = match installed_in(&folder, runtime) {
            Some(installed) => installed,
            None => {
                self.make(runtime, &folder, say)?;
                installed_in(&folder, runtime)
                    .ok_or_else(|| InstallError::Prepare("what was made is gone".to_owned()))?
            }
        };
        cache.prepare(&installed.component, self.with, say)?;
        Ok(installed)
    }

    fn make(
        &self,
        runtime: Runtime,
        folder: &Path,
        say: &mut dyn FnMut(&str),
    ) -> Result<(), InstallError> {
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |source| InstallError::Write { path, source }
        };
        // Tools are started elsewhere.
        let folder = &std::path::absolute(folder).map_err(failed(folder))?;
        std::fs::create_dir_all(folder).map_err(failed(folder))?;
        let scratch = folder.join(format!(".making-{}", std::process::id()));
        let scratch = Scratch::at(scratch.clone()).map_err(failed(&scratch))?;
        let made = scratch.path().join("runtime.wasm");
        let library = scratch.path().join("library");
        match self.from.and_then(|from| installed_in(from, runtime)) {
            Some(ready) => copy(&ready, &made, &library).map_err(failed(&made))?,
            None => match runtime {
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
            if !target.is_dir() {
                std::fs::rename(&library, &target).map_err(failed(&target))?;
            }
        }
        let target = folder.join(file_name(runtime));
        std::fs::rename(&made, &target).map_err(failed(&target))
    }
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
