//! Copies files into a job store that is a folder.

use super::hashing::{HashedFile, for_each, hash};
use super::unfinished::UnfinishedFile;
use crate::model::UPLOADS_FOLDER;
use crate::opening::{folder_at_its_path, regular};
use crate::upload_error::UploadError;
use rustix::fs::Mode;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// The folder of copies that are not complete, beside the uploaded data. A job never reads it.
const UNFINISHED: &str = ".unfinished";

/// Copies files into a folder of the job's folder, which has no links in its path. A file that is there with its length is
/// complete, and stays: a job may read it already. Useless if `stop` is true.
pub(super) fn copy_all(
    job: &Path,
    name: &str,
    files: &[HashedFile],
    stop: &(dyn Fn() -> bool + Sync),
) -> Result<(), UploadError> {
    let folder = job.join(name);
    let unfinished = job.join(UPLOADS_FOLDER).join(UNFINISHED);
    make(&unfinished)?;
    let parents = parents(&folder, files);
    // Before the copies, so that no two threads make the same folder.
    parents.iter().try_for_each(|parent| make(parent))?;
    for_each(files, stop, &|file| {
        let to = folder.join(&file.name);
        match UnfinishedFile::is_complete(&to, file) {
            true => Ok(()),
            false => copy(file, (&unfinished, name), &to, stop),
        }
    })?;
    // The names of the files, and of the folders above them, become durable, before a leader of the job names the folder.
    let above = folder.ancestors().skip(1).take_while(|above| above.starts_with(job));
    let above = above.chain(job.parent()).map(Path::to_owned);
    // The deepest first.
    for parent in parents.into_iter().rev().chain(above) {
        let synced = File::open(&parent).and_then(|parent| parent.sync_all());
        synced.map_err(|source| UploadError::Write { path: parent, source })?;
    }
    Ok(())
}

/// A folder and all folders in it that have files, the upper ones first.
fn parents(folder: &Path, files: &[HashedFile]) -> BTreeSet<PathBuf> {
    let parents: BTreeSet<&Path> =
        files.iter().filter_map(|file| Path::new(&file.name).parent()).collect();
    let all = parents.into_iter().flat_map(Path::ancestors).chain([Path::new("")]);
    all.map(|parent| folder.join(parent)).collect()
}

fn make(folder: &Path) -> Result<(), UploadError> {
    let made = folder_at_its_path(folder, Mode::RWXU);
    made.map(drop).map_err(|source| UploadError::Write { path: folder.to_owned(), source })
}

/// Copies a file. It gets its name when it is complete. `name`: that of the uploaded folder.
fn copy(
    file: &HashedFile,
    (unfinished, name): (&Path, &str),
    to: &Path,
    stop: &dyn Fn() -> bool,
) -> Result<(), UploadError> {
    let read = |source| UploadError::Read { path: file.path.clone(), source };
    let (mut from, _) = regular(&file.path).map_err(read)?;
    let write = |source: io::Error| UploadError::Write { path: to.to_owned(), source };
    let created = UnfinishedFile::create(unfinished, &format!("{name}/{}", file.name));
    let mut copy = created.map_err(write)?;
    let mut failed = None;
    let found = hash(&mut from, stop, &mut |bytes| {
        copy.content.write_all(bytes).inspect_err(|error| failed = Some(error.kind()))
    });
    let found = found.map_err(|error| match failed {
        Some(_) => write(error),
        None => read(error),
    })?;
    match found == (file.length, file.sha256) {
        true => copy.finish(to, file).map_err(write),
        // The caller ignores what is done after a stop.
        false if stop() => Ok(()),
        false => Err(UploadError::Changed(file.path.clone())),
    }
}

#[cfg(test)]
mod tests {
    use super::super::LocalFile;
    use super::super::hashing::hash_all;
    use super::*;
    use std::fs;
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    use tempfile::TempDir;

    /// A folder with files of a job, and its folder in a job store.
    struct Place(TempDir);

    impl Place {
        fn new(names: &[&str]) -> Self {
            let place = Self(tempfile::tempdir().unwrap());
            for name in names {
                let path = place.path("data").join(name);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, name).unwrap();
            }
            place
        }

        fn path(&self, name: &str) -> PathBuf {
            self.0.path().canonicalize().unwrap().join(name)
        }

