//! Turns the scan of a script into an error or into notices for the user.

use super::script_scan::{MissingModule, Pandas3Line, PandasChange, ScriptScan, ScriptToRun};
use super::{PythonError, RuntimeSetting};
use crate::model::printable;
use crate::opening;
use crate::runtimes::{Runtime, science_version};
use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;

/// Packages whose models must be exported to ONNX.
const MODEL_PACKAGES: [&str; 9] = [
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

/// Packages with native code that the science runtime does not have, by the names of their modules.
const NATIVE_PACKAGES: [&str; 12] = [
    "cv2",
    "fastparquet",
    "h5py",
    "mxnet",
    "numba",
    "polars",
    "psutil",
    "psycopg2",
    "pyarrow",
    "pyodbc",
    "ray",
    "torchvision",
];

/// Modules of older versions of Python, and the version that removed them.
const REMOVED_MODULES: [(&str, &str); 11] = [
    ("asynchat", "3.12"),
    ("asyncore", "3.12"),
    ("cgi", "3.13"),
    ("crypt", "3.13"),
    ("distutils", "3.12"),
    ("imghdr", "3.13"),
    ("imp", "3.12"),
    ("pipes", "3.13"),
    ("smtpd", "3.12"),
    ("sndhdr", "3.13"),
    ("telnetlib", "3.13"),
];

/// The number of bytes of a script in which [`guess_needs_science`] looks for imports.
const GUESS_BYTES: u64 = 64 << 10;

/// The notices for the user, one line each. Fails if the script cannot run: it cannot be parsed, its `run` is
/// wrong, or it needs a package that the runtime does not have.
pub(super) fn judge(
    scan: &ScriptScan,
    script: ScriptToRun<'_>,
    runtime: Runtime,
    setting: RuntimeSetting,
) -> Result<Vec<String>, PythonError> {
    let name = script.path.file_name().unwrap_or_default().to_string_lossy();
    let mut wrong = String::new();
    if let Some(error) = &scan.error {
        let _ = writeln!(wrong, "{error}");
    } else if let Some(run_problem) = &scan.run {
        let _ = writeln!(wrong, "`run` of {name} {run_problem}");
    }
    for missing in scan.missing.iter().filter(|missing| !missing.guarded) {
        let _ = writeln!(wrong, "{}", missing_import_message(missing, script, runtime, setting));
    }
    if !wrong.is_empty() {
        return Err(PythonError::Refused(printable(wrong.trim_end()).into_owned()));
    }
    let note = |missing: &MissingModule| {
        let MissingModule { file, line, package, .. } = missing;
        let hint = if runtime == Runtime::Light && science_version(package).is_some() {
            "; the science runtime has this package"
        } else {
            ""
        };
        printable(&format!(
            "{file}, line {line}: {package} is not in the {runtime} runtime; if the script imports it, the \
             import fails with ImportError{hint}"
        ))
        .into_owned()
    };
    let changed = scan.changed.iter().filter(|_| runtime == Runtime::Science).map(pandas3_notice);
    Ok(scan.missing.iter().map(note).chain(changed).collect())
}

/// The notice about a line that behaves differently in pandas 3.
fn pandas3_notice(changed: &Pandas3Line) -> String {
    let Pandas3Line { file, line, what } = changed;
    let what = match what {
        PandasChange::Chained => {
            "if this assigns to a part of a DataFrame, such as frame[\"a\"][0] = 1, it no longer changes the DataFrame in pandas 3; \
             write frame.loc[0, \"a\"] = 1"
        }
        PandasChange::Inplace => {
            "if this is a column of a DataFrame, inplace=True no longer changes the DataFrame in pandas 3; assign the result: \
             frame[\"a\"] = frame[\"a\"].fillna(0)"
        }
        PandasChange::Object => {
            "text columns are of type str in pandas 3, and no longer of type object; where you compare a dtype with \"object\", also compare it with \"str\""
        }
    };
    printable(&format!("{file}, line {line}: {what}")).into_owned()
}

/// Whether the science runtime has a package that the scan found missing, even if the import is in a function
/// or a `try`: the script may reach that import when it runs.
pub(super) fn science_has_more(scan: &ScriptScan) -> bool {
    scan.error.is_none()
        && scan.missing.iter().any(|missing| science_version(&missing.package).is_some())
}

/// Whether a scan by the science runtime found an import of a package that only this runtime has.
pub(super) fn uses_science(scan: &ScriptScan) -> bool {
    scan.error.is_none() && scan.packages.iter().any(|package| science_version(package).is_some())
}

/// Whether a line of the script looks like an import of a package of the science runtime. This is a guess:
/// the line may be in a text, and the import may be in another file. The scan decides.
pub(super) fn guess_needs_science(script: &Path) -> bool {
    let Ok((file, _)) = opening::regular(script) else { return false };
    let lines = BufReader::new(file.take(GUESS_BYTES)).lines();
    lines.map_while(Result::ok).any(|line| {
        let is_separator = |character: char| !character.is_alphanumeric() && character != '_';
        let mut words = line.split(is_separator).filter(|word| !word.is_empty());
        matches!(words.next(), Some("import" | "from"))
            && words.next().is_some_and(|package| science_version(package).is_some())
    })
}

/// A line for each import that the light runtime lacks and the science runtime has. Empty if the script needs
/// a package that neither runtime has.
pub(super) fn imports_in_science(scan: &ScriptScan) -> Vec<String> {
    let needed = scan.missing.iter().filter(|missing| !missing.guarded);
    let science_import = |missing: &MissingModule| {
        let MissingModule { file, line, package, .. } = missing;
        science_version(package)?;
        Some(printable(&format!("{file}, line {line}: imports {package}")).into_owned())
    };
    let lines: Option<Vec<_>> = needed.map(science_import).collect();
    lines.filter(|_| scan.error.is_none() && scan.run.is_none()).unwrap_or_default()
}

/// The error for an import that the runtime does not have, with advice.
fn missing_import_message(
    missing: &MissingModule,
    script: ScriptToRun<'_>,
    runtime: Runtime,
    setting: RuntimeSetting,
) -> String {
    let MissingModule { package, file, line, standard, .. } = missing;
    let in_science = runtime == Runtime::Light && science_version(package).is_some();
    let beside = script.path.parent().filter(|_| script.source.is_none());
    let is_folder = || beside.is_some_and(|folder| folder.join(package).is_dir());
    let other_runtime;
    let advice = if runtime == Runtime::JavaScript && *standard {
        "modules of Node are not available; use the functions of \"sandmill\", or do without the module"
    } else if runtime == Runtime::JavaScript && package.starts_with('.') {
        "that file does not exist; if the job names no source_directory, scripts see only .js and .ts files"
    } else if runtime == Runtime::JavaScript {
        "bundle the script and its packages into one file, e.g. with esbuild --bundle --format=esm --external:sandmill"
    } else if in_science {
        other_runtime = format!(
            "use the science runtime, which has this package; {}",
            setting.advice(Runtime::Science)
        );
        &*other_runtime
    } else if MODEL_PACKAGES.contains(&package.as_str()) {
        "export the model to ONNX, name it under `models:`, and call it with sandmill.models (docs/entry-scripts.md)"
    } else if package.contains('.') && !package.starts_with("azureml") {
        "the runtime's version of the package does not have this module"
    } else if *standard {
        "this module needs what a sandbox does not have, such as sockets, processes and threads; do without the module"
    } else if let Some((_, version)) = REMOVED_MODULES.iter().find(|(name, _)| name == package) {
        return format!(
            "{file}, line {line}: imports {package}, which Python {version} removed from its standard library: do without the module"
        );
    } else if NATIVE_PACKAGES.contains(&package.as_str()) {
        "this package has native code, which the sandbox cannot load; do without the package"
    } else if is_folder() {
        "the folder beside the script is not a package, so the script does not see it: add a file __init__.py to the folder, or set source_directory"
    } else if package.starts_with("azureml") {
        "only these parts of Azure's SDK are available: azureml_user.parallel_run.EntryScript and azureml.core.Model.get_model_path; parts that call Azure's services are not"
    } else {
        return format!(
            "{file}, line {line}: imports {package}, which the {runtime} runtime does not have: put your \
             own module next to the script, or install the package from PyPI, if it is pure Python: sandmill python vendor {package} \
             (some packages have another name on PyPI)"
        );
    };
    format!(
        "{file}, line {line}: imports {package}, which the {runtime} runtime does not have: {advice}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn imports_of_science_packages_are_guessed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("score.py");
        let guess = |text: &[u8]| {
            std::fs::write(&path, text).unwrap();
            guess_needs_science(&path)
        };
        for text in [
            "import os\nimport numpy as np",
            "def f():\n    from PIL import Image",
            "import  scipy.stats",
        ] {
            assert!(guess(text.as_bytes()), "{text}");
        }
        for text in
            ["", "import os", "numpy = 1", "important = numpy", "from . import pandas", "import"]
        {
            assert!(!guess(text.as_bytes()), "{text}");
        }
        assert!(!guess(b"# \xff\nimport numpy"));
        assert!(!guess_needs_science(dir.path()));
    }
}
