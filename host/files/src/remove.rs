//! Removes what a guest made: folders of any depth, with any number of files.

use rustix::fs::{AtFlags, CWD, Dir, Mode, OFlags};
use rustix::io::Errno;
use std::ffi::CStr;
use std::fs;
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::path::Path;

/// Removes a file, a link or a folder with its content, if it exists. Links are not followed. Needs only a
/// few descriptors and a constant stack, at any depth of folders.
///
/// # Errors
/// Errors of the operating system, if something cannot be removed. What was removed before is not restored.
pub fn remove_tree(path: &Path) -> io::Result<()> {
    let removed = match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_dir() => empty_folder(path).and_then(|()| fs::remove_dir(path)),
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    };
    match removed {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

/// The size of a file, or of all files in a folder, in bytes. Links are not followed.
///
/// # Errors
/// Errors of the operating system, if a folder cannot be read.
pub fn tree_bytes(path: &Path) -> io::Result<u64> {
    let mut bytes = 0;
    let mut left = vec![path.to_owned()];
    while let Some(path) = left.pop() {
        let found = match fs::symlink_metadata(&path) {
            Ok(found) => found,
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        if found.is_dir() {
            for entry in fs::read_dir(&path)? {
                left.push(entry?.path());
            }
        } else if found.is_file() {
            bytes += found.len();
        }
    }
    Ok(bytes)
}

/// Removes everything in a folder, in the same way as [`remove_tree`].
///
/// # Errors
/// As for [`remove_tree`], and if `folder` is not a folder.
pub fn empty_folder(folder: &Path) -> io::Result<()> {
    let mut remover = TreeRemover { root: open(CWD, folder)?, count: 0 };
    // A listing may miss entries that change while it is read, so repeat it until nothing is left.
    while remover.pass()? {}
    Ok(())
}

/// Removes a tree level by level: each non-empty folder inside a folder of the root is moved up into the
/// root, where a later pass finds it.
struct TreeRemover {
    root: OwnedFd,
    /// The number in the next new name.
    count: u64,
}

impl TreeRemover {
    /// Goes through the root once. Returns whether it had any entries.
    fn pass(&mut self) -> Result<bool, Errno> {
        let mut found = false;
        for entry in Dir::read_from(&self.root)? {
            let entry = entry?;
            let name = entry.file_name();
            if is_dots(name) {
                continue;
            }
            found = true;
            if !remove_one(&self.root, name)? {
                self.empty(name)?;
            }
        }
        Ok(found)
    }

    /// Empties a folder of the root and removes it.
    fn empty(&mut self, name: &CStr) -> Result<(), Errno> {
        let folder = open(&self.root, name)?;
        for entry in Dir::read_from(&folder)? {
            let entry = entry?;
            if !is_dots(entry.file_name()) && !remove_one(&folder, entry.file_name())? {
                self.move_to_root(&folder, entry.file_name())?;
            }
        }
        // If the folder is not empty yet, the next pass continues.
        remove_one(&self.root, name).map(drop)
    }

    /// Moves a non-empty folder into the root, under a new name.
    fn move_to_root(&mut self, folder: &OwnedFd, name: &CStr) -> Result<(), Errno> {
        loop {
            let new_name = format!(".sandmill-{}", self.count);
            self.count += 1;
            match rustix::fs::renameat(folder, name, &self.root, new_name) {
                // The guest has used this name.
                Err(Errno::EXIST | Errno::NOTEMPTY | Errno::NOTDIR) => {}
                other => return other,
            }
        }
    }
}

/// Removes anything except a non-empty folder, for which it returns `false`.
fn remove_one(folder: &OwnedFd, name: &CStr) -> Result<bool, Errno> {
    match rustix::fs::unlinkat(folder, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => return Ok(true),
        Err(Errno::ISDIR) => {}
        Err(errno) => return Err(errno),
    }
    match rustix::fs::unlinkat(folder, name, AtFlags::REMOVEDIR) {
        Ok(()) | Err(Errno::NOENT) => Ok(true),
        Err(Errno::NOTEMPTY | Errno::EXIST) => Ok(false),
        Err(errno) => Err(errno),
    }
}

fn is_dots(name: &CStr) -> bool {
    name == c"." || name == c".."
}

fn open(parent: impl std::os::fd::AsFd, path: impl rustix::path::Arg) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(parent, path, flags, Mode::empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    /// Makes so many nested folders that the path of the innermost one is longer than the kernel allows.
    fn nest(root: &Path, depth: usize) {
        let mut folder = open(CWD, root).unwrap();
        for _ in 0..depth {
            rustix::fs::mkdirat(&folder, "d", Mode::from_raw_mode(0o777)).unwrap();
            folder = open(&folder, "d").unwrap();
        }
    }

    #[test]
    fn depth_costs_neither_descriptors_nor_stack() {
        // In memory if possible: on a disk, this takes a minute.
        let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        let root = folder.path().join("root");
        fs::create_dir(&root).unwrap();
        nest(&root, 30_000);
        remove_tree(&root).unwrap();
        assert!(!root.exists());
        remove_tree(&root).unwrap();
    }

    #[test]
    fn only_the_tree_itself_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("root");
        let outside = folder.path().join("outside");
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("file"), "").unwrap();
        for path in ["a/b/c/d", "a/x/y", ".sandmill-1/full"] {
            fs::create_dir_all(root.join(path)).unwrap();
            fs::write(root.join(path).join("file"), "").unwrap();
        }
        fs::write(root.join(".sandmill-0"), "").unwrap();
        symlink(&outside, root.join("a/b/link")).unwrap();
        empty_folder(&root).unwrap();
        assert_eq!(fs::read_dir(&root).unwrap().count(), 0);
        symlink(&outside, root.join("link")).unwrap();
        remove_tree(&root.join("link")).unwrap();
        assert!(outside.join("file").exists() && !root.join("link").is_symlink());
        assert!(empty_folder(&root.join("missing")).is_err());
    }
}
