//! Publishes the files that guests wrote: moves them into the job's output folder.
//!
//! All access goes through open folders, and never follows a link that a guest made. A file appears
//! under its name completely or not at all. It replaces another file only if the [`PublishRule`]
//! says so.

use super::OutputError;
use super::remove::remove_tree;
use super::transfer::{append_at, copy_over, rename_new, same_content};
use crate::opening::at_its_path;
use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;
use sandmill_model::fail_point;
use sandmill_model::{OnConflict, is_terminal_control};
use std::ffi::{CStr, CString, OsStr};
use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// How deep folders may be nested.
pub(super) const MAX_DEPTH: usize = 64;

/// How many files and folders one attempt may leave.
pub(super) const MAX_ENTRIES: usize = 100_000;

/// The prefix of Sandmill's own names in an output folder.
pub(super) const OWN_PREFIX: &str = ".sandmill-";

/// The longest path below the output folder. Programs that read the results must be able to open it.
const MAX_PATH_BYTES: usize = 1024;

/// What new files may do to files that are already in the output folder.
#[derive(Clone, Copy)]
pub struct PublishRule<'a> {
    /// What happens to a file whose name exists already.
    pub on_conflict: OnConflict,
    /// Names that guests' files may not have, such as the name of the file for rows.
    pub reserved: [Option<&'a str>; 2],
    /// Whether files that were published before are accepted: a file that exists already with the same
    /// content, or under [`OnConflict::Append`] a file without a `place`.
    pub same_passes: bool,
    /// Under [`OnConflict::Append`], where a file's content belongs in the output file of the same path: the
    /// offset, and how many bytes are appended. `None` if the output file does not belong to this
    /// job, if the file was published before, or if the file's mini-batch does not count.
    pub place: &'a dyn Fn(&str) -> Option<(u64, u64)>,
}

impl fmt::Debug for PublishRule<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rule").field("on_conflict", &self.on_conflict).finish_non_exhaustive()
    }
}

impl PublishRule<'_> {
    /// The rule that refuses every existing name.
    pub const STRICT: PublishRule<'static> = PublishRule {
        on_conflict: OnConflict::Error,
        reserved: [None; 2],
        same_passes: false,
        place: &|_| None,
    };
}

/// A file or folder that a guest left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuestEntry {
    /// The path below the folder in which the entry was found.
    pub path: String,
    /// The length in bytes; `None` for a folder.
    pub length: Option<u64>,
}

/// Lists a folder that guests wrote to. Fails if something in it cannot be published or has a reserved name.
pub fn list_files(folder: &Path, rule: &PublishRule<'_>) -> Result<Vec<GuestEntry>, OutputError> {
    let mut publisher = Publisher::new(folder, rule, true);
    match open_folder(CWD, folder, OFlags::NOFOLLOW) {
        Ok(from) => publisher.publish_folder(&from, None, 0)?,
        Err(Errno::NOENT) => {}
        Err(errno) => return Err(OutputError::io("open", folder)(errno.into())),
    }
    Ok(publisher.found)
}

/// Checks that everything in `staged` can be published, and changes nothing. Returns the entries of `staged`,
/// each folder before its content.
pub fn check_files(
    staged: &Path,
    output: &Path,
    rule: &PublishRule<'_>,
) -> Result<Vec<GuestEntry>, OutputError> {
    Publisher::new(output, rule, true).start(staged)
}

/// Moves the files and folders in `staged` into `output`, and merges folders. Returns the number of files.
/// Everything is checked first, so that a bad file of a guest leaves nothing half published. After an error
/// of the machine, the call can be repeated; if `staged` is gone, an earlier call has succeeded, and this one
/// returns 0.
///
/// Under [`OnConflict::Append`], files are copied instead, and `staged` stays until the caller knows that the
/// copies are on the disk.
pub fn publish_files(
    staged: &Path,
    output: &Path,
    rule: &PublishRule<'_>,
) -> Result<u64, OutputError> {
    check_files(staged, output, rule)?;
    let found = Publisher::new(output, rule, false).start(staged)?;
    if rule.on_conflict != OnConflict::Append {
        // Only empty folders are left. If they stay, they do no harm.
        let _ = remove_tree(staged);
    }
    Ok(found.iter().filter(|found| found.length.is_some()).count() as u64)
}

/// Removes the files and folders that an attempt left, if any.
pub fn discard_files(staged: &Path) -> Result<(), OutputError> {
    remove_tree(staged).map_err(OutputError::io("remove the unpublished files in", staged))
}

