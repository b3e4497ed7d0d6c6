//! The second wall: what the process gives up before it runs a guest. The one place for it.
//!
//! Applied on the main thread before any other thread exists, because Landlock and seccomp hold for
//! a thread and those that it starts. At that point the component is mapped, the socket is open and
//! the worker's folders are made.

use crate::model::{OsSandbox, WallState};
use crate::wall::{Bounds, Occupant, Wall};
use std::io;

/// The largest file that the process may write: 64 GiB. What a guest writes beyond that is an error
/// for the guest. Far more than a result file has, because the part file, which takes the rows of a
/// whole job, is under the same limit. How many files a mini-batch may leave is limited elsewhere.
const LARGEST_FILE: u64 = 64 << 30;

/// Builds the wall around this worker. Fails rather than run without what `mode` asks for.
pub(super) fn lock_down(mode: OsSandbox) -> io::Result<WallState> {
    ignore_file_size_signal()?;
    let bounds = Bounds {
        memory: None,
        cpu_seconds: None,
        largest_file: LARGEST_FILE,
        open_files: u64::MAX,
    };
    let wall = Wall { occupant: Occupant::Worker, mode, folders: Vec::new(), bounds };
    wall.build().map_err(io::Error::other)
}

/// Has a write beyond the limit fail, where it would end the process otherwise.
fn ignore_file_size_signal() -> io::Result<()> {
    // SAFETY: ignoring a signal runs no code of ours, and nobody else handles this one.
    let before = unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
    if before == libc::SIG_ERR { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_end_is_an_error_and_not_the_end() {
        lock_down(OsSandbox::Required).unwrap();
        let file = tempfile::tempfile().unwrap();
        file.set_len(1 << 20).unwrap();
        let error = file.set_len(LARGEST_FILE + 1).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
    }
}
