//! The leader's side of the zygote, the process from which the planner and workers are forked
//! (`worker::zygote`). The zygote has already done the start-up work that each of them needs. If
//! the zygote cannot be used, we start each process from the program.

use super::child::{self, Child, ForkedChild};
use super::launch::{Program, StderrLog};
use super::pipes::{Pipes, PlannerPipes};
use crate::model::JobDir;
use crate::protocol::{
    FromZygote, Loading, ToZygote, WorkerSetup, packets, receive_packet, send_packet,
};
use crate::wall::ProcessCgroup;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::process::Pid;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process;
use std::time::Duration;

/// How long the zygote may take to start, to load the entry script and to fork. The leader blocks meanwhile.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long we wait for the last answers after the zygote has ended: a forked process may keep the zygote's
/// socket open for a moment.
const LAST_PATIENCE: Duration = Duration::from_millis(100);

/// The zygote of a pool.
#[derive(Debug, Default)]
pub(super) enum Zygote {
    /// The zygote has not been needed yet.
    #[default]
    Unborn,
    /// The zygote runs.
    Open(OpenZygote),
    /// The zygote failed, or cannot be started.
    Closed,
}

/// A zygote that runs.
#[derive(Debug)]
pub(super) struct OpenZygote {
    process: process::Child,
    socket: OwnedFd,
    /// The settings with which the zygote loads the entry script. `None` until we asked it to load
    /// the script.
    loading: Option<Loading>,
}

impl Zygote {
    /// Starts the zygote if it is not running yet.
    pub(super) fn begin(&mut self, program: &Program) {
        if matches!(self, Self::Unborn) && program.has_zygote {
            *self = OpenZygote::start(program).map_or(Self::Closed, Self::Open);
        }
    }

    /// Starts the zygote if it is not running yet, and makes it load the entry script if it has not done so.
    /// Does nothing for a worker with a GPU or ONNX Runtime: such a worker cannot be forked, because its
    /// libraries read environment variables when the program starts. `cgroups`: the folder of the workers'
    /// cgroups. The folders of at least one worker must exist.
    pub(super) fn open(
        &mut self,
        program: &Program,
        component: &File,
        setup: &WorkerSetup,
        cgroups: Option<&Path>,
    ) {
        if !can_fork(setup) {
            return;
        }
        self.begin(program);
        let Self::Open(open) = self else { return };
        if open.loading.is_none() {
            let surroundings = setup.surroundings(cgroups.map(Path::to_owned));
            let load = ToZygote::Load(setup.loading(), Box::new(surroundings));
            match send_packet(&open.socket, &load, &[component.as_fd()]) {
                Ok(()) => open.loading = Some(setup.loading()),
                Err(_) => *self = Self::Closed,
            }
        }
    }

    /// Asks the zygote for a planner, which will wait for its request. Call [`planner`](Self::planner) for
    /// the answer before the next request to the zygote.
    pub(super) fn request_planner(&mut self) -> Option<Pipes> {
        let Self::Open(open) = self else { return None };
        let (pipes, PlannerPipes { stdin, stdout, stderr }) = Pipes::new().ok()?;
        let descriptors = [stdin.as_fd(), stdout.as_fd(), stderr.as_fd()];
        send_packet(&open.socket, &ToZygote::Plan, &descriptors).ok()?;
        Some(pipes)
    }

    /// The planner that was [requested](Self::request_planner). `None` if it could not be forked.
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

    /// Forks a worker that gets this end of a socket. Returns the process with the pipe for its reports.
    /// `None` if the worker cannot be forked. After one failure, the zygote is not used again.
    pub(super) fn fork(
        &mut self,
        setup: &WorkerSetup,
        cgroup: Option<&ProcessCgroup>,
        (socket, stderr): (&UnixStream, &StderrLog),
    ) -> Option<(Child, OwnedFd)> {
        let Self::Open(open) = self else { return None };
        if !can_fork(setup) || open.loading != Some(setup.loading()) {
            return None;
        }
        let folder = JobDir::new(&setup.job_dir).worker_dir(setup.worker);
        let cgroup = cgroup.map(|cgroup| cgroup.path().to_owned());
        let (reports, sender) = io::pipe().ok()?;
        let fds = [socket.as_fd(), sender.as_fd(), stderr.as_fd()];
        match open.fork(&ToZygote::Fork { folder, cgroup }, &fds) {
            Ok(child) => Some((Child::Forked(child), reports.into())),
            Err(_) => {
                *self = Self::Closed;
                None
            }
        }
    }

    /// Kills the zygote, which no longer has to fork. Does not wait for its end.
    pub(super) fn end(&mut self) {
        if let Self::Open(open) = self {
            let _ = open.process.kill();
        }
    }
}

fn can_fork(setup: &WorkerSetup) -> bool {
    setup.gpu.is_none() && setup.inference.onnxruntime.is_none()
}

impl OpenZygote {
    fn start(program: &Program) -> io::Result<Self> {
        child::check_pidfds()?;
        let (socket, zygote) = packets()?;
        set_socket_timeout(&socket, Timeout::Recv, Some(PATIENCE))?;
        set_socket_timeout(&socket, Timeout::Send, Some(PATIENCE))?;
        let process = program.start_zygote(zygote)?;
        Ok(Self { process, socket, loading: None })
    }

    fn planner(&mut self) -> io::Result<ForkedChild> {
        ForkedChild::new(self.forked_id()?)
    }

    fn fork(&self, request: &ToZygote, descriptors: &[BorrowedFd<'_>]) -> io::Result<ForkedChild> {
        send_packet(&self.socket, request, descriptors)?;
        ForkedChild::new(self.forked_id()?)
    }

    /// The id of the process that the zygote reports as forked.
    fn forked_id(&self) -> io::Result<Pid> {
        let id = match receive_packet(&self.socket)? {
            Some((FromZygote::Forked(id), _)) => pid(id),
            Some((FromZygote::Failed(reason), _)) => return Err(io::Error::other(reason)),
            None => None,
        };
        Ok(id.ok_or(io::ErrorKind::UnexpectedEof)?)
    }
}

impl Drop for OpenZygote {
    fn drop(&mut self) {
        // No process may outlive the pool, not even a worker or planner whose id arrived too late.
        let is_gone = pid(self.process.id()).is_none_or(child::kill_and_wait);
        let _ = set_socket_timeout(&self.socket, Timeout::Recv, Some(LAST_PATIENCE));
        while is_gone && let Ok(Some((answer, _))) = receive_packet(&self.socket) {
            if let FromZygote::Forked(id) = answer {
                pid(id).map(child::kill_and_wait);
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

    fn sleeper() -> process::Child {
        Command::new("sleep").arg("60").spawn().unwrap()
    }

    #[test]
    #[expect(clippy::zombie_processes, reason = "the test checks that they are reaped")]
    fn a_worker_that_was_forked_late_is_killed_and_reaped() {
        let process = sleeper();
        let worker = sleeper();
        let ids = [process.id(), worker.id()];
        let (socket, zygote) = packets().unwrap();
        send_packet(&zygote, &FromZygote::Failed("late".into()), &[]).unwrap();
        send_packet(&zygote, &FromZygote::Forked(worker.id()), &[]).unwrap();
        drop(zygote);
        drop(OpenZygote { process, socket, loading: None });
        for id in ids {
            let reaped_again = waitid(WaitId::Pid(pid(id).unwrap()), WaitIdOptions::EXITED);
            assert!(reaped_again.is_err(), "the process has already been reaped");
        }
    }
}
