//! Which runtime runs a script.

use super::PythonError;
use super::judge::{imports_in_science, judge, science_has_more};
use super::script_scan::{ScriptInspector, ScriptScan};
use super::versions::differences;
use crate::compile::{Cache, Compiled, Compiler, EntryFile, Instrumentation};
use crate::model::{Limits, OsSandbox, PythonRuntime, ScriptLanguage};
use crate::runtimes::{InstallCommand, Installed, Runtime, find};
use crate::spec::Requirement;
use std::path::{Path, PathBuf};

/// Chooses a runtime, and scans the script with it.
pub struct Chooser<'a> {
    /// The `sandmill` binary.
    pub program: &'a Path,
    /// The folder for compiled code, if not the usual one.
    pub cache_dir: Option<&'a Path>,
    /// Compiles runtimes.
    pub compiler: &'a Compiler,
    /// How they are compiled.
    pub with: Instrumentation,
    /// The limits of the script.
    pub limits: &'a Limits,
    /// Which layers of the process wall are required.
    pub os_sandbox: OsSandbox,
}

/// The script for which a runtime is chosen.
#[derive(Clone, Copy)]
pub struct ScriptToRun<'a> {
    /// Its file.
    pub path: &'a Path,
    /// Its path in the sandbox.
    pub guest: &'a str,
    /// The job's source folder.
    pub source: Option<&'a Path>,
    /// Whether `run` gets tables.
    pub gets_tables: bool,
    /// The packages that it wants in a certain version, with the name of the file that lists them.
    pub requirements: Option<&'a (String, Vec<Requirement>)>,
}

/// A runtime that can run a script.
pub struct Chosen {
    /// Which one.
    pub runtime: Runtime,
    /// Its component.
    pub component: PathBuf,
    /// The same, compiled.
    pub compiled: Compiled,
    /// The folder that the script sees at [`LIBRARY`](crate::runtimes::LIBRARY).
    pub library: Option<PathBuf>,
    /// What the user should know about the script, one line each.
    pub notices: Vec<String>,
}

impl Chooser<'_> {
    /// Chooses the runtime that the job asks for. Otherwise chooses the one that has what the script imports,
    /// and that has DataFrames if `run` gets tables. `say` gets lines about slow steps.
    ///
    /// # Errors
    /// If it is not installed, or lacks what the script imports, or the script cannot be parsed.
    pub fn choose(
        &self,
        script: ScriptToRun<'_>,
        wanted: PythonRuntime,
        say: &mut dyn FnMut(&str),
    ) -> Result<Chosen, PythonError> {
        if ScriptLanguage::of(Path::new(script.guest)) == Some(ScriptLanguage::JavaScript) {
            return self.judged(script, self.find(Runtime::JavaScript)?, say);
        }
        match wanted {
            PythonRuntime::Light => self.judged(script, self.find(Runtime::Light)?, say),
            PythonRuntime::Science => self.judged(script, self.find(Runtime::Science)?, say),
            PythonRuntime::Auto if script.gets_tables => {
                let found = self.find(Runtime::Science);
                let found = found.map_err(|_| PythonError::Table(self.command()))?;
                self.judged(script, found, say)
            }
            PythonRuntime::Auto => self.fitting(script, say),
        }
    }

    fn fitting(
        &self,
        script: ScriptToRun<'_>,
        say: &mut dyn FnMut(&str),
    ) -> Result<Chosen, PythonError> {
        let science = self.find(Runtime::Science);
        let light = match self.find(Runtime::Light) {
            Ok(light) => light,
            Err(error) => return self.judged(script, science.map_err(|_| error)?, say),
        };
        let (chosen, scan) = self.scan(script, light, say)?;
        match science {
            Ok(science) if scan.lacks() || science_has_more(&scan) => {
                self.judged(script, science, say)
            }
            Ok(_) => judged(chosen, &scan, script),
            Err(_) => match imports_in_science(&scan).as_slice() {
                [] => judged(chosen, &scan, script),
                lines => Err(PythonError::NeedsScience {
                    imports: lines.join("\n"),
                    command: self.command(),
                }),
            },
        }
    }

    fn judged(
        &self,
        script: ScriptToRun<'_>,
        found: (Runtime, Installed),
        say: &mut dyn FnMut(&str),
    ) -> Result<Chosen, PythonError> {
        let (chosen, scan) = self.scan(script, found, say)?;
        judged(chosen, &scan, script)
    }

    fn find(&self, runtime: Runtime) -> Result<(Runtime, Installed), PythonError> {
        Ok((runtime, find(runtime, self.program, self.cache_dir)?))
    }

    /// The command that installs the science runtime as this job needs it.
    fn command(&self) -> InstallCommand {
        InstallCommand {
            runtime: Runtime::Science,
            with: self.with,
            cache_dir: self.cache_dir.map(Path::to_owned),
        }
    }

    /// The runtime, without notices yet, and the result of its scan of the script.
    fn scan(
        &self,
        script: ScriptToRun<'_>,
        (runtime, installed): (Runtime, Installed),
        say: &mut dyn FnMut(&str),
    ) -> Result<(Chosen, ScriptScan), PythonError> {
        let Installed { component, library } = installed;
        let cache = Cache::open(self.cache_dir, self.compiler)?;
        let file = EntryFile::open(&component, self.compiler)?;
        let compiled = match runtime {
            Runtime::Light | Runtime::JavaScript => cache.prepare_file(file, self.with, say)?,
            // Compiling it takes minutes, so a job does not do it unless asked.
            Runtime::Science => {
                let prepared = cache.prepared(&file, self.with)?;
                prepared.ok_or_else(|| PythonError::NotCompiled(self.command()))?
            }
        };
        let inspector = ScriptInspector {
            program: self.program,
            runtime: &compiled,
            library: library.as_deref(),
            with: self.with,
            limits: self.limits,
            os_sandbox: self.os_sandbox,
        };
        let scan = inspector.scan(script.path, script.guest, script.source)?;
        let notices = Vec::new();
        Ok((Chosen { runtime, component, compiled, library, notices }, scan))
    }
}

fn judged(
    chosen: Chosen,
    scan: &ScriptScan,
    script: ScriptToRun<'_>,
) -> Result<Chosen, PythonError> {
    let mut notices = judge(scan, script.path, chosen.runtime)?;
    if let Some((file, requirements)) = script.requirements {
        notices.extend(differences(file, requirements, chosen.runtime));
    }
    Ok(Chosen { notices, ..chosen })
}
