//! Checks the job's models, and puts them where workers find them.
//!
//! Workers see a model's folder unchanged. If a model is a single file, workers must not see the files beside
//! it: the file gets a separate folder in the job directory, as a hard link if the file system allows that,
//! otherwise as a copy.

use super::model_error::{ModelError, io_error};
use super::model_folder;
use super::single_file;
use crate::cancel::Cancel;
use crate::compile::hash_until;
use crate::model::{ByteSize, FileStamp, JobDir, JobModel, hex};
use crate::opening::regular_at_its_path;
use crate::spec::ModelSpec;
use std::fs::File;
use std::path::{Path, PathBuf};

/// A model that was checked.
#[derive(Clone, Debug)]
pub(super) struct InspectedModel {
    /// The SHA-256 of the ONNX file, in hexadecimal.
    pub(super) sha256: String,
    /// The path of the ONNX file, without links.
    file: PathBuf,
    /// The path of the model's folder, without links. `None` if the model is a single file.
    folder: Option<PathBuf>,
    /// The stamp of the ONNX file.
    stamp: FileStamp,
}

/// Checks that each model's file exists, is not too large, and has the expected digest. Results are in the
/// order of `models`. Stops in the middle of a file if the job is cancelled.
pub(super) fn inspect(
    models: &[ModelSpec],
    limit: ByteSize,
    cancel: &Cancel,
) -> Result<Vec<InspectedModel>, ModelError> {
    let stop = || cancel.reason().is_some();
    models.iter().map(|model| inspect_model(model, limit, &stop)).collect()
}

pub(super) fn inspect_model(
    model: &ModelSpec,
    limit: ByteSize,
    stop: &dyn Fn() -> bool,
) -> Result<InspectedModel, ModelError> {
    let failed = |e| io_error(model, "cannot be read", &model.file, e);
    let real = model.file.canonicalize().map_err(failed)?;
    let folder = model.folder.as_ref().map(|folder| folder.canonicalize()).transpose();
    let (mut file, metadata) = regular_at_its_path(&real).map_err(failed)?;
    if let Some(why) = model.exceeds(metadata.len(), limit) {
        return Err(ModelError::TooLarge { name: model.name.clone(), why });
    }
    let sha256 = hash_until(&mut file, stop).map(hex).map_err(failed)?;
    if let Some(expected) = model.digest.as_ref().filter(|expected| **expected != sha256) {
        return Err(wrong_digest(model, &model.file, sha256, expected));
    }
    if let Some(folder) = &model.folder
        && let Some(expected) =
            model.registered.as_ref().and_then(|registered| registered.folder_digest.as_ref())
    {
        let (found, ..) = model_folder::folder_digest(model, folder, stop)?;
        if found != *expected {
            return Err(wrong_digest(model, folder, found, expected));
        }
    }
    let folder = folder.map_err(failed)?;
    Ok(InspectedModel { sha256, file: real, folder, stamp: FileStamp::from_metadata(&metadata) })
}

/// The name of each model with the paths of its files and folders, without links.
pub(super) fn model_paths<'a>(
    models: &'a [ModelSpec],
    inspected: &'a [InspectedModel],
) -> impl Iterator<Item = (&'a str, &'a Path)> {
    models.iter().zip(inspected).flat_map(|(model, inspected)| {
        let paths = inspected.folder.iter().chain([&inspected.file]);
        paths.map(|path| (model.name.as_str(), path.as_path()))
    })
}

/// The error for a digest that is not the expected one.
fn wrong_digest(model: &ModelSpec, path: &Path, found: String, expected: &str) -> ModelError {
    let name = model.name.clone();
    let path = path.to_owned();
    let expected = expected.to_owned();
    let digest_at = model.digest_at.clone().unwrap_or_else(|| "the job file".to_owned());
    match &model.registered {
        None => {
            let expected = format!("models.{name}.digest ({digest_at}) is {expected}");
            ModelError::Digest { name, path, found, expected }
        }
        Some(registered) => {
            let title = registered.title.clone();
            let which = format!("{name} ({digest_at})");
            ModelError::NotAsRegistered { which, title, path, found, expected }
        }
    }
}

/// Prepares models for processes whose job directory is `job_dir`.
///
/// # Errors
/// If a file cannot be used, or is larger than `limit`.
pub fn give_models(
    models: &[ModelSpec],
    limit: ByteSize,
    job_dir: &JobDir,
) -> Result<Vec<JobModel>, ModelError> {
    let inspected = inspect(models, limit, &Cancel::new())?;
    stage(models, &inspected, job_dir)?;
    Ok(placed(models, &inspected, job_dir))
}

