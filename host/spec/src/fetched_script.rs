//! An entry script that was fetched from the job's store.

use std::path::PathBuf;

/// Where the files of an entry script are that was fetched from the job's store. The paths in the job file are those of
/// another machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FetchedScript {
    /// The entry script. `None` if it is at its path in the job file.
    pub entry_script: Option<PathBuf>,
    /// The source folder. `None` if the job has none, or if it is at its path in the job file.
    pub source_directory: Option<PathBuf>,
}
