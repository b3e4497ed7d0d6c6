//! Reads files that a job file refers to. An untrusted user may have written them.

use crate::opening::regular;
use std::io::{self, Read};
use std::path::Path;

/// Reads at most `most` bytes of a file, and one more byte if the file is longer. Never blocks: opening a
/// fifo would block, so only regular files are read.
///
/// # Errors
/// If the file cannot be read, or is not a regular file.
pub(super) fn read(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let (file, _) = regular(path)?;
    let mut bytes = Vec::new();
    file.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::ErrorKind;

    #[test]
    fn devices_and_fifos_are_not_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        std::fs::write(&path, "12345").unwrap();
        assert_eq!(read(&path, 3).unwrap(), b"1234");
        assert_eq!(read(&path, 5).unwrap(), b"12345");
        let link = dir.path().join("link");
        std::os::unix::fs::symlink("/dev/zero", &link).unwrap();
        assert!(read(&link, 3).unwrap_err().to_string().contains("not a regular file"));
        assert_eq!(read(dir.path(), 3).unwrap_err().kind(), ErrorKind::IsADirectory);
    }
}
