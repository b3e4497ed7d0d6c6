//! What comes first.

use super::error::{Built, LayerError};
use super::leaf;
use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, getpid, getppid, parent_process_death_signal, set_parent_process_death_signal,
    setpgid, setsid,
};
use std::fs;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// The first descriptor that is none of the standard ones.
const FIRST_OTHER: u32 = 3;
/// The most that a process can be preferred when the kernel has to end one.
const FIRST_TO_GO: &str = "1000";

/// Puts a process that will [`enter`] out of reach of Ctrl-C, which is for the one that starts it.
pub fn keep_apart(command: &mut Command) {
    // One whose own group is outside of its name space (`unshare --pid`, many sandboxes of build
    // servers) has none that the child could go back to; see `own_session`.
    // SAFETY: takes and returns numbers.
    if unsafe { libc::getpgid(0) } > 0 {
        command.process_group(0);
    }
}

/// The first thing that a process behind the wall does: it dies with its parent, has a session of its
/// own, out of reach of the terminal, keeps no descriptor but the three standard ones, goes into its
/// cgroup if there is one for it, and is the first to go where the machine runs out of memory.
///
/// The kernel takes the thread that started this process for its parent: that thread must outlive
/// the child. An error says that the parent is gone already, or what failed. Must be called before
/// this process opens anything that it wants to keep.
pub fn enter() -> io::Result<()> {
    die_with(getppid())?;
    own_session()?;
    close_others()?;
    // What it holds before does not count. Whether it worked, the wall tells.
    let _ = leaf::join();
    go_first();
    Ok(())
}

/// Has the kernel end this process, and those that it forks, before any other where the machine is out of memory: what
/// took it is likely here, and neither the leader nor anybody else's program shall pay for that.
fn go_first() {
    // Whoever may not say so is as others are.
    let _ = fs::write("/proc/self/oom_score_adj", FIRST_TO_GO);
}

/// Has the kernel end this process with its parent, which must still be this one.
pub(super) fn die_with(parent: Option<Pid>) -> io::Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    if getppid() == parent {
        return Ok(());
    }
    Err(io::Error::other("the process that started this one ended meanwhile"))
}

/// Fails if this process has another thread: a wall that one builds holds for that thread and those that it
/// starts later.
pub fn alone() -> io::Result<()> {
    let mut names = Vec::new();
    for task in fs::read_dir("/proc/self/task")? {
        // A thread that ends meanwhile is none.
        if let Ok(name) = fs::read_to_string(task?.path().join("comm")) {
            names.push(name.trim().to_owned());
        }
    }
    if names.len() <= 1 {
        return Ok(());
    }
    Err(io::Error::other(format!(
        "there are {} threads before the process wall stands, and it would not hold for all of them \
         ({}): a library that was opened started some",
        names.len(),
        names.join(", ")
    )))
}

/// The head of a process group cannot have a new session, and whoever started this process may have
/// made it one: it goes back into its parent's group first. Whoever kills the group meanwhile finds
/// none, and has to kill the process.
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
        // The parent is gone, which will be noticed soon. Else there is no session, which the wall
        // will tell.
        _ => return Ok(()),
    }
    setsid()?;
    Ok(())
}

fn leads_session() -> bool {
    // Not rustix's, which has no word for "outside of our name space" and panics.
    // SAFETY: takes and returns numbers.
    unsafe { libc::getsid(0) == getpid().as_raw_pid() }
}

/// Closes what was inherited by mistake: a descriptor that the leader itself was started with.
fn close_others() -> io::Result<()> {
    // SAFETY: nobody owns these descriptors: nothing of this process was opened yet, or, where it was forked to become
    // another one, all that was opened is closed again.
    let answer = unsafe { libc::syscall(libc::SYS_close_range, FIRST_OTHER, u32::MAX, 0) };
    if answer == 0 {
        return Ok(());
    }
    // A kernel before 5.9, or a container that refuses the call.
    let names = fs::read_dir("/proc/self/fd")?.map(|entry| entry.map(|entry| entry.file_name()));
    let names = names.collect::<io::Result<Vec<_>>>()?;
    for number in names.iter().filter_map(|name| name.to_str()?.parse::<i32>().ok()) {
        if number >= FIRST_OTHER.cast_signed() {
            // SAFETY: as above. One of them was the folder's own, and is closed already.
            let _ = unsafe { libc::close(number) };
        }
    }
    Ok(())
}

/// Whether [`enter`] did its part.
pub(super) fn dies_with_parent() -> Built {
    match parent_process_death_signal() {
        Ok(Some(Signal::KILL)) => Ok(None),
        Ok(_) => Err(LayerError::NotAsked),
        Err(errno) => Err(LayerError::call("prctl", errno)),
    }
}

/// Whether [`enter`] did its part.
pub(super) fn has_own_session() -> Built {
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
        // A thread gives itself its name.
        running.recv().unwrap();
        let error = alone().unwrap_err().to_string();
        drop(send);
        assert!(!thread.join().unwrap());
        assert!(error.contains("threads before the process wall stands"), "{error}");
        assert!(error.contains("second"), "{error}");
    }
}
