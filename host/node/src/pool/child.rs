//! A child process to wait for, whether we spawned it or the zygote forked it.

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

/// How often, and at what interval, we check whether a killed child is gone.
const TRIES: u32 = 2000;
const TICK: Duration = Duration::from_millis(1);

/// A worker or planner process. If it is dropped before it was waited for, it is killed.
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

    /// Waits for the child to end. May be cancelled and called again, until it has returned.
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
    /// `None` after it was waited for: another process may then have the id.
    id: Option<Pid>,
    /// Becomes readable when the child ends.
    end: AsyncFd<OwnedFd>,
}

impl ForkedChild {
    /// The child with this id, which has not been waited for yet. Kills the child if it cannot be watched.
    /// Fails if the process is not a child of this one, and leaves it alone.
    pub(super) fn new(id: Pid) -> io::Result<Self> {
        is_child(id)?;
        match opened(id).and_then(watched) {
            Ok(end) => Ok(Self { id: Some(id), end }),
            Err(error) => {
                end(id);
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

fn opened(id: Pid) -> io::Result<OwnedFd> {
    Ok(pidfd_open(id, PidfdFlags::empty())?)
}

fn watched(process: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: the `AsyncFd` owns the descriptor, and no code takes it out.
    unsafe { AsyncFd::register_with_interest(process, Interest::READABLE) }.map_err(io::Error::from)
}

/// Fails if this process has no child with this id that is still to be waited for: the id may belong to
/// another process, or to another PID namespace. A child keeps its id until it has been waited for.
fn is_child(id: Pid) -> io::Result<()> {
    waitid(WaitId::Pid(id), WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT)?;
    Ok(())
}

/// Kills a child and waits for it to end, but not forever: a child that hangs in the kernel, for example on a
/// dead file system, ends only when the kernel lets it. Does nothing to a process that is not our child.
/// Returns whether the child is gone.
pub(super) fn end(id: Pid) -> bool {
    if is_child(id).is_err() {
        return true;
    }
    let _ = kill_process(id, Signal::KILL);
    for _ in 0..TRIES {
        match waitid(WaitId::Pid(id), WaitIdOptions::EXITED | WaitIdOptions::NOHANG) {
            Ok(None) | Err(Errno::INTR) => thread::sleep(TICK),
            Ok(Some(_)) | Err(_) => return true,
        }
    }
    false
}

/// Fails if the kernel cannot watch children that another process forked.
pub(super) fn check() -> io::Result<()> {
    opened(rustix::process::getpid()).map(drop)
}

/// Encodes the status as `wait` does.
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

    /// Looks like a child that another process started.
    #[expect(clippy::zombie_processes, reason = "it is waited for by its number")]
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

    /// Its id may be from another PID namespace, or have been reused.
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
        assert!(end(grandchild));
        // Until it ends, the shell waits for it.
        thread::sleep(Duration::from_millis(100));
        assert!(parent.try_wait().unwrap().is_none(), "it lives");
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
