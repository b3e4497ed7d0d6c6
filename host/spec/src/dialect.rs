//! The forms of job files.

/// The form of a job file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum JobFileDialect {
    /// Sandmill's own form.
    Own,
    /// A `parallel_run_config`, as saved by version 1 of Azure's SDK.
    Saved,
    /// A parallel job of version 2, alone or in a pipeline.
    Version2,
    /// A batch endpoint's deployment of version 2.
    Deployment,
}

impl JobFileDialect {
    /// Whether the file was made for Azure.
    pub(super) fn is_azure(self) -> bool {
        self != Self::Own
    }

    /// Whether it was made for version 2 of Azure's SDK.
    pub(super) fn is_version_2(self) -> bool {
        matches!(self, Self::Version2 | Self::Deployment)
    }
}
