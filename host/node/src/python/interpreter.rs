//! The science runtime's interpreter, prepared.

use super::super::trial::{Asked, Trial, Wanted};
use super::PythonError;
use crate::compile::Instrumentation;
use crate::model::{ByteSize, InferenceSettings, Limits, Mount, OsSandbox, printable};
use crate::runtimes::{LIBRARY, Preparing, SOURCES};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Bytes of memory for an interpreter that is prepared.
const MEMORY: u64 = 1 << 30;
/// The longest that it may take.
const LIMIT: Duration = Duration::from_secs(300);

/// Runs an interpreter to prepare it, behind both walls. Returns the file with its memory.
///
/// # Errors
/// If the interpreter does not get as far.
pub fn prepare(
    program: &Path,
    os_sandbox: OsSandbox,
    preparing: &Preparing<'_>,
) -> Result<PathBuf, PythonError> {
    let mount = |host: &Path, guest: &str| Mount {
        host: host.to_owned(),
        guest: guest.to_owned(),
        writable: false,
    };
    let most = ByteSize(MEMORY);
    let asked = Asked {
        os_sandbox,
        limits: Limits { memory: most, results: most, ..Limits::default() },
        scratch: preparing.scratch.to_owned(),
        mounts: vec![mount(preparing.library, LIBRARY), mount(preparing.sources, SOURCES)],
        arguments: vec!["python".to_owned()],
        environment: Vec::new(),
        models: Vec::new(),
        inference: InferenceSettings::default(),
        with: Instrumentation::default(),
        wanted: Wanted::Table,
    };
    let mut trial = Trial::start(program, preparing.component, &asked)?;
    trial.functions()?.map_err(|error| PythonError::Look(error.to_string()))?;
    trial.row(LIMIT)?.map(PathBuf::from).map_err(|error| {
        let said = fs::read_to_string(preparing.scratch.join("stderr")).unwrap_or_default();
        PythonError::Look(printable(&format!("{error}\n{said}")).into_owned())
    })
}
