//! Sorted runs of rows in memory and on disk, and merging them.

use super::codec::{OwnedRow, ShuffleRow, damaged};
use crate::dataset::DatasetError;
use crate::model::is_full;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Write};
use std::path::Path;

/// The size of reads from a run on disk.
const READ_BYTES: usize = 64 << 10;

/// Rows in memory.
#[derive(Debug, Default)]
pub(super) struct RunInMemory {
    /// The rows, as written by [`ShuffleRow::encode`].
    pub(super) bytes: Vec<u8>,
    /// The offset of each row.
    offsets: Vec<usize>,
}

impl RunInMemory {
    /// Bytes of memory that the run takes, approximately.
    pub(super) fn size(&self) -> usize {
        self.bytes.len() + self.offsets.len() * size_of::<usize>()
    }

    /// Finds the rows after byte `from`.
    pub(super) fn find_rows(&mut self, from: usize) -> io::Result<()> {
        let mut rest = self.bytes.get(from..).unwrap_or_default();
        while !rest.is_empty() {
            self.offsets.push(self.bytes.len() - rest.len());
            ShuffleRow::decode(&mut rest).ok_or_else(damaged)?;
        }
        Ok(())
    }

    /// Sorts the rows by key; rows of one key keep their order.
    pub(super) fn sort(&mut self) {
        let Self { bytes, offsets } = self;
        offsets.sort_by(|one, other| key_at(bytes, *one).cmp(key_at(bytes, *other)));
    }

    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.offsets.clear();
    }

    /// Writes the rows, which must be sorted.
    pub(super) fn write(&self, path: &Path) -> io::Result<()> {
        let mut file = BufWriter::new(File::create(path)?);
        let mut bytes = Vec::new();
        for &start in &self.offsets {
            bytes.clear();
            row_at(&self.bytes, start).encode(&mut bytes);
            file.write_all(&bytes)?;
        }
        file.flush()
    }
}

fn row_at(bytes: &[u8], start: usize) -> ShuffleRow<'_> {
    let empty_row = ShuffleRow { key: &[], file: 0, line: 0, text: &[] };
    bytes.get(start..).and_then(|mut bytes| ShuffleRow::decode(&mut bytes)).unwrap_or(empty_row)
}

fn key_at(bytes: &[u8], start: usize) -> &[u8] {
    row_at(bytes, start).key
}

/// A sorted run that is being read.
#[derive(Debug)]
pub(super) enum SortedRun {
    /// A run in memory, and the number of its rows read so far.
    Memory(RunInMemory, usize),
    /// A run on disk, and its current row.
    Disk(BufReader<File>, OwnedRow),
}

impl SortedRun {
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let file = BufReader::with_capacity(READ_BYTES, File::open(path)?);
        Ok(Self::Disk(file, OwnedRow::default()))
    }

    /// Moves to the next row; returns `false` at the end.
    fn advance(&mut self) -> io::Result<bool> {
        match self {
            Self::Memory(run, read) => {
                *read += 1;
                Ok(*read <= run.offsets.len())
            }
            Self::Disk(file, row) => row.read(file),
        }
    }

    fn row(&self) -> ShuffleRow<'_> {
        match self {
            Self::Memory(run, read) => row_at(&run.bytes, run.offsets[*read - 1]),
            Self::Disk(_, row) => row.row(),
        }
    }
}

/// Passes the rows of all runs to `take`, sorted by key. If rows have the same key, the rows of earlier runs
/// come first.
pub(super) fn merge(
    mut runs: Vec<SortedRun>,
    take: &mut dyn FnMut(ShuffleRow<'_>) -> io::Result<()>,
) -> io::Result<()> {
    let mut next_keys = BinaryHeap::new();
    for (index, run) in runs.iter_mut().enumerate() {
        if run.advance()? {
            next_keys.push(Reverse((run.row().key.to_vec(), index)));
        }
    }
    while let Some(Reverse((mut key, index))) = next_keys.pop() {
        let run = &mut runs[index];
        loop {
            take(run.row())?;
            if !run.advance()? {
                break;
            }
            let next = run.row().key;
            if next != key {
                key.clear();
                key.extend_from_slice(next);
                next_keys.push(Reverse((key, index)));
                break;
            }
        }
    }
    Ok(())
}

/// The error if a spill file cannot be written or read, with advice.
pub(super) fn spill_error(path: &Path, error: &io::Error) -> DatasetError {
    let remedy = if is_full(error) {
        "; they take about twice the space of the input: free space there, or choose a job \
         directory on another disk"
    } else {
        ""
    };
    let path = path.display();
    DatasetError(format!("rows cannot be kept in {path} while they are grouped: {error}{remedy}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::ErrorKind;

    #[test]
    fn a_full_disk_is_reported_with_advice() {
        let error = spill_error(Path::new("/d/spill"), &ErrorKind::StorageFull.into());
        insta::assert_snapshot!(error, @"rows cannot be kept in /d/spill while they are grouped: no storage space; they take about twice the space of the input: free space there, or choose a job directory on another disk");
    }
}
