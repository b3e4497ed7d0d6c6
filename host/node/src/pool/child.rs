//! Waits for child processes: those that we spawned, and those that the zygote forked.

use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, WaitIdStatus, kill_process, pidfd_open, waitid,
};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::thread;
use std::time::Duration;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// How often we check whether a killed child is gone.
const END_CHECKS: u32 = 2000;
/// The interval between two of these checks.
const END_CHECK_INTERVAL: Duration = Duration::from_millis(1);

/// A worker or planner process. Dropping this kills a process that has not been waited for.
#[derive(Debug)]
pub(super) enum Child {
    /// Started by this process.
    Spawned(tokio::process::Child),
    /// Forked by the zygote, as a child of this process.
    Forked(ForkedChild),
}

impl Child {
    /// The process id. `None` after the child was waited for.
    pub(super) fn id(&self) -> Option<u32> {
        match self {
            Self::Spawned(child) => child.id(),
            Self::Forked(child) => child.id.map(|id| id.as_raw_pid().cast_unsigned()),
        }
    }

    /// Waits for the child to end. If the call is cancelled, it may be repeated.
    pub(super) async fn wait(&mut self) -> io::Result<ExitStatus> {
        match self {
            Self::Spawned(child) => child.wait().await,
            Self::Forked(child) => child.wait().await,
        }
    }
}

/// A child that the standard library does not know about.
#[derive(Debug)]
pub(super) struct ForkedChild {
    /// `None` after the child was waited for: another process may then have the id.
    id: Option<Pid>,
    /// Becomes readable when the child ends.
    end: AsyncFd<OwnedFd>,
}

impl ForkedChild {
    /// The child with this id, which has not been waited for yet. If the child cannot be watched, kills it
    /// and fails. If the process with this id is not our child, fails and does not touch it.
    pub(super) fn new(id: Pid) -> io::Result<Self> {
        require_child(id)?;
        match pidfd(id).and_then(watch) {
            Ok(end) => Ok(Self { id: Some(id), end }),
            Err(error) => {
                kill_and_wait(id);
                Err(error)
            }
        }
    }

    async fn wait(&mut self) -> io::Result<ExitStatus> {
        loop {
            let mut guard = self.end.readable().await?;
            let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
            match waitid(WaitId::PidFd(self.end.get_ref().as_fd()), options) {
                Ok(Some(status)) => {
                    self.id = None;
                    return Ok(exit_status(&status));
                }
                Ok(None) => guard.clear_ready(),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }
}

impl Drop for ForkedChild {
    fn drop(&mut self) {
        if let Some(id) = self.id {
            // The child has not been waited for, so the id is still its own.
            let _ = kill_process(id, Signal::KILL);
        }
    }
}

fn pidfd(id: Pid) -> io::Result<OwnedFd> {
    Ok(pidfd_open(id, PidfdFlags::empty())?)
}

fn watch(process: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: the `AsyncFd` owns the descriptor, and no code takes it out.
    unsafe { AsyncFd::register_with_interest(process, Interest::READABLE) }.map_err(io::Error::from)
}

/// Fails if this process has no child with this id that still has to be waited for: the id may belong to
/// another process, or come from another PID namespace. A child keeps its id until it has been waited for.
fn require_child(id: Pid) -> io::Result<()> {
    waitid(WaitId::Pid(id), WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT)?;
    Ok(())
}

/// Kills a child and waits for it to end, but not forever: a child may hang in the kernel, for example in a
/// file system that does not respond. Does nothing to a process that is not our child. Returns whether the
/// child is gone.
pub(super) fn kill_and_wait(id: Pid) -> bool {
    if require_child(id).is_err() {
        return true;
    }
    let _ = kill_process(id, Signal::KILL);
    for _ in 0..END_CHECKS {
        match waitid(WaitId::Pid(id), WaitIdOptions::EXITED | WaitIdOptions::NOHANG) {
            Ok(None) | Err(Errno::INTR) => thread::sleep(END_CHECK_INTERVAL),
            Ok(Some(_)) | Err(_) => return true,
        }
    }
    false
}

/// Fails if the kernel has no pidfds, with which we watch children that the zygote forked.
pub(super) fn check_pidfds() -> io::Result<()> {
    pidfd(rustix::process::getpid()).map(drop)
}

/// The status as the standard library's `wait` returns it.
fn exit_status(status: &WaitIdStatus) -> ExitStatus {
    let raw = match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => (code & 0xff) << 8,
        (None, signal) => signal.unwrap_or(0),
    };
    ExitStatus::from_raw(raw)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader};
    use std::process::{Command, Stdio};

    /// A child that looks as if another process had forked it.
    #[expect(clippy::zombie_processes, reason = "the child is waited for by its id")]
    fn forked(script: &str) -> ForkedChild {
        let child = Command::new("sh").args(["-c", script]).spawn().unwrap();
        ForkedChild::new(Pid::from_raw(child.id().cast_signed()).unwrap()).unwrap()
    }

    #[tokio::test]
    async fn exit_codes_and_signals_are_reported() {
        for (script, code, signal) in [
            ("exit 0", Some(0), None),
            ("sleep 0.1; exit 259", Some(3), None),
            ("kill -KILL $$", None, Some(9)),
            ("kill -TERM $$; sleep 60", None, Some(15)),
        ] {
            let mut child = Child::Forked(forked(script));
            assert!(child.id().is_some());
            let status = child.wait().await.unwrap();
            assert_eq!((status.code(), status.signal()), (code, signal), "{script}");
            assert_eq!(child.id(), None);
        }
    }

    /// The id may come from another PID namespace, or have been reused.
    #[tokio::test]
    async fn a_process_that_is_not_a_child_is_refused() {
        let mut parent = Command::new("sh")
            .args(["-c", "sleep 60 & echo $!; wait"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(parent.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let grandchild = Pid::from_raw(line.trim().parse().unwrap()).unwrap();
        let error = ForkedChild::new(grandchild).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ECHILD));
        assert!(kill_and_wait(grandchild));
        // The shell waits for the grandchild until that ends.
        thread::sleep(Duration::from_millis(100));
        assert!(parent.try_wait().unwrap().is_none(), "the shell still waits");
        kill_process(grandchild, Signal::KILL).unwrap();
        parent.wait().unwrap();
    }

    #[tokio::test]
    async fn a_dropped_child_is_killed() {
        let child = forked("exec sleep 60");
        let id = child.id.unwrap();
        drop(child);
        let status = waitid(WaitId::Pid(id), WaitIdOptions::EXITED).unwrap().unwrap();
        assert_eq!(status.terminating_signal(), Some(9));
    }
}
