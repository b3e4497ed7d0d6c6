//! A process that others are forked from: the planner, and workers, which find the program started, and the
//! entry script loaded, once for all of them. Before it loads that, it builds a wall around itself and all workers, as
//! what a compiler wrote that was taken over may do anything. It looks at nothing else, and ends with the leader.

use super::code::{self, Code};
use super::link::Link;
use super::{lockdown, process};
use crate::protocol::{FromNursery, ToNursery, receive_packet, send_packet};
use crate::wall::{self, Folder, Rights, Twin};
use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::PathBuf;

/// What processes are called, where only so much is shown.
const NURSERY: &CStr = c"nursery";
const PLANNER: &CStr = c"planner";
const WORKER: &CStr = c"worker";

/// What this process has become.
#[expect(clippy::large_enum_variant, reason = "there is one in the life of a process")]
pub(super) enum Forked {
    /// The planner, its request on standard input.
    Planner,
    /// A worker with its link and its code.
    Worker(Link, Code),
}

/// Serves until the leader is gone, and returns nothing then; returns also in each process that is forked.
pub(super) fn tend(socket: OwnedFd) -> io::Result<Option<Forked>> {
    // Nothing depends on names.
    let _ = rustix::thread::set_name(NURSERY);
    let mut loaded = None;
    while let Some((message, descriptors)) = receive_packet(&socket)? {
        let twin = match message {
            ToNursery::Load(loading, surroundings) => {
                let [compiled] = exactly(descriptors)?;
                let mut wall = lockdown::around_all_workers(&surroundings);
                // It is opened once more when it is mapped. Where it was removed meanwhile, the leader does without this
                // process.
                let compiled_path = format!("/proc/self/fd/{}", compiled.as_raw_fd());
                let compiled_path = std::fs::canonicalize(compiled_path)?;
                wall.folders.push(Folder::real(compiled_path, Rights::Read));
                lockdown::lock_down(&wall, &[])?;
                // For workers alone: a planner was forked before.
                process::keep_memory();
                loaded = Some(Code::Loaded(loading, code::load(&File::from(compiled), loading)));
                // A copy has this thread alone: what another one holds would stay locked for ever.
                wall::alone()?;
                continue;
            }
            ToNursery::Plan => fork(&socket)?.map(|twin| (twin, None)),
            ToNursery::Fork { folder, cgroup } => {
                fork(&socket)?.map(|twin| (twin, Some((folder, cgroup))))
            }
        };
        let Some((twin, worker)) = twin else { continue };
        // This is the leader's and the nursery's.
        drop(socket);
        let Some((folder, cgroup)) = worker else {
            drop(loaded);
            twin.begin(None)?;
            become_planner(descriptors)?;
            return Ok(Some(Forked::Planner));
        };
        twin.begin(cgroup.as_deref())?;
        let code = loaded.ok_or_else(|| io::Error::other("no entry script was loaded before"))?;
        return Ok(Some(Forked::Worker(settle(descriptors, folder)?, code)));
    }
    Ok(None)
}

/// A copy of this process, of which the leader is told. Some in the copy.
fn fork(socket: &OwnedFd) -> io::Result<Option<Twin>> {
    let answer = match wall::twin() {
        Ok(Ok(id)) => FromNursery::Forked(id.as_raw_pid().cast_unsigned()),
        Ok(Err(twin)) => return Ok(Some(twin)),
        Err(error) => FromNursery::Failed(error.to_string()),
    };
    send_packet(socket, &answer, &[])?;
    Ok(None)
}

fn exactly<const N: usize>(descriptors: Vec<OwnedFd>) -> io::Result<[OwnedFd; N]> {
    descriptors.try_into().map_err(|_| io::Error::other("a message came without its descriptors"))
}

/// Gives a planner its files.
fn become_planner(descriptors: Vec<OwnedFd>) -> io::Result<()> {
    let [stdin, stdout, stderr] = exactly(descriptors)?;
    rustix::stdio::dup2_stdin(stdin.as_fd())?;
    rustix::stdio::dup2_stdout(stdout.as_fd())?;
    rustix::stdio::dup2_stderr(stderr.as_fd())?;
    let _ = rustix::thread::set_name(PLANNER);
    Ok(())
}

/// Gives a worker its files and its place. Returns its link.
fn settle(descriptors: Vec<OwnedFd>, folder: PathBuf) -> io::Result<Link> {
    let [socket, reports, stderr] = exactly(descriptors)?;
    rustix::stdio::dup2_stderr(stderr.as_fd())?;
    rustix::stdio::dup2_stdout(stderr.as_fd())?;
    std::env::set_current_dir(folder)?;
    let _ = rustix::thread::set_name(WORKER);
    Link::new(socket.into(), reports.into())
}