/// Whether two folders have the same file at `path`. With a `place` (offset and length), compares the whole
/// file in the folder `one` with this range of the file in the folder `other`.
pub fn same_file(
    one: &Path,
    other: &Path,
    path: &str,
    place: Option<(u64, u64)>,
) -> Result<bool, OutputError> {
    let same = || -> io::Result<bool> {
        let name = Path::new(path).file_name().unwrap_or_default().as_bytes();
        let folder = |root: &Path| {
            let inner = root.join(path);
            open_folder(CWD, inner.parent().unwrap_or(root), OFlags::NOFOLLOW)
        };
        let first = folder(one)?;
        let second = folder(other)?;
        same_content(first.as_fd(), second.as_fd(), &CString::new(name)?, place)
    };
    same().map_err(OutputError::io("compare", one.join(path)))
}

struct Publisher<'a> {
    output: &'a Path,
    rule: &'a PublishRule<'a>,
    /// The current position of the walk, below the output folder.
    relative: PathBuf,
    found: Vec<GuestEntry>,
    /// The number of files and folders.
    entries: usize,
    /// Whether files are only checked.
    is_dry_run: bool,
}

impl<'a> Publisher<'a> {
    fn new(output: &'a Path, rule: &'a PublishRule<'a>, is_dry_run: bool) -> Self {
        Self { output, rule, relative: PathBuf::new(), found: Vec::new(), entries: 0, is_dry_run }
    }

    fn start(mut self, staged: &Path) -> Result<Vec<GuestEntry>, OutputError> {
        let from = match open_folder(CWD, staged, OFlags::NOFOLLOW) {
            Ok(from) => from,
            Err(Errno::NOENT) => return Ok(Vec::new()),
            Err(errno) => return Err(self.staged_error("open", errno)),
        };
        // If the job file names a link, this path is the target that the link had when the job
        // began.
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let to = at_its_path(self.output, flags, Mode::empty())
            .map_err(OutputError::io("open the output folder", self.output))?;
        self.publish_folder(&from, Some(to.as_fd()), 0)?;
        Ok(self.found)
    }

    /// Publishes the content of a folder. `to` is `None` in a dry run if the target folder does not exist
    /// yet.
    fn publish_folder(
        &mut self,
        from: &OwnedFd,
        to: Option<BorrowedFd<'_>>,
        depth: usize,
    ) -> Result<(), OutputError> {
        if depth > MAX_DEPTH {
            return Err(OutputError::TooDeep { path: self.relative.clone(), limit: MAX_DEPTH });
        }
        for name in self.names(from)? {
            self.relative.push(OsStr::from_bytes(name.as_bytes()));
            self.publish_entry(from, to, &name, depth)?;
            self.relative.pop();
        }
        Ok(())
    }

