//! Finds the source of an entry script in Python or JavaScript, which a runtime loads.

use super::error::{ErrorReport, missing};
use super::job::LoadedScript;
use super::job_file_location::JobFileLocation;
use super::raw::RawJob;
use super::requirements::{Requirement, parse_requirements};
use super::scope::Located;
use crate::model::{GUEST_SOURCE, Profiler, ScriptLanguage, WorkerSettings};
use std::path::{Component, Path, PathBuf};

/// The maximum size of a requirements file.
const MAX_REQUIREMENTS_BYTES: u64 = 1 << 20;

/// Returns the script that a runtime loads. `None` if the entry script is not in Python or
/// JavaScript, or if there is an error. `source`: the job's source folder. Moves the choice of a
/// Python profiler from `worker` to the script.
pub(super) fn script(
    raw: &RawJob,
    entry_script: &Path,
    source: Option<&Path>,
    worker: &mut WorkerSettings,
    location: &JobFileLocation,
    report: &ErrorReport,
) -> Option<LoadedScript> {
    let language = ScriptLanguage::from_path(entry_script);
    if language != Some(ScriptLanguage::Python) && raw.python.runtime.is_some() {
        report.notice("python has no effect: the entry script is not a Python script (.py)");
    }
    let language = language?;
    let path_in_source = match source {
        Some(folder) => entry_script.strip_prefix(folder).ok().and_then(without_dots),
        None => entry_script.file_name().map(PathBuf::from),
    };
    let Some(path_in_source) = path_in_source else {
        if let Some(given) = &raw.entry_script {
            let folder = source.unwrap_or(Path::new("")).display();
            given.blame(report, format!("{} is not in source_directory ({folder}), and a script sees no other folder; move it there, or set source_directory to the folder that contains it", entry_script.display()));
        }
        return None;
    };
    let runtime = raw.python.runtime.as_ref().map(|setting| setting.value).unwrap_or_default();
    // Sandmill's own profiler would sample the interpreter, which says little about the script. Python's own
    // profilers measure the script's functions.
    let is_python_profiler = language == ScriptLanguage::Python
        && matches!(worker.profiling_module, Some(Profiler::CProfile | Profiler::Profile));
    let profile = is_python_profiler && worker.profiling_module.take().is_some();
    let requirements = raw
        .python
        .requirements
        .as_ref()
        .and_then(|setting| pinned_packages(setting, location, report));
    let guest = format!("{GUEST_SOURCE}/{}", path_in_source.display());
    Some(LoadedScript { guest, language, runtime, requirements, profile })
}

/// Reads the packages of a requirements file. Returns the file's name and the packages.
fn pinned_packages(
    given: &Located<String>,
    location: &JobFileLocation,
    report: &ErrorReport,
) -> Option<(String, Vec<Requirement>)> {
    let path = location.resolve(given.value.trim());
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let is_yaml = ["yml", "yaml"].iter().any(|end| path.extension().is_some_and(|it| it == *end));
    let found = match location.files.read(&path, MAX_REQUIREMENTS_BYTES) {
        Err(error) => Err(missing(&path, &error)),
        Ok(bytes) if bytes.len() as u64 > MAX_REQUIREMENTS_BYTES => {
            Err(format!("{} is larger than 1 MB, which no requirements file needs", path.display()))
        }
        Ok(bytes) => {
            parse_requirements(&String::from_utf8_lossy(&bytes), is_yaml).ok_or_else(|| {
                format!("{} is not valid YAML, the format of a conda environment", path.display())
            })
        }
    };
    match found {
        Ok(found) => Some((name, found)),
        Err(message) => {
            given.blame(report, message);
            None
        }
    }
}

/// Removes `.` and `..` from a path. `None` if the path leads out of its folder.
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
