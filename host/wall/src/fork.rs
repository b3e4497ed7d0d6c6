//! Forks a second process from one that has no wall yet, instead of starting a program anew.
//!
//! We use `clone` with `CLONE_PARENT` instead of `fork`, because the leader waits for the copy and reads its
//! exit status, which it can do only for its own children. Forking twice, so that the leader inherits the
//! copy as an orphan, takes 0.53 ms instead of 0.14 ms for each process. That would be acceptable, but the
//! leader would have to set `PR_SET_CHILD_SUBREAPER` for its whole process: a program that runs jobs through
//! the library would inherit the orphans of all its other children, and they would stay as zombies.

use super::cgroup_leaf;
use super::start;
use rustix::process::{Pid, getppid};
use rustix::thread::gettid;
use std::io;
use std::path::Path;

/// Makes a copy of this process, which must have [entered](super::enter) and have no other thread. The copy
/// is a child of this process's parent. Returns the copy's process id, and in the copy itself a
/// [`ForkedTwin`], with which it [begins](ForkedTwin::begin). Nothing can fail in the copy before it has let
/// go of what belongs to this process.
pub fn twin() -> io::Result<Result<Pid, ForkedTwin>> {
    let parent = getppid();
    Ok(fork_beside()?.ok_or(ForkedTwin { parent }))
}

/// A copy that has not begun yet.
#[derive(Debug)]
pub struct ForkedTwin {
    /// The parent of both processes.
    parent: Option<Pid>,
}

impl ForkedTwin {
    /// Does what [`enter`](super::enter) does, in a session of its own, and moves into `cgroup`. After an
    /// error the process has to end.
    pub fn begin(self, cgroup: Option<&Path>) -> io::Result<()> {
        start::die_with(self.parent)?;
        start::own_session()?;
        if let Some(cgroup) = cgroup {
            cgroup_leaf::assign(cgroup);
            // The wall reports whether it worked.
            let _ = cgroup_leaf::join();
        }
        Ok(())
    }
}

/// Like `fork`, but the child belongs to this process's parent. Returns `None` in the copy.
fn fork_beside() -> io::Result<Option<Pid>> {
    // As the C library's `fork` does: the copy's thread id replaces this thread's where the C library keeps
    // it.
    let place = thread_id_place();
    let mut flags = libc::CLONE_PARENT | libc::SIGCHLD;
    if !place.is_null() {
        flags |= libc::CLONE_CHILD_SETTID | libc::CLONE_CHILD_CLEARTID;
    }
    let flags = libc::c_ulong::from(flags.cast_unsigned());
    let none = std::ptr::null_mut::<libc::c_void>();
    // Processors differ in which of the last two arguments is the place; the other one is not read.
    // SAFETY: with no stack of its own and no shared memory, the copy continues here with a copy of
    // everything, as after `fork`. There is no other thread, so no lock stays held forever.
    let answer = unsafe { libc::syscall(libc::SYS_clone, flags, none, none, place, place) };
    match i32::try_from(answer) {
        Ok(0) => Ok(None),
        Ok(id) if id > 0 => Ok(Pid::from_raw(id)),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Where the C library keeps the id of this thread. Null if the kernel does not know that place.
fn thread_id_place() -> *mut libc::pid_t {
    /// `PR_GET_TID_ADDRESS`.
    const ASK: libc::c_int = 40;
    let mut place: *mut libc::pid_t = std::ptr::null_mut();
    // SAFETY: the kernel writes one pointer, into a variable that lives for the call.
    let answer = unsafe { libc::prctl(ASK, &raw mut place) };
    if answer != 0 || place.is_null() || !place.is_aligned() {
        return std::ptr::null_mut();
    }
    // SAFETY: the kernel clears a number there when this thread ends, because the C library asked it to, so
    // the place is in memory of this thread.
    let number = unsafe { place.read_volatile() };
    // Other C libraries keep something else there.
    if number == gettid().as_raw_pid() { place } else { std::ptr::null_mut() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every thread has such a place, so a test's thread does as well as the first one.
    #[test]
    #[cfg(target_env = "gnu")]
    fn the_c_librarys_thread_id_is_found() {
        let place = thread_id_place();
        assert!(!place.is_null());
        // SAFETY: as above.
        assert_eq!(unsafe { place.read_volatile() }, gettid().as_raw_pid());
    }
}
