//! Stamps: whether a mini-batch would be the same today.

use crate::model::Work;
use rustix::fs::{AtFlags, Mode, OFlags, StatxFlags};
use sha2::{Digest, Sha256};
use std::fs::Metadata;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// A digest in the making of one mini-batch: of its descriptor, and of what tells its data from
/// other data. The same in every build, on every machine.
#[derive(Clone, Debug)]
pub(super) struct Stamp(Sha256);

impl Stamp {
    /// Of no data.
    pub(super) fn new() -> Self {
        Self(Sha256::new())
    }

    /// Adds files below a folder: their sizes and times. One that is gone is the worker's to tell.
    pub(super) fn add_files(&mut self, root: &Root, files: &[String]) {
        for file in files {
            match root.look_at(file) {
                Some([length, seconds, nanos]) => self.add(length, seconds, nanos),
                None => self.0.update([0]),
            }
        }
    }

    /// Adds one file.
    pub(super) fn add_file(&mut self, metadata: &Metadata) {
        let (seconds, nanos) = (metadata.mtime().cast_unsigned(), metadata.mtime_nsec() as u64);
        self.add(metadata.len(), seconds, nanos);
    }

    fn add(&mut self, length: u64, seconds: u64, nanos: u64) {
        self.0.update([1]);
        for number in [length, seconds, nanos] {
            self.0.update(number.to_le_bytes());
        }
    }

    /// Adds a digest of data.
    pub(super) fn add_digest(&mut self, digest: u64) {
        self.0.update([2]);
        self.0.update(digest.to_le_bytes());
    }

    /// The stamp of the mini-batch that is made of all that was added.
    pub(super) fn finish(
        mut self,
        source: u32,
        work: &Work,
        partition: &[(String, String)],
    ) -> u64 {
        // Plain data always serialises; were it not so, the files alone would tell.
        self.0.update(postcard::to_stdvec(&(source, work, partition)).unwrap_or_default());
        short(self.0)
    }
}

/// A folder, held open: looking at its files by their whole paths takes twice the time, and an input
/// may have millions of them.
#[derive(Debug)]
pub(super) struct Root(Option<OwnedFd>);

impl Root {
    /// A folder that cannot be opened has no files to look at.
    pub(super) fn open(path: &Path) -> Self {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Self(rustix::fs::open(path, flags, Mode::empty()).ok())
    }

    /// Length, and seconds and nanoseconds of the time of a file's last change.
    fn look_at(&self, file: &str) -> Option<[u64; 3]> {
        let wanted = StatxFlags::SIZE | StatxFlags::MTIME;
        let stat = rustix::fs::statx(self.0.as_ref()?, file, AtFlags::empty(), wanted).ok()?;
        let time = stat.stx_mtime;
        Some([stat.stx_size, time.tv_sec.cast_unsigned(), time.tv_nsec.into()])
    }
}

/// The first 64 bits of a digest.
pub(super) fn short(digest: Sha256) -> u64 {
    let bytes: [u8; 32] = digest.finalize().into();
    bytes.iter().take(8).rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, File};
    use std::time::{Duration, UNIX_EPOCH};

    #[test]
    fn stamps_are_the_same_everywhere() {
        assert_eq!(Stamp::new().finish(0, &Work::Void, &[]), 3_157_052_287_693_219_209);
    }

    #[test]
    fn what_changes_a_mini_batch_changes_its_stamp() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        fs::write(root.join("a"), "1").unwrap();
        let time = |nanos| {
            let file = File::options().write(true).open(root.join("a")).unwrap();
            file.set_modified(UNIX_EPOCH + Duration::new(1000, nanos)).unwrap();
        };
        time(1);
        let files = vec!["a".to_owned()];
        let work = Work::Files(files.clone());
        let of_files = || {
            let mut stamp = Stamp::new();
            stamp.add_files(&Root::open(root), &files);
            stamp
        };
        let stamp = || of_files().finish(0, &work, &[]);
        let mut whole = Stamp::new();
        whole.add_file(&fs::metadata(root.join("a")).unwrap());
        assert_eq!(whole.finish(0, &work, &[]), stamp(), "whichever way it is looked at");
        let keys = [("k".to_owned(), "v".to_owned())];
        let mut seen = vec![stamp(), of_files().finish(1, &work, &[])];
        seen.push(of_files().finish(0, &work, &keys));
        seen.push(Stamp::new().finish(0, &work, &[]));
        assert_eq!(seen[0], stamp());
        time(2);
        seen.push(stamp());
        fs::write(root.join("a"), "12").unwrap();
        time(2);
        seen.push(stamp());
        fs::remove_file(root.join("a")).unwrap();
        seen.push(stamp());
        let count = seen.len();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), count, "{seen:?}");
    }
}
