//! The single output file, on the leader's side.

use super::OutputError;
use crate::opening::at_its_path;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use sandmill_model::{Segment, to_usize};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Seek};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// How many bytes are read at a time. Larger blocks are slower.
const BLOCK_BYTES: usize = 64 << 10;

/// Appends committed segments of part files to the output file. A segment is appended completely or not at
/// all: after an error, the output file has the same length as before.
#[derive(Debug)]
pub struct Appender {
    file: File,
    path: PathBuf,
    /// The length of the file.
    end: u64,
    /// How many bytes from the beginning are certainly on the disk.
    synced: u64,
    /// Whether the kernel can copy from part files to this file (`copy_file_range`).
    copies_in_kernel: bool,
    chunk: Vec<u8>,
}

/// Opens the file, and makes it if it is missing. Fails if its path has a link: when the job began,
/// the path had none.
fn open(path: &Path, flags: OFlags) -> io::Result<File> {
    let flags = flags | OFlags::RDWR | OFlags::CREATE;
    at_its_path(path, flags, Mode::from_raw_mode(0o666)).map(File::from)
}

impl Appender {
    /// Makes the output file, which must not exist yet.
    pub fn create(path: &Path) -> Result<Self, OutputError> {
        let file =
            open(path, OFlags::EXCL).map_err(OutputError::io("make the output file", path))?;
        Ok(Self::new(file, path, 0))
    }

    /// Opens the output file of an earlier run, or makes it if it is gone.
    pub fn open(path: &Path) -> Result<Self, OutputError> {
        let failed = |e| OutputError::io("open the output file", path)(e);
        let file = open(path, OFlags::NONBLOCK).map_err(failed)?;
        let metadata = file.metadata().map_err(failed)?;
        if metadata.is_file() {
            return Ok(Self::new(file, path, metadata.len()));
        }
        Err(failed(io::Error::other("it is no longer an ordinary file")))
    }

    fn new(file: File, path: &Path, end: u64) -> Self {
        let path = path.to_owned();
        Self { file, path, end, synced: 0, copies_in_kernel: true, chunk: Vec::new() }
    }

    /// Bytes in the output file.
    pub fn len(&self) -> u64 {
        self.end
    }

    /// Whether nothing is in the output file.
    pub fn is_empty(&self) -> bool {
        self.end == 0
    }

    /// How many of the bytes are certainly on the disk.
    pub fn synced(&self) -> u64 {
        self.synced
    }

    /// Records that this many bytes from the beginning are on the disk.
    pub fn trust(&mut self, synced: u64) {
        self.synced = synced.min(self.end);
    }

    /// The path of the output file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The output file, for reading.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Writes bytes at an offset, and overwrites the bytes there.
    pub fn write_at(&mut self, bytes: &[u8], offset: u64) -> Result<(), OutputError> {
        self.file.write_all_at(bytes, offset).map_err(|e| self.failed(e))?;
        self.end = self.end.max(offset + bytes.len() as u64);
        self.synced = self.synced.min(offset);
        Ok(())
    }

    /// Writes a segment at an offset, and overwrites the bytes there.
    pub fn patch(
        &mut self,
        part: &File,
        segment: &Segment,
        offset: u64,
    ) -> Result<(), OutputError> {
        let end = checked_end(segment, size_of(part)?)?;
        self.copy(part, segment.offset, end, offset)?;
        self.end = self.end.max(offset + segment.length);
        self.synced = self.synced.min(offset);
        Ok(())
    }

    /// Appends one segment.
    pub fn append(&mut self, part: &File, segment: &Segment) -> Result<(), OutputError> {
        self.append_all(part, std::slice::from_ref(segment))
    }

    /// Appends segments of one part file in their order. Adjacent segments are copied as one.
    pub fn append_all(&mut self, part: &File, segments: &[Segment]) -> Result<(), OutputError> {
        let before = self.end;
        let result = self.copy_all(part, segments);
        if result.is_err() {
            self.end = before;
            // Best effort: the next segment would overwrite these bytes anyway.
            let _ = self.file.set_len(before);
        }
        result
    }

    fn copy_all(&mut self, part: &File, segments: &[Segment]) -> Result<(), OutputError> {
        let size = size_of(part)?;
        let mut rest = segments;
        while let Some((first, tail)) = rest.split_first() {
            rest = tail;
            let mut end = checked_end(first, size)?;
            while let Some((next, tail)) = rest.split_first()
                && next.offset == end
            {
                end = checked_end(next, size)?;
                rest = tail;
            }
            if end > first.offset {
                self.copy(part, first.offset, end, self.end)?;
                self.end += end - first.offset;
            }
        }
        Ok(())
    }

