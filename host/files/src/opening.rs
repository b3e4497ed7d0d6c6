//! Opens and makes files and folders at paths that other users may change, and makes sure that they were not
//! replaced.
//!
//! A path is checked first and opened later. In between, the owner of a folder in the path may put a
//! link, a fifo or a device there. So a path is resolved once, and afterwards only the resolved path
//! is opened: [`at_its_path`] follows no link, and [`regular`] does not block on a fifo.

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, mkdirat, openat, openat2};
use rustix::io::Errno;
use std::fs::{DirBuilder, File, Metadata, OpenOptions};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, ErrorKind};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Opens a regular file for reading, and returns its metadata, too. Links are followed. Never blocks,
/// although opening a fifo usually does.
///
/// # Errors
/// If it cannot be opened, or is a folder, a fifo, a socket or a device.
pub fn regular(path: &Path) -> io::Result<(File, Metadata)> {
    let flags = libc::O_NONBLOCK | libc::O_NOCTTY;
    let opened = OpenOptions::new().read(true).custom_flags(flags).open(path);
    regular_only(opened.map_err(|error| match error.raw_os_error() {
        // A socket, or a device without a driver.
        Some(libc::ENXIO) => io::Error::other("it is not a regular file"),
        _ => error,
    })?)
}

/// As [`regular`], but for a path that was resolved before, and so had no links.
///
/// # Errors
/// Those of [`regular`] and of [`at_its_path`].
pub fn regular_at_its_path(path: &Path) -> io::Result<(File, Metadata)> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
    regular_only(at_its_path(path, flags, Mode::empty())?.into())
}

fn regular_only(file: File) -> io::Result<(File, Metadata)> {
    let metadata = file.metadata()?;
    let kind = metadata.file_type();
    let found = match kind {
        _ if kind.is_file() => return Ok((file, metadata)),
        _ if kind.is_dir() => {
            let text = "it is not a regular file but a folder";
            return Err(io::Error::new(ErrorKind::IsADirectory, text));
        }
        _ if kind.is_fifo() => "a named pipe",
        _ if kind.is_socket() => "a socket",
        _ => "a device",
    };
    Err(io::Error::other(format!("it is not a regular file but {found}")))
}

/// Opens an absolute path that was resolved before, and so had no links. Fails if any part of the path is a
/// link now, even if the link appears during the call.
///
/// # Errors
/// If a part of the path is a link, or the path cannot be opened.
pub fn at_its_path(path: &Path, flags: OFlags, mode: Mode) -> io::Result<OwnedFd> {
    let flags = flags | OFlags::CLOEXEC;
    // The kernel accepts a mode only if the call may make a file.
    let mode = if flags.contains(OFlags::CREATE) { mode } else { Mode::empty() };
    match openat2(CWD, path, flags, mode, ResolveFlags::NO_SYMLINKS) {
        // Kernels before 5.6 lack the call, and the process wall blocks it.
        Err(Errno::NOSYS | Errno::PERM) => without_openat2(path, flags, mode),
        Err(Errno::LOOP) => Err(link_in_path(path)),
        opened => Ok(opened?),
    }
}

/// Opens the parent folder by its path, asks the kernel for the folder's actual path, and opens the last part
/// in it.
fn without_openat2(path: &Path, flags: OFlags, mode: Mode) -> io::Result<OwnedFd> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Ok(openat(CWD, path, flags, mode)?);
    };
    let folder =
        openat(CWD, parent, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    if std::fs::read_link(format!("/proc/self/fd/{}", folder.as_raw_fd()))? != parent {
        return Err(link_in_path(path));
    }
    match openat(&folder, name, flags | OFlags::NOFOLLOW, mode) {
        Err(Errno::LOOP) => Err(link_in_path(path)),
        // With `O_PATH`, the kernel may open the link itself.
        Ok(opened) if rustix::fs::fstat(&opened).is_ok_and(|found| is_link(found.st_mode)) => {
            Err(link_in_path(path))
        }
        opened => Ok(opened?),
    }
}

fn is_link(mode: u32) -> bool {
    rustix::fs::FileType::from_raw_mode(mode) == rustix::fs::FileType::Symlink
}

/// The error if a part of the path has become a link.
fn link_in_path(path: &Path) -> io::Error {
    io::Error::other(format!(
        "the path to {} now has a link, and had none when the paths of the job were checked: keep other \
         users from changing the folders of the job while it runs, and start it again",
        path.display()
    ))
}

