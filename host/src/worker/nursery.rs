//! The process that workers are forked from: it has started, and loaded the entry script, once for all of
//! them. It looks at nothing else, and ends with the leader.

use super::code::{self, Code};
use crate::protocol::{FromNursery, ToNursery, receive_packet, send_packet};
use crate::wall;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

/// What processes are called, where only so much is shown.
const NURSERY: &std::ffi::CStr = c"nursery";
const WORKER: &std::ffi::CStr = c"worker";

/// Serves until the leader is gone, and returns nothing then. In a worker that is forked it returns the
/// worker's socket and code. `compiled` is the entry script.
pub(super) fn tend(socket: OwnedFd, compiled: File) -> io::Result<Option<(UnixStream, Code)>> {
    // Nothing depends on names.
    let _ = rustix::thread::set_name(NURSERY);
    let mut loaded = None;
    while let Some((message, descriptors)) = receive_packet(&socket)? {
        match message {
            ToNursery::Load(loading) => {
                loaded = Some(Code::Loaded(loading, code::load(&compiled, loading)));
                // A copy has this thread alone: what another one holds would stay locked for ever.
                wall::alone()?;
            }
            ToNursery::Fork { folder, cgroup } => {
                let answer = match wall::twin() {
                    Ok(Ok(id)) => FromNursery::Forked(id.as_raw_pid().cast_unsigned()),
                    Err(error) => FromNursery::Failed(error.to_string()),
                    Ok(Err(twin)) => {
                        // This is the leader's and the nursery's, not a worker's.
                        drop(socket);
                        twin.begin(cgroup.as_deref())?;
                        let code = loaded.unwrap_or(Code::Compiled(compiled));
                        let socket = settle(descriptors, folder)?;
                        return Ok(Some((socket, code)));
                    }
                };
                send_packet(&socket, &answer, &[])?;
            }
        }
    }
    Ok(None)
}

/// Gives a worker its files and its place. Returns its socket.
fn settle(descriptors: Vec<OwnedFd>, folder: PathBuf) -> io::Result<UnixStream> {
    let Ok([socket, stderr]) = <[OwnedFd; 2]>::try_from(descriptors) else {
        return Err(io::Error::other("a worker was to be forked without its descriptors"));
    };
    rustix::stdio::dup2_stderr(stderr.as_fd())?;
    rustix::stdio::dup2_stdout(stderr.as_fd())?;
    std::env::set_current_dir(folder)?;
    let _ = rustix::thread::set_name(WORKER);
    Ok(socket.into())
}
