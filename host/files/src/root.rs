//! Inspects the files of a folder.

use super::{FileVersion, Manifest, ManifestObject};
use crate::opening::at_its_path;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, StatxFlags};
use sandmill_model::Source;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// An open folder, to inspect its files. Inspecting files by their full paths takes twice the time, and an
/// input may have millions of files.
#[derive(Debug)]
pub struct OpenRoot {
    folder: Option<OwnedFd>,
    manifest: Option<Mutex<Manifest>>,
}

impl OpenRoot {
    /// Opens a folder at a path that was resolved before, and so had no links. A folder that cannot be opened
    /// has no files.
    pub fn open(path: &Path) -> Self {
        let flags = OFlags::PATH | OFlags::DIRECTORY;
        Self { folder: at_its_path(path, flags, Mode::empty()).ok(), manifest: None }
    }

    /// Opens the folder of a source. Files that are objects of a store need not be fetched yet.
    pub fn open_source(source: &Source) -> Self {
        // If a manifest cannot be opened, the planner has already failed.
        let manifest = Manifest::open_source(source).ok().flatten().map(Mutex::new);
        Self { manifest, ..Self::open(&source.root) }
    }

    /// The version of a file below the folder; `None` if the file is gone or cannot be fetched.
    pub fn version_of(&self, file: &str) -> Option<FileVersion> {
        match self.listed(file) {
            Some(listed) => listed.ok().map(|object| object.found),
            None => self.stat(file, AtFlags::empty()).map(|(found, _)| found),
        }
    }

    /// Whether a file is an object of a store.
    pub fn lists(&self, file: &str) -> bool {
        self.listed(file).is_some()
    }

    /// Whether a file is on this disk. An object of a store is on this disk if its file has the length and
    /// time that the manifest says. Returns `true` for all other files.
    pub fn is_here(&self, file: &str) -> bool {
        match self.listed(file) {
            Some(Ok(object)) => {
                let found = self.stat(file, AtFlags::SYMLINK_NOFOLLOW);
                found == Some((object.found, FileType::RegularFile))
            }
            Some(Err(_)) => false,
            None => true,
        }
    }

    /// What the manifest says about a file.
    fn listed(&self, file: &str) -> Option<Result<ManifestObject, String>> {
        let manifest = self.manifest.as_ref()?;
        manifest.lock().unwrap_or_else(PoisonError::into_inner).find(file).ok()?
    }

    fn stat(&self, file: &str, flags: AtFlags) -> Option<(FileVersion, FileType)> {
        let wanted = StatxFlags::TYPE | StatxFlags::SIZE | StatxFlags::MTIME;
        let stat = rustix::fs::statx(self.folder.as_ref()?, file, flags, wanted).ok()?;
        let time = stat.stx_mtime;
        let found =
            FileVersion { length: stat.stx_size, seconds: time.tv_sec, nanos: time.tv_nsec };
        Some((found, FileType::from_raw_mode(stat.stx_mode.into())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ManifestWriter;
    use std::fs;
    use std::os::unix::fs::symlink;

    /// A file counts as the object only if it has the object's length and time.
    #[test]
    fn an_object_is_here_if_its_file_matches_the_manifest() {
        let dir = tempfile::tempdir().unwrap();
        let slot = dir.path().canonicalize().unwrap();
        let data = |name: &str| slot.join("data").join(name);
        fs::create_dir_all(data("sub")).unwrap();
        fs::create_dir(slot.join("list")).unwrap();
        for name in ["sub/a", "sub/other", "sub/linked"] {
            fs::write(data(name), "abc").unwrap();
        }
        let of = |name: &str| FileVersion::from(&data(name).metadata().unwrap());
        let mut list = ManifestWriter::new(slot.join("part")).unwrap();
        let later = FileVersion { nanos: of("sub/other").nanos ^ 1, ..of("sub/other") };
        for (name, found) in [
            ("sub/a", of("sub/a")),
            ("sub/absent", later),
            ("sub/link", of("sub/linked")),
            ("sub/other", later),
        ] {
            list.add(name, Ok(found.into())).unwrap();
        }
        list.add("sub/failed", Err("it broke".to_owned())).unwrap();
        list.finish(&slot.join("list/manifest")).unwrap();
        symlink("linked", data("sub/link")).unwrap();
        let manifest = Some(slot.join("list/manifest"));
        let source = Source { manifest, ..Source::new("data", data("sub")) };
        let root = OpenRoot::open_source(&source);
        for (name, is_here) in
            [("a", true), ("absent", false), ("link", false), ("other", false), ("failed", false)]
        {
            assert_eq!((root.is_here(name), root.lists(name)), (is_here, true), "{name}");
        }
        assert_eq!((root.version_of("absent"), root.version_of("failed")), (Some(later), None));
        // For a file that is not in the list, the file itself counts.
        assert_eq!((root.is_here("linked"), root.lists("linked")), (true, false));
        assert_eq!(root.version_of("linked"), Some(of("sub/linked")));
        assert!(OpenRoot::open(&source.root).is_here("none"));
    }
}
