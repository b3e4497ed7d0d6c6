//! An entry script in Python, and the runtime that runs it.

use super::error::Report;
use super::job::PythonScript;
use super::raw::RawJob;
use crate::model::{GUEST_SOURCE, Profiler, WorkerSettings};
use std::path::{Component, Path, PathBuf};

/// Whether the path names a Python script.
pub fn is_python(path: &Path) -> bool {
    path.extension().is_some_and(|end| end.eq_ignore_ascii_case("py"))
}

/// The Python script of a job, if its entry script is one. `source`: the job's source folder. A profiler of Python's is
/// taken from `worker`.
pub(super) fn script(
    raw: &RawJob,
    entry_script: &Path,
    source: Option<&Path>,
    worker: &mut WorkerSettings,
    report: &Report,
) -> Option<PythonScript> {
    if !is_python(entry_script) {
        if raw.python.runtime.is_some() {
            report.notice("python has no effect: the entry script is not a Python script (.py)");
        }
        return None;
    }
    let below = match source {
        Some(folder) => entry_script.strip_prefix(folder).ok().and_then(without_dots),
        None => entry_script.file_name().map(PathBuf::from),
    };
    let Some(below) = below else {
        if let Some(given) = &raw.entry_script {
            let folder = source.unwrap_or(Path::new("")).display();
            given.blame(report, format!("{} does not lie in source_directory ({folder}), which is all that a Python script sees; put it there, or name the folder that holds it", entry_script.display()));
        }
        return None;
    };
    let runtime = raw.python.runtime.as_ref().map(|at| at.value).unwrap_or_default();
    // Samples of the interpreter say little of the script: Python's own profilers measure its functions.
    let of_python = matches!(worker.profiling_module, Some(Profiler::CProfile | Profiler::Profile));
    let profile = of_python && worker.profiling_module.take().is_some();
    Some(PythonScript { guest: format!("{GUEST_SOURCE}/{}", below.display()), runtime, profile })
}

/// A path without `.` and `..`; `None` if it leads out of the folder that it is below.
fn without_dots(path: &Path) -> Option<PathBuf> {
    let mut clean = PathBuf::new();
    for part in path.components() {
        match part {
            Component::Normal(name) => clean.push(name),
            Component::ParentDir if clean.pop() => {}
            Component::CurDir => {}
            _ => return None,
        }
    }
    Some(clean)
}
