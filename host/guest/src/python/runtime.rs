//! The runtimes of Python scripts.

use std::fmt;

/// What runs Python scripts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Runtime {
    /// CPython and its standard library.
    Light,
    /// The same with numpy, pandas, scikit-learn and more.
    Science,
}

impl fmt::Display for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Light => "light",
            Self::Science => "science",
        })
    }
}
