//! Gives each single file that an entry script may see a separate folder in the job directory, so that the
//! script does not see the files beside it.

use super::error::NodeError;
use crate::model::{ByteSize, JobDir, Mount};
use crate::opening::regular_at_its_path;
use crate::output::remove_tree;
use rustix::fs::{AtFlags, CWD};
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read as _};
use std::os::fd::AsRawFd;
use std::path::Path;

/// Puts an open file into a separate folder, after removing what was there. Hard-links the file if the file
/// system allows that, and otherwise copies it, up to `most` bytes. Returns the number of bytes that were
/// copied.
///
/// # Errors
/// If there is no space for the file, if the file must be copied and has more than `most` bytes, or if the
/// folder cannot be made.
pub(super) fn give(file: &mut File, name: &Path, folder: &Path, most: u64) -> io::Result<u64> {
    remove_tree(folder)?;
    fs::create_dir_all(folder)?;
    let target = folder.join(name);
    // With this path the kernel links the open file, even if another file has replaced it.
    let opened = format!("/proc/self/fd/{}", file.as_raw_fd());
    if rustix::fs::linkat(CWD, opened.as_str(), CWD, &target, AtFlags::SYMLINK_FOLLOW).is_ok() {
        return Ok(0);
    }
    // No link is possible: the file is on another file system, or on one without hard links, or belongs to
    // another user.
    copy(file, &target, most).inspect_err(|_| {
        // Delete the partial copy: it is useless, and it fills the disk.
        let _ = fs::remove_file(&target);
    })
}

/// Copies a file of at most `most` bytes. The file may grow meanwhile.
fn copy(file: &mut File, target: &Path, most: u64) -> io::Result<u64> {
    let mut to = File::create_new(target)?;
    let copied = io::copy(&mut file.take(most), &mut to)?;
    let is_whole = copied < most || file.read(&mut [0])? == 0;
    is_whole.then_some(copied).ok_or_else(|| ErrorKind::FileTooLarge.into())
}

/// Puts each side input that is a single file into a separate folder. The file keeps the name that it has in
/// the job. `real`: the same side inputs, at paths without links. `most`: how many bytes may be copied for
/// all side inputs together.
///
/// # Errors
/// If a file cannot be read, if there is no space for it, or if too much would be copied.
pub(super) fn give_side_inputs(
    named: &[Mount],
    real: &[Mount],
    job_dir: &JobDir,
    most: ByteSize,
) -> Result<(), NodeError> {
    let mut left = most.0;
    let mounts = named.iter().zip(real).enumerate();
    for (index, (named, mount)) in mounts.filter(|(_, (_, real))| real.host.is_file()) {
        let name = named.host.file_name().or_else(|| mount.host.file_name()).unwrap_or_default();
        let folder = job_dir.side_input(index);
        let given = regular_at_its_path(&mount.host)
            .and_then(|(mut file, _)| give(&mut file, name.as_ref(), &folder, left));
        let path = mount.host.clone();
        left -= given.map_err(|source| match source.kind() {
            ErrorKind::FileTooLarge => NodeError::Copies { path, most },
            _ => NodeError::SideInput { path, source },
        })?;
    }
    Ok(())
}

/// The side inputs as workers find them: the new folder of a single file replaces the file.
pub(super) fn placed(mut mounts: Vec<Mount>, job_dir: &JobDir) -> Vec<Mount> {
    for (index, mount) in mounts.iter_mut().enumerate() {
        if mount.host.is_file() {
            mount.host = job_dir.side_input(index);
        }
    }
    mounts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_single_file_is_shown_without_its_neighbours() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        fs::create_dir(path("in")).unwrap();
        fs::write(path("in/labels.txt"), "a\nb").unwrap();
        fs::write(path("in/secret.txt"), "").unwrap();
        let job_dir = JobDir::new(path("job"));
        let mount = |host: &str| Mount { host: path(host), guest: String::new(), writable: false };
        let mounts = vec![mount("in"), mount("in/labels.txt")];
        // The second call replaces the files of the first.
        for _ in 0..2 {
            give_side_inputs(&mounts, &mounts, &job_dir, ByteSize(0)).unwrap();
        }
        let shown = placed(mounts, &job_dir);
        assert_eq!(shown[0].host, path("in"));
        let names: Vec<_> =
            fs::read_dir(&shown[1].host).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, ["labels.txt"]);
        assert_eq!(fs::read_to_string(shown[1].host.join("labels.txt")).unwrap(), "a\nb");
    }

    /// The entry script sees the name in the job file.
    #[test]
    fn a_link_to_a_file_keeps_its_name() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        fs::write(path("labels-v2.txt"), "a").unwrap();
        std::os::unix::fs::symlink("labels-v2.txt", path("labels.txt")).unwrap();
        let job_dir = JobDir::new(path("job"));
        let mount = |host: &str| Mount { host: path(host), guest: String::new(), writable: false };
        let (named, real) = ([mount("labels.txt")], [mount("labels-v2.txt")]);
        give_side_inputs(&named, &real, &job_dir, ByteSize(0)).unwrap();
        let folder = &placed(real.to_vec(), &job_dir)[0].host;
        assert_eq!(fs::read_to_string(folder.join("labels.txt")).unwrap(), "a");
        assert!(!folder.join("labels-v2.txt").exists());
    }

    /// `/dev/shm` is another file system, so files are copied.
    #[test]
    fn the_total_size_of_copies_is_limited() {
        let source = tempfile::tempdir_in("/dev/shm").unwrap();
        let dir = tempfile::tempdir().unwrap();
        let job_dir = JobDir::new(dir.path());
        let mounts = ["a", "b"].map(|name| {
            let host = source.path().join(name);
            fs::write(&host, "1234").unwrap();
            Mount { host, guest: String::new(), writable: false }
        });
        give_side_inputs(&mounts, &mounts, &job_dir, ByteSize(8)).unwrap();
        assert_eq!(fs::read(job_dir.side_input(1).join("b")).unwrap(), b"1234");
        let error = give_side_inputs(&mounts, &mounts, &job_dir, ByteSize(7)).unwrap_err();
        let error = error.to_string().replace(source.path().to_str().unwrap(), "/d");
        insta::assert_snapshot!(error, @"the side input /d/b would be copied into the job directory, as it is on another file system or belongs to another user, but all copies together would exceed limits.copies (7 bytes); put the file into a separate folder and name that folder as the side input, since folders are not copied, or raise the limit");
        assert!(!job_dir.side_input(1).join("b").exists(), "the partial copy is deleted");
    }
}
