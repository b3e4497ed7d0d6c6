//! The forms of job files.

/// Whose form a job file has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dialect {
    /// Ours.
    Own,
    /// A `parallel_run_config` as version 1 of Azure's SDK saves it.
    Saved,
    /// A parallel job of version 2, alone or in a pipeline.
    Version2,
}

impl Dialect {
    /// Whether the file was made for Azure.
    pub(super) fn is_azure(self) -> bool {
        self != Self::Own
    }
}
