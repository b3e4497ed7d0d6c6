//! The part of a file that is looked at: mapped where that can be, as mapping costs half of what copying does,
//! or else read.

use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::ptr::NonNull;
use std::time::{Duration, Instant};

/// Bytes read at once; they should stay in the second-level cache until they are looked at.
const BLOCK: usize = 256 << 10;
/// Bytes mapped at once, and the fewest that are.
const MAPPED: Range<u64> = (1 << 20)..(2 << 20);
/// Where mappings may begin: a multiple of all sizes of pages.
const STEP: u64 = 64 << 10;

/// How long what is mapped may be looked at between two slices.
const FRESH: Duration = Duration::from_millis(50);

/// Bytes of a file from a place on. Keeps its buffer.
#[derive(Debug, Default)]
pub(super) struct Window {
    block: Vec<u8>,
    read: usize,
    /// In the place of what was read.
    mapping: Option<Mapping>,
}

impl Window {
    /// What was moved to last; nothing at the file's end.
    pub(super) fn bytes(&self) -> &[u8] {
        match &self.mapping {
            Some(mapping) => mapping.bytes(),
            None => &self.block[..self.read],
        }
    }

    /// Forgets what was mapped a while ago: whoever looks at it now may have waited, and a file that was cut short
    /// meanwhile would end this process. True if there was such.
    pub(super) fn is_forgotten(&mut self) -> bool {
        self.mapping.take_if(|mapping| mapping.since.elapsed() > FRESH).is_some()
    }

    /// Moves to a place in a file. Blocks are full unless the file ends, so that a slow source costs no small looks.
    pub(super) fn move_to(&mut self, file: &File, offset: u64) -> io::Result<()> {
        self.mapping = None;
        self.mapping = Mapping::new(file, offset);
        self.read = 0;
        if self.mapping.is_some() {
            return Ok(());
        }
        self.block.resize(BLOCK, 0);
        while self.read < BLOCK {
            match file.read_at(&mut self.block[self.read..], offset + self.read as u64) {
                Ok(0) => break,
                Ok(count) => self.read += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// Bytes of a file in memory, which are the file's own.
#[derive(Debug)]
struct Mapping {
    start: NonNull<u8>,
    length: usize,
    /// Bytes before the place that was wanted.
    skip: usize,
    since: Instant,
}

impl Mapping {
    /// None where little is left of the file, or where it cannot be mapped or read: reading it tells why.
    fn new(file: &File, offset: u64) -> Option<Self> {
        let rest = file.metadata().ok()?.len().checked_sub(offset)?;
        if rest < MAPPED.start {
            return None;
        }
        let from = offset - offset % STEP;
        let skip = usize::try_from(offset - from).ok()?;
        let length = skip + usize::try_from(rest.min(MAPPED.end)).ok()?;
        let fd = file.as_raw_fd();
        let from = libc::off_t::try_from(from).ok()?;
        let nowhere = std::ptr::null_mut();
        let protection = libc::PROT_READ;
        // SAFETY: a new mapping, at a place of the kernel's choice, which nothing else refers to.
        let start = unsafe { libc::mmap(nowhere, length, protection, libc::MAP_SHARED, fd, from) };
        if start == libc::MAP_FAILED {
            return None;
        }
        let since = Instant::now();
        let mapping = Self { start: NonNull::new(start.cast())?, length, skip, since };
        mapping.is_there().then_some(mapping)
    }

    /// Whether all of it could be brought into memory: then looking at it costs nothing more, and whoever cuts
    /// the file short now has to be quick to do harm, which is this process's end.
    fn is_there(&self) -> bool {
        loop {
            // SAFETY: the range is this mapping's, and its contents stay as they are.
            let answer = unsafe {
                libc::madvise(self.start.as_ptr().cast(), self.length, libc::MADV_POPULATE_READ)
            };
            match answer {
                0 => return true,
                _ if Errno::from_io_error(&io::Error::last_os_error()) == Some(Errno::INTR) => {}
                _ => return false,
            }
        }
    }

    fn bytes(&self) -> &[u8] {
        // SAFETY: the mapping is readable as long as this value lives, and nothing in this process writes to it.
        // Should another process write to the file meanwhile, bytes change between two looks: whoever looks at
        // them here counts them, one by one, and copies what more depends on.
        let all = unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.length) };
        &all[self.skip..]
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range is this mapping's, and nothing refers to it any more.
        let _ = unsafe { libc::munmap(self.start.as_ptr().cast(), self.length) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn what_was_mapped_a_while_ago_is_forgotten() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(MAPPED.end).unwrap();
        let mut window = Window::default();
        window.move_to(&file, 0).unwrap();
        assert_eq!((window.bytes().len() as u64, window.is_forgotten()), (MAPPED.end, false));
        std::thread::sleep(FRESH * 2);
        file.set_len(5).unwrap();
        assert!(window.is_forgotten() && window.bytes().is_empty());
        window.move_to(&file, 3).unwrap();
        assert_eq!(window.bytes(), [0, 0]);
        assert!(!window.is_forgotten(), "it was read");
    }

    #[test]
    fn a_window_shows_the_file_from_any_place_on() {
        let mut file = tempfile::tempfile().unwrap();
        let length = MAPPED.end as usize + BLOCK + 12_345;
        let text: Vec<u8> = (0..length).map(|at| (at * 7 / 1000 + at) as u8).collect();
        file.write_all(&text).unwrap();
        let mut window = Window::default();
        for (offset, is_mapped) in
            [(0, true), (1, true), (STEP as usize + 7, true), (length - 9, false)]
        {
            window.move_to(&file, offset as u64).unwrap();
            assert_eq!(window.mapping.is_some(), is_mapped);
            let bytes = window.bytes();
            assert!(!bytes.is_empty() && *bytes == text[offset..offset + bytes.len()]);
        }
        let mut at = 0;
        let mut mapped = 0;
        loop {
            window.move_to(&file, at as u64).unwrap();
            let bytes = window.bytes();
            if bytes.is_empty() {
                break;
            }
            assert!(*bytes == text[at..at + bytes.len()]);
            at += bytes.len();
            mapped += u32::from(window.mapping.is_some());
        }
        assert_eq!((at, mapped), (length, 1));
    }

    #[test]
    fn what_cannot_be_mapped_is_read() {
        // Of no length, and more than that in it.
        let file = File::open("/proc/self/maps").unwrap();
        let mut window = Window::default();
        window.move_to(&file, 0).unwrap();
        assert!(window.mapping.is_none() && !window.bytes().is_empty());
        let folder = File::open("/").unwrap();
        assert!(window.move_to(&folder, 0).is_err());
    }
}
