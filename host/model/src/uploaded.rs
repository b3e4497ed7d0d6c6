//! Data of a submitter's machine that was put into the job's store, so that all machines can read it.

use super::content_ref::ContentRef;
use super::paths::only_name;
use serde::{Deserialize, Serialize};
use std::fmt::Display;
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
    /// How many files they are.
    pub files: u64,
    /// What the path of the job file means.
    pub means: UploadedMeaning,
}

/// What a place has of uploaded data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FoundUpload {
    /// How many files it has.
    pub files: u64,
    /// The sum of their lengths.
    pub bytes: u64,
}

/// Uploaded data is no longer as it was uploaded. The texts are shown to users.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UploadedChange {
    /// Files were removed.
    #[error(
        "{missing} of {files} uploaded files of {key} are missing in {place}: start the job again with --upload"
    )]
    Missing {
        /// The key in the job file.
        key: String,
        /// Where the files were uploaded to.
        place: String,
        /// How many files were uploaded.
        files: u64,
        /// How many of them are missing.
        missing: u64,
    },
    /// There are more files, or they have other lengths.
    #[error(
        "the files in {place} are not those that were uploaded for {key} (uploaded: {files} with {bytes} bytes; found: \
         {} with {} bytes): remove them, and start the job again with --upload",
        found.files,
        found.bytes
    )]
    Other {
        /// The key in the job file.
        key: String,
        /// Where the files were uploaded to.
        place: String,
        /// How many files were uploaded.
        files: u64,
        /// The sum of their lengths.
        bytes: u64,
        /// What is there.
        found: FoundUpload,
    },
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

    /// Checks whether a place still has what was uploaded there. `key`: the key in the job file.
    ///
    /// # Errors
    /// If it does not have as many files, or if the sum of their lengths is another one.
    pub fn check(
        &self,
        key: &str,
        place: &dyn Display,
        found: FoundUpload,
    ) -> Result<(), UploadedChange> {
        let files = self.files;
        let bytes = self.content.bytes;
        if found == (FoundUpload { files, bytes }) {
            return Ok(());
        }
        let key = key.to_owned();
        let place = place.to_string();
        Err(match files.checked_sub(found.files) {
            None | Some(0) => UploadedChange::Other { key, place, files, bytes, found },
            Some(missing) => UploadedChange::Missing { key, place, files, missing },
        })
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
        UploadedFolder { content: ContentRef { sha256: [7; 32], bytes: 1 }, files: 2, means }
    }

    #[test]
    fn what_was_removed_is_noticed() {
        let folder = folder(UploadedMeaning::Folder);
        let check = |files, bytes| {
            let found = FoundUpload { files, bytes };
            folder.check("inputs.x", &"s3://b/x", found).map_err(|error| error.to_string())
        };
        assert_eq!(check(2, 1), Ok(()));
        assert_eq!(
            check(1, 1).unwrap_err(),
            "1 of 2 uploaded files of inputs.x are missing in s3://b/x: start the job again with --upload"
        );
        for (files, bytes) in [(2, 0), (2, 9), (3, 1)] {
            let error = check(files, bytes).unwrap_err();
            assert!(error.contains("are not those that were uploaded for inputs.x"), "{error}");
        }
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
