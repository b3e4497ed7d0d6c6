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
    /// A batch endpoint's deployment of version 2.
    Deployment,
}

impl Dialect {
    /// Whether the file was made for Azure.
    pub(super) fn is_azure(self) -> bool {
        self != Self::Own
    }

    /// Whether it was made for version 2 of Azure's SDK.
    pub(super) fn is_version_2(self) -> bool {
        matches!(self, Self::Version2 | Self::Deployment)
    }
}
