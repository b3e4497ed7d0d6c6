//! Stamps: whether a mini-batch would be the same today.

use crate::model::Work;
use sha2::{Digest, Sha256};
use std::fs::Metadata;
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

    /// Of files below `root`.
    pub(super) fn of_files(root: &Path, files: &[String]) -> Self {
        let mut stamp = Self::new();
        stamp.add_files(root, files);
        stamp
    }

    /// Adds files below `root`: their sizes and times. One that is gone is the worker's to tell.
    pub(super) fn add_files(&mut self, root: &Path, files: &[String]) {
        for file in files {
            match std::fs::metadata(root.join(file)) {
                Ok(metadata) => self.add_file(&metadata),
                Err(_) => self.0.update([0]),
            }
        }
    }

    /// Adds one file.
    pub(super) fn add_file(&mut self, metadata: &Metadata) {
        self.0.update([1]);
        for number in
            [metadata.len(), metadata.mtime().cast_unsigned(), metadata.mtime_nsec() as u64]
        {
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
        let stamp = || Stamp::of_files(root, &files).finish(0, &work, &[]);
        let keys = [("k".to_owned(), "v".to_owned())];
        let mut seen = vec![stamp(), Stamp::of_files(root, &files).finish(1, &work, &[])];
        seen.push(Stamp::of_files(root, &files).finish(0, &work, &keys));
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
