//! Checks whether a job store that is a folder still has what a submitter has uploaded into it.

use super::upload_error::UploadError;
use crate::model::{FoundUpload, UploadedData};
use crate::spec::{JobSpec, JobStorePlace};
use std::io;
use std::path::Path;
use walkdir::WalkDir;

/// Fails if uploaded files are missing, or have other lengths. A job would silently read less. `lists_inputs`: whether this
/// machine lists the inputs; other machines read the files that it has listed. Useless if `stop` is true.
pub(super) fn refuse_changed_uploads(
    spec: &JobSpec,
    lists_inputs: bool,
    stop: &dyn Fn() -> bool,
) -> Result<(), UploadError> {
    let store = spec.job_store.as_ref().and_then(JobStorePlace::folder);
    store.map_or(Ok(()), |store| {
        let is_read = |data: &&UploadedData| lists_inputs || !data.key.starts_with("inputs.");
        let read = spec.text.uploads.iter().filter(is_read);
        refuse_changed(&store.join(&spec.name), read, stop)
    })
}

/// As [`refuse_changed_uploads`], for some data. `job`: the job's folder in its store.
fn refuse_changed<'a>(
    job: &Path,
    uploads: impl Iterator<Item = &'a UploadedData>,
    stop: &dyn Fn() -> bool,
) -> Result<(), UploadError> {
    for UploadedData { key, folders, .. } in uploads {
        for folder in folders {
            let place = job.join(folder.name());
            let found = count(&place, stop)?;
            if stop() {
                return Ok(());
            }
            folder.check(key, &place.display(), found)?;
        }
    }
    Ok(())
}

/// What a folder has: nothing if it is missing.
fn count(folder: &Path, stop: &dyn Fn() -> bool) -> Result<FoundUpload, UploadError> {
    let mut found = FoundUpload::default();
    let metadata = |entry: walkdir::Result<walkdir::DirEntry>| entry?.metadata();
    for file in WalkDir::new(folder).into_iter().map(metadata).take_while(|_| !stop()) {
        match file {
            Ok(file) if file.is_file() => {
                found.files += 1;
                found.bytes += file.len();
            }
            Ok(_) => {}
            Err(error) => {
                let path = error.path().unwrap_or(folder).to_owned();
                let source = io::Error::from(error);
                // It was removed, so it does not count.
                if source.kind() != io::ErrorKind::NotFound {
                    return Err(UploadError::Read { path, source });
                }
            }
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{ContentRef, UploadedFolder, UploadedMeaning};
    use std::fs;

    #[test]
    fn a_file_that_was_removed_is_noticed() {
        let dir = tempfile::tempdir().unwrap();
        let content = ContentRef { sha256: [7; 32], bytes: 3 };
        let folder = UploadedFolder { content, files: 3, means: UploadedMeaning::Files };
        let place = dir.path().join(folder.name());
        let data = UploadedData {
            key: "inputs.x".to_owned(),
            folders: vec![folder],
            named: String::new(),
            partition_format: None,
        };
        let said = || {
            let checked = refuse_changed(dir.path(), [&data].into_iter(), &|| false);
            checked
                .map_err(|error| error.to_string().replace(&place.display().to_string(), "PLACE"))
        };
        let missing = |number| {
            format!(
                "{number} of 3 uploaded files of inputs.x are missing in PLACE: start the job again with --upload"
            )
        };
        assert_eq!(said(), Err(missing(3)));
        fs::create_dir_all(place.join("deep")).unwrap();
        fs::write(place.join("deep/a"), "1").unwrap();
        fs::write(place.join("deep/.b"), "23").unwrap();
        assert_eq!(said(), Err(missing(1)));
        fs::write(place.join("empty"), "").unwrap();
        assert_eq!(said(), Ok(()));
        fs::write(place.join("empty"), "x").unwrap();
        assert!(said().unwrap_err().contains("are not those that were uploaded for inputs.x"));
    }
}
