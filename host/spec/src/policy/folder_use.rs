//! The kinds of folders that a job names.

/// What a folder is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FolderUse {
    Inputs,
    SideInputs,
    /// They use the root of side inputs.
    Models,
    EntryScripts,
    Outputs,
    JobDirectories,
}

impl FolderUse {
    pub(super) const ALL: [Self; 5] =
        [Self::Inputs, Self::SideInputs, Self::EntryScripts, Self::Outputs, Self::JobDirectories];

    /// The key below `roots`.
    pub(super) fn key(self) -> &'static str {
        match self {
            Self::Inputs => "inputs",
            Self::SideInputs | Self::Models => "side_inputs",
            Self::EntryScripts => "entry_scripts",
            Self::Outputs => "outputs",
            Self::JobDirectories => "job_directories",
        }
    }

    /// A phrase for such folders, for the middle of a sentence.
    pub(super) fn words(self) -> &'static str {
        match self {
            Self::Inputs => "inputs",
            Self::SideInputs => "side inputs",
            Self::Models => "models",
            Self::EntryScripts => "entry scripts and their source",
            Self::Outputs => "outputs",
            Self::JobDirectories => "job directories",
        }
    }
}
