//! What a Python script imports, found by its runtime in the sandbox.

use super::super::trial::{Asked, Trial, Wanted};
use super::folder::{copy, library};
use super::{PythonError, VARIABLE};
use crate::compile::{Compiled, Instrumentation};
use crate::model::{GUEST_SOURCE, Limits, Mount, OsSandbox};
use crate::opening::Scratch;
use serde::Deserialize;
use std::path::Path;
use std::time::Duration;

/// The longest that looking at the imports may take.
const LOOKING: Duration = Duration::from_secs(60);

/// What the runtime found in a script.
#[derive(Debug, Deserialize)]
pub(super) struct Scan {
    pub(super) error: Option<String>,
    pub(super) run: Option<String>,
    pub(super) missing: Vec<Missing>,
    #[serde(default)]
    pub(super) changed: Vec<Changed>,
}

/// A line that does something else in pandas 3 than before, if it works on a DataFrame.
#[derive(Debug, Deserialize)]
pub(super) struct Changed {
    pub(super) file: String,
    pub(super) line: u64,
    pub(super) what: Change,
}

/// What is otherwise.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Change {
    /// An assignment to a part of a part of a DataFrame changes a copy.
    Chained,
    /// So does a method of a part with `inplace`.
    Inplace,
    /// Text columns are of type `str`.
    Object,
}

impl Scan {
    /// Whether the script can be parsed, and needs what is not there.
    pub(super) fn lacks(&self) -> bool {
        self.error.is_none() && self.missing.iter().any(|missing| !missing.guarded)
    }
}

/// A module that the runtime cannot import.
#[derive(Debug, Deserialize)]
pub(super) struct Missing {
    pub(super) package: String,
    pub(super) file: String,
    pub(super) line: u64,
    /// Whether the script may do without it.
    pub(super) guarded: bool,
    /// Whether it is of the standard library.
    pub(super) standard: bool,
}

/// The process that looks at a script.
pub(super) struct Looker<'a> {
    /// The `sandmill` binary.
    pub(super) program: &'a Path,
    /// The compiled runtime.
    pub(super) runtime: &'a Compiled,
    /// Its library.
    pub(super) library: Option<&'a Path>,
    /// How it was compiled.
    pub(super) with: Instrumentation,
    /// What the script may use.
    pub(super) limits: &'a Limits,
    /// How much of the process wall must stand.
    pub(super) os_sandbox: OsSandbox,
}

impl Looker<'_> {
    /// Parses the script in the sandbox. `guest`: its path there.
    ///
    /// # Errors
    /// If the process that does it fails.
    pub(super) fn look(
        &self,
        script: &Path,
        guest: &str,
        source: Option<&Path>,
    ) -> Result<Scan, PythonError> {
        let scratch =
            Scratch::create("python").map_err(|error| PythonError::Look(error.to_string()))?;
        let shown = match source {
            Some(folder) => folder.to_owned(),
            None => {
                let folder = scratch.path().join("source");
                copy(script, guest, &folder)?;
                folder
            }
        };
        let shown = Mount { host: shown, guest: GUEST_SOURCE.to_owned(), writable: false };
        let asked = Asked {
            limits: self.limits.clone(),
            mounts: self.library.map(library).into_iter().chain([shown]).collect(),
            arguments: vec![guest.to_owned()],
            environment: vec![(VARIABLE.to_owned(), r#"{"scan": true}"#.to_owned())],
            ..Asked::plain(scratch.path(), self.os_sandbox, self.with, Wanted::Row)
        };
        let row = returned(self.program, self.runtime, &asked, LOOKING)?;
        let row = row.map_err(PythonError::Look)?;
        serde_json::from_str(&row).map_err(|error| PythonError::Look(error.to_string()))
    }
}

/// What the first call of `run` in a runtime returned, or why it returned nothing.
///
/// # Errors
/// If the runtime cannot be loaded, or its process died or took longer than `limit`.
pub(super) fn returned(
    program: &Path,
    runtime: &Compiled,
    asked: &Asked,
    limit: Duration,
) -> Result<Result<String, String>, PythonError> {
    let mut trial = Trial::start(program, runtime, asked)?;
    trial.functions()?.map_err(|error| PythonError::Look(error.to_string()))?;
    Ok(trial.row(limit)?)
}
