//! The zygote: a process from which the planner and workers are forked, so that the program is started and
//! the entry script is loaded only once. Before the zygote loads the script, it builds a wall around itself
//! and all workers, because a compromised compiler may have written any code. It reads no other untrusted
//! data, and ends with the leader.

use super::code::{self, WorkerCode};
use super::link::LeaderLink;
use super::{lockdown, process};
use crate::protocol::{FromZygote, ToZygote, receive_packet, send_packet};
use crate::wall::{self, FolderRights, ForkedTwin, GrantedPath};
use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::PathBuf;

/// The short names of the processes, which some tools show.
const ZYGOTE_NAME: &CStr = c"zygote";
const PLANNER_NAME: &CStr = c"planner";
const WORKER_NAME: &CStr = c"worker";

/// What a forked process has become.
#[expect(clippy::large_enum_variant, reason = "a process has only one")]
pub(super) enum ForkedRole {
    /// The planner, whose request is on standard input.
    Planner,
    /// A worker with its link and its code.
    Worker(LeaderLink, WorkerCode),
}

/// Serves as the zygote until the leader is gone, and then returns `None`. Also returns in each forked
/// process, with its role.
pub(super) fn serve_zygote(socket: OwnedFd) -> io::Result<Option<ForkedRole>> {
    // The name is only informative.
    let _ = rustix::thread::set_name(ZYGOTE_NAME);
    let mut loaded = None;
    while let Some((message, descriptors)) = receive_packet(&socket)? {
        let twin = match message {
            ToZygote::Load(loading, surroundings) => {
                let [compiled] = exactly(descriptors)?;
                let mut wall = lockdown::zygote_wall(&surroundings);
                // The file is opened again when it is mapped. If it was removed meanwhile, the leader
                // continues without this process.
                let compiled_path = format!("/proc/self/fd/{}", compiled.as_raw_fd());
                let compiled_path = std::fs::canonicalize(compiled_path)?;
                wall.folders.push(GrantedPath::real(compiled_path, FolderRights::Read));
                lockdown::lock_down(&wall, &[])?;
                // This is for workers only; the planner has been forked before.
                process::keep_memory();
                loaded =
                    Some(WorkerCode::Loaded(loading, code::load(&File::from(compiled), loading)));
                // A forked process has only this thread. A lock that another thread holds would stay locked
                // there forever.
                wall::alone()?;
                continue;
            }
            ToZygote::Plan => fork(&socket)?.map(|twin| (twin, None)),
            ToZygote::Fork { folder, cgroup } => {
                fork(&socket)?.map(|twin| (twin, Some((folder, cgroup))))
            }
        };
        let Some((twin, worker)) = twin else { continue };
        // The socket connects only the leader and the zygote.
        drop(socket);
        let Some((folder, cgroup)) = worker else {
            drop(loaded);
            twin.begin(None)?;
            become_planner(descriptors)?;
            return Ok(Some(ForkedRole::Planner));
        };
        twin.begin(cgroup.as_deref())?;
        let code = loaded.ok_or_else(|| io::Error::other("no entry script was loaded before"))?;
        return Ok(Some(ForkedRole::Worker(become_worker(descriptors, folder)?, code)));
    }
    Ok(None)
}

/// Forks this process, and reports the id of the forked process to the leader. Returns `Some` in the forked
/// process.
fn fork(socket: &OwnedFd) -> io::Result<Option<ForkedTwin>> {
    let answer = match wall::twin() {
        Ok(Ok(id)) => FromZygote::Forked(id.as_raw_pid().cast_unsigned()),
        Ok(Err(twin)) => return Ok(Some(twin)),
        Err(error) => FromZygote::Failed(error.to_string()),
    };
    send_packet(socket, &answer, &[])?;
    Ok(None)
}

/// The descriptors of a message. Fails if their number is wrong.
fn exactly<const N: usize>(descriptors: Vec<OwnedFd>) -> io::Result<[OwnedFd; N]> {
    descriptors.try_into().map_err(|_| io::Error::other("a message came without its descriptors"))
}

/// Sets up a planner's standard files.
fn become_planner(descriptors: Vec<OwnedFd>) -> io::Result<()> {
    let [stdin, stdout, stderr] = exactly(descriptors)?;
    rustix::stdio::dup2_stdin(stdin.as_fd())?;
    rustix::stdio::dup2_stdout(stdout.as_fd())?;
    rustix::stdio::dup2_stderr(stderr.as_fd())?;
    let _ = rustix::thread::set_name(PLANNER_NAME);
    Ok(())
}

/// Sets up a worker's standard files and working directory. Returns its link.
fn become_worker(descriptors: Vec<OwnedFd>, folder: PathBuf) -> io::Result<LeaderLink> {
    let [socket, reports, stderr] = exactly(descriptors)?;
    rustix::stdio::dup2_stderr(stderr.as_fd())?;
    rustix::stdio::dup2_stdout(stderr.as_fd())?;
    std::env::set_current_dir(folder)?;
    let _ = rustix::thread::set_name(WORKER_NAME);
    LeaderLink::new(socket.into(), reports.into())
}