/// Opens a folder as [`at_its_path`] does. If the folder or its parents are missing, makes them with this
/// mode.
///
/// # Errors
/// If a part of the path is a link, or a folder cannot be made.
pub fn folder_at_its_path(path: &Path, mode: Mode) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    match at_its_path(path, flags, Mode::empty()) {
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        opened => return opened,
    }
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(ErrorKind::NotFound.into());
    };
    let parent = folder_at_its_path(parent, mode)?;
    match mkdirat(&parent, name, mode) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(errno) => return Err(errno.into()),
    }
    Ok(openat(&parent, name, flags | OFlags::NOFOLLOW, Mode::empty())?)
}

/// Makes the missing folders of a path. Only their owner may use them.
///
/// # Errors
/// If a folder cannot be made.
pub fn make_private(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// A path for a new folder that only this process uses, in the folder for temporary files. Other users cannot
/// guess its name, so they cannot make such a folder first. The path has no links.
///
/// # Errors
/// If the folder for temporary files cannot be found.
pub fn scratch_path(purpose: &str) -> io::Result<PathBuf> {
    // The standard library seeds its hashers at random.
    let random = RandomState::new().hash_one(purpose);
    Ok(std::env::temp_dir().canonicalize()?.join(format!("sandmill-{purpose}-{random:016x}")))
}

/// Makes a folder that must not exist yet. Only its owner may use it.
///
/// # Errors
/// If it exists, or cannot be made.
pub fn make_new_private(path: &Path) -> io::Result<()> {
    DirBuilder::new().mode(0o700).create(path)
}

/// A folder that is removed on drop, with its content.
#[derive(Debug)]
pub struct ScratchFolder(PathBuf);

impl ScratchFolder {
    /// Makes a folder at [`scratch_path`]. Only its owner may use it.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn create(purpose: &str) -> io::Result<Self> {
        let path = scratch_path(purpose)?;
        make_new_private(&path)?;
        Ok(Self(path))
    }

    /// Makes a folder at this path, with its parents. Only its owner may use it. The folder may exist
    /// already.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn at(path: PathBuf) -> io::Result<Self> {
        make_private(&path)?;
        Ok(Self(path))
    }

    /// The path of the folder.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for ScratchFolder {
    fn drop(&mut self) {
        // If this fails, the rest stays, but no other process uses this path.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Resolves the links in a path. The last parts of the path need not exist yet.
///
/// # Errors
/// If a part cannot be inspected.
pub fn resolve(path: &Path) -> io::Result<PathBuf> {
    let absolute = std::path::absolute(path)?;
    let mut missing = Vec::new();
    let mut prefix = absolute.as_path();
    loop {
        match prefix.canonicalize() {
            Ok(mut resolved) => {
                resolved.extend(missing.iter().rev());
                return Ok(resolved);
            }
            Err(e) if e.kind() == ErrorKind::NotFound => {
                // `..` below a missing folder cannot be resolved.
                let (Some(parent), Some(name)) = (prefix.parent(), prefix.file_name()) else {
                    return Err(e);
                };
                missing.push(name.to_owned());
                prefix = parent;
            }
            Err(e) => return Err(e),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;
    use std::time::{Duration, Instant};

    /// A folder without links in its path.
    fn folder() -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().canonicalize().unwrap();
        (dir, path)
    }

    fn fifo(path: &Path) {
        let kind = rustix::fs::FileType::Fifo;
        rustix::fs::mknodat(CWD, path, kind, Mode::RUSR, 0).unwrap();
    }

    #[test]
    fn only_regular_files_are_opened_and_fifos_never_block() {
        let (_dir, base) = folder();
        std::fs::write(base.join("file"), "12345").unwrap();
        symlink("file", base.join("link")).unwrap();
        assert_eq!(regular(&base.join("file")).unwrap().1.len(), 5);
        assert_eq!(regular(&base.join("link")).unwrap().1.len(), 5);
        fifo(&base.join("fifo"));
        let _socket = std::os::unix::net::UnixListener::bind(base.join("socket")).unwrap();
        let describe = |path: &Path| regular(path).unwrap_err().to_string();
        assert_eq!(describe(&base.join("fifo")), "it is not a regular file but a named pipe");
        assert_eq!(describe(&base.join("socket")), "it is not a regular file");
        assert_eq!(describe(Path::new("/dev/zero")), "it is not a regular file but a device");
        assert_eq!(regular(&base).unwrap_err().kind(), ErrorKind::IsADirectory);
        assert_eq!(regular(&base.join("gone")).unwrap_err().kind(), ErrorKind::NotFound);
    }

    type Open = fn(&Path, OFlags, Mode) -> io::Result<OwnedFd>;
    const VARIANTS: [Open; 2] = [at_its_path, without_openat2];

    #[test]
    fn links_within_a_path_are_refused() {
        let (_dir, base) = folder();
        std::fs::create_dir_all(base.join("real/deep")).unwrap();
        std::fs::write(base.join("real/deep/file"), "").unwrap();
        symlink("real", base.join("link")).unwrap();
        symlink("file", base.join("real/deep/last")).unwrap();
        for open in VARIANTS {
            for flags in [OFlags::RDONLY, OFlags::PATH] {
                let opened = |path: &str| open(&base.join(path), flags, Mode::empty()).map(drop);
                opened("real/deep").unwrap();
                opened("real/deep/file").unwrap();
                for path in ["link/deep", "link/deep/file", "real/deep/last"] {
                    let error = opened(path).unwrap_err().to_string();
                    assert!(
                        error.starts_with("the path to ") && error.contains(" now has a link"),
                        "{path}: {error}"
                    );
                }
                let gone = opened("real/gone").unwrap_err();
                assert_eq!(gone.kind(), ErrorKind::NotFound);
            }
            let make = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
            open(&base.join("link/new"), make, Mode::RUSR).unwrap_err();
            assert!(!base.join("real/new").exists());
        }
    }

    #[test]
    fn folders_are_never_made_through_links() {
        let (_dir, base) = folder();
        std::fs::create_dir(base.join("elsewhere")).unwrap();
        symlink("elsewhere", base.join("link")).unwrap();
        folder_at_its_path(&base.join("a/b/c"), Mode::RWXU).unwrap();
        let mode = base.join("a/b/c").metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
        folder_at_its_path(&base.join("a/b/c"), Mode::RWXU).unwrap();
        folder_at_its_path(&base.join("link/b"), Mode::RWXU).unwrap_err();
        assert!(!base.join("elsewhere/b").exists());
    }

    /// A thread swaps a folder and a link that leads out of it, as fast as it can.
    #[test]
    fn swapping_a_folder_for_a_link_never_works() {
        let (_dir, base) = folder();
        for inside in ["root/a", "secret"] {
            std::fs::create_dir_all(base.join(inside)).unwrap();
        }
        std::fs::write(base.join("root/a/file"), "public").unwrap();
        std::fs::write(base.join("secret/file"), "secret").unwrap();
        symlink("../secret", base.join("root/link")).unwrap();
        let path = |name: &str| base.join(name);
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let folder = path("root/a");
                    let link = path("root/link");
                    let swap = rustix::fs::RenameFlags::EXCHANGE;
                    rustix::fs::renameat_with(CWD, &folder, CWD, &link, swap).unwrap();
                }
            });
            let mut opened = 0;
            let mut refused = 0;
            let began = Instant::now();
            while (opened < 50 || refused < 50) && began.elapsed() < Duration::from_secs(20) {
                for open in VARIANTS {
                    match open(&path("root/a/file"), OFlags::RDONLY, Mode::empty()) {
                        Ok(file) => {
                            let text = io::read_to_string(File::from(file)).unwrap();
                            assert_eq!(text, "public");
                            opened += 1;
                        }
                        Err(_) => refused += 1,
                    }
                    let make = OFlags::WRONLY | OFlags::CREATE;
                    let _ = open(&path("root/a/written"), make, Mode::RUSR | Mode::WUSR);
                }
                let _ = folder_at_its_path(&path("root/a/made"), Mode::RWXU);
            }
            stop.store(true, Ordering::Relaxed);
            assert!(opened > 0 && refused > 0, "{opened} opened, {refused} refused");
        });
        assert_eq!(
            std::fs::read_dir(path("secret")).unwrap().count(),
            1,
            "nothing was written there"
        );
    }

    #[test]
    fn scratch_folders_are_private_and_unpredictable() {
        let [one, other] = [(); 2].map(|()| scratch_path("test").unwrap());
        assert_ne!(one, other);
        for path in [one, other] {
            make_new_private(&path).unwrap();
            make_new_private(&path).unwrap_err();
            assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o700);
            std::fs::remove_dir(path).unwrap();
        }
    }
}
