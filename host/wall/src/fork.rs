//! Forks a process that builds its own wall. Forking is faster than starting the program anew.
//!
//! We use `clone` with `CLONE_PARENT` instead of `fork`, because the leader waits for the copy and reads its
//! exit status. A process can do that only for its own children. Forking twice, so that the leader inherits
//! the copy as an orphan, takes 0.53 ms instead of 0.14 ms for each process. That would be acceptable, but
//! the leader would have to set `PR_SET_CHILD_SUBREAPER` for its whole process: a program that runs jobs
//! through the library would inherit the orphans of all its other children, and they would stay as zombies.

use super::cgroup_leaf;
use super::start;
use rustix::process::{Pid, getppid};
use rustix::thread::gettid;
use std::io;
use std::path::Path;

/// Makes a copy of this process, which must have [entered](super::enter) and have no other thread.
/// The copy is a child of this process's parent. Returns the copy's process id, and in the copy
/// itself a [`ForkedTwin`]. In the copy, the caller first closes what belongs to this process, and
/// then calls [`begin`](ForkedTwin::begin), which may fail.
pub fn twin() -> io::Result<Result<Pid, ForkedTwin>> {
    let parent = getppid();
    Ok(fork_beside()?.ok_or(ForkedTwin { parent }))
}

/// A forked process that has not called [`begin`](ForkedTwin::begin) yet.
#[derive(Debug)]
pub struct ForkedTwin {
    /// The parent of both processes.
    parent: Option<Pid>,
}

impl ForkedTwin {
    /// Does what [`enter`](super::enter) does for a started process: sets the parent-death signal, starts a
    /// session, and moves into `cgroup`. After an error the process has to end.
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
    // As in the C library's `fork`, the kernel writes the copy's thread id to the address where the
    // copy's C library keeps this id.
    let address = thread_id_address();
    let mut flags = libc::CLONE_PARENT | libc::SIGCHLD;
    if !address.is_null() {
        flags |= libc::CLONE_CHILD_SETTID | libc::CLONE_CHILD_CLEARTID;
    }
    let flags = libc::c_ulong::from(flags.cast_unsigned());
    let none = std::ptr::null_mut::<libc::c_void>();
    // Processors differ in which of the last two arguments is the thread id's address; the other one is not
    // read.
    // SAFETY: without a separate stack and without shared memory, the copy continues here with a copy of
    // everything, as after `fork`. There is no other thread, so no lock stays held forever.
    let answer = unsafe { libc::syscall(libc::SYS_clone, flags, none, none, address, address) };
    match i32::try_from(answer) {
        Ok(0) => Ok(None),
        Ok(id) if id > 0 => Ok(Pid::from_raw(id)),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The address at which the C library keeps the id of this thread. Null if the kernel does not know it.
fn thread_id_address() -> *mut libc::pid_t {
    const PR_GET_TID_ADDRESS: libc::c_int = 40;
    let mut address: *mut libc::pid_t = std::ptr::null_mut();
    // SAFETY: the kernel writes one pointer, into a variable that lives for the call.
    let answer = unsafe { libc::prctl(PR_GET_TID_ADDRESS, &raw mut address) };
    if answer != 0 || address.is_null() || !address.is_aligned() {
        return std::ptr::null_mut();
    }
    // SAFETY: the C library registered this address: the kernel clears the number there when this thread
    // ends. So the address is in memory of this thread.
    let number = unsafe { address.read_volatile() };
    // Other C libraries keep other data there.
    if number == gettid().as_raw_pid() { address } else { std::ptr::null_mut() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every thread has such an address, so the test need not run on the main thread.
    #[test]
    #[cfg(target_env = "gnu")]
    fn the_c_librarys_thread_id_is_found() {
        let address = thread_id_address();
        assert!(!address.is_null());
        // SAFETY: as above.
        assert_eq!(unsafe { address.read_volatile() }, gettid().as_raw_pid());
    }
}
