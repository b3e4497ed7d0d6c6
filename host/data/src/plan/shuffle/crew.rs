//! The processes that perform tasks, and the spares that replace dead ones.

use super::message::{BUCKETS, Begin, Reply, ShuffleSetup, ShuffleTask, Word};
use super::serve::SHUFFLE_COMMAND;
use crate::dataset::DatasetError;
use crate::plan::PlanError;
use crate::protocol::{PlanRequest, encode, read_frame};
use crate::wall::death;
use std::fmt;
use std::io::{self, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// After so many processes have died over a task, the shuffle fails.
const TRIES: u32 = 3;
/// How long a process may take to exit after its pipes were closed.
const GRACE: Duration = Duration::from_secs(1);
/// How often its status is checked.
const TICK: Duration = Duration::from_millis(1);

/// One process, which ends when this value is dropped.
pub(in crate::plan) struct Hand {
    pub(in crate::plan) input: Box<dyn Write + Send>,
    pub(in crate::plan) output: Box<dyn Read + Send>,
    pub(in crate::plan) child: Option<Child>,
}

impl fmt::Debug for Hand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hand").field("child", &self.child).finish_non_exhaustive()
    }
}

impl Drop for Hand {
    fn drop(&mut self) {
        self.finish();
    }
}

/// Processes that wait for the next step or input.
#[derive(Debug, Default)]
pub(in crate::plan) struct Idle(Mutex<Vec<Hand>>);

impl Idle {
    fn take(&self) -> Option<Hand> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }

    fn put(&self, hand: Hand) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(hand);
    }
}

/// Starts processes for a request: as many as it allows, and enough spares for one task that kills its
/// processes. Call this on the main thread, because the processes die with the thread, and before the wall is
/// built.
pub(in crate::plan) fn start_processes(request: &PlanRequest) -> io::Result<Vec<Hand>> {
    let begin = Begin {
        os_sandbox: request.os_sandbox,
        roots: request.sources.iter().map(|source| source.root.clone()).collect(),
        spill: request.spill.clone(),
    };
    let count = at_once(request) + TRIES - 1;
    (0..count).map(|_| start_process(&begin)).collect()
}

/// How many processes work at the same time.
pub(super) fn at_once(request: &PlanRequest) -> u32 {
    request.processes.clamp(1, BUCKETS)
}

/// Starts this same program as a helper.
fn start_process(begin: &Begin) -> io::Result<Hand> {
    // The running program, even if the file at its path was replaced.
    let mut child = Command::new("/proc/self/exe")
        .arg0("sandmill")
        .arg(SHUFFLE_COMMAND)
        .env_clear()
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    match (child.stdin.take(), child.stdout.take()) {
        (Some(input), Some(output)) => {
            let input = Box::new(input);
            let output = Box::new(output);
            let mut hand = Hand { input, output, child: Some(child) };
            // If the process cannot receive this, the failure shows when it does not answer its first task.
            let _ = hand.report(begin);
            Ok(hand)
        }
        _ => Err(io::Error::other("it has no pipes")),
    }
}

impl Hand {
    /// Sends a message to the process. Its effect shows only in the answers.
    fn report<T: serde::Serialize>(&mut self, message: &T) -> io::Result<()> {
        let mut frame = Vec::new();
        encode(message, &mut frame).map_err(io::Error::other)?;
        self.input.write_all(&frame)?;
        self.input.flush()
    }

    fn ask(&mut self, task: &ShuffleTask) -> io::Result<Reply> {
        self.report(&Word::Task(task.clone()))?;
        let reply = read_frame(&mut self.output, &mut Vec::new()).map_err(io::Error::other)?;
        reply.ok_or_else(|| io::Error::from(io::ErrorKind::UnexpectedEof))
    }

    /// How the process ended, for people.
    fn end(mut self, error: &io::Error) -> String {
        self.finish().map_or_else(|| error.to_string(), death)
    }

