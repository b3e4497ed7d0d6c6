//! Which runtime runs a Python script.

/// Which runtime runs a Python script.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PythonRuntime {
    /// The one that fits the job.
    #[default]
    Auto,
    /// CPython with its standard library.
    Light,
    /// CPython with numpy, pandas, scikit-learn and more.
    Science,
}

impl PythonRuntime {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Auto, Self::Light, Self::Science];

    /// The word for it in job files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Light => "light",
            Self::Science => "science",
        }
    }
}
