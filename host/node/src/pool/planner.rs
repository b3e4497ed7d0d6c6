//! The planner's life as the leader sees it.

use super::child::Child;
use super::launch::{Process, Program, STDERR_TAIL, printable};
use super::pipes::Pipes;
use crate::model::{BadFile, MiniBatch, TableFormat, Work};
use crate::protocol::{
    FrameBuffer, FrameError, FromPlanner, MayOpen, PlanRequest, Question, encode,
};
use crate::wall::death;
use std::collections::HashSet;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::pipe::{Receiver, Sender};
use tokio::sync::mpsc;

/// How long a planner that has said everything may take to end.
const GRACE: Duration = Duration::from_secs(1);
/// Bytes read at once.
const READ: usize = 64 << 10;

/// Files that planners may die over, in one plan.
const DEADLY: usize = 8;

/// The planner process of the moment. It is killed with this.
#[derive(Debug, Default)]
pub(super) struct Planner(Mutex<Slot>);

#[derive(Debug, Default)]
enum Slot {
    #[default]
    Empty,
    Running(Arc<Process>),
    /// Nobody wants one any more.
    Closed,
}

impl Planner {
    /// Ends it, for good.
    pub(super) fn kill(&self) {
        let slot = std::mem::replace(&mut *self.slot(), Slot::Closed);
        if let Slot::Running(process) = slot {
            process.kill();
        }
    }

    fn slot(&self) -> MutexGuard<'_, Slot> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a process may take the place of the one before.
    fn put(&self, process: &Arc<Process>) -> bool {
        let mut slot = self.slot();
        if matches!(*slot, Slot::Closed) {
            return false;
        }
        *slot = Slot::Running(Arc::clone(process));
        true
    }
}

/// Why reading ended.
#[derive(Debug)]
enum End {
    /// `Finished` or `Failed` was delivered.
    Complete,
    /// Its output ended, or nothing more can be read from it.
    Closed,
    /// What it sent is no message.
    Malformed(FrameError),
    /// It plans otherwise than the one whose place it took.
    Changed,
    /// Nobody wants the events any more.
    Unheard,
}

/// How a planner ended that did not come to an end of its own.
struct Death {
    /// For people.
    text: String,
    /// How the process ended, for people too, if a signal ended it.
    by_signal: Option<String>,
}

/// A plan, made by one process or, where that dies over a file, by several.
pub(super) struct Plan {
    program: Program,
    request: PlanRequest,
    planner: Arc<Planner>,
    /// What it is told of files that it asks for.
    answers: mpsc::UnboundedReceiver<MayOpen>,
    /// Of the process that runs.
    question: Question,
    told: Told,
    /// How the one before it ended.
    died: String,
}

impl Plan {
    pub(super) fn new(
        program: Program,
        request: PlanRequest,
        planner: Arc<Planner>,
        answers: mpsc::UnboundedReceiver<MayOpen>,
    ) -> Self {
        Self {
            program,
            request,
            planner,
            answers,
            question: Question::default(),
            told: Told::default(),
            died: String::new(),
        }
    }

    /// Gives the planner its request and delivers what it says, as fast as the channel is emptied.
    pub(super) async fn run(
        mut self,
        mut process: (Child, Pipes),
        mut frame: Vec<u8>,
        events: mpsc::Sender<FromPlanner>,
    ) {
        let text = loop {
            let Some(death) = self.attend(process, frame, &events).await else { return };
            let Some(next) = self.next(&death) else { break death.text };
            (process, frame) = next;
        };
        // Nobody listening is no loss.
        let _ = events.send(FromPlanner::Failed(text)).await;
    }

    /// One process, to its end. None if there is nothing more to say.
    async fn attend(
        &mut self,
        (mut child, pipes): (Child, Pipes),
        request: Vec<u8>,
        events: &mpsc::Sender<FromPlanner>,
    ) -> Option<Death> {
        let process = Arc::new(Process::of(child.id()));
        if !self.planner.put(&process) {
            process.kill();
        }
        // Without them it is as if it had said nothing.
        let (stdin, stdout, stderr) = match pipes.open() {
            Ok((stdin, stdout, stderr)) => (Some(stdin), Some(stdout), Some(stderr)),
            Err(_) => (None, None, None),
        };
        let mut stderr = Tail { pipe: stderr, bytes: Vec::new() };
        self.question = Question::default();
        let question = self.request.asks.are_answered().then_some(&self.question);
        let answers = &mut self.answers;
        let feed = async {
            if let Some(stdin) = stdin {
                // A planner that does not listen says why, or its end does.
                let _ = feed(stdin, &request, question.map(|question| (question, answers))).await;
            }
        };
        let aside = async {
            tokio::join!(feed, stderr.collect());
            std::future::pending::<()>().await;
        };
        let end = tokio::select! {
            end = read(stdout, question, &mut self.told, events) => end,
            () = aside => End::Closed,
        };
        if matches!(end, End::Malformed(_) | End::Changed | End::Unheard) {
            process.kill();
        }
        let status = match tokio::time::timeout(GRACE, child.wait()).await {
            Ok(status) => status,
            Err(_) => {
                process.kill();
                child.wait().await
            }
        };
        process.set_reaped();
        if let End::Complete | End::Unheard = end {
            return None;
        }
        // Its stderr ends with it, unless somebody else holds the pipe.
        let _ = tokio::time::timeout(GRACE, stderr.collect()).await;
        let text = describe(&end, &self.died, &status, &printable(&stderr.bytes));
        let status = status.ok().filter(|status| status.signal().is_some());
        let by_signal = status.filter(|_| matches!(end, End::Closed)).map(death);
        Some(Death { text, by_signal })
    }

