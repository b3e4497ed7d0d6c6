//! Selects and copies the files of a script's folder that workers see.

use super::PythonError;
use crate::model::{GUEST_SOURCE, JobDir, Mount, ScriptLanguage, hex};
use crate::opening::regular_at_its_path;
use crate::output::remove_tree;
use crate::runtimes::{LIBRARY, PACKAGES};
use sha2::{Digest, Sha256};
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use walkdir::WalkDir;

/// The limits for the script and the modules of its folder.
pub(super) const MAX_FILES: usize = 1000;
const MAX_BYTES: u64 = 64 << 20;

/// The limits for the packages that `sandmill python vendor` put beside the script.
const MAX_VENDORED_FILES: usize = 20_000;
const MAX_VENDORED_BYTES: u64 = 512 << 20;

/// The files that workers see if the job names no source folder: the script and the modules beside it. A
/// Python script also has the packages beside it, and a JavaScript script the folders below. The paths are
/// relative to the script's folder. `script` must be a path without links. We follow no links, because their
/// targets were not checked against the operator's policy.
///
/// # Errors
/// If there are too many files or bytes.
pub(in super::super) fn files(script: &Path) -> Result<Vec<PathBuf>, PythonError> {
    let folder = script.parent().unwrap_or(Path::new("/"));
    let mut found = Vec::new();
    let language = ScriptLanguage::from_path(script);
    // The numbers of files and bytes.
    let mut own = (0, 0);
    let mut vendored_count = (0, 0);
    // We include all files of the folder that `sandmill python vendor` fills, because packages also
    // have data files.
    let vendored = folder.join(PACKAGES);
    let vendored = (language == Some(ScriptLanguage::Python)).then_some(vendored.as_path());
    let is_vendored = |path: &Path| vendored.is_some_and(|folder| path.starts_with(folder));
    let is_package = |path: &Path| match language {
        Some(ScriptLanguage::JavaScript) => {
            let name = path.file_name().unwrap_or_default().as_encoded_bytes();
            !name.starts_with(b".") && name != b"node_modules"
        }
        _ => path.join("__init__.py").is_file(),
    };
    let entries = WalkDir::new(folder)
        .sort_by_file_name()
        .into_iter()
        .filter_entry(|entry| {
            let path = entry.path();
            let is_shown = entry.depth() == 0 || is_vendored(path) || is_package(path);
            is_shown || !entry.file_type().is_dir()
        })
        .filter_map(Result::ok);
    for entry in entries {
        let path = entry.path();
        let is_shown =
            ScriptLanguage::from_path(path) == language || path == script || is_vendored(path);
        if !(entry.file_type().is_file() && is_shown) {
            continue;
        }
        let length = entry.metadata().map_or(0, |found| found.len());
        let (count, max) = match is_vendored(path) {
            true => (&mut vendored_count, (MAX_VENDORED_FILES, MAX_VENDORED_BYTES)),
            false => (&mut own, (MAX_FILES, MAX_BYTES)),
        };
        *count = (count.0 + 1, count.1 + length);
        if count.0 > max.0 || count.1 > max.1 {
            return Err(PythonError::TooMuch(folder.to_owned()));
        }
        found.push(path.strip_prefix(folder).unwrap_or(path).to_owned());
    }
    Ok(found)
}

/// The mount that shows the runtime's library to the script.
pub fn library(host: &Path) -> Mount {
    Mount { host: host.to_owned(), guest: LIBRARY.to_owned(), writable: false }
}

/// A digest of the names and contents of the files that belong to a script.
///
/// # Errors
/// If a file cannot be read.
pub(in super::super) fn content_digest(script: &Path) -> Result<String, PythonError> {
    let mut hash = Sha256::new();
    for (name, mut file) in open_files(script)? {
        let mut text = Vec::new();
        file.read_to_end(&mut text)
            .map_err(|source| PythonError::File { path: name.clone(), source })?;
        hash.update(name.to_string_lossy().as_bytes());
        hash.update([0]);
        hash.update((text.len() as u64).to_le_bytes());
        hash.update(text);
    }
    Ok(hex(hash.finalize()))
}

/// The names of the files that belong to a script, each with the open file.
fn open_files(script: &Path) -> Result<Vec<(PathBuf, File)>, PythonError> {
    let folder = script.parent().unwrap_or(Path::new("/"));
    let open = |name: PathBuf| {
        let path = folder.join(&name);
        match regular_at_its_path(&path) {
            Ok((file, _)) => Ok((name, file)),
            Err(source) => Err(PythonError::File { path, source }),
        }
    };
    files(script)?.into_iter().map(open).collect()
}

