//! Puts the rows of a piece of the input into buckets, and writes them to one file.

use super::codec::{ShuffleRow, bucket, encode_value};
use super::message::{BUCKETS, InputSlice, ShuffleSetup};
use super::runs::spill_error;
use crate::dataset::DatasetError;
use crate::dataset::csv::{each_row, quote_field};
use crate::model::{ByteSize, to_usize};
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

/// The longest key, in bytes. Keys name mini-batches, so they must be short.
const MAX_KEY_BYTES: usize = 64 << 10;

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
    pub(super) fn scatter(
        &mut self,
        number: u64,
        slices: &[InputSlice],
    ) -> Result<(), DatasetError> {
        self.buckets.iter_mut().for_each(Vec::clear);
        for slice in slices {
            self.scatter_slice(slice)?;
        }
        let path = self.setup.scattered(number);
        self.write(&path).map_err(|error| spill_error(&path, &error))
    }

    fn scatter_slice(&mut self, from: &InputSlice) -> Result<(), DatasetError> {
        let InputSlice { root, file, slice } = from;
        let Some(root) = self.setup.roots.get(*root as usize) else {
            return Err(DatasetError(format!("there is no source {root}")));
        };
        let Self { setup, buckets, slice: buffer, key, text } = self;
        let csv = &setup.csv;
        let path_values = match &setup.path {
            Some(path) => path.folder_values(&slice.file).unwrap_or_default(),
            None => Vec::new(),
        };
        let mut path_fields = Vec::new();
        let gathered = csv.gathered();
        for value in &path_values {
            path_fields.push(csv.delimiter);
            quote_field(value.as_bytes(), &gathered, &mut path_fields);
        }
        let folder = if slice.unpacked.is_some() { &setup.spill } else { root };
        each_row(folder, slice, csv, buffer, |row| {
            key.clear();
            for &column in &setup.keys {
                match column.checked_sub(setup.columns) {
                    Some(index) => {
                        encode_value(path_values.get(index).map_or("", AsRef::as_ref), key);
                    }
                    None => encode_value(&row.value(column, csv), key),
                }
            }
            if key.len() > MAX_KEY_BYTES {
                return Err(DatasetError(format!(
                    "{}, line {}: the values of the partition keys take {} bytes, and at most {} \
                     can name a mini-batch; group by a column of shorter values",
                    root.join(&slice.file).display(),
                    row.line,
                    key.len(),
                    ByteSize(MAX_KEY_BYTES as u64),
                )));
            }
            text.clear();
            row.write(&path_fields, csv, text);
            ShuffleRow { key, file: *file, line: row.line, text }
                .encode(&mut buckets[bucket(key, BUCKETS as usize)]);
            Ok(())
        })
    }

    /// Writes the segments, then the offset of each segment and the end of the last segment.
    fn write(&self, path: &Path) -> io::Result<()> {
        let mut file = File::create(path)?;
        let mut offsets = 0u64.to_le_bytes().to_vec();
        let mut end = 0;
        for rows in &self.buckets {
            file.write_all(rows)?;
            end += rows.len() as u64;
            offsets.extend_from_slice(&u64::to_le_bytes(end));
        }
        file.write_all(&offsets)
    }
}

/// Appends the segment of a bucket to `out`. Returns its length.
pub(super) fn read_segment(path: &Path, bucket: u32, out: &mut Vec<u8>) -> io::Result<usize> {
    let file = File::open(path)?;
    let offsets_start = file.metadata()?.len().saturating_sub(8 * (u64::from(BUCKETS) + 1));
    let mut offsets = [[0; 8]; 2];
    file.read_exact_at(offsets.as_flattened_mut(), offsets_start + 8 * u64::from(bucket))?;
    let [start, end] = offsets.map(u64::from_le_bytes);
    let length = end.checked_sub(start).filter(|_| end <= offsets_start);
    let length = to_usize(length.ok_or_else(super::codec::damaged)?);
    let old_length = out.len();
    out.resize(old_length + length, 0);
    file.read_exact_at(&mut out[old_length..], start)?;
    Ok(length)
}
