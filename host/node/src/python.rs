//! A Python script: what is shown of its folder, and what it imports, looked at before a job begins.

use super::trial::{Asked, Trial, TrialError, Wanted};
use crate::compile::{Compiled, Instrumentation};
use crate::model::{
    GUEST_SOURCE, InferenceSettings, JobDir, Limits, LoggingLevel, Mount, OsSandbox, hex, printable,
};
use crate::opening::{Scratch, regular_at_its_path};
use crate::output::remove_tree;
use serde::Deserialize;
use sha2::{Digest, Sha256};
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;
use walkdir::WalkDir;

/// By this variable the host speaks to the runtime, which takes it out of the script's environment.
pub(super) const VARIABLE: &str = "SANDMILL_PYTHON";
/// Files that are shown of a script's folder, and their bytes.
const FILES: usize = 1000;
const BYTES: u64 = 64 << 20;
/// The longest that looking at the imports may take.
const LOOKING: Duration = Duration::from_secs(60);
/// Packages that need a model in another form.
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

/// Why a Python script cannot be run.
#[derive(Debug, thiserror::Error)]
pub enum PythonError {
    /// What it imports is not there, or it cannot be parsed: one line for each reason.
    #[error("{0}")]
    Refused(String),
    /// It cannot be looked at.
    #[error("what the script imports cannot be looked at: {0}")]
    Look(String),
    /// The process that looks at it failed.
    #[error("what the script imports cannot be looked at: {0}")]
    Trial(#[from] TrialError),
    /// Its folder holds too much.
    #[error(
        "the folder of the Python script, {}, holds more than {FILES} Python files, or more than 64 MB of them; name the \
         folder that holds just the script and its modules: source_directory", .0.display()
    )]
    TooMuch(PathBuf),
    /// A file cannot be read or copied.
    #[error("the Python file {} cannot be copied into the job directory: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
}

/// The environment variable for the runtime, with what it has to know.
pub fn variable(level: LoggingLevel) -> (String, String) {
    (VARIABLE.to_owned(), serde_json::json!({ "logging_level": level.name() }).to_string())
}

/// The Python files that belong to a script whose job names no source folder: itself, the modules beside it, and packages
/// beside it. Paths are below the script's folder. `script` is a path without links, and none are followed: what they lead
/// to was not held against the operator's policy.
///
/// # Errors
/// If there are too many.
pub(super) fn files(script: &Path) -> Result<Vec<PathBuf>, PythonError> {
    let folder = script.parent().unwrap_or(Path::new("/"));
    let mut found = Vec::new();
    let mut bytes = 0;
    let is_package = |path: &Path| path.join("__init__.py").is_file();
    let entries = WalkDir::new(folder)
        .sort_by_file_name()
        .into_iter()
        .filter_entry(|entry| {
            entry.depth() == 0 || !entry.file_type().is_dir() || is_package(entry.path())
        })
        .filter_map(Result::ok);
    for entry in entries {
        let path = entry.path();
        let is_python = path.extension().is_some_and(|end| end == "py");
        if !(entry.file_type().is_file() && (is_python || path == script)) {
            continue;
        }
        bytes += entry.metadata().map_or(0, |found| found.len());
        if found.len() == FILES || bytes > BYTES {
            return Err(PythonError::TooMuch(folder.to_owned()));
        }
        found.push(path.strip_prefix(folder).unwrap_or(path).to_owned());
    }
    Ok(found)
}

/// A digest of the files' names and contents.
///
/// # Errors
/// If one cannot be read.
pub(super) fn content(script: &Path) -> Result<String, PythonError> {
    let mut hash = Sha256::new();
    for (name, mut file) in opened(script)? {
        let mut text = Vec::new();
        file.read_to_end(&mut text)
            .map_err(|source| PythonError::File { path: name.clone(), source })?;
        hash.update(name.to_string_lossy().as_bytes());
        hash.update([0]);
        hash.update((text.len() as u64).to_le_bytes());
        hash.update(text);
    }
    Ok(hex(hash.finalize()))
}

