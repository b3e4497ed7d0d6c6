//! A child process to wait for, whoever started it.

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

/// How often, and how long apart, it is looked whether a child that was killed is gone.
const TRIES: u32 = 2000;
const TICK: Duration = Duration::from_millis(1);

/// A worker process. It is killed when this is dropped before it was waited for.
#[derive(Debug)]
pub(super) enum Child {
    /// Started by this process.
    Spawned(tokio::process::Child),
    /// Forked by another one, as this one's child.
    Forked(Forked),
}

impl Child {
    /// The process id; none once it was waited for.
    pub(super) fn id(&self) -> Option<u32> {
        match self {
            Self::Spawned(child) => child.id(),
            Self::Forked(child) => child.id.map(|id| id.as_raw_pid().cast_unsigned()),
        }
    }

    /// Waits for its end. May be cancelled and called again, until it has returned.
    pub(super) async fn wait(&mut self) -> io::Result<ExitStatus> {
        match self {
            Self::Spawned(child) => child.wait().await,
            Self::Forked(child) => child.wait().await,
        }
    }
}

/// A child that the standard library does not know.
#[derive(Debug)]
pub(super) struct Forked {
    /// None once it was waited for: its number may then be another's.
    id: Option<Pid>,
    /// Becomes readable with its end.
    end: AsyncFd<OwnedFd>,
}

impl Forked {
    /// The child of this number, which nobody has waited for yet. It is ended if it cannot be watched. What is no
    /// child of this process is an error, and is left alone.
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

impl Drop for Forked {
    fn drop(&mut self) {
        if let Some(id) = self.id {
            // Nobody has waited for it, so that the number is its own.
            let _ = kill_process(id, Signal::KILL);
        }
    }
}

fn opened(id: Pid) -> io::Result<OwnedFd> {
    Ok(pidfd_open(id, PidfdFlags::empty())?)
}

fn watched(process: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: it owns its descriptor, and nobody takes that out of it.
    unsafe { AsyncFd::register_with_interest(process, Interest::READABLE) }.map_err(io::Error::from)
}

/// Fails if this process has no such child that nobody has waited for: the number is another's, or it is that of
/// another name space. That of a child stays its own until somebody has waited for it.
fn is_child(id: Pid) -> io::Result<()> {
    waitid(WaitId::Pid(id), WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT)?;
    Ok(())
}

/// Kills a child and waits for its end, though not for ever: one that hangs in the kernel, over a file system
/// that is gone, ends with whatever holds it. Nothing happens to what is no child of this process. Returns
/// whether nothing is left of it.
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

/// Fails where the kernel does not let children be watched that somebody else forked.
pub(super) fn check() -> io::Result<()> {
    opened(rustix::process::getpid()).map(drop)
}

/// As `wait` puts it together.
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

    /// As if somebody else had started it.
    #[expect(clippy::zombie_processes, reason = "it is waited for by its number")]
    fn forked(script: &str) -> Forked {
        let child = Command::new("sh").args(["-c", script]).spawn().unwrap();
        Forked::new(Pid::from_raw(child.id().cast_signed()).unwrap()).unwrap()
    }

    #[tokio::test]
    async fn an_end_is_told_as_it_was() {
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

    /// Its number may come from another name space, or be used again.
    #[tokio::test]
    async fn a_process_that_is_no_child_is_left_alone() {
        let mut parent = Command::new("sh")
            .args(["-c", "sleep 60 & echo $!; wait"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(parent.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let grandchild = Pid::from_raw(line.trim().parse().unwrap()).unwrap();
        let error = Forked::new(grandchild).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ECHILD));
        assert!(end(grandchild));
        // The shell waits for it as long as it lives.
        thread::sleep(Duration::from_millis(100));
        assert!(parent.try_wait().unwrap().is_none(), "it lives");
        kill_process(grandchild, Signal::KILL).unwrap();
        parent.wait().unwrap();
    }

    #[tokio::test]
    async fn one_that_nobody_waits_for_is_killed() {
        let child = forked("exec sleep 60");
        let id = child.id.unwrap();
        drop(child);
        let status = waitid(WaitId::Pid(id), WaitIdOptions::EXITED).unwrap().unwrap();
        assert_eq!(status.terminating_signal(), Some(9));
    }
}
