//! Shows a guest some files of a folder, but not the whole folder.

use super::report::host_fault;
use crate::model::{Failure, FailureKind, is_plainly_below};
use crate::output::empty_folder;
use std::fs::{self, File};
use std::io;
use std::path::{Component, Path, PathBuf};

/// Checks a path from the descriptor of a mini-batch and returns it. The path must be relative and must not
/// contain `.` or `..`.
pub(super) fn checked(relative: &str) -> Result<&Path, Failure> {
    let path = Path::new(relative);
    if is_plainly_below(relative) && !relative.is_empty() && !relative.starts_with('.') {
        return Ok(path);
    }
    let has_only_names = path.components().all(|part| matches!(part, Component::Normal(_)));
    if has_only_names && !relative.is_empty() && !relative.contains('\0') {
        return Ok(path);
    }
    let message = format!("the mini-batch names {relative:?}, which is not a path below its input");
    Err(Failure::new(FailureKind::LoadFailed, message))
}

/// A folder that shows only the files of the running mini-batch: as hard links if the file system
/// allows them, otherwise as copies. The wall does not let the worker write to files in this
/// folder, because a hard link is the input's file itself. The worker therefore makes a copy in
/// another folder and moves it into this folder.
#[derive(Debug)]
pub(super) struct StageFolder {
    root: PathBuf,
    /// The folder in which copies are made.
    copies: PathBuf,
    /// The folders that were made in `root`, each before its content.
    folders: Vec<PathBuf>,
    /// The files that are shown.
    files: Vec<PathBuf>,
}

impl StageFolder {
    /// Makes both folders, empty. Other stages of this worker may use the same folder for copies.
    pub(super) fn create(root: PathBuf, copies: PathBuf) -> io::Result<Self> {
        for folder in [&root, &copies] {
            fs::create_dir_all(folder)?;
            empty_folder(folder)?;
        }
        Ok(Self { root, copies, folders: Vec::new(), files: Vec::new() })
    }

    pub(super) fn root(&self) -> &PathBuf {
        &self.root
    }

    /// Shows these files of the folder `source`, and hides the files that were shown before.
    pub(super) fn show(&mut self, source: &Path, files: &[impl AsRef<str>]) -> Result<(), Failure> {
        self.clear().map_err(|e| host_fault("clear", &self.root, &e))?;
        for file in files {
            let relative = checked(file.as_ref())?;
            self.add(source, relative)?;
        }
        Ok(())
    }

    fn add(&mut self, source: &Path, relative: &Path) -> Result<(), Failure> {
        let from = real_file(source, relative)?;
        let mut folder = self.root.clone();
        for part in relative.parent().into_iter().flat_map(Path::components) {
            folder.push(part);
            match fs::create_dir(&folder) {
                Ok(()) => self.folders.push(folder.clone()),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(host_fault("make", &folder, &error)),
            }
        }
        let to = self.root.join(relative);
        self.files.push(to.clone());
        match fs::hard_link(&from, &to) {
            Ok(()) => return Ok(()),
            // The mini-batch names the same file twice.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(unreadable(&from, &error));
            }
            Err(_) => {}
        }
        // The file is in another file system or belongs to another user.
        copy(&from, &self.copies.join("copy"), &to)
    }

    /// Hides all files.
    pub(super) fn clear(&mut self) -> io::Result<()> {
        let mut is_clean = true;
        for file in self.files.drain(..) {
            is_clean &= is_removed(fs::remove_file(file));
        }
        for folder in self.folders.drain(..).rev() {
            is_clean &= is_removed(fs::remove_dir(folder));
        }
        if is_clean { Ok(()) } else { empty_folder(&self.root) }
    }
}

/// The path of the file after links are followed. A link may only lead to a file below `source`.
/// The listing of the input has the same rule.
fn real_file(source: &Path, relative: &Path) -> Result<PathBuf, Failure> {
    let link_or_file = source.join(relative);
    let inspect =
        |path: &Path| fs::symlink_metadata(path).map_err(|e| unreadable(&link_or_file, &e));
    let refuse = |found: &str| {
        let message = format!("cannot read {}: it is {found} now", link_or_file.display());
        Err(Failure::new(FailureKind::LoadFailed, message))
    };
    let kind = inspect(&link_or_file)?.file_type();
    if kind.is_file() {
        return Ok(link_or_file);
    }
    if !kind.is_symlink() {
        return refuse("not a regular file");
    }
    let resolve = |path: &Path| fs::canonicalize(path).map_err(|e| unreadable(&link_or_file, &e));
    let real = resolve(&link_or_file)?;
    if !real.starts_with(resolve(source)?) {
        return refuse("a link that leads out of its input");
    }
    if inspect(&real)?.is_file() {
        Ok(real)
    } else {
        refuse("a link to something other than a regular file")
    }
}

/// Whether the file or folder is gone after an attempt to remove it.
fn is_removed(removed: io::Result<()>) -> bool {
    removed.map_or_else(|error| error.kind() == io::ErrorKind::NotFound, |()| true)
}