fn opened(script: &Path) -> Result<Vec<(PathBuf, File)>, PythonError> {
    let folder = script.parent().unwrap_or(Path::new("/"));
    let open = |name: PathBuf| {
        let path = folder.join(&name);
        match regular_at_its_path(&path) {
            Ok((file, _)) => Ok((name, file)),
            Err(source) => Err(PythonError::File { path, source }),
        }
    };
    files(script)?.into_iter().map(open).collect()
}

/// Copies the files to `folder`, which is made anew. The script gets its name in the sandbox, the last part of `guest`.
///
/// # Errors
/// If one cannot be read, or there is no room for it.
pub fn copy(script: &Path, guest: &str, folder: &Path) -> Result<(), PythonError> {
    let fail = |path: &Path, source| PythonError::File { path: path.to_owned(), source };
    remove_tree(folder).map_err(|error| fail(folder, error))?;
    let shown = Path::new(guest).file_name().unwrap_or_default();
    for (name, mut file) in opened(script)? {
        let is_script = Some(name.as_os_str()) == script.file_name();
        let target = if is_script { folder.join(shown) } else { folder.join(&name) };
        let parent = target.parent().unwrap_or(folder);
        fs::create_dir_all(parent)
            .and_then(|()| File::create_new(&target))
            .and_then(|mut to| io::copy(&mut file, &mut to))
            .map_err(|source| fail(&name, source))?;
    }
    Ok(())
}

/// What workers see at `/source`: the job's source folder, else the copies.
pub(super) fn source(source: Option<&Path>, job_dir: &JobDir) -> Mount {
    let host = source.map_or_else(|| job_dir.python_source(), Path::to_owned);
    Mount { host, guest: GUEST_SOURCE.to_owned(), writable: false }
}

/// What the runtime found in a script.
#[derive(Debug, Deserialize)]
struct Scan {
    error: Option<String>,
    run: Option<String>,
    missing: Vec<Missing>,
}

/// A module that the runtime cannot import.
#[derive(Debug, Deserialize)]
struct Missing {
    package: String,
    file: String,
    line: u64,
    /// Whether the script may do without it.
    guarded: bool,
    /// Whether it is of the standard library.
    standard: bool,
}

/// The process that looks at a script.
pub struct Looker<'a> {
    /// The `sandmill` binary.
    pub program: &'a Path,
    /// The compiled runtime.
    pub runtime: &'a Compiled,
    /// How it was compiled.
    pub with: Instrumentation,
    /// What the script may use.
    pub limits: &'a Limits,
    /// How much of the process wall must stand.
    pub os_sandbox: OsSandbox,
}

