//! Reads whole files for the guest, with the same grants as WASI's files. A file in the same folder as the
//! previous file takes four syscalls: open, stat, read and close.

use super::error::GuestReadError;
use super::path_length::MAX_PATH_BYTES;
use super::whole_file::OpenFile;
use crate::dataset::FileVersion;
use crate::model::{ByteSize, Mount};
use crate::opening::at_its_path;
use cap_std::fs::{Dir, File, OpenOptions, OpenOptionsExt};
use rustix::fs::{FileType, Mode, OFlags, fstat, fstatfs};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::time::{Duration, Instant};

/// The time for which the last folder stays open. After that, the next call opens the folder again. An open
/// folder saves time, because a folder may contain the small files of many mini-batches.
const FOLDER_OPEN_TIME: Duration = Duration::from_millis(100);

/// The types (`f_type`) of file systems on disks or in memory, which report exact file lengths. Other file
/// systems, such as `/proc` or network file systems, may report wrong or old lengths. ext2 and ext3 have the
/// type of ext4.
const EXACT_FILE_SYSTEMS: [libc::c_long; 5] = [
    libc::EXT4_SUPER_MAGIC,
    libc::XFS_SUPER_MAGIC,
    libc::BTRFS_SUPER_MAGIC,
    libc::F2FS_SUPER_MAGIC,
    libc::TMPFS_MAGIC,
];

/// The open folders that a guest sees.
pub(super) struct OpenFolders {
    /// Sorted by the length of their guest paths, longest first.
    mounts: Vec<GrantedFolder>,
    limit: ByteSize,
}

struct GrantedFolder {
    guest: String,
    dir: Dir,
    /// The number of the folder's file system (`st_dev`), if the file system reports
    /// [exact](EXACT_FILE_SYSTEMS) lengths.
    exact_device: Option<u64>,
    /// The folder below `dir` from which a file was last read. `None` if guests can write to `dir`:
    /// they could replace the last folder by another one at any time.
    last: Option<LastFolder>,
    is_writable: bool,
}

struct LastFolder {
    /// Relative to [`GrantedFolder::dir`].
    path: String,
    dir: Dir,
    opened_at: Instant,
}

impl OpenFolders {
    /// Opens the folders of `mounts`.
    ///
    /// # Errors
    /// The first mount that cannot be opened, and why.
    pub(super) fn open(mounts: &[Mount], limit: ByteSize) -> Result<Self, (&Mount, io::Error)> {
        let mut opened = Vec::with_capacity(mounts.len());
        for mount in mounts {
            // Do not follow links: a link that was created since the path was resolved would lead to a folder
            // that was not granted.
            let flags = OFlags::RDONLY | OFlags::DIRECTORY;
            let dir = at_its_path(&mount.host, flags, Mode::empty());
            let dir = Dir::from_std_file(dir.map_err(|error| (mount, error))?.into());
            opened.push(GrantedFolder {
                guest: mount.guest.trim_end_matches('/').to_owned(),
                exact_device: exact_device(&dir),
                dir,
                last: None,
                is_writable: mount.writable,
            });
        }
        opened.sort_by_key(|granted| std::cmp::Reverse(granted.guest.len()));
        Ok(Self { mounts: opened, limit })
    }

