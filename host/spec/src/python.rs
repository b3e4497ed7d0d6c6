//! An entry script that a runtime loads, in Python or JavaScript.

use super::error::{ErrorReport, missing};
use super::job::LoadedScript;
use super::job_file_location::JobFileLocation;
use super::raw::RawJob;
use super::requirements::{Requirement, requirements};
use super::scope::Located;
use super::small_file;
use crate::model::{GUEST_SOURCE, Profiler, ScriptLanguage, WorkerSettings};
use std::path::{Component, Path, PathBuf};

/// The largest requirements file.
const MAX_BYTES: u64 = 1 << 20;

/// The script of a job, if its entry script is one. `source`: the job's source folder. A Python profiler is
/// moved out of `worker` into the script.
pub(super) fn script(
    raw: &RawJob,
    entry_script: &Path,
    source: Option<&Path>,
    worker: &mut WorkerSettings,
    place: &JobFileLocation,
    report: &ErrorReport,
) -> Option<LoadedScript> {
    let language = ScriptLanguage::of(entry_script);
    if language != Some(ScriptLanguage::Python) && raw.python.runtime.is_some() {
        report.notice("python has no effect: the entry script is not a Python script (.py)");
    }
    let language = language?;
    let below = match source {
        Some(folder) => entry_script.strip_prefix(folder).ok().and_then(without_dots),
        None => entry_script.file_name().map(PathBuf::from),
    };
    let Some(below) = below else {
        if let Some(given) = &raw.entry_script {
            let folder = source.unwrap_or(Path::new("")).display();
            given.blame(report, format!("{} is not in source_directory ({folder}), which is all that a script sees; put it there, or name the folder that holds it", entry_script.display()));
        }
        return None;
    };
    let runtime = raw.python.runtime.as_ref().map(|at| at.value).unwrap_or_default();
    // Samples of the interpreter tell little about the script, whereas Python's own profilers measure its
    // functions.
    let of_python = language == ScriptLanguage::Python
        && matches!(worker.profiling_module, Some(Profiler::CProfile | Profiler::Profile));
    let profile = of_python && worker.profiling_module.take().is_some();
    let requirements =
        raw.python.requirements.as_ref().and_then(|at| pinned_packages(at, place, report));
    let guest = format!("{GUEST_SOURCE}/{}", below.display());
    Some(LoadedScript { guest, language, runtime, requirements, profile })
}

/// The packages of a requirements file, and its name.
fn pinned_packages(
    given: &Located<String>,
    place: &JobFileLocation,
    report: &ErrorReport,
) -> Option<(String, Vec<Requirement>)> {
    let path = place.resolve(given.value.trim());
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let is_yaml = ["yml", "yaml"].iter().any(|end| path.extension().is_some_and(|it| it == *end));
    let found = match small_file::read(&path, MAX_BYTES) {
        Err(error) => Err(missing(&path, &error)),
        Ok(bytes) if bytes.len() as u64 > MAX_BYTES => {
            Err(format!("{} has more than 1 MB, too much for a requirements file", path.display()))
        }
        Ok(bytes) => requirements(&String::from_utf8_lossy(&bytes), is_yaml)
            .ok_or_else(|| format!("{} is not YAML, which a conda environment is", path.display())),
    };
    match found {
        Ok(found) => Some((name, found)),
        Err(wrong) => {
            given.blame(report, wrong);
            None
        }
    }
}

/// A path without `.` and `..`. `None` if it leads out of its folder.
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
