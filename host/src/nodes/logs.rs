//! Copies the logs that nodes wrote into the log tree of the job. Guests may have left anything among them.

use crate::opening::{at_its_path, folder_at_its_path};
use rustix::fs::{Mode, OFlags};
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::Path;

/// The deepest nesting of folders that is copied.
const MAX_DEPTH: usize = 64;

/// Copies all ordinary files of a folder, with their folders. Leaves out links and special files. Goes on after an
/// error, and returns the first one.
///
/// # Errors
/// If a file or a folder cannot be copied.
pub(super) fn copy_logs(from: &Path, to: &Path) -> io::Result<()> {
    copy_folder(from, to, 0)
}

fn copy_folder(from: &Path, to: &Path, depth: usize) -> io::Result<()> {
    if depth > MAX_DEPTH {
        return Err(io::Error::other(format!("{} is too deep", from.display())));
    }
    let entries = match fs::read_dir(from) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    let mut first = Ok(());
    for entry in entries {
        let copied = entry.and_then(|entry| {
            let from = entry.path();
            let to = to.join(entry.file_name());
            // The type of the entry itself: links are not followed.
            let kind = entry.file_type()?;
            match kind {
                kind if kind.is_dir() => copy_folder(&from, &to, depth + 1),
                kind if kind.is_file() => copy_file(&from, &to),
                _ => Ok(()),
            }
        });
        first = first.and(copied);
    }
    first
}

fn copy_file(from: &Path, to: &Path) -> io::Result<()> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let mut source = File::from(rustix::fs::open(from, flags, Mode::empty())?);
    if !source.metadata()?.is_file() {
        return Ok(());
    }
    to.parent().map_or(Ok(()), |folder| folder_at_its_path(folder, Mode::RWXU).map(drop))?;
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::CLOEXEC;
    let target = at_its_path(to, flags, Mode::RUSR | Mode::WUSR)?;
    io::copy(&mut source, &mut File::from(target)).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn only_ordinary_files_are_copied() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let from = root.join("from");
        let to = root.join("to");
        fs::create_dir_all(from.join("user/1")).unwrap();
        fs::write(from.join("user/1/a.txt"), "a").unwrap();
        fs::write(root.join("secret"), "s").unwrap();
        symlink(root.join("secret"), from.join("user/1/link")).unwrap();
        symlink(&root, from.join("user/2")).unwrap();
        copy_logs(&from, &to).unwrap();
        assert_eq!(fs::read(to.join("user/1/a.txt")).unwrap(), b"a");
        assert!(!to.join("user/1/link").exists() && !to.join("user/2").exists());
        copy_logs(&root.join("none"), &to).unwrap();
    }
}