    /// The open folder of a mount.
    pub(super) fn opened(&self, mount: &Mount) -> Option<BorrowedFd<'_>> {
        let guest = mount.guest.trim_end_matches('/');
        let granted = self.mounts.iter().find(|granted| granted.guest == guest)?;
        Some(granted.dir.as_fd())
    }

    /// Closes folders that have been open for a while, so that the next read looks them up again.
    /// The caller must call this before each call into the guest.
    pub(super) fn close_old_folders(&mut self, now: Instant) {
        for granted in &mut self.mounts {
            granted
                .last
                .take_if(|last| now.saturating_duration_since(last.opened_at) > FOLDER_OPEN_TIME);
        }
    }

    /// Opens the file at a guest path, for reading it as a whole. Also returns its current length
    /// and modification time.
    ///
    /// # Errors
    /// If the file cannot be read. The error is a message for the guest.
    pub(super) fn read(&mut self, path: &str) -> Result<(OpenFile, FileVersion), GuestReadError> {
        if path.len() > MAX_PATH_BYTES {
            return Err(GuestReadError::Long { limit: MAX_PATH_BYTES });
        }
        let (file, exact_device) = self.open_file(path)?;
        let stat = fstat(&file)
            .map_err(|error| GuestReadError::Io { path: path.to_owned(), source: error.into() })?;
        if !FileType::from_raw_mode(stat.st_mode).is_file() {
            return Err(GuestReadError::Irregular { path: path.to_owned() });
        }
        let found = FileVersion::from(&stat);
        if found.length > self.limit.0 {
            let path = path.to_owned();
            let length = found.length;
            let limit = self.limit;
            return Err(GuestReadError::TooLarge { path, length, limit });
        }
        // Another file system may be mounted below the folder.
        let is_exact = exact_device == Some(stat.st_dev);
        let file = file.into_std();
        Ok((OpenFile { file, length: found.length, is_exact, limit: self.limit }, found))
    }

    /// Opens a regular file in one of the guest's read-only folders. `None` if the file cannot be opened, or
    /// a part of its path may be a link.
    pub(super) fn open_plain(&mut self, guest: &str, inside: &str) -> Option<std::fs::File> {
        let guest = guest.trim_end_matches('/');
        let granted = self.mounts.iter_mut().find(|granted| granted.guest == guest)?;
        let file = granted.open_beside_last(inside)?;
        let stat = fstat(&file).ok()?;
        FileType::from_raw_mode(stat.st_mode).is_file().then(|| file.into_std())
    }

    /// Opens the file. Also returns the [exact device](GrantedFolder::exact_device) of its granted folder.
    fn open_file(&mut self, path: &str) -> Result<(File, Option<u64>), GuestReadError> {
        if !path.starts_with('/') {
            return Err(GuestReadError::Relative { path: path.to_owned() });
        }
        if path.contains('\0') {
            return Err(GuestReadError::Null { path: path.to_owned() });
        }
        let found = self.mounts.iter_mut().find_map(|granted| {
            let inside = path.strip_prefix(granted.guest.as_str())?;
            let inside = if inside.is_empty() { inside } else { inside.strip_prefix('/')? };
            Some((granted, inside.trim_start_matches('/')))
        });
        let Some((granted, inside)) = found else {
            return Err(GuestReadError::Outside { path: path.to_owned() });
        };
        if inside.is_empty() {
            return Err(GuestReadError::Irregular { path: path.to_owned() });
        }
        let opened = granted
            .open(inside)
            .map_err(|source| GuestReadError::Io { path: path.to_owned(), source })?;
        Ok((opened, granted.exact_device))
    }
}

impl GrantedFolder {
    fn open(&mut self, inside: &str) -> io::Result<File> {
        if let Some(file) = self.open_beside_last(inside) {
            return Ok(file);
        }
        let mut options = OpenOptions::new();
        // Without these flags, opening a FIFO would wait for a writer, and opening a device could block as
        // well.
        options.read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY);
        self.dir.open_with(Path::new(inside), &options)
    }

    /// Opens the file by its name in the last folder. `None` if that fails: the name may be a link or
    /// invalid, or another folder may have replaced the last one.
    fn open_beside_last(&mut self, inside: &str) -> Option<File> {
        let (folder, name) = match inside.rsplit_once('/') {
            Some(("", _)) => return None,
            parts => parts.unwrap_or(("", inside)),
        };
        if self.is_writable || matches!(name, "" | "." | "..") {
            return None;
        }
        if folder.is_empty() {
            return open_name(&self.dir, name);
        }
        if self.last.as_ref().is_none_or(|last| last.path != folder) {
            let dir = self.dir.open_dir(folder).ok()?;
            self.last =
                Some(LastFolder { path: folder.to_owned(), dir, opened_at: Instant::now() });
        }
        let opened = self.last.as_ref().and_then(|last| open_name(&last.dir, name));
        if opened.is_none() {
            self.last = None;
        }
        opened
    }
}

