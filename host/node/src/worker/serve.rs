//! Runs a worker process, from its start to its exit code.

use super::code::WorkerCode;
use super::link::{LeaderLink, SocketEvent};
use super::session::{Session, SessionEnd};
use super::zygote::{self, ForkedRole};
use super::{lockdown, process};
use crate::inference;
use crate::machine_slots;
use crate::model::printable;
use crate::protocol::{PROTOCOL_VERSION, ToWorker, WorkerSetup};
use crate::wall;
use rustix::net::SocketType;
use rustix::net::sockopt::socket_type;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::process::ExitCode;

/// The exit code of a worker whose component could not be loaded or whose `init` failed. The worker
/// has already notified the leader.
pub const EXIT_INIT_FAILED: u8 = 3;

/// The exit code after a fault that the guest did not cause. The reason is on stderr.
pub const EXIT_FAULT: u8 = 4;

/// Runs the worker process. Its standard input is the socket to the leader, its standard output the compiled
/// component, and its standard error a file for faults that the guest did not cause. The exit code is 0 after
/// `Shutdown` or if the leader is gone, otherwise [`EXIT_INIT_FAILED`] or [`EXIT_FAULT`].
///
/// If the socket preserves message boundaries (`SOCK_SEQPACKET`), this process is the zygote, from which
/// workers and the planner are forked. The function then also returns in each forked process. It returns
/// `None` in the planner, whose request is on standard input.
pub fn serve() -> Option<ExitCode> {
    inference::quiet_panics();
    Some(match run() {
        Ok(Role::Worker(SessionEnd::Done)) => ExitCode::SUCCESS,
        Ok(Role::Worker(SessionEnd::InitFailed)) => ExitCode::from(EXIT_INIT_FAILED),
        Ok(Role::Planner) => return None,
        Err(fault) => {
            eprintln!("sandmill worker: {}", printable(&fault.to_string()));
            ExitCode::from(EXIT_FAULT)
        }
    })
}

/// What this process has become. `Worker` also stands for the zygote: both have finished their
/// work.
enum Role {
    Worker(SessionEnd),
    Planner,
}

fn run() -> io::Result<Role> {
    wall::enter()?;
    let (socket, compiled) = take_descriptors()?;
    if socket_type(&socket)? != SocketType::SEQPACKET {
        process::keep_memory();
        let link = LeaderLink::new(socket.try_clone()?.into(), socket.into())?;
        return work(link, WorkerCode::Compiled(compiled)).map(Role::Worker);
    }
    drop(compiled);
    match zygote::serve_zygote(socket)? {
        Some(ForkedRole::Worker(link, code)) => work(link, code).map(Role::Worker),
        Some(ForkedRole::Planner) => Ok(Role::Planner),
        None => Ok(Role::Worker(SessionEnd::Done)),
    }
}

fn work(mut link: LeaderLink, code: WorkerCode) -> io::Result<SessionEnd> {
    let setup = match link.wait()? {
        SocketEvent::Message(ToWorker::Setup(setup)) => check_protocol(*setup)?,
        SocketEvent::Message(other) => {
            return Err(io::Error::other(format!("the first message is not a set-up: {other:?}")));
        }
        SocketEvent::None | SocketEvent::Closed => return Ok(SessionEnd::Done),
    };
    // No other job gets the GPU until this process is gone, even if the leader ends first.
    let lock = setup.gpu.as_ref().and_then(|gpu| gpu.lock.as_deref());
    let _lease = lock.map(machine_slots::keep).transpose()?;
    let wall = lockdown::wall(&setup);
    let Some(mut session) = Session::prepare(setup, link, code)? else {
        return Ok(SessionEnd::InitFailed);
    };
    session.wall = lockdown::lock_down(&wall, &session.logs())?;
    on_guest_thread(session)
}

/// Takes the socket and the component from descriptors 0 and 1. Then replaces these descriptors
/// with harmless files, so that no code reads from them or prints to them by accident.
fn take_descriptors() -> io::Result<(OwnedFd, File)> {
    let socket: OwnedFd = rustix::stdio::stdin().try_clone_to_owned()?;
    let component: OwnedFd = rustix::stdio::stdout().try_clone_to_owned()?;
    rustix::stdio::dup2_stdin(File::open("/dev/null")?)?;
    rustix::stdio::dup2_stdout(rustix::stdio::stderr().as_fd())?;
    Ok((socket, component.into()))
}

fn check_protocol(setup: WorkerSetup) -> io::Result<WorkerSetup> {
    if setup.protocol == PROTOCOL_VERSION {
        return Ok(setup);
    }
    Err(io::Error::other(format!(
        "the leader speaks version {} of the protocol and this worker version {PROTOCOL_VERSION}: \
         both must be the same sandmill program",
        setup.protocol
    )))
}

/// Runs the session on a thread whose stack is large enough for the guest.
fn on_guest_thread(session: Session) -> io::Result<SessionEnd> {
    let thread = std::thread::Builder::new()
        .name("guest".to_owned())
        .stack_size(session.stack())
        .spawn(move || session.serve())?;
    thread.join().unwrap_or_else(|_| Err(io::Error::other("a fault in the worker itself")))
}
