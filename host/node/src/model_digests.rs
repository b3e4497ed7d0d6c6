//! The digests of a model, which are registered with it and checked when a job begins.

use super::model_error::ModelError;
use super::model_folder::folder_digest;
use super::models::inspect_model;
use crate::model::ByteSize;
use crate::spec::ModelSpec;

/// The SHA-256 of a model, in hexadecimal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelDigests {
    /// The digest of the ONNX file.
    pub file: String,
    /// The digest of the model's folder. `None` if the model is a single file.
    pub folder: Option<String>,
    /// The number of files.
    pub files: u64,
    /// The bytes of all files together.
    pub bytes: u64,
}

/// Computes the digests of a model, for which it reads all files.
///
/// # Errors
/// If a file cannot be read, or the folder has too many files for a model.
pub fn model_digests(model: &ModelSpec) -> Result<ModelDigests, ModelError> {
    // Ctrl-C ends the whole command that asks for the digests.
    let never_stop = || false;
    let file = inspect_model(model, ByteSize(u64::MAX), &never_stop)?.sha256;
    let Some(folder) = &model.folder else {
        return Ok(ModelDigests { file, folder: None, files: 1, bytes: model.bytes });
    };
    let (folder, files, bytes) = folder_digest(model, folder, &never_stop)?;
    Ok(ModelDigests { file, folder: Some(folder), files, bytes })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// Names, contents and links count; times do not.
    #[test]
    fn a_folder_digest_covers_names_contents_and_links() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path();
        fs::create_dir(folder.join("sub")).unwrap();
        fs::write(folder.join("model.onnx"), "1").unwrap();
        fs::write(folder.join("sub/weights.bin"), "22").unwrap();
        let model = ModelSpec::at("m", folder).unwrap();
        let digests = || model_digests(&model).unwrap();
        let first = digests();
        assert_eq!((first.files, first.bytes), (2, 3));
        fs::write(folder.join("sub/weights.bin"), "22").unwrap();
        assert_eq!(digests(), first);
        fs::write(folder.join("sub/weights.bin"), "2x").unwrap();
        let second = digests();
        assert_eq!((&second.file, second.folder == first.folder), (&first.file, false));
        fs::rename(folder.join("sub/weights.bin"), folder.join("weights.bin")).unwrap();
        assert_ne!(digests().folder, second.folder);
        std::os::unix::fs::symlink("weights.bin", folder.join("link")).unwrap();
        let linked = digests();
        assert_eq!((linked.files, linked.bytes), (3, 3));
        fs::remove_file(folder.join("link")).unwrap();
        std::os::unix::fs::symlink("model.onnx", folder.join("link")).unwrap();
        assert_ne!(digests().folder, linked.folder);
    }
}
