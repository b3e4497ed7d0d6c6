//! Finds the ONNX file for a path.

use crate::error::ModelPathError;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The model at a path.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct FoundModel {
    /// The ONNX file.
    pub(super) file: PathBuf,
    /// The folder that belongs to the model. `None` if the path names a single file.
    pub(super) folder: Option<PathBuf>,
    /// The file's size in bytes.
    pub(super) bytes: u64,
}

/// The name of the file that is used if a folder has several ONNX files.
const PREFERRED_FILE: &str = "model.onnx";

/// Finds the model at `path`, which is a file, a folder with an ONNX file, or a folder with a subfolder for
/// each version. `version`: the version that the job names.
pub(super) fn find(path: &Path, version: Option<u64>) -> Result<FoundModel, ModelPathError> {
    let shown = || path.to_owned();
    let metadata =
        path.metadata().map_err(|source| ModelPathError::NotThere { path: shown(), source })?;
    match version {
        Some(_) if !metadata.is_dir() => Err(ModelPathError::NoVersions { path: shown() }),
        Some(version) => find_version(path, version),
        None if metadata.is_file() => {
            Ok(FoundModel { file: path.to_owned(), folder: None, bytes: metadata.len() })
        }
        None if metadata.is_dir() => match (find_in_folder(path)?, versions(path)?.last()) {
            (Some(found), _) => Ok(found),
            (None, Some(highest)) => find_version(path, *highest),
            (None, None) => Err(ModelPathError::Empty { path: shown() }),
        },
        None => Err(ModelPathError::Special { path: shown() }),
    }
}

fn find_version(path: &Path, version: u64) -> Result<FoundModel, ModelPathError> {
    let folder = path.join(version.to_string());
    if !folder.is_dir() {
        let there = versions(path)?;
        return Err(ModelPathError::NoVersion { path: path.to_owned(), version, there });
    }
    find_in_folder(&folder)?.ok_or(ModelPathError::EmptyVersion { folder })
}

/// Finds the model in a folder: the file with the preferred name, or the only ONNX file.
fn find_in_folder(folder: &Path) -> Result<Option<FoundModel>, ModelPathError> {
    let is_model = |path: &Path| {
        path.extension().is_some_and(|end| end.eq_ignore_ascii_case("onnx")) && path.is_file()
    };
    let mut files: Vec<PathBuf> = list(folder)?.into_iter().filter(|path| is_model(path)).collect();
    files.sort();
    if let Some(index) = files.iter().position(|path| path.ends_with(PREFERRED_FILE)) {
        files = vec![files.swap_remove(index)];
    }
    match files.as_slice() {
        [] => Ok(None),
        [file] => {
            refuse_outside_link(file, folder)?;
            let bytes = file.metadata().map_err(unreadable(file))?.len();
            Ok(Some(FoundModel { file: file.clone(), folder: Some(folder.to_owned()), bytes }))
        }
        [first, second, ..] => {
            let name = |path: &Path| path.file_name().unwrap_or_default().display().to_string();
            Err(ModelPathError::Several {
                folder: folder.to_owned(),
                count: files.len(),
                first: name(first),
                second: name(second),
            })
        }
    }
}

/// Refuses a file that is a link out of its folder, because workers see only the folder.
fn refuse_outside_link(file: &Path, folder: &Path) -> Result<(), ModelPathError> {
    let real = |path: &Path| path.canonicalize().map_err(unreadable(path));
    let real_file = real(file)?;
    let real_folder = real(folder)?;
    if real_file.starts_with(&real_folder) {
        return Ok(());
    }
    Err(ModelPathError::Outside { link: file.to_owned(), to: real_file })
}

/// Lists the versions in a folder, the highest last.
fn versions(folder: &Path) -> Result<Vec<u64>, ModelPathError> {
    let version_of = |path: &PathBuf| {
        let name = path.file_name()?.to_str()?;
        let number: u64 = name.parse().ok()?;
        // Versions have one spelling, so 01 and +1 do not count.
        (number > 0 && number.to_string() == name && path.is_dir()).then_some(number)
    };
    let mut versions: Vec<u64> = list(folder)?.iter().filter_map(version_of).collect();
    versions.sort_unstable();
    Ok(versions)
}

fn list(folder: &Path) -> Result<Vec<PathBuf>, ModelPathError> {
    let paths =
        |entries: fs::ReadDir| entries.map(|entry| entry.map(|entry| entry.path())).collect();
    fs::read_dir(folder).and_then(paths).map_err(unreadable(folder))
}

