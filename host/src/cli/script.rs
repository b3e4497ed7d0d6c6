//! A script in Python or JavaScript that a command tries without a job: its runtime and its mounts.

use super::check::{CheckArguments, instrumentation};
use crate::model::{GUEST_SOURCE, GUEST_TEMPORARY, Limits, LoggingLevel, Mount, PythonRuntime};
use crate::node::python::{
    Chooser, Chosen, PythonError, RuntimeSetting, ScriptToRun, copy, library, variable,
};
use crate::node::trial::TrialSetup;
use anyhow::Context as _;
use std::path::{Path, PathBuf};

/// A script file.
pub(super) struct ExistingScript {
    /// The real path.
    path: PathBuf,
    /// The path as the guest sees it.
    guest: String,
}

impl ExistingScript {
    pub(super) fn at(path: &Path) -> anyhow::Result<Self> {
        let found = path.canonicalize().with_context(|| path.display().to_string())?;
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        Ok(Self { path: found, guest: format!("{GUEST_SOURCE}/{name}") })
    }

    /// Chooses the runtime that runs the script. `say` receives lines about steps that take long.
    ///
    /// # Errors
    /// See [`Chooser::choose`].
    pub(super) fn choose(
        &self,
        check: &CheckArguments<'_>,
        limits: &Limits,
        (runtime, gets_tables): (PythonRuntime, bool),
        say: &mut dyn FnMut(&str),
    ) -> Result<Chosen, PythonError> {
        let chooser = Chooser {
            program: check.program,
            cache_dir: check.cache,
            compiler: check.compiler,
            with: instrumentation(limits),
            limits,
            os_sandbox: check.os_sandbox,
            setting: RuntimeSetting::Option,
        };
        let script = ScriptToRun {
            path: &self.path,
            guest: &self.guest,
            source: None,
            gets_tables,
            requirements: None,
        };
        chooser.choose(script, runtime, say)
    }

    /// Mounts a copy of the script, the library of its runtime, and a folder for temporary files. Creates
    /// the copy and the folder in `setup.scratch`.
    pub(super) fn mount_into(
        self,
        library_folder: Option<&Path>,
        level: LoggingLevel,
        setup: &mut TrialSetup,
    ) -> anyhow::Result<()> {
        let source = setup.scratch.join("source");
        copy(&self.path, &self.guest, &source)?;
        let temporary = setup.scratch.join("tmp");
        std::fs::create_dir(&temporary).context("no folder for the run can be created")?;
        let mount = |host, guest: &str, writable| Mount { host, guest: guest.to_owned(), writable };
        setup.mounts.push(mount(source, GUEST_SOURCE, false));
        setup.mounts.extend(library_folder.map(library));
        setup.mounts.push(mount(temporary, GUEST_TEMPORARY, true));
        setup.environment.push(variable(level, false));
        if let Some(program) = setup.arguments.first_mut() {
            *program = self.guest;
        }
        Ok(())
    }
}
