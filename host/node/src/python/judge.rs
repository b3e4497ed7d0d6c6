//! What the imports of a script mean for it, in words.

use super::PythonError;
use super::script_scan::{MissingModule, Pandas3Line, PandasChange, ScriptScan};
use crate::model::printable;
use crate::runtimes::{Runtime, science_version};
use std::fmt::Write as _;
use std::path::Path;

/// Packages that need a model in another format.
const OF_MODELS: [&str; 9] = [
    "catboost",
    "keras",
    "lightgbm",
    "onnxruntime",
    "sklearn",
    "tensorflow",
    "torch",
    "transformers",
    "xgboost",
];

/// What the user should know, one line each. A missing package that the script needs is an error.
pub(super) fn judge(
    scan: &ScriptScan,
    script: &Path,
    runtime: Runtime,
) -> Result<Vec<String>, PythonError> {
    let name = script.file_name().unwrap_or_default().to_string_lossy();
    let mut wrong = String::new();
    if let Some(error) = &scan.error {
        let _ = writeln!(wrong, "{error}");
    } else if let Some(problem) = &scan.run {
        let _ = writeln!(wrong, "`run` of {name} {problem}");
    }
    for missing in scan.missing.iter().filter(|missing| !missing.guarded) {
        let _ = writeln!(wrong, "{}", line(missing, runtime));
    }
    if !wrong.is_empty() {
        return Err(PythonError::Refused(printable(wrong.trim_end()).into_owned()));
    }
    let note = |missing: &MissingModule| {
        let MissingModule { file, line, package, .. } = missing;
        let way = if runtime == Runtime::Light && science_version(package).is_some() {
            "; the science runtime has it"
        } else {
            ""
        };
        printable(&format!(
            "{file}, line {line}: {package} is not in the {runtime} runtime; if the script needs it, it gets an \
             ImportError{way}"
        ))
        .into_owned()
    };
    let changed = scan.changed.iter().filter(|_| runtime == Runtime::Science).map(pandas3_notice);
    Ok(scan.missing.iter().map(note).chain(changed).collect())
}

/// What pandas 3 does differently.
fn pandas3_notice(changed: &Pandas3Line) -> String {
    let Pandas3Line { file, line, what } = changed;
    let what = match what {
        PandasChange::Chained => {
            "if this assigns to a part of a DataFrame, as frame[\"a\"][0] = 1, it no longer changes the DataFrame in pandas 3; \
             write frame.loc[0, \"a\"] = 1"
        }
        PandasChange::Inplace => {
            "if this is a column of a DataFrame, inplace=True no longer changes the DataFrame in pandas 3; assign the result: \
             frame[\"a\"] = frame[\"a\"].fillna(0)"
        }
        PandasChange::Object => {
            "text columns are of type str in pandas 3, and no longer of type object; ask for \"str\" too"
        }
    };
    printable(&format!("{file}, line {line}: {what}")).into_owned()
}

/// Whether the science runtime has a package that the light one lacks, even if the import is in a function or
/// a `try`: the script may reach it when it runs.
pub(super) fn science_has_more(scan: &ScriptScan) -> bool {
    scan.error.is_none()
        && scan.missing.iter().any(|missing| science_version(&missing.package).is_some())
}

/// A line for each import that the light runtime lacks and the science runtime has. Empty if the script needs
/// a package that neither runtime has.
pub(super) fn imports_in_science(scan: &ScriptScan) -> Vec<String> {
    let needed = scan.missing.iter().filter(|missing| !missing.guarded);
    let has = |missing: &MissingModule| {
        let MissingModule { file, line, package, .. } = missing;
        science_version(package)?;
        Some(printable(&format!("{file}, line {line}: imports {package}")).into_owned())
    };
    let lines: Option<Vec<_>> = needed.map(has).collect();
    lines.filter(|_| scan.error.is_none() && scan.run.is_none()).unwrap_or_default()
}

fn line(missing: &MissingModule, runtime: Runtime) -> String {
    let MissingModule { package, file, line, standard, .. } = missing;
    let in_science = runtime == Runtime::Light && science_version(package).is_some();
    let way = if runtime == Runtime::JavaScript && *standard {
        "modules of Node are not available; use what \"sandmill\" has, or do without it"
    } else if runtime == Runtime::JavaScript && package.starts_with('.') {
        "that file does not exist; if the job names no source_directory, scripts see only .js and .ts files"
    } else if runtime == Runtime::JavaScript {
        "bundle the script and its packages into one file, e.g. with esbuild --bundle --format=esm --external:sandmill"
    } else if in_science {
        "the science runtime has it: write python: {runtime: science}, or add --set python.runtime=science"
    } else if OF_MODELS.contains(&package.as_str()) {
        "export the model to ONNX, name it under `models:`, and call it by sandmill.models (docs/entry-scripts.md)"
    } else if package.contains('.') && !package.starts_with("azureml") {
        "the package is installed in another version, without that module"
    } else if *standard {
        "it needs what a sandbox does not have, such as sockets, processes and threads; do without it"
    } else if package.starts_with("azureml") {
        "of Azure's SDK azureml_user.parallel_run.EntryScript and azureml.core.Model.get_model_path are available; what needs Azure itself has no counterpart"
    } else {
        return format!(
            "{file}, line {line}: imports {package}, which the {runtime} runtime does not have: put a module of \
             your own next to the script; install a pure-Python package by its name on PyPI: sandmill python vendor NAME"
        );
    };
    format!(
        "{file}, line {line}: imports {package}, which the {runtime} runtime does not have: {way}"
    )
}
