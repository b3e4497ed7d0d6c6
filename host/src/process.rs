//! What a child process of Sandmill asks of the operating system for itself, whichever child it is.
//! Imports nothing of this crate.

use rustix::process::{
    Resource, Rlimit, Signal, getppid, getrlimit, set_parent_process_death_signal, setrlimit,
};
use std::io;

/// Has the kernel kill this process when its parent ends. Must come after exec, which may clear the
/// wish, and before anything that takes time. An error says that the parent is gone already.
///
/// The kernel takes the thread that started this process for its parent: that thread must outlive
/// the child.
pub(crate) fn die_with_parent() -> io::Result<()> {
    let before = getppid();
    set_parent_process_death_signal(Some(Signal::KILL))?;
    if getppid() == before {
        Ok(())
    } else {
        Err(io::Error::other("the process that started this one ended meanwhile"))
    }
}

/// Lowers a limit of this process, never raises one. A limit that cannot be lowered stays: the work
/// is worth more than the limit.
pub(crate) fn limit(resource: Resource, value: u64) {
    let old = getrlimit(resource);
    let value = [old.current, old.maximum].into_iter().flatten().fold(value, u64::min);
    let _ = setrlimit(resource, Rlimit { current: Some(value), maximum: old.maximum });
}
