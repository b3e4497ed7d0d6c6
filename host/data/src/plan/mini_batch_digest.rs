//! Computes stamps: digests that show whether a mini-batch has changed.

use crate::dataset::{FileVersion, short};
use crate::model::MiniBatchWork;
use sha2::{Digest, Sha256};

/// A digest that is being computed for one mini-batch. It covers the mini-batch's descriptor and what the
/// planner knows about the data. The digest is the same in every build and on every machine.
#[derive(Clone, Debug)]
pub(super) struct MiniBatchDigest(Sha256);

/// The byte before the version of a file.
const FILE_TAG: [u8; 1] = [1];
/// The byte before a digest of data.
const DIGEST_TAG: [u8; 1] = [2];

impl MiniBatchDigest {
    /// The digest of no data.
    pub(super) fn new() -> Self {
        Self(Sha256::new())
    }

    pub(super) fn add_file(&mut self, found: FileVersion) {
        self.0.update(FILE_TAG);
        self.0.update(found.bytes());
    }

    pub(super) fn add_digest(&mut self, digest: u64) {
        self.0.update(DIGEST_TAG);
        self.0.update(digest.to_le_bytes());
    }

    /// Returns the stamp: a digest of everything that was added and of the mini-batch's descriptor.
    pub(super) fn finish(
        mut self,
        source: u32,
        work: &MiniBatchWork,
        partition: &[(String, String)],
    ) -> u64 {
        // Serialising plain data does not fail. If it did, the stamp would cover only the files.
        self.0.update(postcard::to_stdvec(&(source, work, partition)).unwrap_or_default());
        short(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_are_the_same_everywhere() {
        assert_eq!(
            MiniBatchDigest::new().finish(0, &MiniBatchWork::Void, &[]),
            3_157_052_287_693_219_209
        );
    }

    #[test]
    fn each_change_of_a_mini_batch_changes_its_stamp() {
        let work = MiniBatchWork::Files(["a"].into());
        let with_file = |nanos| {
            let mut stamp = MiniBatchDigest::new();
            stamp.add_file(FileVersion { nanos, ..FileVersion::sample() });
            stamp.finish(0, &work, &[])
        };
        let keys = [("k".to_owned(), "v".to_owned())];
        let other = MiniBatchWork::Files(["b"].into());
        let mut seen = vec![with_file(1), with_file(2)];
        seen.push(MiniBatchDigest::new().finish(0, &work, &[]));
        seen.push(MiniBatchDigest::new().finish(1, &work, &[]));
        seen.push(MiniBatchDigest::new().finish(0, &work, &keys));
        seen.push(MiniBatchDigest::new().finish(0, &other, &[]));
        let count = seen.len();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), count, "{seen:?}");
    }
}
