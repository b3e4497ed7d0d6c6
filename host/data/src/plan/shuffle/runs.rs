//! Sorted runs of rows in memory and on disk, and merging them.

use super::codec::{OwnedRow, ShuffleRow, broken};
use crate::dataset::DatasetError;
use crate::model::is_full;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Write};
use std::path::Path;

/// The size of reads from a run on disk, in bytes.
const READ: usize = 64 << 10;

/// Rows in memory.
#[derive(Debug, Default)]
pub(super) struct Run {
    /// The rows, as written by [`ShuffleRow::put`].
    pub(super) bytes: Vec<u8>,
    /// The offset of each row.
    starts: Vec<usize>,
}

impl Run {
    /// Bytes of memory that the run takes, approximately.
    pub(super) fn size(&self) -> usize {
        self.bytes.len() + self.starts.len() * size_of::<usize>()
    }

    /// Finds the rows after byte `from`.
    pub(super) fn find_rows(&mut self, from: usize) -> io::Result<()> {
        let mut rest = self.bytes.get(from..).unwrap_or_default();
        while !rest.is_empty() {
            self.starts.push(self.bytes.len() - rest.len());
            ShuffleRow::take(&mut rest).ok_or_else(broken)?;
        }
        Ok(())
    }

    /// Sorts the rows by key; rows of one key keep their order.
    pub(super) fn sort(&mut self) {
        let Self { bytes, starts } = self;
        starts.sort_by(|one, other| key_at(bytes, *one).cmp(key_at(bytes, *other)));
    }

    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.starts.clear();
    }

    /// Writes the rows, which must be sorted.
    pub(super) fn write(&self, path: &Path) -> io::Result<()> {
        let mut file = BufWriter::new(File::create(path)?);
        let mut bytes = Vec::new();
        for &start in &self.starts {
            bytes.clear();
            row_at(&self.bytes, start).put(&mut bytes);
            file.write_all(&bytes)?;
        }
        file.flush()
    }
}

/// `start` is always the offset of a row.
fn row_at(bytes: &[u8], start: usize) -> ShuffleRow<'_> {
    let none = ShuffleRow { key: &[], file: 0, line: 0, text: &[] };
    bytes.get(start..).and_then(|mut bytes| ShuffleRow::take(&mut bytes)).unwrap_or(none)
}

fn key_at(bytes: &[u8], start: usize) -> &[u8] {
    row_at(bytes, start).key
}

/// A sorted run that is being read.
#[derive(Debug)]
pub(super) enum SortedRun {
    /// A run in memory, and the number of its rows read so far.
    Memory(Run, usize),
    /// A run on disk, and its current row.
    Disk(BufReader<File>, OwnedRow),
}

impl SortedRun {
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let file = BufReader::with_capacity(READ, File::open(path)?);
        Ok(Self::Disk(file, OwnedRow::default()))
    }

    /// Moves to the next row; returns `false` at the end.
    fn advance(&mut self) -> io::Result<bool> {
        match self {
            Self::Memory(run, read) => {
                *read += 1;
                Ok(*read <= run.starts.len())
            }
            Self::Disk(file, row) => row.read(file),
        }
    }

    fn row(&self) -> ShuffleRow<'_> {
        match self {
            Self::Memory(run, read) => row_at(&run.bytes, run.starts[*read - 1]),
            Self::Disk(_, row) => row.row(),
        }
    }
}

/// Passes the rows of all runs to `take`, sorted by key. Of rows with the same key, those of earlier runs
/// come first.
pub(super) fn merge(
    mut runs: Vec<SortedRun>,
    take: &mut dyn FnMut(ShuffleRow<'_>) -> io::Result<()>,
) -> io::Result<()> {
    let mut heads = BinaryHeap::new();
    for (index, run) in runs.iter_mut().enumerate() {
        if run.advance()? {
            heads.push(Reverse((run.row().key.to_vec(), index)));
        }
    }
    while let Some(Reverse((mut key, index))) = heads.pop() {
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
                heads.push(Reverse((key, index)));
                break;
            }
        }
    }
    Ok(())
}

/// The error, with advice, if a spill file cannot be written or read.
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
