//! A file that is read at given offsets.

use crate::dataset::csv::open_file;
use crate::dataset::{DatasetError, FileVersion, err};
use crate::model::to_usize;
use bytes::Bytes;
use parquet::errors::{ParquetError, Result as ParquetResult};
use parquet::file::reader::{ChunkReader, Length};
use rustix::buffer::spare_capacity;
use rustix::io::Errno;
use std::fs::File;
use std::io::{BufReader, ErrorKind, Read};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The buffer size for small reads, in bytes: most page headers are shorter.
const SMALL_READ_BYTES: usize = 1 << 10;
/// Ranges with at most this many bytes between them are read as one.
const MAX_GAP_BYTES: u64 = 64 << 10;

/// A byte of a file that is read as another value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BytePatch {
    pub(super) offset: u64,
    /// The value that replaces the byte.
    pub(super) byte: u8,
}

/// An open file. It has no cursor, so its readers do not disturb each other.
#[derive(Clone, Debug)]
pub(super) struct FileReader {
    file: Arc<File>,
    length: u64,
    /// Bytes that are read as if they followed the end of the file.
    tail: Bytes,
    /// Parts of the file that are in memory, each with its offset, in ascending order.
    held: Arc<Vec<(u64, Bytes)>>,
    /// Bytes that are read as other values, in the order of their offsets.
    patches: Arc<Vec<BytePatch>>,
    /// Whether the system has failed to read the file.
    has_failed: Arc<AtomicBool>,
}

impl FileReader {
    /// Opens a file, and returns its version as well. Fails if it cannot be opened.
    pub(super) fn open(path: &Path) -> Result<(Self, FileVersion), DatasetError> {
        let file = open_file(path)?;
        let metadata = match file.metadata() {
            Ok(metadata) if metadata.is_file() => metadata,
            Ok(_) => return err!("{} is not a file", path.display()),
            Err(error) => return err!("cannot read {}: {error}", path.display()),
        };
        let reader = Self {
            file: Arc::new(file),
            length: metadata.len(),
            tail: Bytes::new(),
            held: Arc::default(),
            patches: Arc::default(),
            has_failed: Arc::default(),
        };
        Ok((reader, FileVersion::from(&metadata)))
    }

    /// The current version of the file. `None` if the system does not report it.
    pub(super) fn current_version(&self) -> Option<FileVersion> {
        self.file.metadata().ok().map(|metadata| FileVersion::from(&metadata))
    }

    /// Whether the system has failed to read any part of the file. Then a retry may succeed.
    pub(super) fn has_failed(&self) -> bool {
        self.has_failed.load(Ordering::Relaxed)
    }

    /// The length of the file when it was opened plus the length of the tail, in bytes.
    pub(super) fn length(&self) -> u64 {
        self.length + self.tail.len() as u64
    }

    /// The same file with these bytes after its end.
    pub(super) fn with_tail(&self, tail: Vec<u8>) -> Self {
        Self { tail: tail.into(), held: Arc::default(), ..self.clone() }
    }

    pub(super) fn with_patches(&self, added: impl Iterator<Item = BytePatch>) -> Self {
        let mut patches: Vec<BytePatch> = self.patches.iter().copied().chain(added).collect();
        patches.sort_unstable_by_key(|patch| patch.offset);
        patches.dedup();
        Self { patches: Arc::new(patches), held: Arc::default(), ..self.clone() }
    }

    /// The same file with these ranges in memory. Fails if a range cannot be read.
    pub(super) fn holding(&self, mut ranges: Vec<Range<u64>>) -> Result<Self, DatasetError> {
        ranges.sort_unstable_by_key(|range| range.start);
        let mut joined: Vec<Range<u64>> = Vec::with_capacity(ranges.len());
        for range in ranges {
            match joined.last_mut() {
                Some(last) if range.start <= last.end.saturating_add(MAX_GAP_BYTES) => {
                    last.end = last.end.max(range.end);
                }
                _ => joined.push(range),
            }
        }
        let read = |range: Range<u64>| {
            let bytes = self.bytes(range.start, range.end.saturating_sub(range.start))?;
            Ok((range.start, bytes.into()))
        };
        let held = joined.into_iter().map(read).collect::<Result<Vec<_>, DatasetError>>()?;
        Ok(Self { held: Arc::new(held), ..self.clone() })
    }

