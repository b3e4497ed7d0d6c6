//! A second process out of one that is behind no wall yet, instead of a program that starts anew.
//!
//! It is made by `clone` with `CLONE_PARENT`, not by `fork`, because the leader waits for it and reads how it ended, which
//! it can do for its own children alone. To fork twice, so that the copy falls to the leader as an orphan, takes 0.53 ms
//! instead of 0.14 ms for each process, which a job could bear; but for that the leader would have to set
//! `PR_SET_CHILD_SUBREAPER`, which holds for its whole process: a program that runs jobs by the library would get the
//! orphans of all its other children, and they would stay as zombies.

use super::leaf;
use super::start;
use rustix::process::{Pid, getppid};
use rustix::thread::gettid;
use std::io;
use std::path::Path;

/// Makes a copy of this process, which must have [entered](super::enter) and have no other thread. The copy
/// is no child of this process but another one of its parent. Returns the copy's process id, and in the copy
/// itself what [begins](Twin::begin) it: nothing there can fail before it has let go of what is not its own.
pub fn twin() -> io::Result<Result<Pid, Twin>> {
    let parent = getppid();
    Ok(fork_beside()?.ok_or(Twin { parent }))
}

/// A copy, not begun yet.
#[derive(Debug)]
pub struct Twin {
    /// Of both.
    parent: Option<Pid>,
}

impl Twin {
    /// Enters, in a session of its own; `cgroup` is its own from then on. After an error the process has to
    /// end.
    pub fn begin(self, cgroup: Option<&Path>) -> io::Result<()> {
        start::die_with(self.parent)?;
        start::own_session()?;
        if let Some(cgroup) = cgroup {
            leaf::assign(cgroup);
            // Whether it worked, the wall tells.
            let _ = leaf::join();
        }
        Ok(())
    }
}

/// `fork`, but for whose child it is. None in the copy.
fn fork_beside() -> io::Result<Option<Pid>> {
    // What the C library does in `fork` besides: where it keeps the number of this thread, the copy has its own.
    let place = own_number();
    let mut flags = libc::CLONE_PARENT | libc::SIGCHLD;
    if !place.is_null() {
        flags |= libc::CLONE_CHILD_SETTID | libc::CLONE_CHILD_CLEARTID;
    }
    let flags = libc::c_ulong::from(flags.cast_unsigned());
    let none = std::ptr::null_mut::<libc::c_void>();
    // Which of the last two is the place, and which is not looked at, is a matter of the processor.
    // SAFETY: without a stack of its own and without shared memory the copy goes on here with a copy of
    // everything, as after `fork`. As there is no other thread, no lock is held that nobody would release.
    let answer = unsafe { libc::syscall(libc::SYS_clone, flags, none, none, place, place) };
    match i32::try_from(answer) {
        Ok(0) => Ok(None),
        Ok(id) if id > 0 => Ok(Pid::from_raw(id)),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Where the C library keeps the number of this thread; null if it is nowhere that the kernel knows.
fn own_number() -> *mut libc::pid_t {
    /// `PR_GET_TID_ADDRESS`.
    const ASK: libc::c_int = 40;
    let mut place: *mut libc::pid_t = std::ptr::null_mut();
    // SAFETY: the kernel writes one pointer, into a variable that lives for the call.
    let answer = unsafe { libc::prctl(ASK, &raw mut place) };
    if answer != 0 || place.is_null() || !place.is_aligned() {
        return std::ptr::null_mut();
    }
    // SAFETY: the kernel clears a number there when this thread ends, as the C library wants it to: it lies
    // in memory of this thread.
    let number = unsafe { place.read_volatile() };
    // Other libraries keep something else there.
    if number == gettid().as_raw_pid() { place } else { std::ptr::null_mut() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Threads of a test have one as the first thread does.
    #[test]
    #[cfg(target_env = "gnu")]
    fn the_c_library_says_where_the_number_is() {
        let place = own_number();
        assert!(!place.is_null());
        // SAFETY: as above.
        assert_eq!(unsafe { place.read_volatile() }, gettid().as_raw_pid());
    }
}
