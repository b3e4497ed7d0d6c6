//! The three pipes of a planner.

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use std::io;
use std::os::fd::OwnedFd;
use tokio::net::unix::pipe::{Receiver, Sender};

/// The leader's ends of the pipes.
#[derive(Debug)]
pub(super) struct Pipes {
    stdin: OwnedFd,
    stdout: OwnedFd,
    stderr: OwnedFd,
}

/// The planner's ends of the pipes.
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

    /// Writes the part of the request that fits into the pipe without waiting, so that the planner begins
    /// while the leader does other things. Returns how many bytes were written. Errors are reported when the
    /// rest is written.
    pub(super) fn begin(&self, request: &[u8]) -> usize {
        let flags = fcntl_getfl(&self.stdin);
        let set_result = flags.and_then(|flags| fcntl_setfl(&self.stdin, flags | OFlags::NONBLOCK));
        set_result.and_then(|()| rustix::io::write(&self.stdin, request)).unwrap_or(0)
    }

    /// Registers the leader's ends with the runtime of this thread.
    pub(super) fn open(self) -> io::Result<(Sender, Receiver, Receiver)> {
        Ok((
            Sender::from_owned_fd(self.stdin)?,
            Receiver::from_owned_fd(self.stdout)?,
            Receiver::from_owned_fd(self.stderr)?,
        ))
    }
}
