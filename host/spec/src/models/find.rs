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
    /// The folder that belongs to the model. `None` if the file stands alone.
    pub(super) folder: Option<PathBuf>,
    /// The file's size in bytes.
    pub(super) bytes: u64,
}

/// The name of the model's file in a folder with several ONNX files.
const PREFERRED: &str = "model.onnx";

/// The model at `path`: a file; a folder with an ONNX file; or a folder with a folder for each version.
pub(super) fn find(path: &Path, version: Option<u64>) -> Result<FoundModel, ModelPathError> {
    let shown = || path.to_owned();
    let metadata =
        path.metadata().map_err(|source| ModelPathError::NotThere { path: shown(), source })?;
    match version {
        Some(_) if !metadata.is_dir() => Err(ModelPathError::NoVersions { path: shown() }),
        Some(version) => of_version(path, version),
        None if metadata.is_file() => {
            Ok(FoundModel { file: path.to_owned(), folder: None, bytes: metadata.len() })
        }
        None if metadata.is_dir() => match (in_folder(path)?, versions(path)?.last()) {
            (Some(found), _) => Ok(found),
            (None, Some(highest)) => of_version(path, *highest),
            (None, None) => Err(ModelPathError::Empty { path: shown() }),
        },
        None => Err(ModelPathError::Special { path: shown() }),
    }
}

fn of_version(path: &Path, version: u64) -> Result<FoundModel, ModelPathError> {
    let folder = path.join(version.to_string());
    if !folder.is_dir() {
        let there = versions(path)?;
        return Err(ModelPathError::NoVersion { path: path.to_owned(), version, there });
    }
    in_folder(&folder)?.ok_or(ModelPathError::EmptyVersion { folder })
}

/// The model in a folder: the file with the preferred name, or the only ONNX file.
fn in_folder(folder: &Path) -> Result<Option<FoundModel>, ModelPathError> {
    let is_model = |path: &Path| {
        path.extension().is_some_and(|end| end.eq_ignore_ascii_case("onnx")) && path.is_file()
    };
    let mut files: Vec<PathBuf> = list(folder)?.into_iter().filter(|path| is_model(path)).collect();
    files.sort();
    if let Some(index) = files.iter().position(|path| path.ends_with(PREFERRED)) {
        files = vec![files.swap_remove(index)];
    }
    match files.as_slice() {
        [] => Ok(None),
        [file] => {
            stays_inside(file, folder)?;
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
fn stays_inside(file: &Path, folder: &Path) -> Result<(), ModelPathError> {
    let real = |path: &Path| path.canonicalize().map_err(unreadable(path));
    let real_file = real(file)?;
    let real_folder = real(folder)?;
    if real_file.starts_with(&real_folder) {
        return Ok(());
    }
    Err(ModelPathError::Outside { link: file.to_owned(), to: real_file })
}

/// The versions in a folder, the highest last.
fn versions(folder: &Path) -> Result<Vec<u64>, ModelPathError> {
    let number = |path: &PathBuf| {
        let name = path.file_name()?.to_str()?;
        let number: u64 = name.parse().ok()?;
        // Versions have one spelling, so 01 and +1 do not count.
        (number > 0 && number.to_string() == name && path.is_dir()).then_some(number)
    };
    let mut versions: Vec<u64> = list(folder)?.iter().filter_map(number).collect();
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

    /// A folder with files for a test. `find` returns the file and the folder found, as paths below it.
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
        let place = ModelFolder::new(&["a.onnx", "one/b.ONNX", "one/notes.txt", "many/c.onnx"]);
        fs::write(place.0.path().join("many/model.onnx"), "1234").unwrap();
        assert_eq!(place.find("a.onnx", None), "a.onnx, alone");
        assert_eq!(place.find("one", None), "one/b.ONNX, one");
        assert_eq!(place.find("many", None), "many/model.onnx, many");
    }

    #[test]
    fn the_highest_version_is_used() {
        let files = ["m/2/model.onnx", "m/10/x.onnx", "m/011/model.onnx", "m/+12/model.onnx"];
        let place = ModelFolder::new(&files);
        fs::write(place.0.path().join("m/99"), "a file").unwrap();
        assert_eq!(place.find("m", None), "m/10/x.onnx, m/10");
        assert_eq!(place.find("m", Some(2)), "m/2/model.onnx, m/2");
        assert_snapshot!(place.find("m", Some(11)), @"/d/m has no version 11; versions: 2, 10");
        assert_snapshot!(place.find("m/2/model.onnx", Some(2)), @"/d/m/2/model.onnx is not a folder with a folder for each version; remove version");
        fs::create_dir(place.0.path().join("m/12")).unwrap();
        assert_snapshot!(place.find("m", None), @"/d/m/12 holds no ONNX file; put model.onnx there, or set another version");
        assert_snapshot!(place.find("m/12", Some(1)), @"/d/m/12 has no version 1; versions: none");
    }

    #[test]
    fn paths_without_a_model_are_refused() {
        let place = ModelFolder::new(&["many/c.onnx", "many/b.onnx", "none/weights.bin"]);
        symlink("many/c.onnx", place.0.path().join("link.onnx")).unwrap();
        symlink("../many/c.onnx", place.0.path().join("none/out.onnx")).unwrap();
        assert_eq!(place.find("link.onnx", None), "link.onnx, alone");
        assert_snapshot!(place.find("none", None), @"/d/none/out.onnx is a link out of its folder, to /d/many/c.onnx; name that file, or put a copy here");
        fs::remove_file(place.0.path().join("none/out.onnx")).unwrap();
        assert_snapshot!(place.find("none", None), @"/d/none holds neither an ONNX file (.onnx) nor a folder of a version, such as 1 or 2; name an ONNX file, or a folder with one");
        assert_snapshot!(place.find("many", None), @"/d/many holds 2 ONNX files, as b.onnx and c.onnx; name one of them, or call the one model.onnx");
        assert_snapshot!(place.find("nowhere", None), @"there is no /d/nowhere; name an ONNX file, or a folder with one");
        symlink("/dev/null", place.0.path().join("null.onnx")).unwrap();
        assert_snapshot!(place.find("null.onnx", None), @"/d/null.onnx is neither a file nor a folder; name an ONNX file, or a folder with one");
    }
}
