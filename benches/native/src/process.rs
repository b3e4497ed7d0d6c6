//! Functions for this program and for the programs of `benches/peers`.

use std::fs::File;
use std::io::{self, Write};
use std::sync::Mutex;

/// Makes the allocator keep freed memory. Otherwise, every mini-batch of native code would again cause page
/// faults for memory that the previous mini-batch has freed. These page faults would take a fifth of the
/// native table job's time, and the comparison would flatter Sandmill.
pub(crate) fn keep_memory() {
    // SAFETY: mallopt only sets parameters of the allocator, and no other thread runs yet.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, 1 << 30);
        libc::mallopt(libc::M_TRIM_THRESHOLD, i32::MAX);
    }
}

/// The output file. All threads append to the same file.
pub(crate) struct Output(Mutex<File>);

impl Output {
    pub(crate) fn create(path: &str) -> io::Result<Self> {
        File::create(path).map(|file| Self(Mutex::new(file)))
    }

    pub(crate) fn append(&self, rows: &[u8]) -> io::Result<()> {
        let mut file = self.0.lock().map_err(|_| io::Error::other("another thread panicked"))?;
        file.write_all(rows)
    }
}

/// The error for a thread that panicked. The panic has already printed its message.
pub(crate) fn panicked() -> io::Error {
    io::Error::other("a thread panicked")
}