    /// The entries of a folder, sorted, so that messages do not depend on the file system.
    fn names(&mut self, folder: &OwnedFd) -> Result<Vec<CString>, OutputError> {
        let failed = |errno: Errno| self.staged_error("list", errno);
        let mut names = Vec::new();
        for entry in Dir::read_from(folder).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            if entry.file_name() != c"." && entry.file_name() != c".." {
                names.push(entry.file_name().to_owned());
                if self.entries + names.len() > MAX_ENTRIES {
                    return Err(OutputError::TooMany { limit: MAX_ENTRIES });
                }
            }
        }
        self.entries += names.len();
        names.sort_unstable();
        // Names with control characters come first, so that such a name is reported if there are several bad
        // names.
        names.sort_by_key(|name| !name.to_bytes().iter().any(u8::is_ascii_control));
        Ok(names)
    }

    fn publish_entry(
        &mut self,
        from: &OwnedFd,
        to: Option<BorrowedFd<'_>>,
        name: &CStr,
        depth: usize,
    ) -> Result<(), OutputError> {
        check_name(&self.relative)?;
        let stat = rustix::fs::statat(from, name, AtFlags::SYMLINK_NOFOLLOW)
            .map_err(|e| self.staged_error("inspect", e))?;
        let existing = self.existing_kind(to, name)?;
        if self.rule.reserved.iter().flatten().any(|name| may_be_same(&self.relative, name)) {
            return Err(self.name_taken());
        }
        let path = || self.relative.to_string_lossy().into_owned();
        if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
            if existing.is_some_and(|kind| kind != FileType::Directory) {
                return Err(self.name_exists());
            }
            self.found.push(GuestEntry { path: path(), length: None });
            let child = open_folder(from, name, OFlags::NOFOLLOW)
                .map_err(|e| self.staged_error("open", e))?;
            let target = self.target_folder(to, name, existing.is_some())?;
            return self.publish_folder(&child, target.as_ref().map(AsFd::as_fd), depth + 1);
        }
        check_kind(&self.relative, stat.st_mode, stat.st_nlink)?;
        self.found.push(GuestEntry { path: path(), length: u64::try_from(stat.st_size).ok() });
        match (existing, to) {
            (Some(FileType::RegularFile), Some(to)) => self.on_existing(from, to, name),
            (Some(_), _) => Err(self.name_exists()),
            (None, Some(to)) if !self.is_dry_run => self.transfer_file(from, to, name, false),
            (None, _) => Ok(()),
        }
    }

    /// Handles a file whose name exists in the output folder already.
    fn on_existing(
        &self,
        from: &OwnedFd,
        to: BorrowedFd<'_>,
        name: &CStr,
    ) -> Result<(), OutputError> {
        match self.rule.on_conflict {
            OnConflict::Error => {
                if !self.rule.same_passes || !self.is_same(from, to, name)? {
                    return Err(self.name_exists());
                }
                if self.is_dry_run {
                    return Ok(());
                }
                let removed = rustix::fs::unlinkat(from, name, AtFlags::empty());
                removed.map_err(|e| self.io("remove the copy of the published file", e))
            }
            OnConflict::Append if self.place().is_none() && !self.rule.same_passes => {
                Err(self.name_taken())
            }
            OnConflict::Append | OnConflict::Overwrite if self.is_dry_run => Ok(()),
            OnConflict::Append => self.transfer_file(from, to, name, false),
            OnConflict::Overwrite => self.transfer_file(from, to, name, true),
        }
    }

    fn is_same(
        &self,
        from: &OwnedFd,
        to: BorrowedFd<'_>,
        name: &CStr,
    ) -> Result<bool, OutputError> {
        let same = same_content(from.as_fd(), to, name, None);
        same.map_err(OutputError::io("read the output", self.target_path()))
    }

    fn place(&self) -> Option<(u64, u64)> {
        (self.rule.place)(self.relative.to_str()?)
    }

    /// The kind of the entry with this name in the target folder; `None` if there is no such entry.
    fn existing_kind(
        &self,
        to: Option<BorrowedFd<'_>>,
        name: &CStr,
    ) -> Result<Option<FileType>, OutputError> {
        let Some(to) = to else { return Ok(None) };
        match rustix::fs::statat(to, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(FileType::from_raw_mode(stat.st_mode))),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(self.io("inspect the output", errno)),
        }
    }

    /// The target folder to continue in, which is made if it is missing. `None` if it is missing in a dry
    /// run.
    fn target_folder(
        &self,
        to: Option<BorrowedFd<'_>>,
        name: &CStr,
        exists: bool,
    ) -> Result<Option<OwnedFd>, OutputError> {
        let Some(to) = to else { return Ok(None) };
        if !exists {
            if self.is_dry_run {
                return Ok(None);
            }
            rustix::fs::mkdirat(to, name, Mode::from_raw_mode(0o777))
                .map_err(|e| self.io("make the output folder", e))?;
        }
        let opened = open_folder(to, name, OFlags::NOFOLLOW);
        opened.map(Some).map_err(|e| self.io("open the output folder", e))
    }

    fn transfer_file(
        &self,
        from: &OwnedFd,
        to: BorrowedFd<'_>,
        name: &CStr,
        replace: bool,
    ) -> Result<(), OutputError> {
        if self.rule.on_conflict == OnConflict::Append {
            // A file without a place was published before, or its mini-batch does not count.
            let Some(place) = self.place() else { return Ok(()) };
            append_at(from.as_fd(), to, name, place)
                .map_err(OutputError::io("append to", self.target_path()))?;
            fail_point::pass("file-appended");
            return Ok(());
        }
        let moved = if replace {
            rustix::fs::renameat(from, name, to, name)
        } else {
            rename_new(from.as_fd(), name, to, name)
        };
        match moved {
            Err(Errno::XDEV) => copy_over(from.as_fd(), to, name, replace)
                .map_err(OutputError::io("copy to", self.target_path()))?,
            Err(Errno::EXIST) => return Err(self.name_exists()),
            other => {
                other.map_err(|e| self.io("move to", e))?;
                self.recheck(from, to, name)?;
            }
        }
        fail_point::pass("file-moved");
        Ok(())
    }

    /// Checks the file again after it was moved. The process that wrote the file may still run, and may have
    /// replaced it after the first check. It cannot replace the file in the output folder.
    fn recheck(&self, from: &OwnedFd, to: BorrowedFd<'_>, name: &CStr) -> Result<(), OutputError> {
        let stat = rustix::fs::statat(to, name, AtFlags::SYMLINK_NOFOLLOW)
            .map_err(|e| self.io("inspect the published", e))?;
        check_kind(&self.relative, stat.st_mode, stat.st_nlink).inspect_err(|_| {
            // Move the entry back. If this fails, remove it, unless it is a folder.
            if rustix::fs::renameat(to, name, from, name).is_err() {
                let _ = rustix::fs::unlinkat(to, name, AtFlags::empty());
            }
        })
    }

    fn target_path(&self) -> PathBuf {
        self.output.join(&self.relative)
    }

    fn name_exists(&self) -> OutputError {
        let path = self.relative.clone();
        let output = self.output.to_owned();
        match self.rule.on_conflict {
            OnConflict::Error => OutputError::Exists { path, output },
            OnConflict::Append | OnConflict::Overwrite => OutputError::OtherKind { path, output },
        }
    }

    fn name_taken(&self) -> OutputError {
        OutputError::Taken { path: self.relative.clone() }
    }

    /// An error in reading what an attempt left. Unless the machine lacks a resource, the attempt is to
    /// blame: a worker that was compromised by its guest may replace folders with links, or take permissions
    /// away.
    fn staged_error(&self, action: &'static str, errno: Errno) -> OutputError {
        match errno {
            Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::IO => {
                OutputError::io(action, self.target_path())(errno.into())
            }
            errno => OutputError::Unreadable { path: self.relative.clone(), source: errno.into() },
        }
    }

    fn io(&self, action: &'static str, errno: Errno) -> OutputError {
        OutputError::io(action, self.target_path())(errno.into())
    }
}