    /// Reads `length` bytes from offset `start`. Fails if the file is shorter.
    pub(super) fn bytes(&self, start: u64, length: u64) -> Result<Vec<u8>, DatasetError> {
        let end = start.checked_add(length);
        let Some(end) = end.filter(|end| *end <= self.length()) else {
            return err!(
                "is cut off or broken: {length} bytes should be at offset {start}, and it ends at {}",
                self.length,
            );
        };
        if end > self.length {
            return self.bytes_with_tail(start, end);
        }
        // The allocation is bounded: the bytes are within the length that the file system states.
        let mut bytes = Vec::with_capacity(to_usize(length));
        while (bytes.len() as u64) < length {
            let offset = start + bytes.len() as u64;
            match rustix::io::pread(&self.file, spare_capacity(&mut bytes), offset) {
                Ok(0) => {
                    return err!(
                        "became shorter while it was read; run the job on files that no program writes to"
                    );
                }
                Ok(_) | Err(Errno::INTR) => {}
                Err(errno) => {
                    self.has_failed.store(true, Ordering::Relaxed);
                    return err!("cannot be read: {}", std::io::Error::from(errno));
                }
            }
        }
        // The allocation may have more capacity than we asked for, and `pread` fills all of it.
        bytes.truncate(to_usize(length));
        apply(&self.patches, &mut bytes, start);
        Ok(bytes)
    }

    /// Reads a range of bytes that ends in the tail.
    fn bytes_with_tail(&self, start: u64, end: u64) -> Result<Vec<u8>, DatasetError> {
        let mut bytes = match self.length.checked_sub(start) {
            Some(before) => self.bytes(start, before)?,
            None => Vec::new(),
        };
        let from = to_usize(start.saturating_sub(self.length));
        let to = to_usize(end - self.length);
        bytes.extend_from_slice(self.tail.get(from..to).unwrap_or_default());
        Ok(bytes)
    }

    /// Reads up to `length` bytes from offset `start`. Reads fewer if the file ends before.
    pub(super) fn peek(&self, start: u64, length: u64) -> Result<Vec<u8>, DatasetError> {
        self.bytes(start, length.min(self.length().saturating_sub(start)))
    }

    /// Bytes from offset `start` on that are in memory. `None` if the byte at `start` is not in memory.
    fn held(&self, start: u64) -> Option<Bytes> {
        if let Some(from) = start.checked_sub(self.length) {
            let from = usize::try_from(from).ok().filter(|from| *from < self.tail.len())?;
            return Some(self.tail.slice(from..));
        }
        let after = self.held.partition_point(|(first, _)| *first <= start);
        let (first, bytes) = self.held.get(after.checked_sub(1)?)?;
        let from = usize::try_from(start - first).ok()?;
        (from < bytes.len()).then(|| bytes.slice(from..))
    }
}

impl Length for FileReader {
    fn len(&self) -> u64 {
        self.length()
    }
}

impl ChunkReader for FileReader {
    type T = BufReader<SequentialReader>;

    fn get_read(&self, start: u64) -> ParquetResult<Self::T> {
        let reader = match self.held(start) {
            Some(bytes) => SequentialReader::Memory(bytes),
            None => {
                let file = Arc::clone(&self.file);
                let has_failed = Arc::clone(&self.has_failed);
                let patches = Arc::clone(&self.patches);
                SequentialReader::File { file, offset: start, patches, has_failed }
            }
        };
        Ok(BufReader::with_capacity(SMALL_READ_BYTES, reader))
    }

    fn get_bytes(&self, start: u64, length: usize) -> ParquetResult<Bytes> {
        if let Some(held) = self.held(start)
            && length <= held.len()
        {
            return Ok(held.slice(..length));
        }
        match self.bytes(start, length as u64) {
            Ok(bytes) => Ok(bytes.into()),
            Err(error) => Err(ParquetError::General(error.to_string())),
        }
    }
}

/// Reads sequentially from an offset on.
#[derive(Debug)]
pub(super) enum SequentialReader {
    Memory(Bytes),
    File {
        file: Arc<File>,
        /// Where the next read begins.
        offset: u64,
        patches: Arc<Vec<BytePatch>>,
        has_failed: Arc<AtomicBool>,
    },
}

impl Read for SequentialReader {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        match self {
            Self::Memory(bytes) => {
                let count = buffer.len().min(bytes.len());
                let taken = bytes.split_to(count);
                buffer[..count].copy_from_slice(&taken);
                Ok(count)
            }
            Self::File { file, offset, patches, has_failed } => {
                let read = file.read_at(buffer, *offset);
                match &read {
                    Ok(count) => {
                        apply(patches, &mut buffer[..*count], *offset);
                        *offset += *count as u64;
                    }
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    Err(_) => has_failed.store(true, Ordering::Relaxed),
                }
                read
            }
        }
    }
}

/// Applies patches to bytes of a file that begin at offset `start`. The patches are in the order of their
/// offsets.
fn apply(patches: &[BytePatch], bytes: &mut [u8], start: u64) {
    let end = start + bytes.len() as u64;
    let first = patches.partition_point(|patch| patch.offset < start);
    for patch in patches[first..].iter().take_while(|patch| patch.offset < end) {
        bytes[to_usize(patch.offset - start)] = patch.byte;
    }
}