impl Looker<'_> {
    /// Parses the script in the sandbox. Returns what the user should know, one line each. `guest`: its path there.
    ///
    /// # Errors
    /// If it cannot be parsed, has no `run`, or imports what the runtime does not have.
    pub fn look(
        &self,
        script: &Path,
        guest: &str,
        source: Option<&Path>,
    ) -> Result<Vec<String>, PythonError> {
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
        let asked = Asked {
            os_sandbox: self.os_sandbox,
            limits: self.limits.clone(),
            scratch: scratch.path().to_owned(),
            mounts: vec![Mount { host: shown, guest: GUEST_SOURCE.to_owned(), writable: false }],
            arguments: vec![guest.to_owned()],
            environment: vec![(VARIABLE.to_owned(), r#"{"scan": true}"#.to_owned())],
            models: Vec::new(),
            inference: InferenceSettings::default(),
            with: self.with,
            wanted: Wanted::Row,
        };
        let mut trial = Trial::start(self.program, self.runtime, &asked)?;
        trial.functions()?.map_err(|error| PythonError::Look(error.to_string()))?;
        let row = trial.row(LOOKING)?.map_err(PythonError::Look)?;
        let scan: Scan =
            serde_json::from_str(&row).map_err(|error| PythonError::Look(error.to_string()))?;
        judge(&scan, script)
    }
}

fn judge(scan: &Scan, script: &Path) -> Result<Vec<String>, PythonError> {
    let name = script.file_name().unwrap_or_default().to_string_lossy();
    let mut wrong = String::new();
    if let Some(error) = &scan.error {
        let _ = writeln!(wrong, "{error}");
    } else if let Some(problem) = &scan.run {
        let _ = writeln!(wrong, "`run` of {name} {problem}");
    }
    let (guarded, needed): (Vec<_>, Vec<_>) =
        scan.missing.iter().partition(|missing| missing.guarded);
    for missing in needed {
        let _ = writeln!(wrong, "{}", line(missing));
    }
    if !wrong.is_empty() {
        return Err(PythonError::Refused(printable(wrong.trim_end()).into_owned()));
    }
    let note = |missing: &Missing| {
        let Missing { file, line, package, .. } = missing;
        printable(&format!(
            "{file}, line {line}: {package} is not in the light runtime; where the script needs it, it gets an ImportError"
        ))
        .into_owned()
    };
    Ok(guarded.into_iter().map(note).collect())
}

fn line(missing: &Missing) -> String {
    let Missing { package, file, line, standard, .. } = missing;
    let way = if OF_MODELS.contains(&package.as_str()) {
        "export the model to ONNX, name it under `models:`, and call it by sandmill.models (docs/entry-scripts.md)"
    } else if *standard {
        "it needs what a sandbox does not have, as sockets, processes and threads; do without it"
    } else if package.starts_with("azureml") {
        "of Azure's SDK azureml_user.parallel_run.EntryScript and azureml.core.Model.get_model_path are there; what needs Azure itself has no counterpart"
    } else if package == "pandas" || package == "numpy" {
        "use lists, or sandmill.Table for tables (docs/entry-scripts.md)"
    } else {
        "if it is written in Python alone, put its folder beside the script"
    };
    format!("{file}, line {line}: imports {package}, which the light runtime does not have: {way}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(folder: &Path, files: &[&str]) {
        for file in files {
            let path = folder.join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, file).unwrap();
        }
    }

    /// Data, results and other programs that lie in the script's folder are not shown to it.
    #[test]
    fn the_script_its_modules_and_packages_are_shown() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().canonicalize().unwrap();
        let all = [
            "score.py",
            "helper.py",
            "job.yaml",
            "data/a.csv",
            "data/tool.py",
            "jobs/x/y.py",
            "package/__init__.py",
            "package/data.txt",
            "package/deep/__init__.py",
            "package/deep/a.py",
            "package/loose/b.py",
        ];
        write(&folder, &all);
        std::os::unix::fs::symlink("/etc/passwd", folder.join("secret.py")).unwrap();
        let script = folder.join("score.py");
        let shown: Vec<String> =
            files(&script).unwrap().iter().map(|path| path.display().to_string()).collect();
        let expected = [
            "helper.py",
            "package/__init__.py",
            "package/deep/__init__.py",
            "package/deep/a.py",
            "score.py",
        ];
        assert_eq!(shown, expected);
        let target = folder.join("copies");
        for _ in 0..2 {
            copy(&script, "/source/called.py", &target).unwrap();
        }
        assert_eq!(fs::read_to_string(target.join("called.py")).unwrap(), "score.py");
        assert_eq!(
            fs::read_to_string(target.join("package/deep/a.py")).unwrap(),
            "package/deep/a.py"
        );
        let before = content(&script).unwrap();
        write(&folder, &["data/more.csv"]);
        assert_eq!(content(&script).unwrap(), before);
        fs::write(folder.join("helper.py"), "another").unwrap();
        assert_ne!(content(&script).unwrap(), before);
    }

    #[test]
    fn a_folder_of_too_many_scripts_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().canonicalize().unwrap();
        (0..=FILES).for_each(|number| fs::write(folder.join(format!("{number}.py")), "").unwrap());
        let error = files(&folder.join("0.py")).unwrap_err().to_string();
        assert!(error.contains("more than 1000 Python files"), "{error}");
        let whole = tempfile::tempdir().unwrap();
        let script = whole.path().join("score.py");
        File::create(&script).unwrap().set_len(BYTES + 1).unwrap();
        assert!(matches!(files(&script), Err(PythonError::TooMuch(_))));
    }
}
