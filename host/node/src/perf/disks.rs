//! Samples of how full the disks are.

use super::table::{line, megabytes, number};
use crate::model::to_f64;
use procfs::{Current, MountEntry};
use rustix::fs::{StatVfs, statvfs};
use std::collections::HashSet;
use std::path::Path;

/// The columns of `node_disk_usage.csv`.
pub(super) const HEADER: [&str; 7] =
    ["Time (UTC)", "Disk", "Mounted At", "Total (MB)", "Used (MB)", "Free (MB)", "Used %"];

/// A mounted file system, with its sizes in bytes.
#[derive(Debug)]
pub(super) struct Disk {
    pub(super) device: String,
    pub(super) mounted_at: String,
    pub(super) kind: String,
    pub(super) total: u64,
    pub(super) used: u64,
    pub(super) free: u64,
}

/// Whether the file system is on a server. If the server is gone, a query could hang forever.
fn is_remote(kind: &str) -> bool {
    kind.starts_with("fuse")
        || matches!(kind, "nfs" | "nfs4" | "cifs" | "smb3" | "smbfs" | "ceph" | "afs" | "lustre")
}

/// Whether the file system only shows the kernel's own data. Such a file system may still report
/// blocks.
fn is_virtual(mount: &MountEntry) -> bool {
    mount.fs_vfstype == "devtmpfs"
        || ["/sys", "/proc"].iter().any(|folder| Path::new(&mount.fs_file).starts_with(folder))
}

/// The local file systems that hold files, each once, even if it is mounted several times. The file system
/// that contains `job_dir` comes first.
pub(super) fn disks(job_dir: &Path) -> Vec<Disk> {
    let mounts = Vec::<MountEntry>::current().unwrap_or_default();
    let holds = |mount: &MountEntry| job_dir.starts_with(&mount.fs_file);
    let jobs = mounts.iter().filter(|m| holds(m)).max_by_key(|mount| mount.fs_file.len());
    let others = mounts.iter().filter(|mount| !is_remote(&mount.fs_vfstype) && !is_virtual(mount));
    let mut seen = HashSet::new();
    let mut disks = Vec::new();
    for mount in jobs.into_iter().chain(others) {
        let Ok(numbers) = statvfs(mount.fs_file.as_str()) else { continue };
        // A file system without blocks holds no files. Several file systems may have the same device name,
        // such as `tmpfs`, so we compare ids.
        if numbers.f_blocks == 0 || !seen.insert(numbers.f_fsid) {
            continue;
        }
        disks.push(Disk::new(mount, &numbers));
    }
    disks
}

impl Disk {
    fn new(mount: &MountEntry, numbers: &StatVfs) -> Self {
        let bytes = |blocks: u64| blocks.saturating_mul(numbers.f_frsize);
        Self {
            device: mount.fs_spec.clone(),
            mounted_at: mount.fs_file.clone(),
            kind: mount.fs_vfstype.clone(),
            total: bytes(numbers.f_blocks),
            used: bytes(numbers.f_blocks.saturating_sub(numbers.f_bfree)),
            free: bytes(numbers.f_bavail),
        }
    }

    /// The used share of the space for users, in percent, as in `df`.
    fn used_percent(&self) -> Option<f64> {
        let usable = self.used.saturating_add(self.free);
        (usable > 0).then(|| to_f64(self.used) * 100.0 / to_f64(usable))
    }

    /// A line of `node_disk_usage.csv`.
    pub(super) fn line(&self, time: &str) -> String {
        line(&[
            time.to_owned(),
            self.device.clone(),
            self.mounted_at.clone(),
            megabytes(self.total),
            megabytes(self.used),
            megabytes(self.free),
            number(self.used_percent()),
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_disk_of_the_job_comes_first() {
        let folder = tempfile::tempdir().unwrap();
        let disks = disks(folder.path());
        let own = &disks[0];
        assert!(folder.path().starts_with(&own.mounted_at), "{own:?}");
        for disk in &disks {
            assert!(disk.used + disk.free <= disk.total, "{disk:?}");
        }
    }

    /// Rule F18 in `docs/parallel-run-step.md`: the samples of the disks.
    #[test]
    fn the_used_share_excludes_reserved_space() {
        let disk = Disk {
            device: "/dev/a".into(),
            mounted_at: "/a, b".into(),
            kind: "ext4".into(),
            total: 100 << 20,
            used: 30 << 20,
            free: 60 << 20,
        };
        assert_eq!(disk.line("T"), "T,/dev/a,\"/a, b\",100.00,30.00,60.00,33.33\n");
    }
}