/// Puts models that are single files where workers find them. First removes what an earlier run
/// left there. `inspected`: what was found when the models were checked.
pub(super) fn stage(
    models: &[ModelSpec],
    inspected: &[InspectedModel],
    job_dir: &JobDir,
) -> Result<(), ModelError> {
    for (model, inspected) in models.iter().zip(inspected) {
        if model.folder.is_none() {
            give_folder(model, inspected, &job_dir.model(&model.name))?;
        }
        open_again(model, inspected)?;
    }
    Ok(())
}

/// Opens the file of a model again, and checks that it has not changed since it was inspected.
fn open_again(model: &ModelSpec, inspected: &InspectedModel) -> Result<File, ModelError> {
    let opened = regular_at_its_path(&inspected.file);
    let (file, now) = opened.map_err(|e| io_error(model, "cannot be read", &model.file, e))?;
    if FileStamp::from_metadata(&now) != inspected.stamp {
        let name = model.name.clone();
        let path = model.file.clone();
        return Err(ModelError::Changed { name, path });
    }
    Ok(file)
}

/// Puts the file of a model into its own folder.
fn give_folder(
    model: &ModelSpec,
    inspected: &InspectedModel,
    folder: &Path,
) -> Result<(), ModelError> {
    let mut file = open_again(model, inspected)?;
    let name = Path::new(model.file.file_name().unwrap_or_default());
    // Models have a separate size limit, which was checked before.
    single_file::give(&mut file, name, folder, u64::MAX)
        .map(drop)
        .map_err(|e| io_error(model, "cannot be copied into the job directory", &model.file, e))
}

