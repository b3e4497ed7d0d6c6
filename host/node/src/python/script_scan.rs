//! Scans the imports of a script, with its runtime in the sandbox.

use super::super::trial::{TrialChild, TrialRequest, TrialSetup};
use super::folder::{copy, library};
use super::{PythonError, SETTINGS_VARIABLE};
use crate::compile::{Compiled, Instrumentation};
use crate::model::{GUEST_SOURCE, Limits, Mount, OsSandbox};
use crate::opening::ScratchFolder;
use crate::spec::Requirement;
use serde::Deserialize;
use std::path::Path;
use std::time::Duration;

/// The longest time that the scan may take.
const SCAN_LIMIT: Duration = Duration::from_secs(60);

/// The script for which a runtime is chosen.
#[derive(Clone, Copy)]
pub struct ScriptToRun<'a> {
    /// The script's file.
    pub path: &'a Path,
    /// The script's path in the sandbox.
    pub guest: &'a str,
    /// The job's source folder. `None` if the job names none.
    pub source: Option<&'a Path>,
    /// Whether `run` gets tables.
    pub gets_tables: bool,
    /// The name of the requirements file, and the package versions that it asks for. `None` without such a
    /// file.
    pub requirements: Option<&'a (String, Vec<Requirement>)>,
}

/// What the runtime found in a script.
#[derive(Debug, Deserialize)]
pub(super) struct ScriptScan {
    /// Why the script cannot be parsed. `None` if it can.
    pub(super) error: Option<String>,
    /// What is wrong with the function `run`, as the end of a sentence. `None` if nothing is.
    pub(super) run: Option<String>,
    /// The imported packages that the runtime has in addition to the standard library.
    #[serde(default)]
    pub(super) packages: Vec<String>,
    /// The imported modules that the runtime does not have.
    pub(super) missing: Vec<MissingModule>,
    /// The lines that behave differently in pandas 3.
    #[serde(default)]
    pub(super) changed: Vec<Pandas3Line>,
}

/// A line that behaves differently in pandas 3 if it works on a DataFrame.
#[derive(Debug, Deserialize)]
pub(super) struct Pandas3Line {
    pub(super) file: String,
    pub(super) line: u64,
    pub(super) what: PandasChange,
}

/// What may behave differently in pandas 3.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum PandasChange {
    /// A chained assignment, such as `frame["a"][0] = 1`, changes only a copy.
    Chained,
    /// A method that is called with `inplace=True` on a part of a DataFrame changes only a copy.
    Inplace,
    /// Text columns have the type `str` instead of `object`.
    Object,
}

impl ScriptScan {
    /// Whether the script can be parsed but needs a package that is missing.
    pub(super) fn lacks_package(&self) -> bool {
        self.error.is_none() && self.missing.iter().any(|missing| !missing.guarded)
    }
}

/// A module that the runtime cannot import.
#[derive(Debug, Deserialize)]
pub(super) struct MissingModule {
    pub(super) package: String,
    pub(super) file: String,
    pub(super) line: u64,
    /// Whether the script may work without the module, because the import is in a function or a `try`.
    pub(super) guarded: bool,
    /// Whether the module belongs to the standard library.
    pub(super) standard: bool,
}

/// Scans scripts in a child process.
pub(super) struct ScriptInspector<'a> {
    /// The `sandmill` binary.
    pub(super) program: &'a Path,
    pub(super) runtime: &'a Compiled,
    /// The folder with the runtime's library.
    pub(super) library: Option<&'a Path>,
    /// How the runtime was compiled.
    pub(super) with: Instrumentation,
    pub(super) limits: &'a Limits,
    /// Which layers of the process wall are required.
    pub(super) os_sandbox: OsSandbox,
}

impl ScriptInspector<'_> {
    /// Scans the script in the sandbox. `guest`: the script's path there.
    ///
    /// # Errors
    /// If the child process fails.
    pub(super) fn scan(
        &self,
        script: &Path,
        guest: &str,
        source: Option<&Path>,
    ) -> Result<ScriptScan, PythonError> {
        let scratch = ScratchFolder::create("python")
            .map_err(|error| PythonError::Scan(error.to_string()))?;
        let host = match source {
            Some(folder) => folder.to_owned(),
            None => {
                let folder = scratch.path().join("source");
                copy(script, guest, &folder)?;
                folder
            }
        };
        let source_mount = Mount { host, guest: GUEST_SOURCE.to_owned(), writable: false };
        let asked = TrialSetup {
            limits: self.limits.clone(),
            mounts: self.library.map(library).into_iter().chain([source_mount]).collect(),
            arguments: vec![guest.to_owned()],
            environment: vec![(SETTINGS_VARIABLE.to_owned(), r#"{"scan": true}"#.to_owned())],
            ..TrialSetup::plain(scratch.path(), self.os_sandbox, self.with, TrialRequest::Row)
        };
        let row = first_row(self.program, self.runtime, &asked, SCAN_LIMIT)?;
        let row = row.map_err(PythonError::Scan)?;
        serde_json::from_str(&row).map_err(|error| PythonError::Scan(error.to_string()))
    }
}

/// Runs a runtime and returns the first row that its `run` returned, or why there is none.
///
/// # Errors
/// If the runtime cannot be loaded, or its process died or took longer than `limit`.
pub(super) fn first_row(
    program: &Path,
    runtime: &Compiled,
    asked: &TrialSetup,
    limit: Duration,
) -> Result<Result<String, String>, PythonError> {
    let mut trial = TrialChild::start(program, runtime, asked)?;
    trial.functions()?.map_err(|error| PythonError::Scan(error.to_string()))?;
    Ok(trial.row(limit)?)
}
