//! A child process to wait for, whoever started it.

use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, WaitIdStatus, kill_process, pidfd_open, waitid,
};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

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
    /// The child of this number, which nobody has waited for yet. It is killed if it cannot be watched.
    pub(super) fn new(id: Pid) -> io::Result<Self> {
        match opened(id).and_then(watched) {
            Ok(end) => Ok(Self { id: Some(id), end }),
            Err(error) => {
                let _ = kill_process(id, Signal::KILL);
                let _ = waitid(WaitId::Pid(id), WaitIdOptions::EXITED);
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
    use std::process::Command;

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

    #[tokio::test]
    async fn one_that_nobody_waits_for_is_killed() {
        let child = forked("sleep 60");
        let id = child.id.unwrap();
        drop(child);
        let status = waitid(WaitId::Pid(id), WaitIdOptions::EXITED).unwrap().unwrap();
        assert_eq!(status.terminating_signal(), Some(9));
    }
}
