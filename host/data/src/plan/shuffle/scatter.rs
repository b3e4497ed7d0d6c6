//! Turns a piece of the input into a file with its rows by bucket.

use super::codec::{ShuffleRow, bucket, put_value};
use super::message::{BUCKETS, ShuffleSetup, Slice};
use super::runs::spill_error;
use crate::dataset::DatasetError;
use crate::dataset::csv::{each_row, quote_field};
use crate::model::{ByteSize, to_usize};
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

/// The longest key, in bytes. Keys name mini-batches, so they must be short.
const MAX_KEY: usize = 64 << 10;

/// Puts rows into buckets. Reuses its buffers from piece to piece.
#[derive(Debug)]
pub(super) struct Scatterer<'a> {
    setup: &'a ShuffleSetup,
    buckets: Vec<Vec<u8>>,
    slice: Vec<u8>,
    key: Vec<u8>,
    text: Vec<u8>,
}

impl<'a> Scatterer<'a> {
    pub(super) fn new(setup: &'a ShuffleSetup) -> Self {
        Self {
            setup,
            buckets: vec![Vec::new(); BUCKETS as usize],
            slice: Vec::new(),
            key: Vec::new(),
            text: Vec::new(),
        }
    }

    /// Writes the file of one piece.
    pub(super) fn scatter(&mut self, number: u64, slices: &[Slice]) -> Result<(), DatasetError> {
        self.buckets.iter_mut().for_each(Vec::clear);
        for slice in slices {
            self.take(slice)?;
        }
        let path = self.setup.scattered(number);
        self.write(&path).map_err(|error| spill_error(&path, &error))
    }

    fn take(&mut self, from: &Slice) -> Result<(), DatasetError> {
        let Slice { root, file, slice } = from;
        let Some(root) = self.setup.roots.get(*root as usize) else {
            return Err(DatasetError(format!("there is no source {root}")));
        };
        let Self { setup, buckets, slice: buffer, key, text } = self;
        let csv = &setup.csv;
        let of_path = match &setup.path {
            Some(path) => path.folder_values(&slice.file).unwrap_or_default(),
            None => Vec::new(),
        };
        let mut more = Vec::new();
        let gathered = csv.gathered();
        for value in &of_path {
            more.push(csv.delimiter);
            quote_field(value.as_bytes(), &gathered, &mut more);
        }
        let place = if slice.unpacked.is_some() { &setup.spill } else { root };
        each_row(place, slice, csv, buffer, |row| {
            key.clear();
            for &column in &setup.keys {
                match column.checked_sub(setup.columns) {
                    Some(at) => put_value(of_path.get(at).map_or("", AsRef::as_ref), key),
                    None => put_value(&row.value(column, csv), key),
                }
            }
            if key.len() > MAX_KEY {
                return Err(DatasetError(format!(
                    "{}, line {}: the values of the partition keys take {} bytes, and at most {} \
                     can name a mini-batch; group by a column of shorter values",
                    root.join(&slice.file).display(),
                    row.line,
                    key.len(),
                    ByteSize(MAX_KEY as u64),
                )));
            }
            text.clear();
            row.write(&more, csv, text);
            ShuffleRow { key, file: *file, line: row.line, text }
                .put(&mut buckets[bucket(key, BUCKETS as usize)]);
            Ok(())
        })
    }

    /// Writes the segments, then the offset of each segment and the end of the last one.
    fn write(&self, path: &Path) -> io::Result<()> {
        let mut file = File::create(path)?;
        let mut bounds = 0u64.to_le_bytes().to_vec();
        let mut at = 0;
        for rows in &self.buckets {
            file.write_all(rows)?;
            at += rows.len() as u64;
            bounds.extend_from_slice(&u64::to_le_bytes(at));
        }
        file.write_all(&bounds)
    }
}

/// Appends the segment of a bucket to `out`. Returns its length.
pub(super) fn read_segment(path: &Path, bucket: u32, out: &mut Vec<u8>) -> io::Result<usize> {
    let file = File::open(path)?;
    let bounds_at = file.metadata()?.len().saturating_sub(8 * (u64::from(BUCKETS) + 1));
    let mut bounds = [[0; 8]; 2];
    file.read_exact_at(bounds.as_flattened_mut(), bounds_at + 8 * u64::from(bucket))?;
    let [start, end] = bounds.map(u64::from_le_bytes);
    let length = end.checked_sub(start).filter(|_| end <= bounds_at);
    let length = to_usize(length.ok_or_else(super::codec::broken)?);
    let old = out.len();
    out.resize(old + length, 0);
    file.read_exact_at(&mut out[old..], start)?;
    Ok(length)
}