/// The number of a folder's file system, if the file system reports [exact](EXACT_FILE_SYSTEMS) lengths.
fn exact_device(dir: &Dir) -> Option<u64> {
    let is_exact = EXACT_FILE_SYSTEMS.contains(&fstatfs(dir).ok()?.f_type);
    is_exact.then_some(fstat(dir).ok()?.st_dev)
}

/// Opens a file that is not a symbolic link. Does not block, even for a FIFO.
fn open_name(dir: &Dir, name: &str) -> Option<File> {
    let flags =
        OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let opened = rustix::fs::openat(dir, name, flags, Mode::empty()).ok()?;
    Some(File::from_std(opened.into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::unix::fs::symlink;

    fn files(limit: u64) -> (tempfile::TempDir, OpenFolders) {
        let root = tempfile::tempdir().expect("temporary folder");
        let path = |name: &str| root.path().join(name);
        for folder in ["in/sub", "in/nested", "other"] {
            std::fs::create_dir_all(path(folder)).expect("creates");
        }
        for (name, text) in [("in/a.txt", "alpha"), ("in/sub/b.txt", ""), ("other/c.txt", "gamma")]
        {
            std::fs::write(path(name), text).expect("writes");
        }
        std::fs::write(path("secret.txt"), "secret").expect("writes");
        symlink("a.txt", path("in/inside")).expect("links");
        symlink("../secret.txt", path("in/outside")).expect("links");
        symlink("/proc/self/environ", path("in/environ")).expect("links");
        symlink("/proc/self/root", path("in/root")).expect("links");
        symlink("circle", path("in/circle")).expect("links");
        let fifo = path("in/fifo");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &fifo,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR,
            0,
        )
        .expect("makes a fifo");
        std::os::unix::net::UnixListener::bind(path("in/socket")).expect("binds");
        let mount = |host: &str, guest: &str| Mount {
            host: path(host),
            guest: guest.into(),
            writable: false,
        };
        let mounts = [mount("in", "/inputs/x"), mount("other", "/inputs/x/nested/deep")];
        let files = OpenFolders::open(&mounts, ByteSize(limit)).map_err(|(_, e)| e).expect("opens");
        (root, files)
    }

    #[test]
    fn granted_files_are_read() {
        let (_root, mut files) = files(5);
        let mut read = |path: &str| {
            let (file, _) = files.read(path)?;
            let mut bytes = Vec::new();
            (&file.file).read_to_end(&mut bytes).unwrap();
            Ok::<_, GuestReadError>(bytes)
        };
        assert_eq!(read("/inputs/x/a.txt").unwrap(), b"alpha");
        assert_eq!(read("/inputs/x/inside").unwrap(), b"alpha");
        assert_eq!(read("/inputs/x//./sub/../a.txt").unwrap(), b"alpha");
        assert_eq!(read("/inputs/x/sub/b.txt").unwrap(), b"");
        assert_eq!(read("/inputs/x/nested/deep/c.txt").unwrap(), b"gamma");
    }

    #[test]
    fn a_replaced_folder_is_soon_noticed() {
        let (root, mut files) = files(5);
        files.read("/inputs/x/sub/b.txt").expect("reads");
        let path = |name: &str| root.path().join(name);
        std::fs::rename(path("in/sub"), path("in/old")).expect("moves");
        std::fs::create_dir(path("in/sub")).expect("creates");
        std::fs::write(path("in/sub/new.txt"), "new").expect("writes");
        files.read("/inputs/x/sub/new.txt").expect("finds a file of the new folder");
        assert!(files.read("/inputs/x/sub/b.txt").is_err(), "the file is in the old folder");
        files.read("/inputs/x/sub/new.txt").expect("reads");
        std::fs::rename(path("in/sub"), path("in/new")).expect("moves");
        files.read("/inputs/x/sub/new.txt").expect("the folder is open");
        files.close_old_folders(Instant::now());
        files.read("/inputs/x/sub/new.txt").expect("a call soon after finds it open");
        files.close_old_folders(Instant::now() + FOLDER_OPEN_TIME);
        assert!(files.read("/inputs/x/sub/new.txt").is_err(), "it is not there");
    }

    #[test]
    fn links_and_special_files_are_not_opened_by_name() {
        let (_root, mut files) = files(5);
        let mut is_plain = |inside: &str| files.open_plain("/inputs/x/", inside).is_some();
        assert!(is_plain("a.txt") && is_plain("sub/b.txt") && is_plain("sub/../a.txt"));
        for other in [
            "inside",
            "outside",
            "root/etc/passwd",
            "../secret.txt",
            "sub",
            "a.txt/",
            "/a.txt",
            "//a.txt",
            "fifo",
            "",
        ] {
            assert!(!is_plain(other), "{other}");
        }
        assert!(files.open_plain("/inputs", "x/a.txt").is_none(), "not a folder of the guest");
    }

    #[test]
    fn all_other_paths_are_refused() {
        let (_root, mut files) = files(1 << 20);
        let mut errors = String::new();
        for path in [
            "/inputs/x/missing",
            "/inputs/x/../secret.txt",
            "/inputs/x/sub/../../secret.txt",
            "/inputs/x/outside",
            "/inputs/x/environ",
            "/inputs/x/root/etc/passwd",
            "/inputs/x/circle",
            "/inputs/x/fifo",
            "/inputs/x/socket",
            "/inputs/x/sub",
            "/inputs/x/",
            "/inputs/x",
            "/inputs/xy",
            "/inputs/x/a.txt/b",
            "/inputs/x/nul\0",
            "/proc/self/environ",
            "/etc/passwd",
            "a.txt",
            "",
        ] {
            let error = files.read(path).map(|_| ()).expect_err(path);
            errors += &format!("{error}\n");
        }
        insta::assert_snapshot!(errors, @r#"
        /inputs/x/missing: there is no such file
        /inputs/x/../secret.txt: it is outside of the folders that were granted
        /inputs/x/sub/../../secret.txt: it is outside of the folders that were granted
        /inputs/x/outside: it is outside of the folders that were granted
        /inputs/x/environ: it is outside of the folders that were granted
        /inputs/x/root/etc/passwd: it is outside of the folders that were granted
        /inputs/x/circle: its links form a loop
        /inputs/x/fifo: it is not a regular file
        /inputs/x/socket: it is not a regular file
        /inputs/x/sub: it is not a regular file
        /inputs/x/: it is not a regular file
        /inputs/x: it is not a regular file
        /inputs/xy: it is outside of the folders that were granted
        /inputs/x/a.txt/b: a part of its path is not a folder
        "/inputs/x/nul\0" contains a null character
        /proc/self/environ: it is outside of the folders that were granted
        /etc/passwd: it is outside of the folders that were granted
        "a.txt" is not an absolute path
        "" is not an absolute path
        "#);
        let error = files.read(&format!("/{}", "x".repeat(5000))).map(|_| ()).expect_err("long");
        assert_eq!(error.to_string(), "the path is longer than 4095 bytes");
    }

    #[test]
    fn only_some_file_systems_report_exact_lengths() {
        let disk = tempfile::tempdir().expect("temporary folder");
        std::fs::write(disk.path().join("ostype"), "alpha").expect("writes");
        let mounts = [disk.path(), Path::new("/proc/sys/kernel")].map(|host| {
            let guest = host.display().to_string();
            Mount { host: host.to_owned(), guest, writable: false }
        });
        let mut files = OpenFolders::open(&mounts, ByteSize(9)).map_err(|(_, e)| e).expect("opens");
        let mut is_exact = |mount: &Mount| {
            let (file, _) = files.read(&format!("{}/ostype", mount.guest)).expect("reads");
            file.is_exact
        };
        let known = rustix::fs::statfs(disk.path()).expect("is there").f_type;
        assert_eq!(is_exact(&mounts[0]), EXACT_FILE_SYSTEMS.contains(&known), "{known:#x}");
        assert!(!is_exact(&mounts[1]), "the kernel generates the file");
    }

    #[test]
    fn a_file_over_the_limit_is_refused() {
        let (_root, mut files) = files(4);
        let error = files.read("/inputs/x/a.txt").map(|_| ()).expect_err("too large");
        assert_eq!(
            error.to_string(),
            "/inputs/x/a.txt: it has 5 bytes, more than limits.read allows (4 bytes)"
        );
    }
}
