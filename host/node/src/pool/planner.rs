//! The parent side of the planner process.

use super::child::Child;
use super::launch::{ChildProcess, Program, STDERR_TAIL_BYTES, printable};
use super::pipes::Pipes;
use crate::model::{BadFile, MiniBatch, TableFormat};
use crate::protocol::{
    FrameBuffer, FrameError, FromPlanner, MayOpen, PlanRequest, PlannerQuestion, encode,
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

/// How long a planner may take to end after its last message.
const EXIT_PATIENCE: Duration = Duration::from_secs(1);
/// The size of one read.
const READ_BYTES: usize = 64 << 10;

/// A plan fails if planners die on more files than this.
const MAX_DEADLY_FILES: usize = 8;

/// The current planner process. Dropping the pool kills it.
#[derive(Debug, Default)]
pub(super) struct PlannerChild(Mutex<PlannerSlot>);

#[derive(Debug, Default)]
enum PlannerSlot {
    #[default]
    Empty,
    Running(Arc<ChildProcess>),
    /// The plan is no longer needed.
    Closed,
}

impl PlannerChild {
    /// Kills the planner, and prevents another one from being started.
    pub(super) fn kill(&self) {
        let slot = std::mem::replace(&mut *self.slot(), PlannerSlot::Closed);
        if let PlannerSlot::Running(process) = slot {
            process.kill();
        }
    }

    fn slot(&self) -> MutexGuard<'_, PlannerSlot> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stores the process as the current planner. Returns false if the plan is no longer needed.
    fn try_put(&self, process: &Arc<ChildProcess>) -> bool {
        let mut slot = self.slot();
        if matches!(*slot, PlannerSlot::Closed) {
            return false;
        }
        *slot = PlannerSlot::Running(Arc::clone(process));
        true
    }
}

/// Why reading ended.
#[derive(Debug)]
enum ReadEnd {
    /// `Finished` or `Failed` was delivered.
    Complete,
    /// The planner closed its output, or the output cannot be read.
    Closed,
    /// The planner sent something that is not a message.
    Malformed(FrameError),
    /// The planner made a different plan than the planner that it replaced.
    Changed,
    /// The receiver of the events is gone.
    NoReceiver,
}

/// The end of a planner that did not finish its plan.
struct Death {
    /// A sentence for the user.
    text: String,
    /// How the signal ended the process, for the user. `None` if no signal did.
    by_signal: Option<String>,
}

/// A plan. If a planner dies on a file, another process continues the plan.
pub(super) struct RunningPlan {
    program: Program,
    request: PlanRequest,
    planner: Arc<PlannerChild>,
    /// Answers for the files that the planner asks for.
    answers: mpsc::UnboundedReceiver<MayOpen>,
    /// Whether the current process waits for an answer.
    question: PlannerQuestion,
    reported: DeliveredPlan,
    /// How the previous process ended. Empty if there was none.
    previous_death: String,
}

impl RunningPlan {
    pub(super) fn new(
        program: Program,
        request: PlanRequest,
        planner: Arc<PlannerChild>,
        answers: mpsc::UnboundedReceiver<MayOpen>,
    ) -> Self {
        Self {
            program,
            request,
            planner,
            answers,
            question: PlannerQuestion::default(),
            reported: DeliveredPlan::default(),
            previous_death: String::new(),
        }
    }

    /// Sends the planner its request, and delivers its messages. Reads them only as fast as the channel is
    /// emptied.
    pub(super) async fn run(
        mut self,
        mut process: (Child, Pipes),
        mut frame: Vec<u8>,
        events: mpsc::Sender<FromPlanner>,
    ) {
        let text = loop {
            let Some(death) = self.attend(process, frame, &events).await else { return };
            let Some(next) = self.replace(&death) else { break death.text };
            (process, frame) = next;
        };
        // If the receiver is gone, no process needs the message.
        let _ = events.send(FromPlanner::Failed(text)).await;
    }

    /// Handles one process until it ends. `None` if there is nothing more to report.
    async fn attend(
        &mut self,
        (mut child, pipes): (Child, Pipes),
        request: Vec<u8>,
        events: &mpsc::Sender<FromPlanner>,
    ) -> Option<Death> {
        let process = Arc::new(ChildProcess::from_id(child.id()));
        if !self.planner.try_put(&process) {
            process.kill();
        }
        // If the pipes cannot be used, we treat the planner as if it had sent nothing.
        let (stdin, stdout, stderr) = match pipes.open() {
            Ok((stdin, stdout, stderr)) => (Some(stdin), Some(stdout), Some(stderr)),
            Err(_) => (None, None, None),
        };
        let mut stderr = Tail { pipe: stderr, bytes: Vec::new() };
        self.question = PlannerQuestion::default();
        let question = self.request.asks.are_answered().then_some(&self.question);
        let answers = &mut self.answers;
        let feed = async {
            if let Some(stdin) = stdin {
                // A planner that does not read its input reports why, or its exit status shows it.
                let _ = feed(stdin, &request, question.map(|question| (question, answers))).await;
            }
        };
        let feed_and_collect = async {
            tokio::join!(feed, stderr.collect());
            std::future::pending::<()>().await;
        };
        let end = tokio::select! {
            end = read(stdout, question, &mut self.reported, events) => end,
            () = feed_and_collect => ReadEnd::Closed,
        };
        if matches!(end, ReadEnd::Malformed(_) | ReadEnd::Changed | ReadEnd::NoReceiver) {
            process.kill();
        }
        let status = match tokio::time::timeout(EXIT_PATIENCE, child.wait()).await {
            Ok(status) => status,
            Err(_) => {
                process.kill();
                child.wait().await
            }
        };
        process.set_reaped();
        if let ReadEnd::Complete | ReadEnd::NoReceiver = end {
            return None;
        }
        // The planner's stderr ends with it, unless another process holds the pipe.
        let _ = tokio::time::timeout(EXIT_PATIENCE, stderr.collect()).await;
        let text = describe(&end, &self.previous_death, &status, &printable(&stderr.bytes));
        let status = status.ok().filter(|status| status.signal().is_some());
        let by_signal = status.filter(|_| matches!(end, ReadEnd::Closed)).map(death);
        Some(Death { text, by_signal })
    }

    /// Starts another process after one died. From the second process on, the planner reports each file that
    /// it opens. If it dies again, its successor skips the file that was open. `None` if no process can
    /// continue.
    fn replace(&mut self, death: &Death) -> Option<((Child, Pipes), Vec<u8>)> {
        let how = death.by_signal.as_ref()?;
        // Another planner would rewrite the files that workers are reading.
        if matches!(*self.planner.slot(), PlannerSlot::Closed) || self.reported.has_spilled {
            return None;
        }
        if self.reported.is_later {
            // A planner that waits for a file has not opened it yet.
            let opening = self.reported.opening.take();
            let (source, file) = opening.filter(|_| !self.question.is_open())?;
            let folder = self.request.sources.get(source as usize).map(|source| &source.root);
            let path = folder.map_or_else(|| file.clone().into(), |folder| folder.join(&file));
            let reason = format!(
                "{} cannot be read: the planner process {how} while it read this file",
                path.display()
            );
            let is_skipped = |(index, bad): &(u32, BadFile)| *index == source && bad.file == file;
            let deadly = &mut self.request.deadly;
            if deadly.len() == MAX_DEADLY_FILES || deadly.iter().any(is_skipped) {
                return None;
            }
            deadly.push((source, BadFile { file, reason }));
        }
        self.previous_death.clone_from(how);
        self.request.reports_files = true;
        self.reported.begin_process();
        let mut frame = Vec::new();
        encode(&self.request, &mut frame).ok()?;
        Some((self.program.start_planner().ok()?, frame))
    }
}

/// The part of the plan that was delivered. The messages of successive processes form one plan.
#[derive(Default)]
struct DeliveredPlan {
    tables: Option<Vec<TableFormat>>,
    /// The mini-batches that were delivered.
    delivered: Prefix,
    /// The mini-batches that the current process has sent.
    received: Prefix,
    /// Whether a delivered mini-batch is read from a file that a planner wrote.
    has_spilled: bool,
    /// The notices so far. Each is delivered once, even if a later process repeats it.
    notices: HashSet<String>,
    /// The mini-batches before the last delivered position.
    position: Option<u64>,
    /// Whether it was delivered that the plan continues an earlier one.
    continues: bool,
    /// Whether an earlier process has died.
    is_later: bool,
    /// The source and name of the file that the current process has open.
    opening: Option<(u32, String)>,
}

/// The first mini-batches of a plan.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Prefix {
    count: u64,
    /// A digest of the stamps and ids of these mini-batches, in order.
    digest: u64,
}

