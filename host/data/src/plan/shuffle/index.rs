//! The groups of a bucket, sorted by key, and the groups of all buckets.

use super::message::{BUCKETS, ShuffleSetup};
use crate::dataset::DatasetError;
use crate::protocol::{encode, read_frame};
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{self, BufReader};

/// Where the rows of a group are in the files of its bucket.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct GroupEntry {
    pub(super) key: Vec<u8>,
    /// The offset of the group's text.
    pub(super) offset: u64,
    /// The length of the text, in bytes.
    pub(super) length: u64,
    pub(super) rows: u64,
    /// The offset of the origins: the file and line that each row comes from.
    pub(super) origins_offset: u64,
    /// The length of the origins, in bytes.
    pub(super) origins_length: u64,
    /// A digest of the text.
    pub(super) digest: u64,
}

impl GroupEntry {
    /// Appends the entry to an index.
    pub(super) fn encode(&self, out: &mut Vec<u8>) -> io::Result<()> {
        encode(self, out).map_err(io::Error::other)
    }
}

/// Reads the groups of all buckets, sorted by key. Only one group of each bucket is in memory.
#[derive(Debug)]
pub(super) struct BucketGroups {
    files: Vec<BufReader<File>>,
    /// The next group of each bucket, with the bucket's number.
    next_groups: BinaryHeap<Reverse<(GroupEntry, u32)>>,
    buffer: Vec<u8>,
}

impl BucketGroups {
    pub(super) fn open(setup: &ShuffleSetup) -> Result<Self, DatasetError> {
        let mut groups =
            Self { files: Vec::new(), next_groups: BinaryHeap::new(), buffer: Vec::new() };
        for bucket in 0..BUCKETS {
            let path = setup.index(bucket);
            let file = File::open(&path).map_err(|error| {
                DatasetError(format!("cannot open {}: {error}", path.display()))
            })?;
            groups.files.push(BufReader::new(file));
            groups.read_next(bucket)?;
        }
        Ok(groups)
    }

    /// The next group, and the number of its bucket.
    pub(super) fn next_group(&mut self) -> Result<Option<(GroupEntry, u32)>, DatasetError> {
        let Some(Reverse((entry, bucket))) = self.next_groups.pop() else { return Ok(None) };
        self.read_next(bucket)?;
        Ok(Some((entry, bucket)))
    }

    fn read_next(&mut self, bucket: u32) -> Result<(), DatasetError> {
        match read_frame(&mut self.files[bucket as usize], &mut self.buffer) {
            Ok(Some(entry)) => self.next_groups.push(Reverse((entry, bucket))),
            Ok(None) => {}
            Err(error) => {
                return Err(DatasetError(format!("the index of bucket {bucket}: {error}")));
            }
        }
        Ok(())
    }
}