    /// Another process in the place of one that died. The first that does so tells what it looks into; of
    /// those after it, that is left out. None if there is nothing to be done.
    fn next(&mut self, death: &Death) -> Option<((Child, Pipes), Vec<u8>)> {
        let how = death.by_signal.as_ref()?;
        // Another planner would write anew what workers read.
        if matches!(*self.planner.slot(), Slot::Closed) || self.told.has_spilled {
            return None;
        }
        if self.told.is_later {
            // One that waits for a file does not look into it.
            let opening = self.told.opening.take();
            let (source, file) = opening.filter(|_| !self.question.is_open())?;
            let folder = self.request.sources.get(source as usize).map(|source| &source.root);
            let path = folder.map_or_else(|| file.clone().into(), |folder| folder.join(&file));
            let reason = format!(
                "{} cannot be read: the planner process {how} while it looked into it",
                path.display()
            );
            let is_known = |(index, bad): &(u32, BadFile)| *index == source && bad.file == file;
            let deadly = &mut self.request.deadly;
            if deadly.len() == DEADLY || deadly.iter().any(is_known) {
                return None;
            }
            deadly.push((source, BadFile { file, reason }));
        }
        self.died.clone_from(how);
        self.request.tells_files = true;
        self.told.begin();
        let mut frame = Vec::new();
        encode(&self.request, &mut frame).ok()?;
        Some((self.program.start_planner().ok()?, frame))
    }
}

/// What was delivered: the plans of all processes are one.
#[derive(Default)]
struct Told {
    tables: Option<Vec<TableFormat>>,
    /// Mini-batches that were delivered, and those that this process has told.
    delivered: Prefix,
    heard: Prefix,
    /// Whether workers read what a planner has written for them.
    has_spilled: bool,
    /// What is told once, where an earlier process has told it.
    notices: HashSet<String>,
    /// Whether a process has died before.
    is_later: bool,
    /// The file that the process looks into.
    opening: Option<(u32, String)>,
}

/// The first mini-batches of a plan.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Prefix {
    count: u64,
    /// Made of their stamps, in their order.
    digest: u64,
}

