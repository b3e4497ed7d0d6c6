//! The dialects of job files: Sandmill's own, and those of Azure's SDKs.

/// Whose keys a job file uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum JobFileDialect {
    /// Sandmill's own keys.
    Own,
    /// A `parallel_run_config`, as saved by version 1 of Azure's SDK.
    Saved,
    /// A parallel job for version 2 of Azure's SDK, by itself or in a pipeline.
    Version2,
    /// A deployment to a batch endpoint, for version 2 of Azure's SDK.
    Deployment,
}

impl JobFileDialect {
    /// Whether the file was made for Azure.
    pub(super) fn is_azure(self) -> bool {
        self != Self::Own
    }

    /// Whether the file was made for version 2 of Azure's SDK.
    pub(super) fn is_version_2(self) -> bool {
        matches!(self, Self::Version2 | Self::Deployment)
    }
}
