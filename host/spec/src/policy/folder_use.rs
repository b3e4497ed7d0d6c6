//! The purposes for which a job uses folders.

/// What a job uses a folder for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FolderUse {
    Inputs,
    SideInputs,
    /// Models. They must be below the roots of side inputs.
    Models,
    EntryScripts,
    Outputs,
    JobDirectories,
    JobStores,
}

impl FolderUse {
    /// All uses that have a key below `roots`.
    pub(super) const ALL: [Self; 6] = [
        Self::Inputs,
        Self::SideInputs,
        Self::EntryScripts,
        Self::Outputs,
        Self::JobDirectories,
        Self::JobStores,
    ];

    /// The key below `roots`.
    pub(super) fn key(self) -> &'static str {
        match self {
            Self::Inputs => "inputs",
            Self::SideInputs | Self::Models => "side_inputs",
            Self::EntryScripts => "entry_scripts",
            Self::Outputs => "outputs",
            Self::JobDirectories => "job_directories",
            Self::JobStores => "job_stores",
        }
    }

    /// Whether a policy may leave out the key. It then allows no folder.
    pub(super) fn is_optional(self) -> bool {
        self == Self::JobStores
    }

    /// Whether Sandmill keeps its own data in such folders, so that jobs may not read or write there.
    pub(super) fn is_private(self) -> bool {
        matches!(self, Self::JobDirectories | Self::JobStores)
    }

    /// What is in such folders, as a phrase in messages.
    pub(super) fn phrase(self) -> &'static str {
        match self {
            Self::Inputs => "inputs",
            Self::SideInputs => "side inputs",
            Self::Models => "models",
            Self::EntryScripts => "entry scripts and their source",
            Self::Outputs => "outputs",
            Self::JobDirectories => "job directories",
            Self::JobStores => "job stores",
        }
    }
}
