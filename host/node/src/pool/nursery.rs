//! The leader's end of the process that the planner and workers are forked from (`worker::nursery`). It has what
//! each of these would do first behind it; where it cannot be used, each is started by itself.

use super::child::{self, Child, Forked};
use super::launch::{Program, StderrLog};
use super::pipes::{Pipes, Theirs};
use crate::model::JobDir;
use crate::protocol::{
    FromNursery, Loading, Setup, ToNursery, packets, receive_packet, send_packet,
};
use crate::wall::Leaf;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::process::Pid;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process;
use std::time::Duration;

/// How long it may take to start, to load the entry script and to fork. The leader does nothing else meanwhile.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long may be waited for answers of one that has ended: a copy may hold its socket for a moment.
const LAST_PATIENCE: Duration = Duration::from_millis(100);

/// The nursery of a pool.
#[derive(Debug, Default)]
pub(super) enum Nursery {
    /// Nobody has asked for it.
    #[default]
    Unborn,
    Open(Open),
    /// It did not do what it was asked for.
    Closed,
}

#[derive(Debug)]
pub(super) struct Open {
    process: process::Child,
    socket: OwnedFd,
    loading: Option<Loading>,
}

impl Nursery {
    /// Starts it if it is not there yet.
    pub(super) fn begin(&mut self, program: &Program) {
        if matches!(self, Self::Unborn) && program.has_nursery {
            *self = Open::start(program).map_or(Self::Closed, Self::Open);
        }
    }

    /// Starts it if it is not there yet and serves such workers, and has it load the entry script, once. A worker with
    /// a GPU or with ONNX Runtime finds variables in its environment that libraries read when a program starts.
    /// `cgroups`: the folder of the workers' cgroups. The folders of one worker must be there.
    pub(super) fn open(
        &mut self,
        program: &Program,
        component: &File,
        setup: &Setup,
        cgroups: Option<&Path>,
    ) {
        if !suits(setup) {
            return;
        }
        self.begin(program);
        let Self::Open(open) = self else { return };
        if open.loading.is_none() {
            let surroundings = setup.surroundings(cgroups.map(Path::to_owned));
            let load = ToNursery::Load(setup.loading(), Box::new(surroundings));
            match send_packet(&open.socket, &load, &[component.as_fd()]) {
                Ok(()) => open.loading = Some(setup.loading()),
                Err(_) => *self = Self::Closed,
            }
        }
    }

    /// Asks for a planner, which waits for its request. [`planner`](Self::planner) has the answer, and is to be called
    /// before anything else is asked for.
    pub(super) fn call_planner(&mut self) -> Option<Pipes> {
        let Self::Open(open) = self else { return None };
        let (pipes, Theirs { stdin, stdout, stderr }) = Pipes::new().ok()?;
        let theirs = [stdin.as_fd(), stdout.as_fd(), stderr.as_fd()];
        send_packet(&open.socket, &ToNursery::Plan, &theirs).ok()?;
        Some(pipes)
    }

    /// The planner that was asked for, if it could be forked.
    pub(super) fn planner(&mut self) -> Option<Child> {
        let Self::Open(open) = self else { return None };
        match open.planner() {
            Ok(child) => Some(Child::Forked(child)),
            Err(_) => {
                *self = Self::Closed;
                None
            }
        }
    }

    /// A worker with its end of a socket, if one can be forked, and the pipe that it reports by. One failure is the last.
    pub(super) fn fork(
        &mut self,
        setup: &Setup,
        cgroup: Option<&Leaf>,
        (socket, stderr): (&UnixStream, &StderrLog),
    ) -> Option<(Child, OwnedFd)> {
        let Self::Open(open) = self else { return None };
        if !suits(setup) || open.loading != Some(setup.loading()) {
            return None;
        }
        let folder = JobDir::new(&setup.job_dir).worker_dir(setup.worker);
        let cgroup = cgroup.map(|cgroup| cgroup.path().to_owned());
        let (reports, theirs) = io::pipe().ok()?;
        let fds = [socket.as_fd(), theirs.as_fd(), stderr.as_fd()];
        match open.fork(&ToNursery::Fork { folder, cgroup }, &fds) {
            Ok(child) => Some((Child::Forked(child), reports.into())),
            Err(_) => {
                *self = Self::Closed;
                None
            }
        }
    }

    /// Ends it, as nothing more will be forked. What that takes is not waited for now.
    pub(super) fn end(&mut self) {
        if let Self::Open(open) = self {
            let _ = open.process.kill();
        }
    }
}

fn suits(setup: &Setup) -> bool {
    setup.gpu.is_none() && setup.inference.onnxruntime.is_none()
}

impl Open {
    fn start(program: &Program) -> io::Result<Self> {
        child::check()?;
        let (socket, theirs) = packets()?;
        set_socket_timeout(&socket, Timeout::Recv, Some(PATIENCE))?;
        set_socket_timeout(&socket, Timeout::Send, Some(PATIENCE))?;
        let process = program.start_nursery(theirs)?;
        Ok(Self { process, socket, loading: None })
    }

    fn planner(&mut self) -> io::Result<Forked> {
        Forked::new(self.forked()?)
    }

    fn fork(&self, request: &ToNursery, descriptors: &[BorrowedFd<'_>]) -> io::Result<Forked> {
        send_packet(&self.socket, request, descriptors)?;
        Forked::new(self.forked()?)
    }

    /// The process that it says it has forked.
    fn forked(&self) -> io::Result<Pid> {
        let id = match receive_packet(&self.socket)? {
            Some((FromNursery::Forked(id), _)) => pid(id),
            Some((FromNursery::Failed(reason), _)) => return Err(io::Error::other(reason)),
            None => None,
        };
        Ok(id.ok_or(io::ErrorKind::UnexpectedEof)?)
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        // Whoever looks after the pool is gone finds nothing of it, nor of a worker or a planner whose number came
        // when nobody waited for it any more.
        let is_gone = pid(self.process.id()).is_none_or(child::end);
        let _ = set_socket_timeout(&self.socket, Timeout::Recv, Some(LAST_PATIENCE));
        while is_gone && let Ok(Some((answer, _))) = receive_packet(&self.socket) {
            if let FromNursery::Forked(id) = answer {
                pid(id).map(child::end);
            }
        }
    }
}

fn pid(id: u32) -> Option<Pid> {
    Pid::from_raw(id.cast_signed())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::{WaitId, WaitIdOptions, waitid};
    use std::process::Command;

    fn sleeps() -> process::Child {
        Command::new("sleep").arg("60").spawn().unwrap()
    }

    #[test]
    #[expect(
        clippy::zombie_processes,
        reason = "that nothing is left to wait for is what is tested"
    )]
    fn a_worker_that_came_too_late_is_ended_and_reaped() {
        let process = sleeps();
        let worker = sleeps();
        let ids = [process.id(), worker.id()];
        let (socket, theirs) = packets().unwrap();
        send_packet(&theirs, &FromNursery::Failed("late".into()), &[]).unwrap();
        send_packet(&theirs, &FromNursery::Forked(worker.id()), &[]).unwrap();
        drop(theirs);
        drop(Open { process, socket, loading: None });
        for id in ids {
            let left = waitid(WaitId::Pid(pid(id).unwrap()), WaitIdOptions::EXITED);
            assert!(left.is_err(), "nobody has to wait for it");
        }
    }
}
