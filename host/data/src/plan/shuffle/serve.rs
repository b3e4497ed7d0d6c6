//! A process of the crew.

use super::gather::gather;
use super::message::{Begin, Reply, Task, Word};
use super::scatter::Scatterer;
use crate::dataset::DatasetError;
use crate::plan::lockdown::lock_down;
use crate::protocol::{encode, read_frame};
use crate::wall::{self, Occupant};
use std::io::{self, ErrorKind, Read, Write};

/// The command that makes the program such a process.
pub const SHUFFLE_COMMAND: &str = "shuffle-worker";

/// Bytes of memory that the process may write to: far more than it takes, but for records of
/// hundreds of megabytes.
const MEMORY_BYTES: u64 = 4 << 30;

/// Does what standard input says, until it ends. Fails if that is nothing it understands, if the wall
/// that is asked for cannot be built, or if nobody wants to hear of it. It is killed when the thread
/// that started it ends.
pub fn serve() -> io::Result<()> {
    wall::enter()?;
    let input = &mut io::stdin().lock();
    let begin: Option<Begin> = read_frame(input, &mut Vec::new()).map_err(io::Error::other)?;
    // None: the planner ended, or needs nobody.
    let Some(begin) = begin else { return Ok(()) };
    let mode = begin.os_sandbox;
    let roots = begin.roots.into_iter();
    lock_down(Occupant::Shuffler, mode, roots, &begin.spill, MEMORY_BYTES)?;
    serve_on(input, &mut io::stdout().lock())
}

/// What comes after the wall, on any two streams.
pub(in crate::plan) fn serve_on(input: &mut impl Read, output: &mut impl Write) -> io::Result<()> {
    let mut buffer = Vec::new();
    let mut next = || read_frame::<Word>(input, &mut buffer).map_err(io::Error::other);
    let mut word = next()?;
    loop {
        let setup = match word {
            None => return Ok(()),
            Some(Word::Setup(setup)) => setup,
            Some(Word::Task(_)) => {
                let text = "there is a task, and nothing says what it is about";
                return Err(io::Error::new(ErrorKind::InvalidData, text));
            }
        };
        let mut scatterer = Scatterer::new(&setup);
        loop {
            word = next()?;
            let Some(Word::Task(task)) = word else { break };
            let done = match task {
                Task::Scatter { number, slices } => scatterer.scatter(number, &slices),
                Task::Gather { bucket, pieces } => gather(&setup, bucket, pieces),
            };
            answer(done, output)?;
        }
    }
}

fn answer(done: Result<(), DatasetError>, output: &mut impl Write) -> io::Result<()> {
    let reply = match done {
        Ok(()) => Reply::Done,
        Err(error) => Reply::Failed(error.to_string()),
    };
    let mut answer = Vec::new();
    encode(&reply, &mut answer).map_err(io::Error::other)?;
    output.write_all(&answer)?;
    output.flush()
}
