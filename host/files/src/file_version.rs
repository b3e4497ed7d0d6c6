//! The observed state of files, to detect whether a mini-batch's content has changed.

use rustix::fs::Stat;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fs;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The length and the modification time of a file. A file with the same length and time counts as unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileVersion {
    /// The length in bytes.
    pub length: u64,
    /// The time of the last change, in seconds since 1970.
    pub seconds: i64,
    /// The nanoseconds of that time.
    pub nanos: u32,
}

impl FileVersion {
    /// Stands for a file that is not there.
    pub const MISSING: Self = Self { length: u64::MAX, seconds: 0, nanos: 0 };

    /// Whether the file was changed after a moment, in seconds since 1970 and nanoseconds.
    pub fn is_after(&self, moment: (i64, u32)) -> bool {
        (self.seconds, self.nanos) > moment
    }

    /// Whether a regular file with this length and time is at the path. A link to such a file does not count.
    pub fn is_at(&self, path: &Path) -> bool {
        fs::symlink_metadata(path).is_ok_and(|found| found.is_file() && Self::from(&found) == *self)
    }

    /// The bytes for digests.
    pub fn bytes(&self) -> [u8; 24] {
        let numbers = [self.length, self.seconds.cast_unsigned(), self.nanos.into()];
        let mut bytes = [0; 24];
        for (chunk, number) in bytes.as_chunks_mut().0.iter_mut().zip(numbers) {
            *chunk = number.to_le_bytes();
        }
        bytes
    }
}

#[cfg(any(test, feature = "testing"))]
impl FileVersion {
    /// The state of a file of one byte that was changed long ago.
    pub fn sample() -> Self {
        Self { length: 1, seconds: 1, nanos: 1 }
    }
}

impl From<&Metadata> for FileVersion {
    fn from(metadata: &Metadata) -> Self {
        let seconds = metadata.mtime();
        let nanos = u32::try_from(metadata.mtime_nsec()).unwrap_or(0);
        Self { length: metadata.len(), seconds, nanos }
    }
}

impl From<&Stat> for FileVersion {
    fn from(stat: &Stat) -> Self {
        let length = stat.st_size.cast_unsigned();
        let nanos = u32::try_from(stat.st_mtime_nsec).unwrap_or(0);
        Self { length, seconds: stat.st_mtime, nanos }
    }
}

/// The stamp of a mini-batch of files: a digest of `planned`, which covers the files' names, and of the
/// files' versions, in order. Returns `planned` itself if there are no files, or if the version of a file is
/// unknown. The stamp is the same in every build and on every machine.
pub fn content_stamp(planned: u64, files: impl IntoIterator<Item = Option<FileVersion>>) -> u64 {
    let mut versions = Vec::new();
    for file in files {
        let Some(found) = file else { return planned };
        versions.extend(found.bytes());
    }
    let digest = || Sha256::new_with_prefix(planned.to_le_bytes()).chain_update(&versions);
    if versions.is_empty() { planned } else { short(digest()) }
}

/// The first 64 bits of a digest.
pub fn short(digest: Sha256) -> u64 {
    let bytes: [u8; 32] = digest.finalize().into();
    bytes.iter().take(8).rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::OpenRoot;
    use std::fs::{self, File};
    use std::time::{Duration, UNIX_EPOCH};

    #[test]
    fn each_change_of_a_file_changes_the_stamp() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        fs::write(&path, "1").unwrap();
        let time = |nanos| {
            let file = File::options().write(true).open(&path).unwrap();
            file.set_modified(UNIX_EPOCH + Duration::new(1000, nanos)).unwrap();
        };
        time(1);
        let root = OpenRoot::open(folder.path());
        let stamp = || content_stamp(7, [root.version_of("a")]);
        let metadata = FileVersion::from(&fs::metadata(&path).unwrap());
        let stat = FileVersion::from(&rustix::fs::fstat(File::open(&path).unwrap()).unwrap());
        assert_eq!(
            [Some(metadata), Some(stat)],
            [root.version_of("a"); 2],
            "all sources of the version agree"
        );
        let mut seen = vec![stamp(), content_stamp(8, [root.version_of("a")]), 7];
        assert_eq!(seen[0], stamp());
        time(2);
        seen.push(stamp());
        fs::write(&path, "12").unwrap();
        time(2);
        seen.push(stamp());
        fs::remove_file(&path).unwrap();
        assert_eq!(stamp(), 7, "the state is unknown");
        let count = seen.len();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), count, "{seen:?}");
    }

    #[test]
    fn stamps_are_the_same_everywhere() {
        let found = FileVersion { length: 3, seconds: -1, nanos: 2 };
        assert_eq!(content_stamp(1, [Some(found)]), 245_040_867_066_677_776);
        assert_eq!(content_stamp(1, [Some(found), None]), 1);
        assert_eq!(content_stamp(1, []), 1);
    }
}
