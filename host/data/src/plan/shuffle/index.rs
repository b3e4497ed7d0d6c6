//! The groups of a bucket, sorted by key, and the groups of all buckets.

use super::message::{BUCKETS, ShuffleSetup};
use crate::dataset::DatasetError;
use crate::protocol::{encode, read_frame};
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{self, BufReader};

/// A group.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct GroupEntry {
    /// Its key.
    pub(super) key: Vec<u8>,
    /// The offset of its text.
    pub(super) offset: u64,
    /// Bytes of its text.
    pub(super) length: u64,
    /// The number of its rows.
    pub(super) rows: u64,
    /// The offset of the origins of its rows.
    pub(super) origins_offset: u64,
    /// The bytes of the origins.
    pub(super) origins_length: u64,
    /// A digest of its text.
    pub(super) digest: u64,
}

impl GroupEntry {
    /// Appends the entry to an index.
    pub(super) fn put(&self, out: &mut Vec<u8>) -> io::Result<()> {
        encode(self, out).map_err(io::Error::other)
    }
}

/// The groups of all buckets, sorted by key, with their buckets. Only one group of each bucket is in memory.
#[derive(Debug)]
pub(super) struct Groups {
    files: Vec<BufReader<File>>,
    heads: BinaryHeap<Reverse<(GroupEntry, u32)>>,
    buffer: Vec<u8>,
}

impl Groups {
    pub(super) fn open(setup: &ShuffleSetup) -> Result<Self, DatasetError> {
        let mut groups = Self { files: Vec::new(), heads: BinaryHeap::new(), buffer: Vec::new() };
        for bucket in 0..BUCKETS {
            let path = setup.index(bucket);
            let file = File::open(&path).map_err(|error| {
                DatasetError(format!("cannot open {}: {error}", path.display()))
            })?;
            groups.files.push(BufReader::new(file));
            groups.read(bucket)?;
        }
        Ok(groups)
    }

    pub(super) fn next_group(&mut self) -> Result<Option<(GroupEntry, u32)>, DatasetError> {
        let Some(Reverse((entry, bucket))) = self.heads.pop() else { return Ok(None) };
        self.read(bucket)?;
        Ok(Some((entry, bucket)))
    }

    fn read(&mut self, bucket: u32) -> Result<(), DatasetError> {
        match read_frame(&mut self.files[bucket as usize], &mut self.buffer) {
            Ok(Some(entry)) => self.heads.push(Reverse((entry, bucket))),
            Ok(None) => {}
            Err(error) => {
                return Err(DatasetError(format!("the index of bucket {bucket}: {error}")));
            }
        }
        Ok(())
    }
}