impl Prefix {
    fn add(&mut self, batch: &MiniBatch) {
        self.count += 1;
        let mixed = self.digest.rotate_left(7) ^ batch.stamp ^ batch.id.0;
        self.digest = mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

/// We remember at most this many notices.
const MAX_NOTICES: usize = 1000;

impl DeliveredPlan {
    /// Resets the state of the current process when the next process begins.
    fn begin_process(&mut self) {
        (self.received, self.is_later, self.opening) = (Prefix::default(), true, None);
    }

    /// Remembers the text of a message. Returns false if an earlier process has sent the same text.
    fn remember(&mut self, text: &str) -> bool {
        if self.is_later && self.notices.contains(text) {
            return false;
        }
        if self.notices.len() < MAX_NOTICES {
            self.notices.insert(text.to_owned());
        }
        true
    }

    /// The part of a message that is new and must be delivered. `None` if an earlier process has sent all of
    /// it. Fails if the message contradicts an earlier process.
    fn new_part(&mut self, message: FromPlanner) -> Result<Option<FromPlanner>, ReadEnd> {
        match message {
            FromPlanner::Opening { source, file, waits, next } => {
                self.opening = Some((source, file.clone()));
                Ok(Some(FromPlanner::Opening { source, file, waits, next }))
            }
            FromPlanner::Tables(tables) if self.is_later && self.tables.is_some() => {
                if self.tables.as_ref() == Some(&tables) { Ok(None) } else { Err(ReadEnd::Changed) }
            }
            FromPlanner::Tables(tables) => {
                self.tables.get_or_insert_with(|| tables.clone());
                Ok(Some(FromPlanner::Tables(tables)))
            }
            FromPlanner::MiniBatches(mut batches) => {
                let mut is_same = true;
                batches.retain(|batch| {
                    self.received.add(batch);
                    if self.received.count <= self.delivered.count {
                        is_same &= self.received.count < self.delivered.count
                            || self.received == self.delivered;
                        return false;
                    }
                    self.delivered = self.received;
                    self.has_spilled |= batch.reads_spill();
                    true
                });
                // If we continued, some mini-batches would be missing, and others would run twice.
                if !is_same {
                    return Err(ReadEnd::Changed);
                }
                Ok((!batches.is_empty()).then_some(FromPlanner::MiniBatches(batches)))
            }
            FromPlanner::Finished if self.received.count < self.delivered.count => {
                Err(ReadEnd::Changed)
            }
            FromPlanner::Columns(text) => {
                Ok(self.remember(&text).then_some(FromPlanner::Columns(text)))
            }
            FromPlanner::Notice(text) => {
                Ok(self.remember(&text).then_some(FromPlanner::Notice(text)))
            }
            FromPlanner::Closed => {
                self.opening = None;
                Ok(Some(FromPlanner::Closed))
            }
            FromPlanner::Position(position) => {
                let is_new = self.position.is_none_or(|last| last < position.mini_batches);
                self.position = self.position.max(Some(position.mini_batches));
                Ok(is_new.then_some(FromPlanner::Position(position)))
            }
            FromPlanner::Continues => {
                let is_new = !std::mem::replace(&mut self.continues, true);
                Ok(is_new.then_some(FromPlanner::Continues))
            }
            message @ (FromPlanner::Finished
            | FromPlanner::Failed(_)
            | FromPlanner::CannotContinue
            | FromPlanner::Share(_)) => Ok(Some(message)),
        }
    }
}

/// Writes the request, then each answer. Without `answers`, the pipe closes after the request.
async fn feed(
    mut stdin: Sender,
    request: &[u8],
    answers: Option<(&PlannerQuestion, &mut mpsc::UnboundedReceiver<MayOpen>)>,
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

/// Reads the planner's messages and delivers them.
async fn read(
    stdout: Option<Receiver>,
    question: Option<&PlannerQuestion>,
    reported: &mut DeliveredPlan,
    events: &mpsc::Sender<FromPlanner>,
) -> ReadEnd {
    let Some(mut stdout) = stdout else { return ReadEnd::Closed };
    let mut frames = FrameBuffer::default();
    let mut buffer = vec![0; READ_BYTES];
    loop {
        loop {
            let message: FromPlanner = match frames.next_message() {
                Ok(Some(message)) => message,
                Ok(None) => break,
                Err(error) => return ReadEnd::Malformed(error),
            };
            let received = question.map_or(Ok(()), |question| question.on_report(&message));
            if let Err(error) = message.check().and(received) {
                return ReadEnd::Malformed(error);
            }
            let message = match reported.new_part(message) {
                Ok(Some(message)) => message,
                Ok(None) => continue,
                Err(end) => return end,
            };
            let is_last = matches!(
                message,
                FromPlanner::Finished | FromPlanner::Failed(_) | FromPlanner::CannotContinue
            );
            if events.send(message).await.is_err() {
                return ReadEnd::NoReceiver;
            }
            if is_last {
                return ReadEnd::Complete;
            }
        }
        match stdout.read(&mut buffer).await {
            Ok(0) => return ReadEnd::Closed,
            Ok(count) => frames.push(&buffer[..count]),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return ReadEnd::Closed,
        }
    }
}

fn describe(
    end: &ReadEnd,
    previous_death: &str,
    status: &io::Result<ExitStatus>,
    stderr: &str,
) -> String {
    let how = match (end, status) {
        (ReadEnd::Malformed(error), _) => format!("sent something that is not a message ({error})"),
        (ReadEnd::Changed, _) => {
            format!("{previous_death}, and its replacement made a different plan")
        }
        (_, Err(e)) => format!("ended in an unknown way ({e})"),
        (_, Ok(status)) => death(*status),
    };
    let mut text = format!("the planner process {how} before it had planned all mini-batches");
    if !stderr.is_empty() {
        text.push_str("; the end of what it printed:\n");
        text.push_str(stderr);
    }
    text
}

/// Keeps the last bytes that come through a pipe.
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
            let surplus = self.bytes.len().saturating_sub(STDERR_TAIL_BYTES);
            self.bytes.drain(..surplus);
        }
    }
}
