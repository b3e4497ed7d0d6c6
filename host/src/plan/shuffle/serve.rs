//! A process of the crew.

use super::gather::gather;
use super::message::{Reply, Setup, Task};
use super::scatter::Scatterer;
use crate::process::{die_with_parent, limit};
use crate::protocol::{encode, read_frame};
use rustix::process::Resource;
use std::io::{self, ErrorKind, Read, Write};

/// The command that makes the program such a process.
pub const SHUFFLE_COMMAND: &str = "shuffle-worker";

/// Bytes of memory that the process may write to: far more than it takes, but for records of
/// hundreds of megabytes.
const MEMORY_BYTES: u64 = 4 << 30;

/// Does what standard input says, until it ends. Fails if that is nothing it understands, or if
/// nobody wants to hear of it. It is killed when the thread that started it ends.
pub fn serve() -> io::Result<()> {
    die_with_parent()?;
    limit(Resource::Data, MEMORY_BYTES);
    limit(Resource::Core, 0);
    serve_on(&mut io::stdin().lock(), &mut io::stdout().lock())
}

/// As [`serve`], on any two streams.
pub(in crate::plan) fn serve_on(input: &mut impl Read, output: &mut impl Write) -> io::Result<()> {
    let mut buffer = Vec::new();
    let setup: Option<Setup> = read_frame(input, &mut buffer).map_err(io::Error::other)?;
    let Some(setup) = setup else {
        return Err(io::Error::new(ErrorKind::UnexpectedEof, "nothing was asked for"));
    };
    let mut scatterer = Scatterer::new(&setup).map_err(io::Error::other)?;
    let mut answer = Vec::new();
    while let Some(task) = read_frame(input, &mut buffer).map_err(io::Error::other)? {
        let done = match task {
            Task::Scatter { number, slices } => scatterer.scatter(number, &slices),
            Task::Gather { bucket, pieces } => gather(&setup, bucket, pieces),
        };
        let reply = match done {
            Ok(()) => Reply::Done,
            Err(error) => Reply::Failed(error.to_string()),
        };
        answer.clear();
        encode(&reply, &mut answer).map_err(io::Error::other)?;
        output.write_all(&answer)?;
        output.flush()?;
    }
    Ok(())
}