/// The models as workers find them. Models that are single files must have been [staged](stage).
pub(super) fn placed(
    models: &[ModelSpec],
    inspected: &[InspectedModel],
    job_dir: &JobDir,
) -> Vec<JobModel> {
    let placed = |(model, inspected): (&ModelSpec, &InspectedModel)| {
        let host = inspected.folder.clone().unwrap_or_else(|| job_dir.model(&model.name));
        let file = match &model.folder {
            Some(folder) => model.file.strip_prefix(folder).unwrap_or(&model.file),
            None => model.file.file_name().map_or(Path::new(""), Path::new),
        };
        let stamp = host.join(file).metadata().ok().as_ref().map(FileStamp::from_metadata);
        let beside = model.folder.as_deref().and_then(model_folder::file_stamps);
        JobModel {
            name: model.name.clone(),
            // The paths of models were checked to be UTF-8.
            file: file.to_string_lossy().into_owned(),
            host,
            guest: model.guest(),
            backend: model.backend,
            device: model.device,
            fallback: model.fallback,
            stamp,
            beside,
        }
    };
    models.iter().zip(inspected).map(placed).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// A model in a file with this text, and its folder.
    fn model(text: &str) -> (tempfile::TempDir, ModelSpec) {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("digits.onnx");
        fs::write(&file, text).unwrap();
        let model = ModelSpec {
            name: "digits".to_owned(),
            file,
            bytes: text.len() as u64,
            ..ModelSpec::sample()
        };
        (dir, model)
    }

    const LIMIT: ByteSize = ByteSize(1 << 20);

    fn inspected(model: &ModelSpec) -> InspectedModel {
        inspect_model(model, LIMIT, &|| false).unwrap()
    }

    fn describe(dir: &tempfile::TempDir, error: &ModelError) -> String {
        error.to_string().replace(dir.path().to_str().unwrap(), "/d")
    }

    /// The folder has no other files, and a second run gets the current file.
    #[test]
    fn a_single_file_gets_a_separate_folder() {
        let (dir, model) = model("first");
        fs::write(dir.path().join("secret"), "").unwrap();
        let job_dir = JobDir::new(dir.path().join("job"));
        let models = [model];
        for text in ["first", "second"] {
            // Make a new file, like a user who replaces a model.
            fs::remove_file(&models[0].file).unwrap();
            fs::write(&models[0].file, text).unwrap();
            let inspected = inspect(&models, LIMIT, &Cancel::new()).unwrap();
            stage(&models, &inspected, &job_dir).unwrap();
            let [placed] = placed(&models, &inspected, &job_dir).try_into().unwrap();
            let entries: Vec<_> = fs::read_dir(&placed.host).unwrap().collect();
            assert_eq!(entries.len(), 1);
            assert_eq!(fs::read_to_string(placed.host.join(&placed.file)).unwrap(), text);
            assert_eq!(placed.guest, "/models/digits");
            let metadata = placed.host.join(&placed.file).metadata().unwrap();
            assert_eq!(placed.stamp, Some(FileStamp::from_metadata(&metadata)));
        }
    }

    #[test]
    fn links_are_followed_and_files_copied_without_hard_links() {
        let (dir, mut model) = model("text");
        let link = dir.path().join("link.onnx");
        std::os::unix::fs::symlink("digits.onnx", &link).unwrap();
        model.file = link;
        let job_dir = JobDir::new(dir.path().join("job"));
        give_folder(&model, &inspected(&model), &job_dir.model("digits")).unwrap();
        let staged = job_dir.model("digits").join("link.onnx");
        assert!(staged.symlink_metadata().unwrap().is_file());
        // The kernel cannot hard-link files of `/proc`.
        model.file = PathBuf::from("/proc/version");
        give_folder(&model, &inspected(&model), &job_dir.model("digits")).unwrap();
        let copied = fs::read(job_dir.model("digits").join("version")).unwrap();
        assert_eq!(copied, fs::read("/proc/version").unwrap());
    }

    #[test]
    fn a_model_folder_is_used_in_place() {
        let (dir, mut model) = model("text");
        fs::create_dir(dir.path().join("sub")).unwrap();
        fs::write(dir.path().join("sub/weights.bin"), "w").unwrap();
        model.folder = Some(dir.path().to_owned());
        let job_dir = JobDir::new(dir.path().join("job"));
        let models = [model];
        let inspected = inspect(&models, LIMIT, &Cancel::new()).unwrap();
        stage(&models, &inspected, &job_dir).unwrap();
        let [placed] = placed(&models, &inspected, &job_dir).try_into().unwrap();
        assert_eq!((placed.host.as_path(), placed.file.as_str()), (dir.path(), "digits.onnx"));
        let beside: Vec<_> = placed.beside.unwrap().into_iter().map(|(name, _)| name).collect();
        assert_eq!(beside, ["digits.onnx", "sub/weights.bin"]);
        assert!(!job_dir.root().exists());
    }

    #[test]
    fn a_large_wrong_or_missing_model_is_refused() {
        let (dir, mut model) = model("text");
        let refused = |model: &ModelSpec, limit| {
            describe(
                &dir,
                &inspect(std::slice::from_ref(model), limit, &Cancel::new()).unwrap_err(),
            )
        };
        insta::assert_snapshot!(refused(&model, ByteSize(3)), @"model digits: /d/digits.onnx has 4 bytes, more than limits.models (3 bytes) lets a worker load; write limits.models: 1 MB, or more");
        model.digest = Some("ab".to_owned());
        model.digest_at = Some("job.yaml:7".to_owned());
        insta::assert_snapshot!(refused(&model, LIMIT), @"model digits: /d/digits.onnx has the SHA-256 982d9e3eb996f559e633f4d194def3761d909f5a3b647d1a851fead67c32c9d1, but models.digits.digest (job.yaml:7) is ab: it is not the model that this job was made for; put the right model there, or change the digest");
        model.digest =
            Some("982d9e3eb996f559e633f4d194def3761d909f5a3b647d1a851fead67c32c9d1".to_owned());
        inspect(std::slice::from_ref(&model), LIMIT, &Cancel::new()).unwrap();
        model.file = dir.path().to_owned();
        insta::assert_snapshot!(refused(&model, LIMIT), @"model digits: /d cannot be read: it is not a regular file but a folder");
        model.file = dir.path().join("gone");
        insta::assert_snapshot!(refused(&model, LIMIT), @"model digits: /d/gone cannot be read: No such file or directory (os error 2)");
    }

    #[test]
    fn a_model_that_changes_during_preparation_is_refused() {
        let (dir, model) = model("text");
        let models = [model];
        let inspected = inspect(&models, LIMIT, &Cancel::new()).unwrap();
        fs::write(&models[0].file, "other text").unwrap();
        let job_dir = JobDir::new(dir.path().join("job"));
        let error = stage(&models, &inspected, &job_dir).unwrap_err();
        insta::assert_snapshot!(describe(&dir, &error), @"model digits: /d/digits.onnx changed while the job was being prepared; start the job again once no process writes to it");
    }
}
