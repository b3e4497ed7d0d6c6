//! Prepares the science runtime's interpreter.

use super::super::trial::{TABLE, TrialRequest, TrialSetup};
use super::PythonError;
use super::folder::library;
use super::script_scan::returned;
use crate::model::{ByteSize, Limits, Mount, OsSandbox, printable};
use crate::runtimes::{PreparedInterpreter, SOURCES};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Bytes of memory for the interpreter while it is prepared.
const MEMORY: u64 = 1 << 30;
/// The longest time that preparing may take.
const LIMIT: Duration = Duration::from_secs(300);

/// Runs an interpreter to prepare it, behind both walls. Returns the file with its memory.
///
/// # Errors
/// If the interpreter fails before that.
pub fn prepare(
    program: &Path,
    os_sandbox: OsSandbox,
    preparing: &PreparedInterpreter<'_>,
) -> Result<PathBuf, PythonError> {
    let most = ByteSize(MEMORY);
    let sources =
        Mount { host: preparing.sources.to_owned(), guest: SOURCES.to_owned(), writable: false };
    let asked = TrialSetup {
        limits: Limits { memory: most, results: most, ..Limits::default() },
        mounts: vec![library(preparing.library), sources],
        arguments: vec!["python".to_owned()],
        ..TrialSetup::plain(preparing.scratch, os_sandbox, preparing.with, TrialRequest::Table)
    };
    match returned(program, preparing.component, &asked, LIMIT)? {
        Ok(_) => Ok(preparing.scratch.join(TABLE)),
        Err(error) => {
            let printed = fs::read_to_string(preparing.scratch.join("stderr")).unwrap_or_default();
            Err(PythonError::Scan(printable(&format!("{error}\n{printed}")).into_owned()))
        }
    }
}
