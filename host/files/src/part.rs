//! A worker's part file.

use super::OutputError;
use sandmill_model::{MiniBatchId, Segment};
use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The file to which a worker writes its attempts' rows. The leader copies committed rows to the output file,
/// and may then report their space as free. If possible, new rows overwrite rows in free space, because these
/// bytes are still in the machine's cache. The worker never syncs the file to the disk. The leader does, if
/// needed.
#[derive(Debug)]
pub struct PartFile {
    /// `None` if it was [closed](Self::close).
    file: Option<File>,
    path: PathBuf,
    /// The attempts whose rows may still be needed, with the length of their rows, oldest first.
    needed: VecDeque<((MiniBatchId, u32), u64)>,
    /// The ranges of these rows, in the same order: the offset of the first byte, and the offset after the
    /// last byte.
    ranges: VecDeque<(u64, u64)>,
    /// Whether all rows are needed until the end.
    keeps_all: bool,
}

impl PartFile {
    /// Makes the empty file. If `keeps_all` is true, rows are kept even if they are reported as reclaimable.
    pub fn create(path: &Path, keeps_all: bool) -> Result<Self, OutputError> {
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
            .open(path)
            .map_err(OutputError::io("make the part file", path))?;
        let needed = VecDeque::new();
        let ranges = VecDeque::new();
        Ok(Self { file: Some(file), path: path.to_owned(), needed, ranges, keeps_all })
    }

    /// Continues a file of which all rows are kept. Makes it if it does not exist. New rows come after those in the file.
    pub fn continue_all(path: &Path) -> Result<Self, OutputError> {
        let mut options = OpenOptions::new();
        let options = options.write(true).create(true).truncate(false);
        let options = options.custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
        let file = options.open(path).map_err(OutputError::io("open the part file", path))?;
        let length = file.metadata().map_err(OutputError::io("inspect", path))?.len();
        let ranges = (length > 0).then_some((0, length)).into_iter().collect();
        let needed = VecDeque::new();
        Ok(Self { file: Some(file), path: path.to_owned(), needed, ranges, keeps_all: true })
    }

    /// Closes the file. It is opened again when it is needed.
    pub fn close(&mut self) {
        self.file = None;
    }

    fn file(&mut self) -> Result<&File, OutputError> {
        match &mut self.file {
            Some(file) => Ok(file),
            file => {
                let mut options = OpenOptions::new();
                let options = options.write(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
                let opened = options.open(&self.path);
                let opened = opened.map_err(OutputError::io("open the part file", &self.path))?;
                Ok(file.insert(opened))
            }
        }
    }

    /// Writes the header of the file, if the file is still empty.
    pub fn begin(&mut self, header: &[u8]) -> Result<(), OutputError> {
        if self.ranges.is_empty() && !header.is_empty() {
            let written = self.file()?.write_all_at(header, 0);
            written.map_err(OutputError::io("write to the part file", &self.path))?;
            self.ranges.push_back((0, header.len() as u64));
        }
        Ok(())
    }

    /// Writes the lines of one attempt with one write. If the write fails, none of the lines count.
    pub fn append(
        &mut self,
        lines: &[u8],
        rows: u64,
        attempt: (MiniBatchId, u32),
    ) -> Result<Segment, OutputError> {
        let length = lines.len() as u64;
        let checksum = crc32fast::hash(lines);
        if lines.is_empty() {
            return Ok(Segment { offset: 0, length, checksum, rows });
        }
        let (offset, end) = self.find_space(length);
        let file = self.file()?;
        if let Err(source) = file.write_all_at(lines, offset) {
            // Give the space back if possible. If bytes stay, nothing refers to them.
            let _ = file.set_len(end);
            return Err(OutputError::io("write rows to the part file", &self.path)(source));
        }
        match self.ranges.back_mut().filter(|last| last.1 == offset) {
            Some(last) => last.1 += length,
            None => self.ranges.push_back((offset, offset + length)),
        }
        if !self.keeps_all {
            self.needed.push_back((attempt, length));
        }
        Ok(Segment { offset, length, checksum, rows })
    }

    /// Returns the offset at which `length` bytes can be written, and the end of all needed rows.
    /// Tries the beginning of the file first, then the end of the rows that were written last. If
    /// neither has enough free space, the offset is the end of all needed rows.
    fn find_space(&self, length: u64) -> (u64, u64) {
        let end = self.ranges.iter().map(|range| range.1).max().unwrap_or(0);
        let last = self.ranges.back().map_or(0, |range| range.1);
        let is_free = |offset: u64| {
            self.ranges.iter().all(|range| offset + length <= range.0 || range.1 <= offset)
        };
        let found = [0, last].into_iter().find(|offset| is_free(*offset));
        (found.unwrap_or(end), end)
    }

    /// Reclaims the space of the rows of this attempt and of all attempts before it.
    pub fn reclaim(&mut self, attempt: (MiniBatchId, u32)) {
        let Some(last) = self.needed.iter().position(|(needed, _)| *needed == attempt) else {
            return;
        };
        let mut bytes: u64 = self.needed.drain(..=last).map(|(_, length)| length).sum();
        while let Some(first) = self.ranges.front_mut() {
            let reclaimed = bytes.min(first.1 - first.0);
            first.0 += reclaimed;
            bytes -= reclaimed;
            if first.0 < first.1 {
                break;
            }
            self.ranges.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn attempt(id: u64) -> (MiniBatchId, u32) {
        (MiniBatchId(id), 1)
    }

    #[test]
    fn attempts_are_stored_one_after_the_other() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.part");
        let mut part = PartFile::create(&path, false).unwrap();
        let first = part.append(b"a\nb\n", 2, attempt(0)).unwrap();
        let none = part.append(b"", 0, attempt(1)).unwrap();
        let second = part.append(b"c\n", 1, attempt(2)).unwrap();
        assert_eq!((first.offset, first.length, first.rows), (0, 4, 2));
        assert_eq!(none.length, 0);
        assert_eq!((second.offset, second.length), (4, 2));
        assert_eq!(std::fs::read(&path).unwrap(), b"a\nb\nc\n");
        super::super::verify(&File::open(&path).unwrap(), &first).unwrap();
    }

    #[test]
    fn a_header_comes_first_or_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.part");
        let mut part = PartFile::create(&path, false).unwrap();
        part.begin(b"x\n").unwrap();
        assert_eq!(part.append(b"1\n", 1, attempt(0)).unwrap().offset, 2);
        part.begin(b"y\n").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"x\n1\n");
    }

