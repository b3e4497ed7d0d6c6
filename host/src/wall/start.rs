//! What comes first.

use rustix::io::Errno;
use rustix::process::{Signal, getppid, set_parent_process_death_signal};
use std::io;

/// The first thing that a process behind the wall does: it dies with its parent and has a session
/// of its own, out of reach of the terminal.
///
/// The kernel takes the thread that started this process for its parent: that thread must outlive
/// the child. An error says that the parent is gone already, or what failed.
pub fn enter() -> io::Result<()> {
    let before = getppid();
    set_parent_process_death_signal(Some(Signal::KILL))?;
    if getppid() != before {
        return Err(io::Error::other("the process that started this one ended meanwhile"));
    }
    match rustix::process::setsid() {
        Ok(_) | Err(Errno::PERM) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}
