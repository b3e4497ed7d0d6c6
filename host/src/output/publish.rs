//! Files that guests wrote, on their way into the job's output folder.
//!
//! Everything goes by open folders and never follows a link that a guest made. A file appears under
//! its name whole or not at all, and never in the place of another.

use super::OutputError;
use super::remove::remove_tree;
use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, RenameFlags};
use rustix::io::Errno;
use std::ffi::{CStr, CString, OsStr};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// How deep folders may lie in each other.
pub(super) const MAX_DEPTH: usize = 64;

/// How many files and folders one attempt may leave.
pub(super) const MAX_ENTRIES: usize = 100_000;

/// Bytes of a path below the output folder: readers of the results must be able to name it.
const MAX_PATH: usize = 1024;

/// The name of a file while it is copied from another file system.
const PARTIAL: &CStr = c".sandmill-partial";

/// Checks that everything in `staged` can be published, and changes nothing. Returns the number of
/// files.
pub fn check_files(staged: &Path, output: &Path) -> Result<u64, OutputError> {
    Publisher { output, relative: PathBuf::new(), files: 0, entries: 0, dry: true }.start(staged)
}

/// Moves the files and folders in `staged` into `output`, merging folders, and removes `staged`.
/// Returns the number of files. Checks everything first, so that what is wrong with a guest's files
/// leaves nothing half published; after an error of the machine the call can be repeated, and where
/// `staged` is gone it has succeeded before and returns 0.
pub fn publish_files(staged: &Path, output: &Path) -> Result<u64, OutputError> {
    check_files(staged, output)?;
    let publisher =
        Publisher { output, relative: PathBuf::new(), files: 0, entries: 0, dry: false };
    let moved = publisher.start(staged)?;
    // Only empty folders are left: should they stay, no harm is done.
    let _ = remove_tree(staged);
    Ok(moved)
}

/// Removes what an attempt left, if it left anything.
pub fn discard_files(staged: &Path) -> Result<(), OutputError> {
    remove_tree(staged).map_err(OutputError::io("remove the unpublished files in", staged))
}

struct Publisher<'a> {
    output: &'a Path,
    /// Where in the output folder the walk is.
    relative: PathBuf,
    files: u64,
    /// Files and folders.
    entries: usize,
    dry: bool,
}