    /// Copies the bytes of the part file from `from` up to `end` to the offset `target` of the output file.
    /// The part file must have these bytes.
    fn copy(
        &mut self,
        part: &File,
        mut from: u64,
        end: u64,
        target: u64,
    ) -> Result<(), OutputError> {
        let length = end - from;
        let mut to = target;
        while from < end && self.copies_in_kernel {
            let wanted = usize::try_from(end - from).unwrap_or(usize::MAX).min(1 << 30);
            match rustix::fs::copy_file_range(
                part,
                Some(&mut from),
                &self.file,
                Some(&mut to),
                wanted,
            ) {
                // The part file was truncated in the meantime, or its file system reports it as empty.
                Ok(0) => break,
                Ok(_) | Err(Errno::INTR) => {}
                Err(
                    Errno::XDEV
                    | Errno::INVAL
                    | Errno::NOSYS
                    | Errno::OPNOTSUPP
                    | Errno::PERM
                    | Errno::BADF,
                ) => self.copies_in_kernel = false,
                Err(errno) => return Err(self.failed(errno.into())),
            }
        }
        self.copy_through_memory(part, from, end, to)?;
        begin_write(&self.file, target, length);
        Ok(())
    }

    fn copy_through_memory(
        &mut self,
        part: &File,
        mut from: u64,
        end: u64,
        mut to: u64,
    ) -> Result<(), OutputError> {
        let mut chunk = std::mem::take(&mut self.chunk);
        let mut result = Ok(());
        while from < end && result.is_ok() {
            let length = to_usize((end - from).min(BLOCK_BYTES as u64));
            chunk.resize(length, 0);
            result = part
                .read_exact_at(&mut chunk, from)
                .and_then(|()| self.file.write_all_at(&chunk, to));
            from += length as u64;
            to += length as u64;
        }
        self.chunk = chunk;
        result.map_err(|e| self.failed(e))
    }

    fn failed(&self, source: io::Error) -> OutputError {
        OutputError::io("copy rows to the output file", &self.path)(source)
    }

    /// Truncates the file to the length that the journal has recorded.
    pub fn truncate(&mut self, length: u64) -> Result<(), OutputError> {
        self.file.set_len(length).map_err(OutputError::io("cut the output file", &self.path))?;
        self.end = length;
        self.synced = self.synced.min(length);
        Ok(())
    }

    /// Waits until everything appended is on the disk.
    pub fn sync(&mut self) -> Result<(), OutputError> {
        let synced = self.file.sync_data();
        synced.map_err(OutputError::io("sync the output file", &self.path))?;
        self.synced = self.end;
        Ok(())
    }
}

/// Checks whether a file holds given segments. This is fastest if the segments are checked in the order of
/// their offsets.
#[derive(Debug)]
pub struct Checker<'a> {
    reader: BufReader<&'a File>,
    /// The position of the reader in the file.
    position: u64,
}

impl<'a> Checker<'a> {
    /// Reads `file` from its beginning.
    pub fn new(mut file: &'a File) -> io::Result<Self> {
        file.rewind()?;
        Ok(Self { reader: BufReader::with_capacity(BLOCK_BYTES, file), position: 0 })
    }