    /// Ends the process by closing its pipes: behind the wall, the planner cannot send signals. A process
    /// that does not exit is killed when the planner ends.
    fn finish(&mut self) -> Option<ExitStatus> {
        (self.input, self.output) = (Box::new(io::sink()), Box::new(io::empty()));
        let child = self.child.as_mut()?;
        let begun = Instant::now();
        while begun.elapsed() < GRACE {
            match child.try_wait() {
                Ok(None) => thread::sleep(TICK),
                Ok(status) => return status,
                Err(_) => return None,
            }
        }
        None
    }
}

/// Performs tasks, several at a time.
pub(super) struct Crew<'a> {
    pub(super) setup: &'a ShuffleSetup,
    pub(super) start: &'a (dyn Fn() -> io::Result<Hand> + Sync),
    pub(super) idle: &'a Idle,
    pub(super) processes: u32,
}

impl Crew<'_> {
    /// Performs all tasks that `give` passes on. Fails if a task cannot be performed, or if `give` fails. The
    /// function that `give` receives fails once a task has failed, because then no further tasks are needed.
    pub(super) fn run(
        &self,
        give: impl FnOnce(&mut dyn FnMut(ShuffleTask) -> Result<(), PlanError>) -> Result<(), PlanError>,
    ) -> Result<(), PlanError> {
        let (sender, tasks) = sync_channel::<ShuffleTask>(1);
        let tasks = Arc::new(Mutex::new(tasks));
        let failed = AtomicBool::new(false);
        thread::scope(|scope| {
            let failed = &failed;
            let places: Vec<_> = (0..self.processes.max(1))
                .map(|_| {
                    let tasks = Arc::clone(&tasks);
                    scope.spawn(move || {
                        let result = self.place(&tasks);
                        failed.fetch_or(result.is_err(), Ordering::Relaxed);
                        result
                    })
                })
                .collect();
            // When the last worker thread ends, the receiver is dropped, so that `send` fails instead of
            // waiting.
            drop(tasks);
            let given = give(&mut |task| {
                if failed.load(Ordering::Relaxed) || sender.send(task).is_err() {
                    return Err(stopped());
                }
                Ok(())
            });
            drop(sender);
            for place in places {
                place.join().unwrap_or_else(|_| Err(stopped()))?;
            }
            given
        })
    }

    /// Runs on a thread for each process: performs one task after another, with a new process if one dies.
    fn place(&self, tasks: &Mutex<Receiver<ShuffleTask>>) -> Result<(), PlanError> {
        let mut hand = None;
        let result = loop {
            let task = tasks.lock().unwrap_or_else(PoisonError::into_inner).recv();
            let Ok(task) = task else { break Ok(()) };
            if let Err(error) = self.perform(&task, &mut hand) {
                break Err(error);
            }
        };
        hand.into_iter().for_each(|hand| self.idle.put(hand));
        result
    }

    /// A process that has received the setup of this shuffle.
    fn next(&self) -> io::Result<Hand> {
        let mut hand = self.idle.take().map_or_else(self.start, Ok)?;
        // If the process cannot receive this, sending the next message fails.
        let _ = hand.report(&Word::Setup(self.setup.clone()));
        Ok(hand)
    }

    fn perform(&self, task: &ShuffleTask, place: &mut Option<Hand>) -> Result<(), PlanError> {
        let mut ends = Vec::new();
        for _ in 0..TRIES {
            let mut hand = match place.take() {
                Some(hand) => hand,
                None => match self.next() {
                    Ok(hand) => hand,
                    Err(error) => {
                        ends.push(error.to_string());
                        continue;
                    }
                },
            };
            match hand.ask(task) {
                Ok(Reply::Done) => {
                    *place = Some(hand);
                    return Ok(());
                }
                Ok(Reply::Failed(text)) => return Err(DatasetError(text).into()),
                Err(error) => ends.push(hand.end(&error)),
            }
        }
        Err(DatasetError(format!(
            "rows cannot be grouped by key: {TRIES} processes ended one after the other at {} ({}); \
             check whether the machine is short of memory",
            task.what(self.setup),
            ends.join(", "),
        ))
        .into())
    }
}

fn stopped() -> PlanError {
    DatasetError("the processes that group rows by key have stopped".to_owned()).into()
}
