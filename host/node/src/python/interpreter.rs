//! Prepares the science runtime's interpreter.

use super::super::trial::{TABLE, TrialRequest, TrialSetup};
use super::PythonError;
use super::folder::library;
use super::script_scan::first_row;
use crate::model::{ByteSize, Limits, Mount, OsSandbox, printable};
use crate::runtimes::{PreparedInterpreter, SOURCES};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The memory limit of the interpreter while it is prepared, in bytes.
const MEMORY_BYTES: u64 = 1 << 30;
/// The longest time that preparing may take.
const TIME_LIMIT: Duration = Duration::from_secs(300);

/// Starts an interpreter behind both walls, and saves its memory in a file. Returns the path of the file.
///
/// # Errors
/// If the interpreter fails before it returns its memory.
pub fn prepare(
    program: &Path,
    os_sandbox: OsSandbox,
    preparing: &PreparedInterpreter<'_>,
) -> Result<PathBuf, PythonError> {
    let limit = ByteSize(MEMORY_BYTES);
    let sources =
        Mount { host: preparing.sources.to_owned(), guest: SOURCES.to_owned(), writable: false };
    let asked = TrialSetup {
        limits: Limits { memory: limit, results: limit, ..Limits::default() },
        mounts: vec![library(preparing.library), sources],
        arguments: vec!["python".to_owned()],
        ..TrialSetup::plain(preparing.scratch, os_sandbox, preparing.with, TrialRequest::Table)
    };
    match first_row(program, preparing.component, &asked, TIME_LIMIT)? {
        Ok(_) => Ok(preparing.scratch.join(TABLE)),
        Err(error) => {
            let printed = fs::read_to_string(preparing.scratch.join("stderr")).unwrap_or_default();
            Err(PythonError::Scan(printable(&format!("{error}\n{printed}")).into_owned()))
        }
    }
}
