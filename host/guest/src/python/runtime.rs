//! The runtimes of scripts in Python and JavaScript.

use std::fmt;

/// A runtime, which loads and runs scripts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Runtime {
    /// CPython and its standard library.
    Light,
    /// CPython with numpy, pandas, scikit-learn and more.
    Science,
    /// QuickJS, for JavaScript and TypeScript.
    JavaScript,
}

impl fmt::Display for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Light => "light",
            Self::Science => "science",
            Self::JavaScript => "JavaScript",
        })
    }
}

impl Runtime {
    /// The prefix of the runtime's file names, and the subcommand that installs the runtime.
    pub(super) fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::Light => ("python-light", "python install light"),
            Self::Science => ("python-science", "python install science"),
            Self::JavaScript => ("javascript", "javascript install"),
        }
    }
}
