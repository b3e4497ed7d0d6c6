//! Which processes hold a lock on a file, according to the kernel.

use rustix::fs::{major, minor};
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;

/// The processes that hold a lock on a file; empty if `/proc/locks` cannot be read.
pub fn lock_holders(file: &Metadata) -> Vec<u32> {
    let locks = std::fs::read_to_string("/proc/locks").unwrap_or_default();
    holders(&locks, file.dev(), file.ino())
}

/// The processes that hold a lock on this file. Some file systems (btrfs) report another device number in
/// `/proc/locks` than in a file's metadata; then only the inode is compared.
fn holders(locks: &str, device: u64, inode: u64) -> Vec<u32> {
    let device = format!("{:02x}:{:02x}", major(device), minor(device));
    let candidates: Vec<(u32, &str)> =
        locks.lines().filter_map(|line| holder(line, inode)).collect();
    let has_device = candidates.iter().any(|(_, found)| *found == device);
    let is_match = |found: &str| !has_device || found == device;
    candidates.iter().filter(|(_, found)| is_match(found)).map(|(pid, _)| *pid).collect()
}

/// The process and the device in a line of `/proc/locks`, if the line is a lock on a file with this inode. In
/// `1: FLOCK  ADVISORY  WRITE 4711 fe:00:1234 0 EOF`, the process is 4711, the device fe:00 and the inode
/// 1234.
fn holder(line: &str, inode: u64) -> Option<(u32, &str)> {
    let mut words = line.split_whitespace().skip_while(|word| *word != "FLOCK");
    let pid = words.nth(3)?;
    let file = words.next()?;
    let (device, number) = file.rsplit_once(':')?;
    (number.parse() == Ok(inode)).then(|| Some((pid.parse().ok()?, device)))?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locks_are_matched_by_device_and_inode() {
        let locks = "1: FLOCK  ADVISORY  WRITE 11 fe:00:1234 0 EOF\n\
                     2: FLOCK  ADVISORY  WRITE 12 00:2a:1234 0 EOF\n\
                     2: -> FLOCK  ADVISORY  WRITE 13 00:2a:1234 0 EOF\n\
                     3: POSIX  ADVISORY  WRITE 14 00:2a:1234 0 EOF\n\
                     4: FLOCK  ADVISORY  WRITE 15 00:2a:12345 0 EOF\n";
        let of = |major, minor| holders(locks, rustix::fs::makedev(major, minor), 1234);
        assert_eq!(of(0xfe, 0), [11]);
        assert_eq!(of(0, 0x2a), [12, 13]);
        assert_eq!(
            of(0, 0x99),
            [11, 12, 13],
            "without a lock of the device, only the inode counts"
        );
        assert!(holders(locks, 0, 1).is_empty());
    }
}
