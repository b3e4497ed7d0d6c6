//! Checks who can change a policy file.

use crate::error::FileError;
use crate::opening::regular_at_its_path;
use crate::reading::read_opened;
use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

/// The maximum number of links on the way to a file. The kernel has the same limit.
const MAX_LINKS: usize = 40;

/// Reads a policy file. Refuses a file that other users own or can write to, because they could change what
/// jobs may do.
///
/// # Errors
/// The file cannot be read, or is refused.
pub(super) fn read(path: &Path) -> Result<String, FileError> {
    let opened = match follow(path) {
        Ok(followed) => check(&followed)?,
        Err(error) => Err(error),
    };
    read_opened(opened, path, "policy file")
}

/// A path whose links were followed.
struct FollowedPath {
    /// The file's path, without links.
    real: PathBuf,
    /// The links that were followed, each as a path that has no other links in it.
    links: Vec<PathBuf>,
}

/// Checks the file and the links that lead to it. Returns the open file that was checked, or why it cannot be
/// opened.
fn check(path: &FollowedPath) -> Result<io::Result<fs::File>, FileError> {
    // The links and their folders count as well: a user who can write there can make the path lead to another
    // file.
    for link in &path.links {
        if let Ok(metadata) = link.symlink_metadata() {
            check_owner("a link to it", link, &metadata)?;
        }
        check_folder("the folder of a link to it", link)?;
    }
    let (file, metadata) = match regular_at_its_path(&path.real) {
        Ok(opened) => opened,
        Err(error) => return Ok(Err(error)),
    };
    check_owner("it", &path.real, &metadata)?;
    check_mode("it", &path.real, &metadata, false)?;
    check_folder("its folder", &path.real)?;
    Ok(Ok(file))
}

/// Checks the folder that contains the path. `what`: a phrase for the folder, for messages.
fn check_folder(what: &'static str, path: &Path) -> Result<(), FileError> {
    let Some(folder) = path.parent() else { return Ok(()) };
    let Ok(metadata) = fs::metadata(folder) else { return Ok(()) };
    check_owner(what, folder, &metadata)?;
    // In a folder with the sticky bit, users can replace only their own files.
    check_mode(what, folder, &metadata, metadata.mode() & 0o1000 != 0)
}

fn check_owner(what: &'static str, path: &Path, metadata: &Metadata) -> Result<(), FileError> {
    let user = rustix::process::geteuid().as_raw();
    let owner = metadata.uid();
    if [user, 0].contains(&owner) {
        return Ok(());
    }
    let command = if metadata.is_symlink() { "chown -h" } else { "chown" };
    Err(FileError::Owner { what, owner, user, command, path: path.to_owned() })
}

fn check_mode(
    what: &'static str,
    path: &Path,
    metadata: &Metadata,
    is_sticky: bool,
) -> Result<(), FileError> {
    let mode = metadata.mode();
    if mode & 0o022 == 0 || is_sticky {
        return Ok(());
    }
    Err(FileError::Writable { what, mode: mode & 0o777, path: path.to_owned() })
}

/// Follows a path one link at a time.
fn follow(path: &Path) -> io::Result<FollowedPath> {
    let parts = |path: &Path| -> VecDeque<OsString> {
        path.components().map(|part| part.as_os_str().to_owned()).collect()
    };
    let mut rest = parts(&std::path::absolute(path)?);
    let mut real = PathBuf::new();
    let mut links = Vec::new();
    while let Some(part) = rest.pop_front() {
        if Path::new(&part).components().next() == Some(Component::ParentDir) {
            real.pop();
            continue;
        }
        let next = real.join(&part);
        if !next.symlink_metadata()?.is_symlink() {
            real = next;
            continue;
        }
        if links.len() == MAX_LINKS {
            return Err(rustix::io::Errno::LOOP.into());
        }
        let mut target = parts(&fs::read_link(&next)?);
        target.append(&mut rest);
        rest = target;
        links.push(next);
    }
    Ok(FollowedPath { real, links })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_file_writable_by_others_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().canonicalize().unwrap().join("etc");
        fs::create_dir(&folder).unwrap();
        let file = folder.join("policy.yaml");
        assert!(matches!(read(&file), Err(FileError::NotThere)));
        fs::write(&file, "gpus: 0").unwrap();
        let describe = |file_mode, folder_mode| {
            fs::set_permissions(&file, Permissions::from_mode(file_mode)).unwrap();
            fs::set_permissions(&folder, Permissions::from_mode(folder_mode)).unwrap();
            let reported = read(&file).err().map(|error| error.to_string()).unwrap_or_default();
            reported.replace(folder.to_str().unwrap(), "/etc")
        };
        for (file_mode, folder_mode) in [(0o644, 0o755), (0o400, 0o700), (0o644, 0o1777)] {
            assert_eq!(describe(file_mode, folder_mode), "");
        }
        insta::assert_snapshot!(describe(0o666, 0o755), @"is not used, because other users can write to it (mode 666) and so change what jobs may do; run: chmod go-w /etc/policy.yaml");
        insta::assert_snapshot!(describe(0o660, 0o755), @"is not used, because other users can write to it (mode 660) and so change what jobs may do; run: chmod go-w /etc/policy.yaml");
        insta::assert_snapshot!(describe(0o644, 0o777), @"is not used, because other users can write to its folder (mode 777) and so change what jobs may do; run: chmod go-w /etc");
        // This part of the test needs root, because only root can make another user the owner of a file.
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::chown(&file, Some(65534), None).unwrap();
            assert!(describe(0o644, 0o755).contains("it belongs to user 65534, neither to you"));
        }
    }

    /// A user who can replace a link on the way decides which file is read.
    #[test]
    fn links_are_checked_like_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        let mode = |name: &str, mode| {
            fs::set_permissions(base.join(name), Permissions::from_mode(mode)).unwrap();
        };
        for folder in ["etc", "open", "own"] {
            fs::create_dir(base.join(folder)).unwrap();
            mode(folder, 0o755);
        }
        fs::write(base.join("etc/policy.yaml"), "gpus: 0").unwrap();
        mode("etc/policy.yaml", 0o644);
        let link = |to: &str, at: &str| std::os::unix::fs::symlink(to, base.join(at)).unwrap();
        link("../etc/policy.yaml", "open/policy.yaml");
        link("../open/policy.yaml", "own/file.yaml");
        link("../etc", "open/etc");
        link("loop", "own/loop");
        let ways = ["open/policy.yaml", "own/file.yaml", "open/etc/policy.yaml"];
        for way in ways {
            assert_eq!(read(&base.join(way)).unwrap(), "gpus: 0", "{way}");
        }
        mode("open", 0o777);
        for way in ways {
            let reported = read(&base.join(way)).unwrap_err().to_string();
            let reported = reported.replace(base.to_str().unwrap(), "");
            assert_eq!(
                reported,
                "is not used, because other users can write to the folder of a link to it (mode 777) and so change what jobs may do; run: chmod go-w /open",
                "{way}"
            );
        }
        read(&base.join("own/loop")).unwrap_err();
        mode("open", 0o1777);
        assert_eq!(read(&base.join("open/policy.yaml")).unwrap(), "gpus: 0");
        // This part of the test needs root, because only root can make another user the owner of a link.
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::lchown(base.join("open/policy.yaml"), Some(65534), None).unwrap();
            let reported = read(&base.join("open/policy.yaml")).unwrap_err().to_string();
            assert!(reported.contains("a link to it belongs to user 65534"), "{reported}");
        }
    }
}
