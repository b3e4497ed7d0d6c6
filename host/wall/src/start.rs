//! The first steps of a process that will build a wall.

use super::cgroup_leaf;
use super::error::{LayerError, LayerResult};
use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, getpid, getppid, parent_process_death_signal, set_parent_process_death_signal,
    setpgid, setsid,
};
use std::fs;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// The first descriptor after the three standard ones.
const FIRST_AFTER_STDERR: u32 = 3;
/// The highest value of `oom_score_adj`: the kernel kills a process with this value first.
const MAX_OOM_SCORE_ADJ: &str = "1000";

/// Starts the process, which will [`enter`], in its own process group, so that Ctrl-C reaches only the
/// parent.
pub fn keep_apart(command: &mut Command) {
    // If this process's own group is outside of its PID namespace (`unshare --pid`, many sandboxes of build
    // servers), the child would have no group to return to; see `own_session`.
    // SAFETY: takes and returns numbers.
    if unsafe { libc::getpgid(0) } > 0 {
        command.process_group(0);
    }
}

/// The first call of a process that will build a wall. From then on the process dies with its parent, has its
/// own session that the terminal does not reach, keeps only the three standard descriptors, is in its cgroup
/// if it has one, and is killed first when the machine runs out of memory.
///
/// For the kernel, the parent is the thread that started this process: that thread must outlive the process.
/// An error says that the parent has already ended, or what failed. Must be called before this process opens
/// files that it wants to keep.
pub fn enter() -> io::Result<()> {
    die_with(getppid())?;
    own_session()?;
    close_inherited()?;
    // We join early because a cgroup does not count what the process allocated before. The wall reports a
    // failure.
    let _ = cgroup_leaf::join();
    prefer_oom_kill();
    Ok(())
}

/// Makes the kernel kill this process, and those that it forks, first when the machine runs out of memory:
/// the cause is likely here, and neither the leader nor another program should pay for it.
fn prefer_oom_kill() {
    // If the write is refused, the process is treated like any other.
    let _ = fs::write("/proc/self/oom_score_adj", MAX_OOM_SCORE_ADJ);
}

/// Makes the kernel kill this process when its parent ends. Fails if `parent` is no longer the parent.
pub(super) fn die_with(parent: Option<Pid>) -> io::Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    if getppid() == parent {
        return Ok(());
    }
    Err(io::Error::other("the process that started this one ended meanwhile"))
}

/// Fails if this process has another thread: a wall holds only for the thread that builds it and the threads
/// that this thread starts later.
pub fn alone() -> io::Result<()> {
    let mut names = Vec::new();
    for task in fs::read_dir("/proc/self/task")? {
        // A thread that has ended meanwhile does not count.
        if let Ok(name) = fs::read_to_string(task?.path().join("comm")) {
            names.push(name.trim().to_owned());
        }
    }
    if names.len() <= 1 {
        return Ok(());
    }
    Err(io::Error::other(format!(
        "there are {} threads before the process wall is set up, and it would not apply to all of them \
         ({}): a library that was loaded has started threads",
        names.len(),
        names.join(", ")
    )))
}

/// Starts a new session. The leader of a process group cannot start a session. [`keep_apart`] makes
/// a process such a leader, so the process first returns to its parent's group. A caller that kills
/// the process's own group meanwhile finds no such group, and has to kill the process itself.
pub(super) fn own_session() -> io::Result<()> {
    match setsid() {
        Ok(_) => return Ok(()),
        Err(Errno::PERM) if leads_session() => return Ok(()),
        Err(Errno::PERM) => {}
        Err(errno) => return Err(errno.into()),
    }
    // SAFETY: as in `leads_session`, for the same reason.
    let group = unsafe { libc::getpgid(libc::getppid()) };
    match Pid::from_raw(group.max(0)) {
        Some(group) => setpgid(None, Some(group))?,
        // Either the parent has ended, which the caller soon notices, or the parent's group is in another
        // namespace. There is no new session then, which the wall reports.
        _ => return Ok(()),
    }
    setsid()?;
    Ok(())
}

fn leads_session() -> bool {
    // rustix cannot express "outside of our namespace" and panics, so we call libc.
    // SAFETY: takes and returns numbers.
    unsafe { libc::getsid(0) == getpid().as_raw_pid() }
}

/// Closes descriptors that were inherited by mistake, such as those that the leader itself was started with.
fn close_inherited() -> io::Result<()> {
    // SAFETY: no object owns these descriptors. This process has opened nothing yet; a forked process closes
    // everything that it inherited.
    let answer = unsafe { libc::syscall(libc::SYS_close_range, FIRST_AFTER_STDERR, u32::MAX, 0) };
    if answer == 0 {
        return Ok(());
    }
    // The kernel is older than 5.9, or a container refuses the syscall.
    let names = fs::read_dir("/proc/self/fd")?.map(|entry| entry.map(|entry| entry.file_name()));
    let names = names.collect::<io::Result<Vec<_>>>()?;
    for number in names.iter().filter_map(|name| name.to_str()?.parse::<i32>().ok()) {
        if number >= FIRST_AFTER_STDERR.cast_signed() {
            // SAFETY: as above. One descriptor belonged to the folder just listed, and is closed already.
            let _ = unsafe { libc::close(number) };
        }
    }
    Ok(())
}

/// Fails unless [`enter`] has set the parent-death signal.
pub(super) fn check_parent_death_signal() -> LayerResult {
    match parent_process_death_signal() {
        Ok(Some(Signal::KILL)) => Ok(None),
        Ok(_) => Err(LayerError::NotSet),
        Err(errno) => Err(LayerError::call("prctl", errno)),
    }
}

/// Fails unless [`enter`] has started a new session.
pub(super) fn check_own_session() -> LayerResult {
    if leads_session() { Ok(None) } else { Err(LayerError::OtherSession) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_thread_is_named() {
        let (send, receive) = std::sync::mpsc::channel::<()>();
        let (runs, running) = std::sync::mpsc::channel();
        let wait = move || {
            runs.send(()).unwrap();
            receive.recv().is_ok()
        };
        let thread = std::thread::Builder::new().name("second".to_owned()).spawn(wait).unwrap();
        // A thread sets its own name, so we wait until it runs.
        running.recv().unwrap();
        let error = alone().unwrap_err().to_string();
        drop(send);
        assert!(!thread.join().unwrap());
        assert!(error.contains("threads before the process wall is set up"), "{error}");
        assert!(error.contains("second"), "{error}");
    }
}
