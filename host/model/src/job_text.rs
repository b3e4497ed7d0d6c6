//! What a job file and the files beside it say, so that another machine can read the job without these files.

use super::registered::{Registered, RegisteredKind, RegisteredName};
use super::uploaded::UploadedData;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// The texts from which a job was read. With the settings that were given in addition, they describe the same job on
/// each machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobText {
    /// The text of the job file.
    pub text: String,
    /// The texts of the settings files that the job file refers to, by their absolute paths.
    pub files: BTreeMap<PathBuf, String>,
    /// What the registered names in the job file referred to.
    pub names: Vec<FoundName>,
    /// What replaces paths of the submitter's machine.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub uploads: Vec<UploadedData>,
}

/// What a registered name referred to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FoundName {
    /// Whether it is a dataset or a model.
    pub kind: RegisteredKind,
    /// The version that the job file names. `None` if it names none.
    pub version: Option<u64>,
    /// The version that was found, with its name.
    pub found: Registered,
}

impl JobText {
    /// What this name referred to.
    pub fn find(&self, kind: RegisteredKind, wanted: &RegisteredName) -> Option<&Registered> {
        let is_wanted = |known: &&FoundName| {
            let is_version = match wanted.version {
                Some(version) => known.found.version == version,
                None => known.version.is_none(),
            };
            known.kind == kind && known.found.name == wanted.name && is_version
        };
        self.names.iter().find(is_wanted).map(|known| &known.found)
    }
}
