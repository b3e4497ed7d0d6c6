//! Moves one file from a guest's folder into the output folder. Uses only open folders, and never follows a
//! link.

use rustix::fs::{AtFlags, Mode, OFlags, RenameFlags};
use rustix::io::Errno;
use std::ffi::CStr;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::os::fd::BorrowedFd;

/// The temporary name of a file that is copied from another file system.
pub(super) const PARTIAL_NAME: &CStr = c".sandmill-partial";

/// Renames a file. Fails if the new name exists.
pub(super) fn rename_new(
    from: BorrowedFd<'_>,
    old: &CStr,
    to: BorrowedFd<'_>,
    new: &CStr,
) -> Result<(), Errno> {
    match rustix::fs::renameat_with(from, old, to, new, RenameFlags::NOREPLACE) {
        // The file system cannot rename in this way in one step. Two steps are safe, because only the leader
        // writes to the output folder.
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
            match rustix::fs::statat(to, new, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(_) => Err(Errno::EXIST),
                Err(Errno::NOENT) => rustix::fs::renameat(from, old, to, new),
                Err(errno) => Err(errno),
            }
        }
        other => other,
    }
}

/// Moves a file to another file system: copies it under a temporary name, syncs the copy, and renames it.
/// With `replace`, the new file may replace an existing one.
pub(super) fn copy_over(
    from: BorrowedFd<'_>,
    to: BorrowedFd<'_>,
    name: &CStr,
    replace: bool,
) -> io::Result<()> {
    let mut source = open_file(from, name)?;
    // A leader that was killed may have left a partial copy.
    match rustix::fs::unlinkat(to, PARTIAL_NAME, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => {}
        Err(errno) => return Err(errno.into()),
    }
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let mode = Mode::from_raw_mode(0o666);
    let mut copy = File::from(rustix::fs::openat(to, PARTIAL_NAME, flags, mode)?);
    let copied = io::copy(&mut source, &mut copy).and_then(|_| copy.sync_all()).and_then(|()| {
        if replace {
            return Ok(rustix::fs::renameat(to, PARTIAL_NAME, to, name)?);
        }
        Ok(rename_new(to, PARTIAL_NAME, to, name)?)
    });
    if copied.is_err() {
        let _ = rustix::fs::unlinkat(to, PARTIAL_NAME, AtFlags::empty());
    }
    copied?;
    // The new name must be on the disk before the old one is removed.
    rustix::fs::fsync(to)?;
    Ok(rustix::fs::unlinkat(from, name, AtFlags::empty())?)
}

/// Copies the first `length` bytes of a file to an offset in the file of the same name in the folder `to`.
/// Makes that file if it is missing. The source stays.
pub(super) fn append_at(
    from: BorrowedFd<'_>,
    to: BorrowedFd<'_>,
    name: &CStr,
    (offset, length): (u64, u64),
) -> io::Result<()> {
    let source = open_file(from, name)?;
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let mode = Mode::from_raw_mode(0o666);
    let target = rustix::fs::openat(to, name, flags | OFlags::CLOEXEC, mode)?;
    let mut target = regular(File::from(target))?;
    target.seek(SeekFrom::Start(offset))?;
    let copied = io::copy(&mut source.take(length), &mut target)?;
    if copied == length { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}

/// Whether the files of this name in two folders are equal. With a `place` (offset and length), whether the
/// first file equals this range of the other file.
pub(super) fn same_content(
    one: BorrowedFd<'_>,
    other: BorrowedFd<'_>,
    name: &CStr,
    place: Option<(u64, u64)>,
) -> io::Result<bool> {
    let one = open_file(one, name)?;
    let mut other = open_file(other, name)?;
    let (offset, length) = match place {
        Some(place) => place,
        None => (0, other.metadata()?.len()),
    };
    if one.metadata()?.len() != length {
        return Ok(false);
    }
    other.seek(SeekFrom::Start(offset))?;
    let other = other.take(length);
    let mut one = BufReader::new(one);
    let mut other = BufReader::new(other);
    loop {
        let left = one.fill_buf()?;
        let right = other.fill_buf()?;
        let length = left.len().min(right.len());
        if length == 0 {
            return Ok(left.len() == right.len());
        }
        if left[..length] != right[..length] {
            return Ok(false);
        }
        one.consume(length);
        other.consume(length);
    }
}

fn open_file(folder: BorrowedFd<'_>, name: &CStr) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    regular(File::from(rustix::fs::openat(folder, name, flags, Mode::empty())?))
}

fn regular(file: File) -> io::Result<File> {
    if file.metadata()?.is_file() {
        return Ok(file);
    }
    Err(io::Error::other("it is no longer a regular file"))
}