/// The name as compared by file systems that ignore case, or ignore dots and spaces at the end.
fn folded(name: &str) -> String {
    let lower = name.chars().flat_map(char::to_uppercase).flat_map(char::to_lowercase);
    let text: String = lower.collect();
    text.trim_end_matches(['.', ' ']).to_owned()
}

/// Whether a path below the output folder may be the same as `name` on some file system.
fn may_be_same(path: &Path, name: &str) -> bool {
    path.to_str().is_some_and(|path| folded(path) == folded(name))
}

/// Refuses a path below the output folder whose last name could cause trouble elsewhere.
pub(super) fn check_name(path: &Path) -> Result<(), OutputError> {
    let why = match path.file_name().unwrap_or_default().to_str() {
        _ if path.as_os_str().len() > MAX_PATH_BYTES => "makes a path of more than 1024 bytes",
        None => "is not UTF-8",
        Some(text) if text.chars().any(char::is_control) => "holds a control character",
        Some(text) if text.chars().any(is_terminal_control) => {
            "holds an invisible character, or one that changes the direction of a line"
        }
        Some(text) if text.starts_with('-') => "begins with -, as options of commands do",
        Some(text) if text.contains('`') || text.contains("$(") => "holds what a shell would run",
        Some(text) if folded(text).starts_with(OWN_PREFIX) => "is reserved",
        Some(_) => return Ok(()),
    };
    Err(OutputError::BadName { path: path.to_owned(), why })
}

/// Refuses everything except files that have a single name. The caller handles folders.
pub(super) fn check_kind(path: &Path, mode: u32, links: u64) -> Result<(), OutputError> {
    let what = match FileType::from_raw_mode(mode) {
        FileType::RegularFile if links <= 1 => return Ok(()),
        FileType::RegularFile => "a hard link, one of several names of a file",
        FileType::Symlink => "a symbolic link",
        FileType::Fifo => "a named pipe",
        FileType::Socket => "a socket",
        FileType::Directory => "a folder that was a file",
        _ => "a device",
    };
    Err(OutputError::NotPublishable { path: path.to_owned(), what })
}

fn open_folder(
    parent: impl AsFd,
    path: impl rustix::path::Arg,
    flags: OFlags,
) -> Result<OwnedFd, Errno> {
    let flags = flags | OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::openat(parent, path, flags, Mode::empty())
}

#[cfg(test)]
#[path = "publish_tests.rs"]
mod tests;
