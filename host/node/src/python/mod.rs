//! Python and JavaScript scripts: chooses the runtime of a script, selects the files that the script sees,
//! and checks its imports before a job begins.
//!
//! - `choose`: the choice of the runtime;
//! - `script_scan`: what the script imports; `judge`: the errors and notices about that;
//! - `versions`: the packages that the script asks for in another version than the runtime has;
//! - `folder`: the files of the script's folder that workers see;
//! - `interpreter`: the preparation of the science runtime when it is installed.

mod choose;
mod folder;
mod interpreter;
mod judge;
mod script_scan;
mod versions;

use super::trial::TrialError;
use crate::compile::{CompileError, Instrumentation};
use crate::model::LoggingLevel;
use crate::runtimes::{InstallCommand, NoRuntime, Runtime};
use std::io;
use std::path::PathBuf;

pub use choose::{Chooser, Chosen};
pub(super) use folder::{content_digest, files, source};
pub use folder::{copy, library};
pub use interpreter::prepare;
pub use script_scan::ScriptToRun;

/// The variable that passes settings to the runtime. The runtime removes it from the script's environment.
pub(super) const SETTINGS_VARIABLE: &str = "SANDMILL_PYTHON";

/// Where the user chooses the runtime of a Python script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuntimeSetting {
    /// In the job file, or by `--set`.
    JobFile,
    /// By the option `--runtime` of `sandmill check` or `map`, or by the argument `runtime` of
    /// `sandmill.udf`.
    Option,
}

impl RuntimeSetting {
    /// An instruction to choose a runtime.
    fn advice(self, runtime: Runtime) -> String {
        match self {
            Self::JobFile => format!(
                "write python: {{runtime: {runtime}}}, or add --set python.runtime={runtime}"
            ),
            Self::Option => format!(
                "add --runtime {runtime}, or in Python runtime=\"{runtime}\" to sandmill.udf"
            ),
        }
    }
}

/// Why a Python or JavaScript script cannot be run.
#[derive(Debug, thiserror::Error)]
pub enum PythonError {
    /// The script cannot run, because it cannot be parsed or a package is missing. Holds a line for each
    /// reason.
    #[error("{0}")]
    Refused(String),
    /// The imports cannot be checked.
    #[error("the imports of the script cannot be read: {0}")]
    Scan(String),
    /// The process that checks the imports failed.
    #[error("the imports of the script cannot be read: {0}")]
    Trial(#[from] TrialError),
    /// The script's runtime is not installed.
    #[error(transparent)]
    NoRuntime(#[from] NoRuntime),
    /// No Python runtime is installed, and the script seems to import a package of the science runtime.
    #[error(
        "no Python runtime is installed on this machine; this script seems to need the science runtime; install it once: {science}\n\
         If the script needs only the standard library, install the light runtime: {light}"
    )]
    NoneInstalled {
        /// The command that installs the science runtime.
        science: InstallCommand,
        /// The command that installs the light runtime.
        light: InstallCommand,
    },
    /// `run` gets tables, and the science runtime is not installed.
    #[error(
        "the input is a table, which a Python script gets as a pandas DataFrame, as in ParallelRunStep; pandas needs the \
         science runtime, which is not installed on this machine; install it once: {install}\n\
         If run takes a sandmill.Table instead, {advice}"
    )]
    Table {
        /// The command that installs the science runtime.
        install: InstallCommand,
        /// How to choose the light runtime, as an instruction.
        advice: String,
    },
    /// The script imports packages of the science runtime, which is not installed.
    #[error(
        "{imports}\nThe science runtime has these packages, but is not installed on this machine; install it once: {command}"
    )]
    NeedsScience {
        /// One line for each import of such a package.
        imports: String,
        /// The command that installs the science runtime.
        command: InstallCommand,
    },
    /// The science runtime has not been compiled with the options that the job needs.
    #[error(
        "the science runtime is installed, but its compiled code{purpose} is missing; compile it once, which takes minutes: {command}",
        purpose = purpose(.0.with), command = .0
    )]
    NotCompiled(InstallCommand),
    /// The runtime cannot be compiled.
    #[error(transparent)]
    Compile(#[from] CompileError),
    /// The script's folder has too many files or bytes.
    #[error(
        "the folder of the script, {}, holds more than {} files in the script's language, or more than 64 MB of such files; \
         set source_directory to a folder with only the script and its modules", .0.display(), folder::MAX_FILES
    )]
    TooMuch(PathBuf),
    /// A file cannot be read or copied.
    #[error("the file {} cannot be copied into the job directory: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

/// The options of the compiled code as the end of a phrase, such as " for fuel". Empty if there are none.
fn purpose(with: Instrumentation) -> String {
    let words: Vec<_> = with.words().collect();
    if words.is_empty() { String::new() } else { format!(" for {}", words.join(" and ")) }
}

/// The environment variable with the runtime's settings.
pub fn variable(level: LoggingLevel, profile: bool) -> (String, String) {
    let settings = serde_json::json!({ "logging_level": level.name(), "profile": profile });
    (SETTINGS_VARIABLE.to_owned(), settings.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_compiled_code_is_reported_with_the_install_command() {
        let not_compiled = |with, cache_dir: Option<&str>| {
            let cache_dir = cache_dir.map(PathBuf::from);
            let runtime = Runtime::Science;
            PythonError::NotCompiled(InstallCommand { runtime, with, cache_dir }).to_string()
        };
        insta::assert_snapshot!(not_compiled(Instrumentation::default(), None), @"the science runtime is installed, but its compiled code is missing; compile it once, which takes minutes: sandmill python install science");
        let with = Instrumentation { fuel: true, deterministic: true, profile: false };
        insta::assert_snapshot!(not_compiled(with, Some("a cache")), @"the science runtime is installed, but its compiled code for fuel and deterministic is missing; compile it once, which takes minutes: sandmill python install science --fuel --deterministic --cache-dir 'a cache'");
    }
}
