//! The stamp of a file, which shows whether the file has changed.

use serde::{Deserialize, Serialize};
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;

/// Properties that change when a file is written to or replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileStamp {
    device: u64,
    inode: u64,
    bytes: u64,
    seconds: i64,
    nanos: i64,
}

impl FileStamp {
    /// The current stamp of a file.
    pub fn from_metadata(metadata: &Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            bytes: metadata.size(),
            seconds: metadata.mtime(),
            nanos: metadata.mtime_nsec(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn another_file_of_the_same_length_has_another_stamp() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        let other = dir.path().join("b");
        let stamp = || FileStamp::from_metadata(&path.metadata().unwrap());
        fs::write(&path, "12").unwrap();
        let before = stamp();
        assert_eq!(stamp(), before);
        fs::write(&other, "34").unwrap();
        let time = path.metadata().unwrap().modified().unwrap();
        fs::File::options().write(true).open(&other).unwrap().set_modified(time).unwrap();
        fs::rename(&other, &path).unwrap();
        assert_ne!(stamp(), before);
    }
}
