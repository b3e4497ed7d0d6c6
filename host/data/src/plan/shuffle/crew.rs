//! The helper processes that perform tasks, and the spare processes that replace those that die.

use super::message::{BUCKETS, HelperWall, ShuffleReply, ShuffleSetup, ShuffleTask, ToHelper};
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

/// The shuffle fails after this many processes have died while they performed the same task.
const TRIES: u32 = 3;
/// How long a process may take to exit after its pipes were closed.
const GRACE: Duration = Duration::from_secs(1);
/// How often the status of an exiting process is checked.
const TICK: Duration = Duration::from_millis(1);

/// A helper process. It ends when this value is dropped.
pub(in crate::plan) struct Helper {
    pub(in crate::plan) input: Box<dyn Write + Send>,
    pub(in crate::plan) output: Box<dyn Read + Send>,
    pub(in crate::plan) child: Option<Child>,
}

impl fmt::Debug for Helper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Helper").field("child", &self.child).finish_non_exhaustive()
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        self.end_process();
    }
}

/// Helper processes that wait for the next step or input.
#[derive(Debug, Default)]
pub(in crate::plan) struct Idle(Mutex<Vec<Helper>>);

impl Idle {
    fn pop(&self) -> Option<Helper> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }

    fn push(&self, helper: Helper) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(helper);
    }
}

/// Starts processes for a request: as many as the request allows, and enough spare processes for one task
/// that kills its processes. Call this before the wall is built, and on the main thread, because the
/// processes die with the thread.
pub(in crate::plan) fn start_processes(request: &PlanRequest) -> io::Result<Vec<Helper>> {
    let wall = HelperWall {
        os_sandbox: request.os_sandbox,
        roots: request.sources.iter().map(|source| source.root.clone()).collect(),
        spill: request.spill.clone(),
    };
    let count = process_count(request) + TRIES - 1;
    (0..count).map(|_| start_process(&wall)).collect()
}

/// How many processes work at the same time.
pub(super) fn process_count(request: &PlanRequest) -> u32 {
    request.processes.clamp(1, BUCKETS)
}

/// Starts this same program as a helper.
fn start_process(wall: &HelperWall) -> io::Result<Helper> {
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
            let mut helper = Helper { input, output, child: Some(child) };
            // If the process cannot receive this, the failure shows when it does not answer its first task.
            let _ = helper.send(wall);
            Ok(helper)
        }
        _ => Err(io::Error::other("it has no pipes")),
    }
}

impl Helper {
    fn send<T: serde::Serialize>(&mut self, message: &T) -> io::Result<()> {
        let mut frame = Vec::new();
        encode(message, &mut frame).map_err(io::Error::other)?;
        self.input.write_all(&frame)?;
        self.input.flush()
    }

    /// Sends a task and waits for the answer.
    fn ask(&mut self, task: &ShuffleTask) -> io::Result<ShuffleReply> {
        self.send(&ToHelper::Task(task.clone()))?;
        let reply = read_frame(&mut self.output, &mut Vec::new()).map_err(io::Error::other)?;
        reply.ok_or_else(|| io::Error::from(io::ErrorKind::UnexpectedEof))
    }

    /// Ends the process, and describes how it ended.
    fn describe_end(mut self, error: &io::Error) -> String {
        self.end_process().map_or_else(|| error.to_string(), death)
    }

    /// Ends the process by closing its pipes: behind the wall, the planner cannot send signals. A process
    /// that does not exit is killed when the planner ends.
    fn end_process(&mut self) -> Option<ExitStatus> {
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
    pub(super) start: &'a (dyn Fn() -> io::Result<Helper> + Sync),
    pub(super) idle: &'a Idle,
    pub(super) processes: u32,
}

impl Crew<'_> {
    /// Performs all tasks. `give` receives a function, and passes each task to it. Fails if a task cannot be
    /// performed, or if `give` fails. Once a task has failed, the function that `give` received fails, too,
    /// because no further tasks are needed.
    pub(super) fn run(
        &self,
        give: impl FnOnce(&mut dyn FnMut(ShuffleTask) -> Result<(), PlanError>) -> Result<(), PlanError>,
    ) -> Result<(), PlanError> {
        let (sender, tasks) = sync_channel::<ShuffleTask>(1);
        let tasks = Arc::new(Mutex::new(tasks));
        let has_failed = AtomicBool::new(false);
        thread::scope(|scope| {
            let has_failed = &has_failed;
            let workers: Vec<_> = (0..self.processes.max(1))
                .map(|_| {
                    let tasks = Arc::clone(&tasks);
                    scope.spawn(move || {
                        let result = self.run_tasks(&tasks);
                        has_failed.fetch_or(result.is_err(), Ordering::Relaxed);
                        result
                    })
                })
                .collect();
            // When the last worker thread ends, the receiver is dropped, so that `send` fails instead of
            // waiting.
            drop(tasks);
            let given = give(&mut |task| {
                if has_failed.load(Ordering::Relaxed) || sender.send(task).is_err() {
                    return Err(stopped());
                }
                Ok(())
            });
            drop(sender);
            for worker in workers {
                worker.join().unwrap_or_else(|_| Err(stopped()))?;
            }
            given
        })
    }

    /// Performs one task after another with a process, and with a new process if that process dies.
    /// Each thread of the crew runs this function.
    fn run_tasks(&self, tasks: &Mutex<Receiver<ShuffleTask>>) -> Result<(), PlanError> {
        let mut helper = None;
        let result = loop {
            let task = tasks.lock().unwrap_or_else(PoisonError::into_inner).recv();
            let Ok(task) = task else { break Ok(()) };
            if let Err(error) = self.perform(&task, &mut helper) {
                break Err(error);
            }
        };
        helper.into_iter().for_each(|helper| self.idle.push(helper));
        result
    }

    /// A process that has received the setup of this shuffle.
    fn next_helper(&self) -> io::Result<Helper> {
        let mut helper = self.idle.pop().map_or_else(self.start, Ok)?;
        // If the process cannot receive this, sending the next message fails.
        let _ = helper.send(&ToHelper::Setup(self.setup.clone()));
        Ok(helper)
    }

    fn perform(&self, task: &ShuffleTask, current: &mut Option<Helper>) -> Result<(), PlanError> {
        let mut deaths = Vec::new();
        for _ in 0..TRIES {
            let mut helper = match current.take() {
                Some(helper) => helper,
                None => match self.next_helper() {
                    Ok(helper) => helper,
                    Err(error) => {
                        deaths.push(error.to_string());
                        continue;
                    }
                },
            };
            match helper.ask(task) {
                Ok(ShuffleReply::Done) => {
                    *current = Some(helper);
                    return Ok(());
                }
                Ok(ShuffleReply::Failed(text)) => return Err(DatasetError(text).into()),
                Err(error) => deaths.push(helper.describe_end(&error)),
            }
        }
        Err(DatasetError(format!(
            "rows cannot be grouped by key: {TRIES} processes ended one after the other at {} ({}); \
             check whether the machine is short of memory",
            task.describe(self.setup),
            deaths.join(", "),
        ))
        .into())
    }
}

fn stopped() -> PlanError {
    DatasetError("the processes that group rows by key have stopped".to_owned()).into()
}
