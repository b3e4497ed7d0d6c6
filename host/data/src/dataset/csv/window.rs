//! The part of a file that is being scanned.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// How many bytes are read at once. They should stay in the CPU's second-level cache until they are scanned.
const WINDOW_BYTES: usize = 256 << 10;

/// The bytes of a file after some offset. Reuses its buffer.
#[derive(Debug, Default)]
pub(super) struct FileWindow {
    block: Vec<u8>,
    /// How many bytes of the block are from the file.
    filled: usize,
}

impl FileWindow {
    /// The bytes at the offset of the last move. Empty at the end of the file.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.block[..self.filled]
    }

    /// Moves to an offset in a file. Reads until the block is full or the file ends, so that a slow source
    /// does not cause many small scans.
    pub(super) fn move_to(&mut self, file: &File, offset: u64) -> io::Result<()> {
        self.filled = 0;
        self.block.resize(WINDOW_BYTES, 0);
        while self.filled < WINDOW_BYTES {
            match file.read_at(&mut self.block[self.filled..], offset + self.filled as u64) {
                Ok(0) => break,
                Ok(count) => self.filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn a_window_shows_the_file_from_any_offset() {
        let mut file = tempfile::tempfile().unwrap();
        let length = 2 * WINDOW_BYTES + 12_345;
        let text: Vec<u8> = (0..length).map(|at| (at * 7 / 1000 + at) as u8).collect();
        file.write_all(&text).unwrap();
        let mut window = FileWindow::default();
        for (offset, shown) in [
            (0, WINDOW_BYTES),
            (1, WINDOW_BYTES),
            (length - 9, 9),
            (2 * WINDOW_BYTES, 12_345),
            (length, 0),
        ] {
            window.move_to(&file, offset as u64).unwrap();
            assert!(*window.bytes() == text[offset..offset + shown], "{offset}");
        }
    }

    #[test]
    fn a_file_that_is_cut_short_ends_there() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(2 * WINDOW_BYTES as u64).unwrap();
        let mut window = FileWindow::default();
        window.move_to(&file, 0).unwrap();
        file.set_len(5).unwrap();
        assert_eq!(*window.bytes(), [0; WINDOW_BYTES], "what was read stays");
        window.move_to(&file, 3).unwrap();
        assert_eq!(window.bytes(), [0, 0]);
        window.move_to(&file, WINDOW_BYTES as u64).unwrap();
        assert!(window.bytes().is_empty());
    }

    #[test]
    fn files_without_a_length_are_read_but_folders_are_not() {
        let file = File::open("/proc/self/maps").unwrap();
        let mut window = FileWindow::default();
        window.move_to(&file, 0).unwrap();
        assert!(!window.bytes().is_empty());
        let folder = File::open("/").unwrap();
        assert!(window.move_to(&folder, 0).is_err());
        assert!(window.bytes().is_empty());
    }
}
