//! Moves the files and folders that a mini-batch left in its guest's folder to a folder for the leader.
//!
//! Files are copied, and folders are created again. A guest may keep a file or folder open for as long as
//! its instance lives. What the guest writes there later must not reach anything that is published. No guest
//! runs while its folder is inspected, so working with paths is safe.

use super::OutputError;
use super::publish::{MAX_DEPTH, MAX_ENTRIES, check_kind, check_name};
use super::remove::remove_tree;
use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The files and folders that `init` made in a guest's folder. They belong to no mini-batch. All mini-batches
/// may write into the folders. The files must not change, and are published when the job completes.
#[derive(Debug, Default)]
pub struct InitFiles {
    folders: HashSet<PathBuf>,
    files: HashMap<PathBuf, EntryStamp>,
}

/// Identifies a file and its state, to detect changes.
#[derive(Debug, PartialEq, Eq)]
struct EntryStamp {
    inode: u64,
    length: u64,
    modified: (i64, i64),
}

impl From<&Metadata> for EntryStamp {
    fn from(metadata: &Metadata) -> Self {
        Self {
            inode: metadata.ino(),
            length: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
        }
    }
}

/// How an entry of a guest's folder relates to [`InitFiles`].
#[derive(Clone, Copy, PartialEq, Eq)]
enum KeptRelation {
    /// `init` did not make it.
    None,
    /// A folder that `init` made.
    Folder,
    /// An unchanged file that `init` made.
    File,
    /// `init` made an entry of this name, and it has been changed or replaced since.
    Changed,
}

impl InitFiles {
    /// Everything that is in the folder now.
    ///
    /// # Errors
    /// If the folder cannot be listed, or holds more or deeper entries than a guest may leave.
    pub fn scan(folder: &Path) -> Result<Self, OutputError> {
        let mut kept = Self::default();
        for entry in walkdir::WalkDir::new(folder).min_depth(1) {
            let failed = OutputError::io("list", folder);
            let entry = match entry.map_err(io::Error::from) {
                Ok(entry) => entry,
                Err(error) => return Err(failed(error)),
            };
            let path = entry.path().strip_prefix(folder).unwrap_or(entry.path()).to_owned();
            if entry.depth() > MAX_DEPTH {
                return Err(OutputError::TooDeep { path, limit: MAX_DEPTH });
            }
            if kept.len() == MAX_ENTRIES {
                return Err(OutputError::TooMany { limit: MAX_ENTRIES });
            }
            if entry.file_type().is_dir() {
                kept.folders.insert(path);
            } else {
                let metadata = entry.metadata().map_err(|e| failed(e.into()))?;
                kept.files.insert(path, (&metadata).into());
            }
        }
        Ok(kept)
    }

    /// Whether `init` made nothing.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn len(&self) -> usize {
        self.folders.len() + self.files.len()
    }

    fn relation(&self, relative: &Path, metadata: &Metadata) -> KeptRelation {
        if self.folders.contains(relative) {
            return if metadata.is_dir() { KeptRelation::Folder } else { KeptRelation::Changed };
        }
        match self.files.get(relative) {
            None => KeptRelation::None,
            Some(stamp) if *stamp == EntryStamp::from(metadata) => KeptRelation::File,
            Some(_) => KeptRelation::Changed,
        }
    }

    /// An entry that `init` made and that is missing now.
    fn missing(&self, folder: &Path) -> Option<PathBuf> {
        let mut paths = self.folders.iter().chain(self.files.keys());
        paths.find(|path| fs::symlink_metadata(folder.join(path)).is_err()).cloned()
    }
}

/// Moves what a mini-batch left in `folder` to the new folder `staged`, which is made only if the mini-batch
/// left anything. Files are copied and then removed from `folder`. Returns whether the mini-batch left
/// anything.
///
/// # Errors
/// If something cannot be published, if there are too many entries, or if `kept` has changed. Then `staged`
/// does not exist, and the caller must clear `folder`.
pub fn collect_files(folder: &Path, kept: &InitFiles, staged: &Path) -> Result<bool, OutputError> {
    let relative = PathBuf::new();
    let is_staged = false;
    let mut collector =
        Collector { folder, kept, staged, relative, is_staged, entries: 0, unchanged: 0 };
    let result = collector.collect_folder(0).and_then(|()| collector.check_kept());
    if result.is_err() && collector.is_staged {
        // If this fails, nothing refers to the rest, and the rest is removed with the job's working files.
        let _ = remove_tree(staged);
    }
    result.map(|()| collector.is_staged)
}

/// Removes what a failed attempt left in `folder`. Returns whether `kept` is unchanged.
///
/// # Errors
/// Errors of the operating system.
pub fn clear_files(folder: &Path, kept: &InitFiles) -> io::Result<bool> {
    let mut unchanged = 0;
    clear(folder, kept, Path::new(""), false, &mut unchanged)?;
    Ok(unchanged == kept.len())
}

/// Removes everything from `folder` that is not in `kept`. A file of `kept` stays, even if it has changed.
///
/// # Errors
/// Errors of the operating system.
pub fn clear_others(folder: &Path, kept: &InitFiles) -> io::Result<()> {
    clear(folder, kept, Path::new(""), true, &mut 0)
}