impl Publisher<'_> {
    fn start(mut self, staged: &Path) -> Result<u64, OutputError> {
        let from = match open_folder(CWD, staged, OFlags::NOFOLLOW) {
            Ok(from) => from,
            Err(Errno::NOENT) => return Ok(0),
            Err(errno) => return Err(OutputError::io("open", staged)(errno.into())),
        };
        // The output folder itself is the user's choice and may well be a link.
        let to = open_folder(CWD, self.output, OFlags::empty()).map_err(|errno| {
            OutputError::io("open the output folder", self.output)(errno.into())
        })?;
        self.folder(&from, Some(to.as_fd()), 0)?;
        Ok(self.files)
    }

    /// `to` is none in a dry walk below a folder that is not there yet.
    fn folder(
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
            self.entry(from, to, &name, depth)?;
            self.relative.pop();
        }
        Ok(())
    }

    /// The entries of a folder, sorted, so that messages do not depend on the file system.
    fn names(&mut self, folder: &OwnedFd) -> Result<Vec<CString>, OutputError> {
        let failed =
            |errno: Errno| OutputError::io("list the unpublished", self.target())(errno.into());
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
        Ok(names)
    }

    fn entry(
        &mut self,
        from: &OwnedFd,
        to: Option<BorrowedFd<'_>>,
        name: &CStr,
        depth: usize,
    ) -> Result<(), OutputError> {
        check_name(&self.relative)?;
        let stat = rustix::fs::statat(from, name, AtFlags::SYMLINK_NOFOLLOW)
            .map_err(|e| self.io("look at the unpublished", e))?;
        let there = self.existing(to, name)?;
        if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
            if there.is_some_and(|kind| kind != FileType::Directory) {
                return Err(self.exists());
            }
            let child = open_folder(from, name, OFlags::NOFOLLOW)
                .map_err(|e| self.io("open the unpublished", e))?;
            let target = self.target_folder(to, name, there.is_some())?;
            return self.folder(&child, target.as_ref().map(AsFd::as_fd), depth + 1);
        }
        check_kind(&self.relative, stat.st_mode, stat.st_nlink)?;
        if there.is_some() {
            return Err(self.exists());
        }
        self.files += 1;
        match to {
            Some(to) if !self.dry => self.move_file(from, to, name),
            _ => Ok(()),
        }
    }

    fn existing(
        &self,
        to: Option<BorrowedFd<'_>>,
        name: &CStr,
    ) -> Result<Option<FileType>, OutputError> {
        let Some(to) = to else { return Ok(None) };
        match rustix::fs::statat(to, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(FileType::from_raw_mode(stat.st_mode))),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(self.io("look at the output", errno)),
        }
    }

    /// The folder to go on in, made where it is not there; none in a dry walk.
    fn target_folder(
        &self,
        to: Option<BorrowedFd<'_>>,
        name: &CStr,
        exists: bool,
    ) -> Result<Option<OwnedFd>, OutputError> {
        let Some(to) = to else { return Ok(None) };
        if !exists {
            if self.dry {
                return Ok(None);
            }
            rustix::fs::mkdirat(to, name, Mode::from_raw_mode(0o777))
                .map_err(|e| self.io("make the output folder", e))?;
        }
        let opened = open_folder(to, name, OFlags::NOFOLLOW);
        opened.map(Some).map_err(|e| self.io("open the output folder", e))
    }

    fn move_file(
        &self,
        from: &OwnedFd,
        to: BorrowedFd<'_>,
        name: &CStr,
    ) -> Result<(), OutputError> {
        match rename_new(from.as_fd(), name, to, name) {
            Err(Errno::XDEV) => {
                copy_over(from.as_fd(), to, name).map_err(OutputError::io("copy to", self.target()))
            }
            Err(Errno::EXIST) => Err(self.exists()),
            other => other.map_err(|e| self.io("move to", e)),
        }
    }

    fn target(&self) -> PathBuf {
        self.output.join(&self.relative)
    }

    fn exists(&self) -> OutputError {
        OutputError::Exists { path: self.relative.clone(), output: self.output.to_owned() }
    }

    fn io(&self, action: &'static str, errno: Errno) -> OutputError {
        OutputError::io(action, self.target())(errno.into())
    }
}

/// Refuses a path below the output folder whose last name would trouble others.
pub(super) fn check_name(path: &Path) -> Result<(), OutputError> {
    let why = match path.file_name().unwrap_or_default().to_str() {
        _ if path.as_os_str().len() > MAX_PATH => "makes a path of more than 1024 bytes",
        None => "is not UTF-8",
        Some(text) if text.chars().any(char::is_control) => "holds a control character",
        Some(text) if text == PARTIAL.to_str().unwrap_or_default() => "is reserved",
        Some(_) => return Ok(()),
    };
    Err(OutputError::BadName { path: path.to_owned(), why })
}

/// Refuses all but folders and files that have one name.
pub(super) fn check_kind(path: &Path, mode: u32, links: u64) -> Result<(), OutputError> {
    let what = match FileType::from_raw_mode(mode) {
        FileType::RegularFile if links <= 1 => return Ok(()),
        FileType::RegularFile => "a hard link, one of several names of a file",
        FileType::Symlink => "a symbolic link",
        FileType::Fifo => "a named pipe",
        FileType::Socket => "a socket",
        _ => "a device",
    };
    Err(OutputError::NotPublishable { path: path.to_owned(), what })
}

fn open_folder(
    at: impl AsFd,
    path: impl rustix::path::Arg,
    flags: OFlags,
) -> Result<OwnedFd, Errno> {
    let flags = flags | OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::openat(at, path, flags, Mode::empty())
}