/// Copies a file to `draft`, then moves `draft` to `to`.
fn copy(from: &Path, draft: &Path, to: &Path) -> Result<(), Failure> {
    let mut source = File::open(from).map_err(|e| unreadable(from, &e))?;
    File::create(draft)
        .and_then(|mut target| io::copy(&mut source, &mut target))
        .and_then(|_| fs::rename(draft, to))
        .map_err(|e| host_fault("copy an input file to", to, &e))
}

fn unreadable(path: &Path, error: &io::Error) -> Failure {
    let message = format!("cannot read {}: {error}", path.display());
    Failure::new(FailureKind::LoadFailed, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn listing(root: &Path) -> Vec<String> {
        let mut names: Vec<String> = walkdir::WalkDir::new(root)
            .min_depth(1)
            .into_iter()
            .map(|entry| entry.unwrap().path().strip_prefix(root).unwrap().display().to_string())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn only_the_files_of_the_mini_batch_are_shown() {
        let folder = tempfile::tempdir().unwrap();
        let source = folder.path().join("source");
        let root = folder.path().join("shown");
        fs::create_dir_all(source.join("a/b")).unwrap();
        for file in ["one", "a/two", "a/b/three", "other"] {
            fs::write(source.join(file), file).unwrap();
        }
        let mut stage = StageFolder::create(root.clone(), folder.path().join("copies")).unwrap();
        let files = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
        stage.show(&source, &files(&["one", "a/b/three", "one"])).unwrap();
        assert_eq!(listing(&root), ["a", "a/b", "a/b/three", "one"]);
        assert_eq!(fs::read_to_string(root.join("a/b/three")).unwrap(), "a/b/three");
        stage.show(&source, &files(&["a/two"])).unwrap();
        assert_eq!(listing(&root), ["a", "a/two"]);
        fs::write(root.join("stray"), "").unwrap();
        fs::write(root.join("a/stray"), "").unwrap();
        stage.clear().unwrap();
        fs::remove_file(root.join("stray")).unwrap_or_default();
        assert_eq!(listing(&root), Vec::<String>::new());
        assert_eq!(listing(&source).len(), 6, "the input itself is untouched");
        let error = stage.show(&source, &files(&["missing"])).unwrap_err();
        assert_eq!(error.kind, FailureKind::LoadFailed);
        assert!(error.message.ends_with("missing: No such file or directory (os error 2)"));
        let draft = folder.path().join("copies/draft");
        copy(&source.join("one"), &draft, &root.join("copy")).unwrap();
        assert!(!draft.exists());
        assert_eq!(fs::read_to_string(root.join("copy")).unwrap(), "one");
    }

    #[test]
    fn links_are_followed_only_below_their_input() {
        use std::os::unix::fs::symlink;
        let folder = tempfile::tempdir().unwrap();
        let source = folder.path().join("source");
        let root = folder.path().join("shown");
        fs::create_dir_all(source.join("a")).unwrap();
        fs::write(source.join("one"), "1").unwrap();
        fs::write(folder.path().join("secret"), "s").unwrap();
        symlink("../one", source.join("a/inner")).unwrap();
        symlink("../secret", source.join("outer")).unwrap();
        symlink("a", source.join("folder")).unwrap();
        let mut stage = StageFolder::create(root.clone(), folder.path().join("copies")).unwrap();
        let mut show = |name: &str| stage.show(&source, &[name.to_owned()]);
        show("a/inner").unwrap();
        assert!(fs::symlink_metadata(root.join("a/inner")).unwrap().is_file());
        assert_eq!(fs::read_to_string(root.join("a/inner")).unwrap(), "1");
        let error = show("outer").unwrap_err();
        assert!(error.message.ends_with("outer: it is a link that leads out of its input now"));
        let error = show("folder").unwrap_err();
        assert!(
            error
                .message
                .ends_with("folder: it is a link to something other than a regular file now")
        );
    }

    proptest! {
        #[test]
        fn path_checks_agree_with_path_components(path in "(/|\\.|\\.\\.|a|\0){0,6}") {
            let mut parts = Path::new(&path).components();
            let by_parts = parts.all(|part| matches!(part, Component::Normal(_)));
            let expected = by_parts && !path.is_empty() && !path.contains('\0');
            prop_assert_eq!(checked(&path).is_ok(), expected);
        }
    }

    #[test]
    fn only_paths_below_the_input_are_accepted() {
        for path in ["a", "a/b.txt", "..a", "a b"] {
            assert_eq!(checked(path).unwrap(), Path::new(path));
        }
        for path in ["", "/etc/passwd", "../a", "a/../../b", "./a", "a\0b"] {
            assert_eq!(checked(path).unwrap_err().kind, FailureKind::LoadFailed, "{path:?}");
        }
        insta::assert_snapshot!(checked("../a").unwrap_err(), @r#"the mini-batch names "../a", which is not a path below its input"#);
    }
}
