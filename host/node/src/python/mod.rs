//! A Python script: the runtime that runs it, what is shown of its folder, and what it imports, looked at before a job begins.
//!
//! - `choose`: which runtime runs it;
//! - `look`: what it imports; `judge`: what that means, in words;
//! - `versions`: what it asks for in another version than is there;
//! - `folder`: what workers see beside it;
//! - `interpreter`: the science runtime, prepared when it is installed.

mod choose;
mod folder;
mod interpreter;
mod judge;
mod look;
mod versions;

use super::trial::TrialError;
use crate::compile::{CompileError, Instrumentation};
use crate::model::LoggingLevel;
use crate::runtimes::{InstallCommand, NoRuntime};
use std::io;
use std::path::PathBuf;

pub use choose::{Chooser, Chosen, Script};
pub(super) use folder::{content, source};
pub use folder::{copy, library};
pub use interpreter::prepare;

/// By this variable the host speaks to the runtime, which takes it out of the script's environment.
pub(super) const VARIABLE: &str = "SANDMILL_PYTHON";

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
    /// Its runtime is not there.
    #[error(transparent)]
    NoRuntime(#[from] NoRuntime),
    /// `run` gets tables, and the science runtime is not there.
    #[error(
        "the input is a table, which a Python script gets as a pandas DataFrame, as in ParallelRunStep: that takes the \
         science runtime, which is not installed on this machine; install it once: {0}\n\
         For a script whose run takes a sandmill.Table write python: {{runtime: light}}, or add --set python.runtime=light"
    )]
    Table(InstallCommand),
    /// The script imports what the science runtime has, which is not there.
    #[error(
        "{imports}\nThe science runtime has that. It is not installed on this machine; install it once: {command}"
    )]
    NeedsScience {
        /// One line for each of those imports.
        imports: String,
        /// What installs it.
        command: InstallCommand,
    },
    /// The science runtime is not compiled as the job needs it.
    #[error(
        "the science runtime is installed, and its compiled code{purpose} is not there; compile it once, which takes minutes: {command}",
        purpose = purpose(.0.with), command = .0
    )]
    NotCompiled(InstallCommand),
    /// The runtime cannot be compiled.
    #[error(transparent)]
    Compile(#[from] CompileError),
    /// Its folder holds too much.
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
        /// The system's answer.
        source: io::Error,
    },
}

/// What instrumented code is for.
fn purpose(with: Instrumentation) -> String {
    let words: Vec<_> = with.words().collect();
    if words.is_empty() { String::new() } else { format!(" for {}", words.join(" and ")) }
}

/// The environment variable for the runtime, with what it has to know.
pub fn variable(level: LoggingLevel, profile: bool) -> (String, String) {
    let settings = serde_json::json!({ "logging_level": level.name(), "profile": profile });
    (VARIABLE.to_owned(), settings.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtimes::Runtime;

    #[test]
    fn code_that_is_not_there_is_named_with_the_line_to_type() {
        let not_compiled = |with, cache_dir: Option<&str>| {
            let cache_dir = cache_dir.map(PathBuf::from);
            let runtime = Runtime::Science;
            PythonError::NotCompiled(InstallCommand { runtime, with, cache_dir }).to_string()
        };
        insta::assert_snapshot!(not_compiled(Instrumentation::default(), None), @"the science runtime is installed, and its compiled code is not there; compile it once, which takes minutes: sandmill python install science");
        let with = Instrumentation { fuel: true, deterministic: true, profile: false };
        insta::assert_snapshot!(not_compiled(with, Some("a cache")), @"the science runtime is installed, and its compiled code for fuel and deterministic is not there; compile it once, which takes minutes: sandmill python install science --fuel --deterministic --cache-dir 'a cache'");
    }
}