/// Renames without replacing.
fn rename_new(
    from: BorrowedFd<'_>,
    old: &CStr,
    to: BorrowedFd<'_>,
    new: &CStr,
) -> Result<(), Errno> {
    match rustix::fs::renameat_with(from, old, to, new, RenameFlags::NOREPLACE) {
        // The file system cannot do that in one step. The leader alone writes to the output folder.
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
            match rustix::fs::statat(to, new, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(_) => Err(Errno::EXIST),
                Err(Errno::NOENT) => rustix::fs::renameat(from, old, to, new),
                Err(errno) => Err(errno),
            }
        }
        other => other,
    }
}

/// Moves a file to another file system: copied under another name, on the disk, then renamed.
fn copy_over(from: BorrowedFd<'_>, to: BorrowedFd<'_>, name: &CStr) -> io::Result<()> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let mut source = File::from(rustix::fs::openat(from, name, flags, Mode::empty())?);
    if !source.metadata()?.is_file() {
        return Err(io::Error::other("it is no regular file any more"));
    }
    // Left over by a leader that was killed.
    match rustix::fs::unlinkat(to, PARTIAL, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => {}
        Err(errno) => return Err(errno.into()),
    }
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let mode = Mode::from_raw_mode(0o666);
    let mut copy = File::from(rustix::fs::openat(to, PARTIAL, flags, mode)?);
    let copied = io::copy(&mut source, &mut copy)
        .and_then(|_| copy.sync_all())
        .and_then(|()| Ok(rename_new(to, PARTIAL, to, name)?));
    if copied.is_err() {
        let _ = rustix::fs::unlinkat(to, PARTIAL, AtFlags::empty());
    }
    copied?;
    // The new name is on the disk before the old one goes.
    rustix::fs::fsync(to)?;
    Ok(rustix::fs::unlinkat(from, name, AtFlags::empty())?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{MetadataExt, symlink};

    struct Folders {
        _root: tempfile::TempDir,
        staged: PathBuf,
        output: PathBuf,
    }

    fn folders() -> Folders {
        let root = tempfile::tempdir().unwrap();
        let (staged, output) = (root.path().join("staged"), root.path().join("output"));
        fs::create_dir_all(staged.join("a/b")).unwrap();
        fs::create_dir(&output).unwrap();
        fs::write(staged.join("one.txt"), "1").unwrap();
        fs::write(staged.join("a/b/two.txt"), "2").unwrap();
        Folders { _root: root, staged, output }
    }

    /// The error, after a check that nothing was published.
    fn refused(folders: &Folders) -> OutputError {
        let error = publish_files(&folders.staged, &folders.output).unwrap_err();
        assert!(error.is_guest_fault(), "{error}");
        assert!(!folders.output.join("one.txt").exists());
        assert!(folders.staged.join("one.txt").exists());
        error
    }

    #[test]
    fn files_move_and_folders_merge() {
        let Folders { _root, staged, output } = folders();
        fs::create_dir(output.join("a")).unwrap();
        fs::write(output.join("a/old.txt"), "0").unwrap();
        assert_eq!(check_files(&staged, &output).unwrap(), 2);
        assert!(!output.join("one.txt").exists());
        assert_eq!(publish_files(&staged, &output).unwrap(), 2);
        assert_eq!(fs::read_to_string(output.join("one.txt")).unwrap(), "1");
        assert_eq!(fs::read_to_string(output.join("a/b/two.txt")).unwrap(), "2");
        assert_eq!(fs::read_to_string(output.join("a/old.txt")).unwrap(), "0");
        assert!(!staged.exists());
        assert_eq!(publish_files(&staged, &output).unwrap(), 0, "a repetition does no harm");
    }

    #[test]
    fn existing_files_stay() {
        let folders = folders();
        fs::create_dir_all(folders.output.join("a/b")).unwrap();
        fs::write(folders.output.join("a/b/two.txt"), "old").unwrap();
        let text = refused(&folders).to_string();
        let text = text.replace(&folders.output.display().to_string(), "OUT");
        insta::assert_snapshot!(text, @r#"the output "a/b/two.txt" exists already in OUT: files are never overwritten, so the file names of different mini-batches must differ (put the mini-batch's id or the item's name into them)"#);
        assert_eq!(fs::read_to_string(folders.output.join("a/b/two.txt")).unwrap(), "old");
    }

    #[test]
    fn links_and_devices_are_refused() {
        let case = |make: &dyn Fn(&Path)| {
            let folders = folders();
            make(&folders.staged);
            refused(&folders).to_string()
        };
        insta::assert_snapshot!(case(&|dir| symlink("/etc/passwd", dir.join("a/link")).unwrap()), @r#"the output "a/link" is a symbolic link: only ordinary files and folders are published, so write the data itself"#);
        insta::assert_snapshot!(case(&|dir| symlink("a", dir.join("folder")).unwrap()), @r#"the output "folder" is a symbolic link: only ordinary files and folders are published, so write the data itself"#);
        insta::assert_snapshot!(case(&|dir| fs::hard_link(dir.join("a/b/two.txt"), dir.join("x")).unwrap()), @r#"the output "a/b/two.txt" is a hard link, one of several names of a file: only ordinary files and folders are published, so write the data itself"#);
        insta::assert_snapshot!(case(&|dir| rustix::fs::mknodat(CWD, dir.join("pipe"), FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap()), @r#"the output "pipe" is a named pipe: only ordinary files and folders are published, so write the data itself"#);
        insta::assert_snapshot!(case(&|dir| { std::os::unix::net::UnixListener::bind(dir.join("s")).unwrap(); }), @r#"the output "s" is a socket: only ordinary files and folders are published, so write the data itself"#);
        insta::assert_snapshot!(case(&|dir| fs::write(dir.join("a\nb"), "").unwrap()), @r#"the output "a\nb" cannot be published because its name holds a control character: choose another name"#);
        insta::assert_snapshot!(case(&|dir| fs::write(dir.join(OsStr::from_bytes(b"a\xff")), "").unwrap()), @r#"the output "a\xFF" cannot be published because its name is not UTF-8: choose another name"#);
    }

    #[test]
    fn folders_without_end_are_refused() {
        let folders = folders();
        fs::create_dir_all(folders.staged.join("d/".repeat(70))).unwrap();
        assert!(matches!(refused(&folders), OutputError::TooDeep { .. }));
    }

    #[test]
    fn a_link_in_the_output_folder_is_not_followed() {
        let folders = folders();
        let elsewhere = tempfile::tempdir().unwrap();
        symlink(elsewhere.path(), folders.output.join("a")).unwrap();
        assert!(matches!(refused(&folders), OutputError::Exists { .. }));
    }

    #[test]
    fn files_are_copied_between_file_systems() {
        let folders = folders();
        let (from, to) = (
            open_folder(CWD, &folders.staged, OFlags::empty()).unwrap(),
            open_folder(CWD, &folders.output, OFlags::empty()).unwrap(),
        );
        fs::write(folders.output.join(".sandmill-partial"), "left over").unwrap();
        copy_over(from.as_fd(), to.as_fd(), c"one.txt").unwrap();
        assert_eq!(fs::read_to_string(folders.output.join("one.txt")).unwrap(), "1");
        assert!(!folders.staged.join("one.txt").exists());
        assert_eq!(fs::read_dir(&folders.output).unwrap().count(), 1);
        fs::write(folders.staged.join("one.txt"), "again").unwrap();
        copy_over(from.as_fd(), to.as_fd(), c"one.txt").unwrap_err();
        assert_eq!(fs::read_to_string(folders.output.join("one.txt")).unwrap(), "1");
    }

    #[test]
    fn another_file_system_is_no_trouble() {
        let folders = folders();
        let Ok(other) = tempfile::tempdir_in("/dev/shm") else { return };
        if fs::metadata(other.path()).unwrap().dev() == fs::metadata(&folders.staged).unwrap().dev()
        {
            return;
        }
        assert_eq!(publish_files(&folders.staged, other.path()).unwrap(), 2);
        assert_eq!(fs::read_to_string(other.path().join("a/b/two.txt")).unwrap(), "2");
    }
}
