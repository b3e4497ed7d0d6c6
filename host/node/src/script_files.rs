//! Finds the files of an entry script that other machines need to run it.

use super::content::seen_files;
use super::error::NodeError;
use super::python;
use super::real_paths::RealPaths;
use crate::model::GUEST_SOURCE;
use crate::protocol::node::{ComponentFile, ScriptFiles, SourceFiles};
use crate::spec::JobSpec;
use std::path::{Path, PathBuf};

/// The most source files that other machines get from the job's store.
const MAX_FILES: usize = 25_000;
/// The most bytes of these files.
const MAX_BYTES: u64 = 600 << 20;

/// The files of the entry script with these resolved paths. `named`: the path of the component before it was resolved.
pub(super) fn script_files(
    spec: &JobSpec,
    real: &RealPaths,
    named: &Path,
    job_file: Option<&Path>,
) -> Result<ScriptFiles, NodeError> {
    let component = spec.script.is_none().then(|| ComponentFile {
        path: real.entry_script.clone(),
        name: named.file_name().unwrap_or_default().to_string_lossy().into_owned(),
    });
    let source = match (&spec.script, &real.source_directory) {
        (None, None) => None,
        (Some(_), None) => Some(beside_script(&real.entry_script)?),
        (script, Some(folder)) => {
            let script = script.as_ref().map(|script| path_in_source(&script.guest));
            in_source_directory(folder, script, job_file)
        }
    };
    Ok(ScriptFiles { component, source })
}

/// The files that a script without a source folder sees.
fn beside_script(script: &Path) -> Result<SourceFiles, NodeError> {
    Ok(SourceFiles {
        folder: script.parent().unwrap_or(Path::new("/")).to_owned(),
        // A script cannot import others.
        files: python::files(script)?.into_iter().filter(|file| file.to_str().is_some()).collect(),
        script: script.file_name().map(PathBuf::from),
        is_folder: false,
    })
}

/// The path of a script in the source folder. `guest`: its path in the sandbox.
fn path_in_source(guest: &str) -> PathBuf {
    Path::new(guest).strip_prefix(GUEST_SOURCE).unwrap_or(Path::new("")).to_owned()
}

/// The files of the source folder. `None` if other machines must have the folder at the same path.
fn in_source_directory(
    folder: &Path,
    script: Option<PathBuf>,
    job_file: Option<&Path>,
) -> Option<SourceFiles> {
    let files = seen_files(folder, job_file);
    let mut bytes = 0;
    for file in files.iter().take(MAX_FILES + 1) {
        let metadata = folder.join(file).symlink_metadata().ok().filter(|found| found.is_file())?;
        bytes += metadata.len();
    }
    let is_small = files.len() <= MAX_FILES && bytes <= MAX_BYTES;
    // The list of files is text.
    let is_text = files.iter().all(|file| file.to_str().is_some());
    let has_script = script.as_ref().is_none_or(|script| files.contains(script));
    let folder = folder.to_owned();
    (is_small && is_text && has_script).then_some(SourceFiles {
        folder,
        files,
        script,
        is_folder: true,
    })
}