impl Prefix {
    fn add(&mut self, batch: &MiniBatch) {
        self.count += 1;
        let mixed = self.digest.rotate_left(7) ^ batch.stamp ^ batch.id.0;
        self.digest = mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

/// Whether it is read from what a planner has written.
fn is_spilled(batch: &MiniBatch) -> bool {
    match &batch.work {
        Work::Text(slice) => slice.unpacked.is_some(),
        Work::TextGroup(slices) => slices.iter().any(|(_, slice)| slice.unpacked.is_some()),
        Work::Rows(_) => true,
        _ => false,
    }
}

/// Notices that are known again.
const NOTICES: usize = 1000;

impl Told {
    /// Begins with another process.
    fn begin(&mut self) {
        (self.heard, self.is_later, self.opening) = (Prefix::default(), true, None);
    }

    /// Whether no earlier process said that; notes that it is said now.
    fn is_new(&mut self, text: &str) -> bool {
        if self.is_later && self.notices.contains(text) {
            return false;
        }
        if self.notices.len() < NOTICES {
            self.notices.insert(text.to_owned());
        }
        true
    }

    /// What of a message is to be delivered, if anything. Fails if it is not what an earlier process said.
    fn new_in(&mut self, message: FromPlanner) -> Result<Option<FromPlanner>, End> {
        match message {
            FromPlanner::Opening { source, file, waits, next } => {
                self.opening = Some((source, file.clone()));
                Ok(Some(FromPlanner::Opening { source, file, waits, next }))
            }
            FromPlanner::Tables(tables) if self.is_later && self.tables.is_some() => {
                if self.tables.as_ref() == Some(&tables) { Ok(None) } else { Err(End::Changed) }
            }
            FromPlanner::Tables(tables) => {
                self.tables.get_or_insert_with(|| tables.clone());
                Ok(Some(FromPlanner::Tables(tables)))
            }
            FromPlanner::MiniBatches(mut batches) => {
                let mut is_same = true;
                batches.retain(|batch| {
                    self.heard.add(batch);
                    if self.heard.count <= self.delivered.count {
                        is_same &=
                            self.heard.count < self.delivered.count || self.heard == self.delivered;
                        return false;
                    }
                    self.delivered = self.heard;
                    self.has_spilled |= is_spilled(batch);
                    true
                });
                // Otherwise some would be missing, and others there twice.
                if !is_same {
                    return Err(End::Changed);
                }
                Ok((!batches.is_empty()).then_some(FromPlanner::MiniBatches(batches)))
            }
            FromPlanner::Finished if self.heard.count < self.delivered.count => Err(End::Changed),
            FromPlanner::Columns(text) => {
                Ok(self.is_new(&text).then_some(FromPlanner::Columns(text)))
            }
            FromPlanner::Notice(text) => {
                Ok(self.is_new(&text).then_some(FromPlanner::Notice(text)))
            }
            FromPlanner::Closed => {
                self.opening = None;
                Ok(Some(FromPlanner::Closed))
            }
            message @ (FromPlanner::Finished | FromPlanner::Failed(_) | FromPlanner::Share(_)) => {
                Ok(Some(message))
            }
        }
    }
}

/// Writes the request, then each answer. Without answers, the pipe ends with the request.
async fn feed(
    mut stdin: Sender,
    request: &[u8],
    answers: Option<(&Question, &mut mpsc::UnboundedReceiver<MayOpen>)>,
) -> io::Result<()> {
    stdin.write_all(request).await?;
    let Some((question, answers)) = answers else { return Ok(()) };
    let mut frame = Vec::new();
    while let Some(answer) = answers.recv().await {
        frame.clear();
        encode(&answer, &mut frame).map_err(io::Error::other)?;
        question.answer();
        stdin.write_all(&frame).await?;
    }
    Ok(())
}

async fn read(
    stdout: Option<Receiver>,
    question: Option<&Question>,
    told: &mut Told,
    events: &mpsc::Sender<FromPlanner>,
) -> End {
    let Some(mut stdout) = stdout else { return End::Closed };
    let mut frames = FrameBuffer::default();
    let mut buffer = vec![0; READ];
    loop {
        loop {
            let message: FromPlanner = match frames.next_message() {
                Ok(Some(message)) => message,
                Ok(None) => break,
                Err(error) => return End::Malformed(error),
            };
            let heard = question.map_or(Ok(()), |question| question.hear(&message));
            if let Err(error) = message.check().and(heard) {
                return End::Malformed(error);
            }
            let message = match told.new_in(message) {
                Ok(Some(message)) => message,
                Ok(None) => continue,
                Err(end) => return end,
            };
            let last = matches!(message, FromPlanner::Finished | FromPlanner::Failed(_));
            if events.send(message).await.is_err() {
                return End::Unheard;
            }
            if last {
                return End::Complete;
            }
        }
        match stdout.read(&mut buffer).await {
            Ok(0) => return End::Closed,
            Ok(count) => frames.push(&buffer[..count]),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return End::Closed,
        }
    }
}

fn describe(end: &End, died: &str, status: &io::Result<ExitStatus>, stderr: &str) -> String {
    let how = match (end, status) {
        (End::Malformed(error), _) => format!("sent something that is no message ({error})"),
        (End::Changed, _) => format!("{died}, and the one that took its place made another plan"),
        (_, Err(e)) => format!("ended, and how cannot be found out ({e})"),
        (_, Ok(status)) => death(*status),
    };
    let mut text = format!("the planner process {how} before it had cut all inputs");
    if !stderr.is_empty() {
        text.push_str("; the end of what it printed:\n");
        text.push_str(stderr);
    }
    text
}

/// Keeps the end of what comes through a pipe.
struct Tail {
    pipe: Option<Receiver>,
    bytes: Vec<u8>,
}

impl Tail {
    /// Reads to the end of the pipe. May be cancelled and called again.
    async fn collect(&mut self) {
        let mut buffer = [0; 1024];
        while let Some(pipe) = &mut self.pipe {
            match pipe.read(&mut buffer).await {
                Ok(count) if count > 0 => self.bytes.extend_from_slice(&buffer[..count]),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                _ => self.pipe = None,
            }
            let surplus = self.bytes.len().saturating_sub(STDERR_TAIL);
            self.bytes.drain(..surplus);
        }
    }
}
