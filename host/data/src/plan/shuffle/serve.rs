//! A helper process of a shuffle.

use super::gather::gather;
use super::message::{HelperWall, ShuffleReply, ShuffleTask, ToHelper};
use super::scatter::Scatterer;
use crate::dataset::DatasetError;
use crate::plan::lockdown::lock_down;
use crate::protocol::{encode, read_frame};
use crate::wall::{self, WallRole};
use std::io::{self, ErrorKind, Read, Write};

/// The subcommand for a helper process.
pub const SHUFFLE_COMMAND: &str = "shuffle-worker";

/// Bytes of memory that the process may write to. The process needs far less, unless records have hundreds of
/// megabytes.
const MEMORY_BYTES: u64 = 4 << 30;

/// Performs the tasks from standard input, until standard input ends. Fails if a message is invalid, if the
/// requested wall cannot be built, or if the planner no longer reads. The process is killed when the thread
/// that started it ends.
pub fn serve() -> io::Result<()> {
    wall::enter()?;
    let input = &mut io::stdin().lock();
    let helper_wall: Option<HelperWall> =
        read_frame(input, &mut Vec::new()).map_err(io::Error::other)?;
    // Without a message, the planner ended or does not need this process.
    let Some(helper_wall) = helper_wall else { return Ok(()) };
    let mode = helper_wall.os_sandbox;
    let roots = helper_wall.roots.into_iter();
    lock_down(WallRole::Shuffler, mode, roots, &helper_wall.spill, MEMORY_BYTES)?;
    serve_on(input, &mut io::stdout().lock())
}

/// Performs the tasks after the wall is built, with any two streams.
pub(in crate::plan) fn serve_on(input: &mut impl Read, output: &mut impl Write) -> io::Result<()> {
    let mut buffer = Vec::new();
    let mut next = || read_frame::<ToHelper>(input, &mut buffer).map_err(io::Error::other);
    let mut message = next()?;
    loop {
        let setup = match message {
            None => return Ok(()),
            Some(ToHelper::Setup(setup)) => setup,
            Some(ToHelper::Task(_)) => {
                let text = "a task arrived before its setup";
                return Err(io::Error::new(ErrorKind::InvalidData, text));
            }
        };
        let mut scatterer = Scatterer::new(&setup);
        loop {
            message = next()?;
            let Some(ToHelper::Task(task)) = message else { break };
            let result = match task {
                ShuffleTask::Scatter { number, slices } => scatterer.scatter(number, &slices),
                ShuffleTask::Gather { bucket, pieces } => gather(&setup, bucket, pieces),
            };
            answer(result, output)?;
        }
    }
}

fn answer(result: Result<(), DatasetError>, output: &mut impl Write) -> io::Result<()> {
    let reply = match result {
        Ok(()) => ShuffleReply::Done,
        Err(error) => ShuffleReply::Failed(error.to_string()),
    };
    let mut frame = Vec::new();
    encode(&reply, &mut frame).map_err(io::Error::other)?;
    output.write_all(&frame)?;
    output.flush()
}
