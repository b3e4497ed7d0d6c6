//! Reads a slice of a file.

use super::cut::{MAX_SLICE, open_file};
use crate::dataset::{DatasetError, err};
use crate::model::{TextSlice, to_usize};
use std::io::ErrorKind;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Reads the bytes of a slice of a file below `root` into `buffer`, which never shrinks. For an
/// unpacked text `root` is the spill folder. Fails if the file is missing, is not a file, or is
/// shorter than planned.
pub fn read_slice<'a>(
    root: &Path,
    slice: &TextSlice,
    buffer: &'a mut Vec<u8>,
) -> Result<&'a [u8], DatasetError> {
    let path = root.join(slice.unpacked.as_deref().unwrap_or(&slice.file));
    if slice.length > 2 * MAX_SLICE - 1 {
        return err!("{}: a part of {} bytes is too long", path.display(), slice.length);
    }
    let length = to_usize(slice.length);
    let file = open_file(&path)?;
    if buffer.len() < length {
        buffer.resize(length, 0);
    }
    match file.read_exact_at(&mut buffer[..length], slice.offset) {
        Ok(()) => Ok(&buffer[..length]),
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => err!(
            "{} has changed since planning: it ends before byte {}; run the job on files that \
             no program writes to",
            path.display(),
            slice.offset + slice.length,
        ),
        Err(error) => err!("cannot read {}: {error}", path.display()),
    }
}
