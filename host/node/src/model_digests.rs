//! The digests of a model. They are registered with the model, and checked when a job begins.

use super::model_error::ModelError;
use super::model_folder::of_folder;
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
    /// The bytes in them.
    pub bytes: u64,
}

/// Reads all files of a model.
///
/// # Errors
/// If a file cannot be read, or the folder has too many files for a model.
pub fn model_digests(model: &ModelSpec) -> Result<ModelDigests, ModelError> {
    // Ctrl-C ends the command that asks for the digests.
    let go_on = || false;
    let file = inspect_model(model, ByteSize(u64::MAX), &go_on)?.sha256;
    let Some(folder) = &model.folder else {
        return Ok(ModelDigests { file, folder: None, files: 1, bytes: model.bytes });
    };
    let (folder, files, bytes) = of_folder(model, folder, &go_on)?;
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
