//! Data of a submitter's machine that was put into the job's store, so that all machines can read it.

use super::content_ref::ContentRef;
use super::paths::only_name;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// The folder of such data, in the job's folder of the store.
pub const UPLOADS_FOLDER: &str = "uploads";

/// What replaces the paths of one input, side input or model of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UploadedData {
    /// The key in the job file: `inputs.NAME`, `side_inputs.NAME` or `models.NAME`.
    pub key: String,
    /// What replaces the paths, in their order.
    pub folders: Vec<UploadedFolder>,
    /// How the job file named the data when it was uploaded.
    #[serde(default)]
    pub named: String,
    /// The input's `partition_format` below these folders.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partition_format: Option<String>,
}

/// A folder in the job's store that has nothing but the files that a path of the job file means.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UploadedFolder {
    /// The digest of the names, lengths and contents of the files, and their bytes. The folder has its name.
    pub content: ContentRef,
    /// What the path of the job file means.
    pub means: UploadedMeaning,
}

/// What a path of a job file means.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum UploadedMeaning {
    /// A folder with all its files.
    Folder,
    /// Files that the job file names, by their names or by a glob.
    Files,
    /// The file of this name.
    File(String),
}

impl UploadedFolder {
    /// The name of the folder, in the job's folder of the store.
    pub fn name(&self) -> String {
        format!("{UPLOADS_FOLDER}/{}", self.content.hex())
    }

    /// Whether a job may have this folder. It may come from any user who can write to the store.
    pub fn is_plausible(&self) -> bool {
        match &self.means {
            UploadedMeaning::Folder | UploadedMeaning::Files => true,
            UploadedMeaning::File(name) => {
                only_name(name.as_ref()).is_some_and(|only| only == name.as_str())
            }
        }
    }
}

/// Whether a path is such a folder, or in it. `job`: the job's folder in its store. Both are paths without links.
pub fn is_uploaded(job: &Path, path: &Path) -> bool {
    let below = path.strip_prefix(job.join(UPLOADS_FOLDER)).ok();
    let first = below.and_then(|below| below.components().next());
    first.and_then(|first| first.as_os_str().to_str()).is_some_and(is_uploaded_name)
}

/// Whether this is the name of such a folder: a SHA-256 in hexadecimal.
fn is_uploaded_name(name: &str) -> bool {
    let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    name.len() == 64 && name.bytes().all(is_digit)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(means: UploadedMeaning) -> UploadedFolder {
        UploadedFolder { content: ContentRef { sha256: [7; 32], bytes: 1 }, means }
    }

    #[test]
    fn only_folders_of_digests_are_uploaded_data() {
        let job = Path::new("/store/job");
        let folder = job.join(folder(UploadedMeaning::Folder).name());
        assert!(is_uploaded(job, &folder) && is_uploaded(job, &folder.join("deep/a")));
        for other in ["/store/job", "/store/job/uploads", "/store/job/uploads/x", "/store"] {
            assert!(!is_uploaded(job, Path::new(other)), "{other}");
        }
        assert!(!is_uploaded(Path::new("/store/other"), &folder));
    }

    #[test]
    fn a_folder_cannot_lead_elsewhere() {
        let name = folder(UploadedMeaning::Folder).name();
        let digest = name.strip_prefix("uploads/").unwrap();
        assert!(is_uploaded_name(digest));
        for name in ["", "..", "*", &digest[1..], &digest.to_uppercase().replace('7', "A")] {
            assert!(!is_uploaded_name(name), "{name}");
        }
        for name in ["", ".", "..", "a/b", "/a", "a/"] {
            let hostile = folder(UploadedMeaning::File(name.to_owned()));
            assert!(!hostile.is_plausible(), "{name}");
        }
        assert!(folder(UploadedMeaning::File("a [1].bin".to_owned())).is_plausible());
    }
}
