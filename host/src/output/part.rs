//! A worker's part file.

use super::OutputError;
use crate::model::Segment;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The file that a worker appends its attempts' rows to. The leader copies from it what is
/// committed; it also syncs it first, so nothing here does.
#[derive(Debug)]
pub struct PartFile {
    file: File,
    path: PathBuf,
    end: u64,
}

impl PartFile {
    /// Makes the file, empty.
    pub fn create(path: &Path) -> Result<Self, OutputError> {
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
            .open(path)
            .map_err(OutputError::io("make the part file", path))?;
        Ok(Self { file, path: path.to_owned(), end: 0 })
    }

    /// Writes what the file is to begin with, if there is nothing in it yet.
    pub fn begin(&mut self, header: &[u8]) -> Result<(), OutputError> {
        if self.end == 0 {
            let written = self.file.write_all_at(header, 0);
            written.map_err(OutputError::io("write to the part file", &self.path))?;
            self.end = header.len() as u64;
        }
        Ok(())
    }

    /// Appends the lines of one attempt with one write. When that fails nothing of it counts: the
    /// next attempt is written to the same place.
    pub fn append(&mut self, lines: &[u8], rows: u64) -> Result<Segment, OutputError> {
        let length = lines.len() as u64;
        if length > 0
            && let Err(source) = self.file.write_all_at(lines, self.end)
        {
            // Room is given back where that is possible; what stays is never referred to.
            let _ = self.file.set_len(self.end);
            return Err(OutputError::io("write rows to the part file", &self.path)(source));
        }
        let checksum = crc32fast::hash(lines);
        let segment = Segment { offset: self.end, length, checksum, rows };
        self.end += length;
        Ok(segment)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_lie_one_after_the_other() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.part");
        let mut part = PartFile::create(&path).unwrap();
        let first = part.append(b"a\nb\n", 2).unwrap();
        let none = part.append(b"", 0).unwrap();
        let second = part.append(b"c\n", 1).unwrap();
        assert_eq!((first.offset, first.length, first.rows), (0, 4, 2));
        assert_eq!((none.offset, none.length), (4, 0));
        assert_eq!((second.offset, second.length), (4, 2));
        assert_eq!(std::fs::read(&path).unwrap(), b"a\nb\nc\n");
        super::super::verify(&File::open(&path).unwrap(), &first).unwrap();
    }

    #[test]
    fn a_header_comes_first_or_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.part");
        let mut part = PartFile::create(&path).unwrap();
        part.begin(b"x\n").unwrap();
        assert_eq!(part.append(b"1\n", 1).unwrap().offset, 2);
        part.begin(b"y\n").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"x\n1\n");
    }

    #[test]
    fn a_full_disk_is_an_error_that_names_the_file() {
        let mut part = PartFile::create(Path::new("/dev/full")).unwrap();
        let error = part.append(b"a\n", 1).unwrap_err();
        insta::assert_snapshot!(error, @"cannot write rows to the part file /dev/full: No space left on device (os error 28)");
        assert_eq!(part.end, 0);
    }
}
