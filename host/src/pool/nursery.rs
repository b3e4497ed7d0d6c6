//! The leader's end of the process that workers are forked from (`worker::nursery`). It has what each
//! worker's process would do first behind it; where it cannot be used, each worker is started by itself.

use super::child::{self, Child, Forked};
use super::launch::{Program, StderrLog};
use crate::model::JobDir;
use crate::protocol::{
    FromNursery, Loading, Setup, ToNursery, packets, receive_packet, send_packet,
};
use crate::wall::Leaf;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::process::Pid;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process;
use std::time::Duration;

/// How long it may take to load the entry script and to fork. The leader does nothing else meanwhile.
const PATIENCE: Duration = Duration::from_secs(10);

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
    loading: Loading,
}

impl Nursery {
    /// Starts it if it is not there yet and serves such workers: one with a GPU or with ONNX Runtime finds
    /// variables in its environment that libraries read when a program starts. `stderr` is that of the worker
    /// that it is started for.
    pub(super) fn open(
        &mut self,
        program: &Program,
        component: &File,
        setup: &Setup,
        stderr: &StderrLog,
    ) {
        if matches!(self, Self::Unborn) && program.has_nursery && suits(setup) {
            let started = Open::start(program, component, setup.loading(), stderr);
            *self = started.map_or(Self::Closed, Self::Open);
        }
    }

    /// A worker with its end of a socket, if one can be forked. One failure is the last.
    pub(super) fn fork(
        &mut self,
        setup: &Setup,
        cgroup: Option<&Leaf>,
        (socket, stderr): (&UnixStream, &StderrLog),
    ) -> Option<Child> {
        let Self::Open(open) = self else { return None };
        if !suits(setup) || open.loading != setup.loading() {
            return None;
        }
        let folder = JobDir::new(&setup.job_dir).worker_dir(setup.worker);
        let cgroup = cgroup.map(|cgroup| cgroup.path().to_owned());
        match open.fork(&ToNursery::Fork { folder, cgroup }, socket, stderr) {
            Ok(child) => Some(Child::Forked(child)),
            Err(_) => {
                *self = Self::Closed;
                None
            }
        }
    }
}

fn suits(setup: &Setup) -> bool {
    setup.gpu.is_none() && setup.inference.onnxruntime.is_none()
}

impl Open {
    fn start(
        program: &Program,
        component: &File,
        loading: Loading,
        stderr: &StderrLog,
    ) -> io::Result<Self> {
        child::check()?;
        let (socket, theirs) = packets()?;
        set_socket_timeout(&socket, Timeout::Recv, Some(PATIENCE))?;
        set_socket_timeout(&socket, Timeout::Send, Some(PATIENCE))?;
        let process = program.start_nursery(theirs, component, stderr)?;
        let open = Self { process, socket, loading };
        send_packet(&open.socket, &ToNursery::Load(loading), &[])?;
        Ok(open)
    }

    fn fork(
        &self,
        request: &ToNursery,
        socket: &UnixStream,
        stderr: &StderrLog,
    ) -> io::Result<Forked> {
        send_packet(&self.socket, request, &[socket.as_fd(), stderr.as_fd()])?;
        let id = match receive_packet(&self.socket)? {
            Some((FromNursery::Forked(id), _)) => Pid::from_raw(id.cast_signed()),
            Some((FromNursery::Failed(reason), _)) => return Err(io::Error::other(reason)),
            None => None,
        };
        Forked::new(id.ok_or(io::ErrorKind::UnexpectedEof)?)
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        // Whoever looks after the pool is gone finds nothing of it.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