    #[test]
    fn a_file_whose_rows_are_kept_is_continued() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.part");
        let mut part = PartFile::continue_all(&path).unwrap();
        part.begin(b"x\n").unwrap();
        part.append(b"1\n", 1, attempt(0)).unwrap();
        let mut part = PartFile::continue_all(&path).unwrap();
        part.begin(b"x\n").unwrap();
        let second = part.append(b"2\n", 1, attempt(1)).unwrap();
        part.reclaim(attempt(1));
        assert_eq!((second.offset, part.append(b"3\n", 1, attempt(2)).unwrap().offset), (4, 6));
        assert_eq!(std::fs::read(&path).unwrap(), b"x\n1\n2\n3\n");
    }

    #[test]
    fn a_full_disk_is_an_error_that_names_the_file() {
        let mut part = PartFile::create(Path::new("/dev/full"), false).unwrap();
        let error = part.append(b"a\n", 1, attempt(0)).unwrap_err();
        insta::assert_snapshot!(error, @"cannot write rows to the part file /dev/full: No space left on device (os error 28)");
        assert!(part.ranges.is_empty() && part.needed.is_empty());
    }

    #[test]
    fn reclaimed_space_is_reused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.part");
        let mut part = PartFile::create(&path, false).unwrap();
        let mut offsets = Vec::new();
        for id in 0..12 {
            offsets.push(part.append(b"row\n", 1, attempt(id)).unwrap().offset);
            if id % 4 == 3 {
                part.reclaim(attempt(id - 1));
            }
        }
        assert_eq!(offsets, [0, 4, 8, 12, 0, 4, 8, 16, 0, 4, 8, 12]);
        assert_eq!(std::fs::metadata(&path).unwrap().len(), 20);
        // If all rows are kept, no space is reclaimed.
        let mut part = PartFile::create(&path, true).unwrap();
        part.begin(b"x\n").unwrap();
        part.close();
        part.append(b"1\n", 1, attempt(0)).unwrap();
        part.reclaim(attempt(0));
        part.append(b"2\n", 1, attempt(1)).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"x\n1\n2\n");
    }

    proptest! {
        /// Needed rows stay where they were written, whatever is reclaimed.
        #[test]
        fn needed_rows_are_never_overwritten(
            steps in prop::collection::vec((0_usize..40, prop::option::of(0_u64..12)), 1..60),
        ) {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("a.part");
            let mut part = PartFile::create(&path, false).unwrap();
            let mut wanted: Vec<(u64, Segment)> = Vec::new();
            for (id, (length, age)) in (0_u64..).zip(steps) {
                let bytes = vec![id.to_le_bytes()[0]; length];
                wanted.push((id, part.append(&bytes, 1, attempt(id)).unwrap()));
                if let Some(age) = age {
                    let last_reclaimed = id.saturating_sub(age);
                    part.reclaim(attempt(last_reclaimed));
                    wanted.retain(|(id, _)| *id > last_reclaimed);
                }
                let file = File::open(&path).unwrap();
                for (_, segment) in &wanted {
                    super::super::verify(&file, segment).unwrap();
                }
            }
        }
    }
}
