//! A Python or JavaScript script: the runtime that runs it, the files that it sees, and its imports, which
//! are checked before a job begins.
//!
//! - `choose`: which runtime runs it;
//! - `script_scan`: what it imports; `judge`: what that means, in words;
//! - `versions`: the packages that it wants in another version than the runtime has;
//! - `folder`: the files of its folder that workers see;
//! - `interpreter`: the science runtime, prepared when it is installed.

mod choose;
mod folder;
mod interpreter;
mod judge;
mod script_scan;
mod versions;

use super::trial::TrialError;
use crate::compile::{CompileError, Instrumentation};
use crate::model::LoggingLevel;
use crate::runtimes::{InstallCommand, NoRuntime};
use std::io;
use std::path::PathBuf;

pub use choose::{Chooser, Chosen, ScriptToRun};
pub(super) use folder::{content, source};
pub use folder::{copy, library};
pub use interpreter::prepare;

/// The variable that passes settings to the runtime. The runtime removes it from the script's environment.
pub(super) const VARIABLE: &str = "SANDMILL_PYTHON";

/// Why a Python or JavaScript script cannot be run.
#[derive(Debug, thiserror::Error)]
pub enum PythonError {
    /// Its imports are missing, or it cannot be parsed: one line for each reason.
    #[error("{0}")]
    Refused(String),
    /// The imports cannot be checked.
    #[error("the imports of the script cannot be read: {0}")]
    Scan(String),
    /// The process that checks the imports failed.
    #[error("the imports of the script cannot be read: {0}")]
    Trial(#[from] TrialError),
    /// Its runtime is not installed.
    #[error(transparent)]
    NoRuntime(#[from] NoRuntime),
    /// `run` gets tables, and the science runtime is not installed.
    #[error(
        "the input is a table, which a Python script gets as a pandas DataFrame, as in ParallelRunStep: that takes the \
         science runtime, which is not installed on this machine; install it once: {0}\n\
         For a script whose run takes a sandmill.Table write python: {{runtime: light}}, or add --set python.runtime=light"
    )]
    Table(InstallCommand),
    /// The script imports packages of the science runtime, which is not installed.
    #[error(
        "{imports}\nThe science runtime has that. It is not installed on this machine; install it once: {command}"
    )]
    NeedsScience {
        /// One line for each of those imports.
        imports: String,
        /// The command that installs it.
        command: InstallCommand,
    },
    /// The science runtime has not been compiled with the options that the job needs.
    #[error(
        "the science runtime is installed, and its compiled code{purpose} is missing; compile it once, which takes minutes: {command}",
        purpose = purpose(.0.with), command = .0
    )]
    NotCompiled(InstallCommand),
    /// The runtime cannot be compiled.
    #[error(transparent)]
    Compile(#[from] CompileError),
    /// The script's folder has too many files or bytes.
    #[error(
        "the folder of the script, {}, holds more than {} files in its language, or more than 64 MB of them; name the \
         folder that holds just the script and its modules: source_directory", .0.display(), folder::FILES
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

/// The features of instrumented code, in words.
fn purpose(with: Instrumentation) -> String {
    let words: Vec<_> = with.words().collect();
    if words.is_empty() { String::new() } else { format!(" for {}", words.join(" and ")) }
}

/// The environment variable with the runtime's settings.
pub fn variable(level: LoggingLevel, profile: bool) -> (String, String) {
    let settings = serde_json::json!({ "logging_level": level.name(), "profile": profile });
    (VARIABLE.to_owned(), settings.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtimes::Runtime;

    #[test]
    fn missing_compiled_code_is_reported_with_the_install_command() {
        let not_compiled = |with, cache_dir: Option<&str>| {
            let cache_dir = cache_dir.map(PathBuf::from);
            let runtime = Runtime::Science;
            PythonError::NotCompiled(InstallCommand { runtime, with, cache_dir }).to_string()
        };
        insta::assert_snapshot!(not_compiled(Instrumentation::default(), None), @"the science runtime is installed, and its compiled code is missing; compile it once, which takes minutes: sandmill python install science");
        let with = Instrumentation { fuel: true, deterministic: true, profile: false };
        insta::assert_snapshot!(not_compiled(with, Some("a cache")), @"the science runtime is installed, and its compiled code for fuel and deterministic is missing; compile it once, which takes minutes: sandmill python install science --fuel --deterministic --cache-dir 'a cache'");
    }
}
