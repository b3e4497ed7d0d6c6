//! Chooses the runtime of a script.

use super::judge::{
    guess_needs_science, imports_in_science, judge, science_has_more, uses_science,
};
use super::script_scan::{ScriptInspector, ScriptScan, ScriptToRun};
use super::versions::differences;
use super::{PythonError, RuntimeSetting};
use crate::compile::{Cache, Compiled, Compiler, Instrumentation};
use crate::model::{Limits, OsSandbox, PythonRuntime, ScriptLanguage};
use crate::runtimes::{InstallCommand, Installed, NoRuntime, Runtime, find};
use std::path::{Path, PathBuf};

/// Chooses a runtime, and scans the script with it.
pub struct Chooser<'a> {
    /// The `sandmill` binary.
    pub program: &'a Path,
    /// The folder for compiled code. `None` means the user's cache folder.
    pub cache_dir: Option<&'a Path>,
    /// Compiles runtimes.
    pub compiler: &'a Compiler,
    /// How runtimes are compiled.
    pub with: Instrumentation,
    /// The limits of the script.
    pub limits: &'a Limits,
    /// Which layers of the process wall are required.
    pub os_sandbox: OsSandbox,
    /// Where the user chooses a runtime, for messages.
    pub setting: RuntimeSetting,
}

/// The chosen runtime, which can run the script.
pub struct Chosen {
    /// The runtime.
    pub runtime: Runtime,
    /// The file of the runtime's component.
    pub component: PathBuf,
    /// The compiled component.
    pub compiled: Compiled,
    /// The folder that the script sees at [`LIBRARY`](crate::runtimes::LIBRARY). `None` if the runtime has
    /// none.
    pub library: Option<PathBuf>,
    /// Notices for the user about the script, one line each.
    pub notices: Vec<String>,
}

impl Chooser<'_> {
    /// Chooses the runtime that the job asks for. If it asks for none, chooses the runtime that has the
    /// packages that the script imports, or the science runtime if `run` gets tables. `say` gets lines about
    /// slow steps.
    ///
    /// # Errors
    /// If the runtime is not installed or lacks a package that the script imports, or if the script cannot be
    /// parsed.
    pub fn choose(
        &self,
        script: ScriptToRun<'_>,
        wanted: PythonRuntime,
        say: &mut dyn FnMut(&str),
    ) -> Result<Chosen, PythonError> {
        if ScriptLanguage::from_path(Path::new(script.guest)) == Some(ScriptLanguage::JavaScript) {
            return self.scan_and_judge(script, self.find(Runtime::JavaScript)?, say);
        }
        match wanted {
            PythonRuntime::Light => self.scan_and_judge(script, self.find(Runtime::Light)?, say),
            PythonRuntime::Science => {
                self.scan_and_judge(script, self.find(Runtime::Science)?, say)
            }
            PythonRuntime::Auto if script.gets_tables => {
                let found = self.find(Runtime::Science);
                let found = found.map_err(|_| PythonError::Table {
                    install: self.install_command(),
                    advice: self.setting.advice(Runtime::Light),
                })?;
                self.scan_and_judge(script, found, say)
            }
            PythonRuntime::Auto => self.choose_by_imports(script, say),
        }
    }

    /// Chooses between the light and the science runtime by what the script imports.
    fn choose_by_imports(
        &self,
        script: ScriptToRun<'_>,
        say: &mut dyn FnMut(&str),
    ) -> Result<Chosen, PythonError> {
        let science = self.find(Runtime::Science);
        let probably_science = guess_needs_science(script.path);
        let mut scanned = None;
        // If the guess is right, we need not start the light runtime and check its code.
        if let Ok(science) = &science
            && probably_science
        {
            match self.scan(script, science.clone(), say) {
                Ok((chosen, scan)) if uses_science(&scan) => {
                    return self.with_notices(chosen, &scan, script);
                }
                Ok(found) => scanned = Some(found),
                Err(PythonError::NotCompiled(_)) => {}
                Err(error) => return Err(error),
            }
        }
        let light = match self.find(Runtime::Light) {
            Ok(light) => light,
            Err(NoRuntime(light)) if science.is_err() && probably_science => {
                return Err(PythonError::NoneInstalled { science: self.install_command(), light });
            }
            Err(error) => {
                return match scanned {
                    Some((chosen, scan)) => self.with_notices(chosen, &scan, script),
                    None => self.scan_and_judge(script, science.map_err(|_| error)?, say),
                };
            }
        };
        let (chosen, scan) = self.scan(script, light, say)?;
        match science {
            Ok(science) if scan.lacks_package() || science_has_more(&scan) => match scanned {
                Some((chosen, scan)) => self.with_notices(chosen, &scan, script),
                None => self.scan_and_judge(script, science, say),
            },
            Ok(_) => self.with_notices(chosen, &scan, script),
            Err(_) => match imports_in_science(&scan).as_slice() {
                [] => self.with_notices(chosen, &scan, script),
                lines => Err(PythonError::NeedsScience {
                    imports: lines.join("\n"),
                    command: self.install_command(),
                }),
            },
        }
    }

    /// Scans the script with this runtime, and judges its imports.
    fn scan_and_judge(
        &self,
        script: ScriptToRun<'_>,
        found: (Runtime, Installed),
        say: &mut dyn FnMut(&str),
    ) -> Result<Chosen, PythonError> {
        let (chosen, scan) = self.scan(script, found, say)?;
        self.with_notices(chosen, &scan, script)
    }

    fn find(&self, runtime: Runtime) -> Result<(Runtime, Installed), NoRuntime> {
        Ok((runtime, find(runtime, self.program, self.cache_dir)?))
    }

    /// The command that installs the science runtime as this job needs it.
    fn install_command(&self) -> InstallCommand {
        InstallCommand {
            runtime: Runtime::Science,
            with: self.with,
            cache_dir: self.cache_dir.map(Path::to_owned),
        }
    }

    /// Scans the script with a runtime. Returns the runtime, still without notices, and the scan.
    fn scan(
        &self,
        script: ScriptToRun<'_>,
        (runtime, installed): (Runtime, Installed),
        say: &mut dyn FnMut(&str),
    ) -> Result<(Chosen, ScriptScan), PythonError> {
        // Opening the cache checks that no other user could have written a remembered digest.
        let cache = Cache::open(self.cache_dir, self.compiler)?;
        let file = installed.open(self.compiler, self.cache_dir)?;
        let Installed { component, library } = installed;
        let compiled = match runtime {
            Runtime::Light | Runtime::JavaScript => cache.prepare_file(file, self.with, say)?,
            // Compiling this runtime takes minutes, so a job does not do that; the user runs the command.
            Runtime::Science => {
                let prepared = cache.prepared(&file, self.with)?;
                prepared.ok_or_else(|| PythonError::NotCompiled(self.install_command()))?
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

    /// Adds the notices about the script. Fails if the runtime cannot run the script.
    fn with_notices(
        &self,
        chosen: Chosen,
        scan: &ScriptScan,
        script: ScriptToRun<'_>,
    ) -> Result<Chosen, PythonError> {
        let mut notices = judge(scan, script, chosen.runtime, self.setting)?;
        if let Some((file, requirements)) = script.requirements {
            notices.extend(differences(file, requirements, chosen.runtime));
        }
        Ok(Chosen { notices, ..chosen })
    }
}