fn unreadable(path: &Path) -> impl FnOnce(io::Error) -> ModelPathError {
    move |source| ModelPathError::Unreadable { path: path.to_owned(), source }
}

#[cfg(test)]
mod tests {
    use super::*;
    use insta::assert_snapshot;
    use std::os::unix::fs::symlink;

    /// A folder with files for a test. `find` returns the paths of the model's file and folder,
    /// relative to this folder.
    struct ModelFolder(tempfile::TempDir);

    impl ModelFolder {
        fn new(files: &[&str]) -> Self {
            let dir = tempfile::tempdir().unwrap();
            for file in files {
                let path = dir.path().join(file);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, "1234").unwrap();
            }
            Self(dir)
        }

        fn find(&self, path: &str, version: Option<u64>) -> String {
            let base = self.0.path();
            let below = |path: &Path| path.strip_prefix(base).unwrap().display().to_string();
            let text = match find(&base.join(path), version) {
                Ok(FoundModel { file, folder, bytes }) => {
                    assert_eq!(bytes, 4);
                    let folder = folder.map_or_else(|| "alone".into(), |folder| below(&folder));
                    format!("{}, {folder}", below(&file))
                }
                Err(error) => error.to_string(),
            };
            let real = base.canonicalize().unwrap();
            text.replace(base.to_str().unwrap(), "/d").replace(real.to_str().unwrap(), "/d")
        }
    }

    #[test]
    fn a_path_means_one_file() {
        let models = ModelFolder::new(&["a.onnx", "one/b.ONNX", "one/notes.txt", "many/c.onnx"]);
        fs::write(models.0.path().join("many/model.onnx"), "1234").unwrap();
        assert_eq!(models.find("a.onnx", None), "a.onnx, alone");
        assert_eq!(models.find("one", None), "one/b.ONNX, one");
        assert_eq!(models.find("many", None), "many/model.onnx, many");
    }

    #[test]
    fn the_highest_version_is_used() {
        let files = ["m/2/model.onnx", "m/10/x.onnx", "m/011/model.onnx", "m/+12/model.onnx"];
        let models = ModelFolder::new(&files);
        fs::write(models.0.path().join("m/99"), "a file").unwrap();
        assert_eq!(models.find("m", None), "m/10/x.onnx, m/10");
        assert_eq!(models.find("m", Some(2)), "m/2/model.onnx, m/2");
        assert_snapshot!(models.find("m", Some(11)), @"/d/m has no version 11; versions: 2, 10");
        assert_snapshot!(models.find("m/2/model.onnx", Some(2)), @"/d/m/2/model.onnx is not a folder with a subfolder for each version; remove the key `version`");
        fs::create_dir(models.0.path().join("m/12")).unwrap();
        assert_snapshot!(models.find("m", None), @"/d/m/12 holds no ONNX file; put model.onnx into it, or set another version");
        assert_snapshot!(models.find("m/12", Some(1)), @"/d/m/12 has no version 1; versions: none");
    }

    #[test]
    fn paths_without_a_model_are_refused() {
        let models = ModelFolder::new(&["many/c.onnx", "many/b.onnx", "none/weights.bin"]);
        symlink("many/c.onnx", models.0.path().join("link.onnx")).unwrap();
        symlink("../many/c.onnx", models.0.path().join("none/out.onnx")).unwrap();
        assert_eq!(models.find("link.onnx", None), "link.onnx, alone");
        assert_snapshot!(models.find("none", None), @"/d/none/out.onnx is a link out of its folder, to /d/many/c.onnx; name that file, or replace the link by a copy");
        fs::remove_file(models.0.path().join("none/out.onnx")).unwrap();
        assert_snapshot!(models.find("none", None), @"/d/none holds neither an ONNX file (.onnx) nor a subfolder for a version, such as 1 or 2; name an ONNX file, or a folder with one; for models of other kinds, such as pickles, name the file, or name the folder under side_inputs");
        assert_snapshot!(models.find("many", None), @"/d/many holds 2 ONNX files, such as b.onnx and c.onnx; name one of them, or rename one to model.onnx");
        assert_snapshot!(models.find("nowhere", None), @"there is no /d/nowhere; name an ONNX file, or a folder with one");
        symlink("/dev/null", models.0.path().join("null.onnx")).unwrap();
        assert_snapshot!(models.find("null.onnx", None), @"/d/null.onnx is neither a file nor a folder; name an ONNX file, or a folder with one");
    }
}
