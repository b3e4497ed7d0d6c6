//! Reads a part of a file.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// How much is read at once, in bytes.
const READ_BYTES: u64 = 1 << 20;

/// Passes `length` bytes of a file from `offset` on to `take`, in pieces. `failed` is the error of a read that fails,
/// also because the file is shorter.
///
/// # Errors
/// That of `failed`, and those of `take`.
pub fn read_range<E>(
    file: &File,
    offset: u64,
    length: u64,
    failed: impl FnOnce(io::Error) -> E,
    take: &mut dyn FnMut(&[u8]) -> Result<(), E>,
) -> Result<(), E> {
    let mut done = 0;
    let mut bytes = Vec::new();
    while done < length {
        let some = READ_BYTES.min(length - done);
        bytes.resize(usize::try_from(some).unwrap_or_default(), 0);
        if let Err(error) = file.read_exact_at(&mut bytes, offset + done) {
            return Err(failed(error));
        }
        take(&bytes)?;
        done += some;
    }
    Ok(())
}
