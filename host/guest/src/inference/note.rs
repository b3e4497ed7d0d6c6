//! The file in which a worker records its current model call. The first bytes of the file are mapped into
//! memory, because every computation changes the note twice: two syscalls would make a small computation one
//! seventh slower.

use crate::model::InferenceNote;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::ptr;
use std::sync::atomic::{AtomicU8, Ordering, fence};

/// The mapped bytes of the file. They stay mapped as long as the process lives.
#[derive(Debug)]
pub struct NotePlace(&'static [AtomicU8; InferenceNote::BYTES]);

impl NotePlace {
    /// Maps a file and records that no model is in use. The file must be open for reading and writing, and no
    /// other process may write to it.
    ///
    /// # Errors
    /// If the disk is full, or the file system does not support mapping files.
    pub fn map_file(file: &File) -> io::Result<Self> {
        // Allocate space on the disk first: the kernel ends a process that writes to a mapped page without
        // space.
        file.write_all_at(&InferenceNote::encode(None), 0)?;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let length = InferenceNote::BYTES;
        let shared = libc::MAP_SHARED;
        // SAFETY: a mapping at an address that the kernel chooses touches no memory that is in use.
        let mapping =
            unsafe { libc::mmap(ptr::null_mut(), length, protection, shared, file.as_raw_fd(), 0) };
        if mapping == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the mapping has this many bytes and is never unmapped. If another process writes to the
        // file, the numbers change under us, which is allowed for atomics.
        Ok(Self(unsafe { &*mapping.cast() }))
    }

    /// Replaces the note. `None` records that no model is in use.
    pub fn write(&self, note: Option<InferenceNote>) {
        let [first, rest @ ..] = self.0;
        // While the other bytes change, the first byte says that no model is in use.
        first.store(0, Ordering::Relaxed);
        fence(Ordering::Release);
        if note.is_some() {
            let [kind, bytes @ ..] = InferenceNote::encode(note);
            for (mapped, byte) in rest.iter().zip(bytes) {
                mapped.store(byte, Ordering::Relaxed);
            }
            first.store(kind, Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::InferenceWork;

    #[test]
    fn notes_are_written_to_the_file() {
        let file = tempfile::tempfile().unwrap();
        let place = NotePlace::map_file(&file).unwrap();
        let read = || {
            let mut bytes = [0; InferenceNote::BYTES];
            file.read_exact_at(&mut bytes, 0).unwrap();
            InferenceNote::decode(&bytes)
        };
        assert_eq!(read(), None);
        for note in [
            Some(InferenceNote::now(InferenceWork::Loading, None)),
            Some(InferenceNote::now(InferenceWork::Computing, Some(7))),
            None,
            Some(InferenceNote::now(InferenceWork::Computing, Some(0))),
        ] {
            place.write(note);
            assert_eq!(read(), note);
        }
        assert_eq!(file.metadata().unwrap().len(), InferenceNote::BYTES as u64);
    }

    #[test]
    fn a_read_only_file_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("note");
        std::fs::write(&path, [0; 64]).unwrap();
        assert!(NotePlace::map_file(&File::open(path).unwrap()).is_err());
    }
}