/// Counts the unchanged entries of `kept` in `unchanged`. Removes everything else below `relative_folder`. If
/// `keeps_changed` is true, changed files of `kept` stay.
fn clear(
    folder: &Path,
    kept: &InitFiles,
    relative_folder: &Path,
    keeps_changed: bool,
    unchanged: &mut usize,
) -> io::Result<()> {
    for entry in fs::read_dir(folder.join(relative_folder))? {
        let entry = entry?;
        let relative = relative_folder.join(entry.file_name());
        let metadata = entry.metadata()?;
        match kept.relation(&relative, &metadata) {
            KeptRelation::Changed if keeps_changed && !metadata.is_dir() => {}
            KeptRelation::None | KeptRelation::Changed => remove_tree(&entry.path())?,
            KeptRelation::File => *unchanged += 1,
            KeptRelation::Folder => {
                *unchanged += 1;
                // `InitFiles::scan` limits the depth of this recursion.
                clear(folder, kept, &relative, keeps_changed, unchanged)?;
            }
        }
    }
    Ok(())
}

struct Collector<'a> {
    folder: &'a Path,
    kept: &'a InitFiles,
    staged: &'a Path,
    /// The current position of the walk, below the folder.
    relative: PathBuf,
    /// Whether `staged` exists.
    is_staged: bool,
    /// How many files and folders were found.
    entries: usize,
    /// How many entries of `kept` are unchanged.
    unchanged: usize,
}

impl Collector<'_> {
    fn collect_folder(&mut self, depth: usize) -> Result<(), OutputError> {
        if depth > MAX_DEPTH {
            return Err(OutputError::TooDeep { path: self.relative.clone(), limit: MAX_DEPTH });
        }
        for name in self.names()? {
            self.relative.push(name);
            self.collect_entry(depth)?;
            self.relative.pop();
        }
        Ok(())
    }

    /// The names in the current folder. They are sorted, so that messages do not depend on the file system.
    fn names(&mut self) -> Result<Vec<OsString>, OutputError> {
        let path = self.folder.join(&self.relative);
        let failed = |error| OutputError::io("list", &path)(error);
        let mut names = Vec::new();
        for entry in fs::read_dir(&path).map_err(failed)? {
            names.push(entry.map_err(failed)?.file_name());
            self.entries += 1;
            if self.entries > MAX_ENTRIES + self.kept.len() {
                return Err(OutputError::TooMany { limit: MAX_ENTRIES });
            }
        }
        names.sort_unstable();
        // Names with control characters come first, as in `publish`.
        names.sort_by_key(|name| !name.as_bytes().iter().any(u8::is_ascii_control));
        Ok(names)
    }

    fn collect_entry(&mut self, depth: usize) -> Result<(), OutputError> {
        let from = self.folder.join(&self.relative);
        let metadata = fs::symlink_metadata(&from).map_err(OutputError::io("inspect", &from))?;
        match self.kept.relation(&self.relative, &metadata) {
            KeptRelation::Changed => {
                return Err(OutputError::Changed { path: self.relative.clone() });
            }
            KeptRelation::Folder => {
                self.unchanged += 1;
                return self.collect_folder(depth + 1);
            }
            KeptRelation::File => {
                self.unchanged += 1;
                return Ok(());
            }
            KeptRelation::None => {}
        }
        check_name(&self.relative)?;
        if metadata.is_dir() {
            let to = self.make_target()?;
            fs::create_dir(&to).map_err(OutputError::io("make the folder", &to))?;
            self.collect_folder(depth + 1)?;
            return fs::remove_dir(&from).map_err(OutputError::io("remove", &from));
        }
        check_kind(&self.relative, metadata.mode(), metadata.nlink())?;
        let to = self.make_target()?;
        copy(&from, &to).map_err(OutputError::io("copy a result file to", &to))?;
        fs::remove_file(&from).map_err(OutputError::io("remove", &from))
    }

    /// Makes the parent folder for a copy of the entry, and returns the path for the copy.
    fn make_target(&mut self) -> Result<PathBuf, OutputError> {
        let to = self.staged.join(&self.relative);
        let parent = to.parent().unwrap_or(self.staged);
        if !self.is_staged {
            // An earlier worker with the same name may have left something.
            remove_tree(self.staged).map_err(OutputError::io("remove", self.staged))?;
        }
        // A folder that `init` made does not exist in `staged` yet.
        if !self.is_staged || parent != self.staged {
            fs::create_dir_all(parent).map_err(OutputError::io("make the folder", parent))?;
        }
        self.is_staged = true;
        Ok(to)
    }

    /// Fails if an entry of `kept` is missing.
    fn check_kept(&self) -> Result<(), OutputError> {
        if self.unchanged == self.kept.len() {
            return Ok(());
        }
        let path = self.kept.missing(self.folder).unwrap_or_default();
        Err(OutputError::Removed { path })
    }
}

/// Copies an ordinary file to a new file, in the kernel if possible.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
    let mut from = options.open(from)?;
    let mut to = File::create_new(to)?;
    io::copy(&mut from, &mut to).map(drop)
}

#[cfg(test)]
#[path = "collect_tests.rs"]
mod tests;
