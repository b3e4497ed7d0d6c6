//! The processes that do tasks, and those who take the places of dead ones.

use super::message::{Reply, Setup, Task};
use super::serve::SHUFFLE_COMMAND;
use crate::dataset::DatasetError;
use crate::plan::PlanError;
use crate::protocol::{encode, read_frame};
use std::fmt;
use std::io::{self, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

/// Processes that a task may cost.
const TRIES: u32 = 3;

/// One process, which lives as long as this.
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
        if let Some(child) = &mut self.child {
            // It has ended, or has nothing left to do.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Starts this very program.
pub(in crate::plan) fn start_process() -> io::Result<Hand> {
    // Whatever lies at the program's path by now.
    let mut child = Command::new("/proc/self/exe")
        .arg0("sandmill")
        .arg(SHUFFLE_COMMAND)
        .env_clear()
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    match (child.stdin.take(), child.stdout.take()) {
        (Some(input), Some(output)) => {
            Ok(Hand { input: Box::new(input), output: Box::new(output), child: Some(child) })
        }
        _ => Err(io::Error::other("it has no pipes")),
    }
}

impl Hand {
    /// Tells the process something. What it makes of that shows in its answers.
    fn tell<T: serde::Serialize>(&mut self, message: &T) -> io::Result<()> {
        let mut frame = Vec::new();
        encode(message, &mut frame).map_err(io::Error::other)?;
        self.input.write_all(&frame)?;
        self.input.flush()
    }

    fn ask(&mut self, task: &Task) -> io::Result<Reply> {
        self.tell(task)?;
        let reply = read_frame(&mut self.output, &mut Vec::new()).map_err(io::Error::other)?;
        reply.ok_or_else(|| io::Error::from(io::ErrorKind::UnexpectedEof))
    }

    /// How it ended, for people.
    fn end(mut self, error: &io::Error) -> String {
        let status = self.child.as_mut().and_then(|child| {
            let _ = child.kill();
            child.wait().ok()
        });
        status.map_or_else(|| error.to_string(), |status| status.to_string())
    }
}

/// Does tasks, many at a time.
pub(super) struct Crew<'a> {
    pub(super) setup: &'a Setup,
    pub(super) start: &'a (dyn Fn() -> io::Result<Hand> + Sync),
    pub(super) processes: u32,
}

impl Crew<'_> {
    /// Does all tasks that `give` hands out. Fails if one cannot be done, or as `give` does; the
    /// function that `give` is given fails where nothing more needs to be done.
    pub(super) fn run(
        &self,
        give: impl FnOnce(&mut dyn FnMut(Task) -> Result<(), PlanError>) -> Result<(), PlanError>,
    ) -> Result<(), PlanError> {
        let (sender, tasks) = sync_channel::<Task>(1);
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
            // So that a task that nobody is left to do cannot be waited for.
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

    /// The place of one process: whoever stands there does one task after the other.
    fn place(&self, tasks: &Mutex<Receiver<Task>>) -> Result<(), PlanError> {
        let mut hand = None;
        loop {
            let task = tasks.lock().unwrap_or_else(PoisonError::into_inner).recv();
            let Ok(task) = task else { return Ok(()) };
            self.perform(&task, &mut hand)?;
        }
    }

    fn perform(&self, task: &Task, place: &mut Option<Hand>) -> Result<(), PlanError> {
        let mut ends = Vec::new();
        for _ in 0..TRIES {
            let mut hand = match place.take() {
                Some(hand) => hand,
                None => match (self.start)() {
                    Ok(mut hand) => {
                        // If it cannot hear, the next word to it tells.
                        let _ = hand.tell(self.setup);
                        hand
                    }
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
             see whether the machine is short of memory",
            task.what(self.setup),
            ends.join(", "),
        ))
        .into())
    }
}

fn stopped() -> PlanError {
    DatasetError("the processes that group rows by key have stopped".to_owned()).into()
}