    /// Whether the bytes from `offset` on are the bytes of the segment. Returns `false` if the file ends too
    /// early.
    pub fn holds(&mut self, offset: u64, segment: &Segment) -> io::Result<bool> {
        let too_large = || io::Error::other("an offset is larger than any file");
        let step = i64::try_from(offset).map_err(|_| too_large())?
            - i64::try_from(self.position).map_err(|_| too_large())?;
        self.reader.seek_relative(step)?;
        self.position = offset;
        let mut hasher = crc32fast::Hasher::new();
        let mut left = segment.length;
        while left > 0 {
            let block = match self.reader.fill_buf() {
                Ok([]) => return Ok(false),
                Ok(block) => {
                    &block[..block.len().min(usize::try_from(left).unwrap_or(BLOCK_BYTES))]
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            let length = block.len();
            hasher.update(block);
            self.reader.consume(length);
            left -= length as u64;
            self.position += length as u64;
        }
        Ok(hasher.finalize() == segment.checksum)
    }
}

/// Asks the kernel to begin writing a range to the disk. Then [`Appender::sync`] has little left to do when
/// the job's end waits for it. The call is only a hint, so a failure does not matter.
fn begin_write(file: &File, offset: u64, length: u64) {
    let offset = offset.cast_signed();
    let length = length.cast_signed();
    // SAFETY: the descriptor is open as long as `file` lives, and the call accesses no memory of ours.
    unsafe {
        libc::sync_file_range(file.as_raw_fd(), offset, length, libc::SYNC_FILE_RANGE_WRITE);
    }
}

fn size_of(part: &File) -> Result<u64, OutputError> {
    Ok(part.metadata().map_err(OutputError::io("inspect", "a part file"))?.len())
}

fn checked_end(segment: &Segment, size: u64) -> Result<u64, OutputError> {
    let &Segment { offset, length, .. } = segment;
    match offset.checked_add(length) {
        Some(end) if end <= size => Ok(end),
        _ => Err(OutputError::OutsidePart { offset, length, size }),
    }
}

/// The CRC-32 of a range of a file. Fails if the file ends before the end of the range.
pub fn checksum(file: &File, mut from: u64, length: u64) -> io::Result<u32> {
    let end = from.saturating_add(length);
    let mut hasher = crc32fast::Hasher::new();
    let mut chunk = vec![0; to_usize(length.min(BLOCK_BYTES as u64))];
    while from < end {
        let chunk = &mut chunk[..to_usize((end - from).min(BLOCK_BYTES as u64))];
        file.read_exact_at(chunk, from)?;
        hasher.update(chunk);
        from += chunk.len() as u64;
    }
    Ok(hasher.finalize())
}

/// Checks that a part file holds the segment as it was written.
pub fn verify(part: &File, segment: &Segment) -> Result<(), OutputError> {
    checked_end(segment, size_of(part)?)?;
    let found = checksum(part, segment.offset, segment.length);
    let found = found.map_err(OutputError::io("read", "a part file"))?;
    if found == segment.checksum {
        return Ok(());
    }
    let &Segment { offset, length, checksum: expected, .. } = segment;
    Err(OutputError::Checksum { offset, length, expected, found })
}

#[cfg(any(test, feature = "testing"))]
impl Appender {
    /// An output file on a full disk.
    ///
    /// # Panics
    /// If there is no `/dev/full`.
    pub fn to_full_disk() -> Self {
        let path = Path::new("/dev/full");
        let file = File::options().read(true).write(true).open(path);
        Self::new(file.expect("every Linux has it"), path, 0)
    }
}

#[cfg(test)]
mod tests {
    use super::super::PartFile;
    use super::*;
    use sandmill_model::MiniBatchId;
    use std::fs;

    fn fixture() -> (tempfile::TempDir, File, Vec<Segment>, Appender) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("p.part");
        let mut part = PartFile::create(&path, true).unwrap();
        let segments = ["one\n", "two\ntwo\n", "", "three\n"]
            .iter()
            .map(|text| {
                part.append(text.as_bytes(), text.lines().count() as u64, (MiniBatchId(0), 1))
                    .unwrap()
            })
            .collect();
        let output = Appender::create(&folder.path().join("out.txt")).unwrap();
        (folder, File::open(path).unwrap(), segments, output)
    }

    #[test]
    fn segments_arrive_whole_and_in_order() {
        for in_kernel in [true, false] {
            let (folder, part, segments, mut output) = fixture();
            output.copies_in_kernel = in_kernel;
            output.append(&part, &segments[3]).unwrap();
            output.append_all(&part, &segments[..3]).unwrap();
            output.sync().unwrap();
            assert_eq!(output.len(), 18);
            let path = folder.path().join("out.txt");
            assert_eq!(fs::read_to_string(&path).unwrap(), "three\none\ntwo\ntwo\n");
            let mut again = Appender::open(&path).unwrap();
            assert_eq!(again.len(), 18);
            again.truncate(6).unwrap();
            again.append(&part, &segments[0]).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), "three\none\n");
            let mut checker = Checker::new(again.file()).unwrap();
            assert!(checker.holds(6, &segments[0]).unwrap());
            assert!(checker.holds(0, &segments[3]).unwrap());
            assert!(!checker.holds(1, &segments[3]).unwrap());
            assert!(!checker.holds(8, &segments[0]).unwrap(), "beyond the end");
            assert!(!checker.holds(100, &segments[0]).unwrap(), "far beyond the end");
            assert!(checker.holds(6, &segments[0]).unwrap());
            again.patch(&part, &segments[1], 2).unwrap();
            again.write_at(b"T", 0).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), "Thtwo\ntwo\n");
            assert!(Appender::create(&path).is_err(), "an existing file is not overwritten");
        }
    }

    #[test]
    fn wrong_segments_change_nothing() {
        let (folder, part, segments, mut output) = fixture();
        let length = |offset, length| Segment { offset, length, ..Segment::sample() };
        let bad = [segments[0], length(12, 100)];
        insta::assert_snapshot!(output.append_all(&part, &bad).unwrap_err(), @"100 bytes of rows at offset 12 are outside of their part file, which has 18 bytes: the part file was truncated or the worker's report is wrong");
        assert!(output.append(&part, &length(u64::MAX, 2)).is_err());
        assert_eq!(fs::read(folder.path().join("out.txt")).unwrap(), b"");
        output.append_all(&part, &segments).unwrap();
        assert_eq!(output.len(), 18);
    }

    #[test]
    fn a_damaged_segment_is_found() {
        let (_folder, part, mut segments, _) = fixture();
        for segment in &segments {
            verify(&part, segment).unwrap();
        }
        segments[1].checksum ^= 1;
        let error = verify(&part, &segments[1]).unwrap_err();
        assert!(matches!(error, OutputError::Checksum { offset: 4, .. }), "{error}");
    }
}
