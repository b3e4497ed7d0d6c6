//! Opens a log file that may already exist, and its folders.

use crate::opening::make_private;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Opens a file to append to it. If a crash left a partial last line, adds a line end, so that new text
/// starts on its own line.
pub(super) fn open_to_append(path: &Path) -> io::Result<File> {
    make_parent(path)?;
    let mut file = OpenOptions::new()
        .create(true)
        .append(true)
        .read(true)
        .mode(0o600)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
        .open(path)?;
    if file.metadata()?.len() > 0 {
        let mut last = [0];
        file.seek(SeekFrom::End(-1))?;
        file.read_exact(&mut last)?;
        if last != *b"\n" {
            file.write_all(b"\n")?;
        }
    }
    Ok(file)
}

/// Creates the parent folders of a file. Logs may contain settings, which may be secrets, so only the owner
/// can read them.
pub(super) fn make_parent(path: &Path) -> io::Result<()> {
    path.parent().map_or(Ok(()), make_private)
}