/// Copies the script and the files that belong to it to `folder`, after removing what was there. The script
/// gets the name that it has in the sandbox, which is the last part of `guest`.
///
/// # Errors
/// If a file cannot be read, or if there is no space for it.
pub fn copy(script: &Path, guest: &str, folder: &Path) -> Result<(), PythonError> {
    let fail = |path: &Path, source| PythonError::File { path: path.to_owned(), source };
    remove_tree(folder).map_err(|error| fail(folder, error))?;
    let script_name = Path::new(guest).file_name().unwrap_or_default();
    for (name, mut file) in open_files(script)? {
        let is_script = Some(name.as_os_str()) == script.file_name();
        let target = if is_script { folder.join(script_name) } else { folder.join(&name) };
        let parent = target.parent().unwrap_or(folder);
        fs::create_dir_all(parent)
            .and_then(|()| File::create_new(&target))
            .and_then(|mut to| io::copy(&mut file, &mut to))
            .map_err(|source| fail(&name, source))?;
    }
    Ok(())
}

/// The mount for `/source`: the job's source folder, or the copies in the job directory.
pub(in super::super) fn source(source: Option<&Path>, job_dir: &JobDir) -> Mount {
    let host = source.map_or_else(|| job_dir.python_source(), Path::to_owned);
    Mount { host, guest: GUEST_SOURCE.to_owned(), writable: false }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(folder: &Path, files: &[&str]) {
        for file in files {
            let path = folder.join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, file).unwrap();
        }
    }

    /// The script does not see data, results and other programs in its folder.
    #[test]
    fn only_the_script_its_modules_and_packages_are_shown() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().canonicalize().unwrap();
        let names = [
            "score.py",
            "helper.py",
            "job.yaml",
            "data/a.csv",
            "data/tool.py",
            "jobs/x/y.py",
            "package/__init__.py",
            "package/data.txt",
            "package/deep/__init__.py",
            "package/deep/a.py",
            "package/loose/b.py",
        ];
        write(&folder, &names);
        std::os::unix::fs::symlink("/etc/passwd", folder.join("secret.py")).unwrap();
        let script = folder.join("score.py");
        let shown: Vec<String> =
            files(&script).unwrap().iter().map(|path| path.display().to_string()).collect();
        let expected = [
            "helper.py",
            "package/__init__.py",
            "package/deep/__init__.py",
            "package/deep/a.py",
            "score.py",
        ];
        assert_eq!(shown, expected);
        let target = folder.join("copies");
        for _ in 0..2 {
            copy(&script, "/source/called.py", &target).unwrap();
        }
        assert_eq!(fs::read_to_string(target.join("called.py")).unwrap(), "score.py");
        assert_eq!(
            fs::read_to_string(target.join("package/deep/a.py")).unwrap(),
            "package/deep/a.py"
        );
        let before = content_digest(&script).unwrap();
        write(&folder, &["data/more.csv"]);
        assert_eq!(content_digest(&script).unwrap(), before);
        fs::write(folder.join("helper.py"), "another").unwrap();
        assert_ne!(content_digest(&script).unwrap(), before);
    }

    #[test]
    fn python_packages_beside_a_script_are_shown_whole() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().canonicalize().unwrap();
        let packages = ["python_packages/a/__init__.py", "python_packages/a/data/t.txt"];
        write(&folder, &["score.py", "other/t.txt"]);
        write(&folder, &packages);
        let shown = files(&folder.join("score.py")).unwrap();
        assert_eq!(shown, [packages[0], packages[1], "score.py"].map(PathBuf::from));
    }

    #[test]
    fn a_folder_with_too_many_or_large_scripts_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().canonicalize().unwrap();
        (0..=MAX_FILES)
            .for_each(|number| fs::write(folder.join(format!("{number}.py")), "").unwrap());
        let error = files(&folder.join("0.py")).unwrap_err().to_string();
        assert!(error.contains("more than 1000 files in the script's language"), "{error}");
        let whole = tempfile::tempdir().unwrap();
        let script = whole.path().join("score.py");
        File::create(&script).unwrap().set_len(MAX_BYTES + 1).unwrap();
        assert!(matches!(files(&script), Err(PythonError::TooMuch(_))));
    }
}