        fn hashed(&self, names: &[&str]) -> Vec<HashedFile> {
            let file = |name: &&str| LocalFile {
                name: (*name).to_owned(),
                path: self.path("data").join(name),
            };
            hash_all(&names.iter().map(file).collect::<Vec<_>>(), &|| false).unwrap()
        }

        fn copy(&self, files: &[HashedFile]) -> Result<(), UploadError> {
            copy_all(&self.path("store/job"), "uploads/x", files, &|| false)
        }

        /// How many incomplete copies there are.
        fn unfinished(&self) -> usize {
            fs::read_dir(self.path("store/job/uploads/.unfinished")).unwrap().count()
        }

        fn copied(&self, name: &str) -> PathBuf {
            self.path("store/job/uploads/x").join(name)
        }
    }

    const NAMES: [&str; 4] = ["a.txt", "deep/er/b", "o'd d [1]*?{x}.csv", "\u{e9}\n"];

    #[test]
    fn an_interrupted_upload_continues() {
        let place = Place::new(&NAMES);
        let files = place.hashed(&NAMES);
        place.copy(&files).unwrap();
        let inodes = || NAMES.map(|name| fs::metadata(place.copied(name)).unwrap().ino());
        for name in NAMES {
            assert_eq!(fs::read_to_string(place.copied(name)).unwrap(), name);
            let mode = fs::metadata(place.copied(name)).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
        }
        let first = inodes();
        place.copy(&files).unwrap();
        assert_eq!(inodes(), first);
        // One that is missing, and one that is incomplete.
        fs::remove_file(place.copied(NAMES[1])).unwrap();
        fs::write(place.copied(NAMES[2]), "x").unwrap();
        place.copy(&files).unwrap();
        assert_eq!(fs::read_to_string(place.copied(NAMES[1])).unwrap(), NAMES[1]);
        assert_eq!(fs::read_to_string(place.copied(NAMES[2])).unwrap(), NAMES[2]);
        assert_eq!((inodes()[0], inodes()[3]), (first[0], first[3]));
        assert_eq!(place.unfinished(), 0);
    }

    /// Otherwise an empty folder could remain after a power failure.
    #[test]
    fn all_folders_of_files_are_known() {
        let file = |name: &str| HashedFile {
            name: name.to_owned(),
            path: PathBuf::new(),
            length: 0,
            sha256: [0; 32],
        };
        let found = parents(Path::new("/j/x"), &[file("a/b/c/1"), file("a/d/2")]);
        let expected = ["/j/x", "/j/x/a", "/j/x/a/b", "/j/x/a/b/c", "/j/x/a/d"];
        assert_eq!(found, expected.map(PathBuf::from).into());
        assert_eq!(parents(Path::new("/j/x"), &[]), [PathBuf::from("/j/x")].into());
    }

    /// Two submitters upload the same data at the same time, and a job of the first one reads it.
    #[test]
    fn files_of_another_upload_stay() {
        let place = Place::new(&NAMES);
        let files = place.hashed(&NAMES);
        let copies: Vec<Result<(), UploadError>> = std::thread::scope(|scope| {
            let running = [0; 4].map(|_| scope.spawn(|| place.copy(&files)));
            running.map(|running| running.join().unwrap()).into()
        });
        copies.into_iter().collect::<Result<Vec<_>, _>>().unwrap();
        for name in NAMES {
            assert_eq!(fs::read_to_string(place.copied(name)).unwrap(), name);
        }
        assert_eq!(place.unfinished(), 0);
    }

    #[test]
    fn a_file_that_changes_is_named() {
        for other in ["b.txt", "longer", ""] {
            let place = Place::new(&["a.txt"]);
            let files = place.hashed(&["a.txt"]);
            fs::write(place.path("data/a.txt"), other).unwrap();
            let error = place.copy(&files).unwrap_err().to_string();
            let path = place.path("data/a.txt").display().to_string();
            assert_eq!(
                error,
                format!("{path} has changed while it was uploaded: start the job again")
            );
            assert!(!place.copied("a.txt").exists());
        }
    }

    #[test]
    fn no_files_are_an_empty_folder() {
        let place = Place::new(&[]);
        place.copy(&[]).unwrap();
        assert_eq!(fs::read_dir(place.copied("")).unwrap().count(), 0);
    }
}
