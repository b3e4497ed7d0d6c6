//! The three pipes of a planner.

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use std::io;
use std::os::fd::OwnedFd;
use tokio::net::unix::pipe::{Receiver, Sender};

/// The leader's ends.
#[derive(Debug)]
pub(super) struct Pipes {
    stdin: OwnedFd,
    stdout: OwnedFd,
    stderr: OwnedFd,
}

/// The planner's ends.
#[derive(Debug)]
pub(super) struct PlannerPipes {
    pub(super) stdin: OwnedFd,
    pub(super) stdout: OwnedFd,
    pub(super) stderr: OwnedFd,
}

impl Pipes {
    /// Makes both ends of three pipes, which no other child inherits.
    pub(super) fn new() -> io::Result<(Self, PlannerPipes)> {
        let (from_in, to_in) = io::pipe()?;
        let (from_out, to_out) = io::pipe()?;
        let (from_err, to_err) = io::pipe()?;
        let ours = Self { stdin: to_in.into(), stdout: from_out.into(), stderr: from_err.into() };
        let theirs =
            PlannerPipes { stdin: from_in.into(), stdout: to_out.into(), stderr: to_err.into() };
        Ok((ours, theirs))
    }

    /// Writes as much of the request as fits without waiting, so that the planner begins while the leader
    /// does other things. Returns how many bytes were written. The write of the rest reports errors.
    pub(super) fn begin(&self, request: &[u8]) -> usize {
        let status = fcntl_getfl(&self.stdin);
        let set = status.and_then(|flags| fcntl_setfl(&self.stdin, flags | OFlags::NONBLOCK));
        set.and_then(|()| rustix::io::write(&self.stdin, request)).unwrap_or(0)
    }

    /// The leader's ends, for the runtime of this thread.
    pub(super) fn open(self) -> io::Result<(Sender, Receiver, Receiver)> {
        Ok((
            Sender::from_owned_fd(self.stdin)?,
            Receiver::from_owned_fd(self.stdout)?,
            Receiver::from_owned_fd(self.stderr)?,
        ))
    }
}
