//! The leader's side of one worker process: delivers messages in both directions, reaps the
//! process, and reports its exit.

use super::PoolEvent;
use super::child::Child;
use super::confine::WorkerCgroup;
use super::launch::{ChildProcess, StderrLog, settle};
use super::outbox::{Outbox, register};
use crate::gpu::MemoryWatch;
use crate::model::WorkerExit;
use crate::model::{ByteSize, GpuLease, JobDir, WorkerId};
use crate::perf::memory_kills;
use crate::protocol::{FrameBuffer, FrameError, FromWorker, ToWorker};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::mpsc;

/// How long a worker that closed its socket may take to end.
const EXIT_PATIENCE: Duration = Duration::from_secs(5);
/// The size of one read. A report has a few hundred bytes, so one read gets many reports.
const READ_BYTES: usize = 16 << 10;

/// Sends messages to one worker, and can kill it.
#[derive(Debug)]
pub(super) struct WorkerLink {
    pub(super) process: ChildProcess,
    outbox: Outbox,
    /// Why the pool itself decided to kill the worker. `None` if it did not: a kill that the leader
    /// ordered does not count.
    fault: Mutex<Option<String>>,
}

impl WorkerLink {
    /// Sends a message. Fails if it is too long.
    pub(super) fn try_send(&self, message: &ToWorker) -> Result<(), FrameError> {
        self.outbox.queue(message)?;
        self.outbox.flush();
        Ok(())
    }

    /// Queues a message. If the message is too long, kills the worker, because the worker would
    /// wait for the message forever.
    pub(super) fn queue(&self, message: &ToWorker) {
        if let Err(error) = self.outbox.queue(message) {
            self.kill_for(format!("a message to it could not be sent: {error}"));
        }
    }

    /// Sends what was queued.
    pub(super) fn flush(&self) {
        self.outbox.flush();
    }

    /// Queues a message and [flushes](Self::flush) the queue.
    pub(super) fn send(&self, message: &ToWorker) {
        self.queue(message);
        self.flush();
    }

    fn kill_for(&self, fault: String) {
        self.fault.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(fault);
        self.process.kill();
    }

    fn take_fault(&self) -> Option<String> {
        self.fault.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// What has to be cleaned up after a worker has ended.
#[derive(Debug)]
pub(super) struct WorkerRemains {
    pub(super) dir: JobDir,
    pub(super) cgroup: Option<WorkerCgroup>,
    /// The worker's GPU, and the watch on the GPU's memory. `None` if the worker has no GPU, or if
    /// GPU memory cannot be watched.
    pub(super) gpu: Option<(MemoryWatch, GpuLease)>,
    /// How many processes the kernel's OOM killer had killed when the job began.
    pub(super) memory_kills: Option<u64>,
}

/// The leader's ends of the socket to a worker and of the pipe from it. A worker that the zygote
/// forked has a separate pipe for its reports: they are by far the most frequent messages, and
/// writing to a pipe takes a third of the time of writing to a socket.
#[derive(Debug)]
pub(super) struct WorkerEnds {
    pub(super) socket: UnixStream,
    pub(super) reports: OwnedFd,
}

/// Makes what the leader uses to talk to a worker: the link that sends, and the task that listens. `results`
/// is the job's `limits.results`.
pub(super) fn open(
    worker: WorkerId,
    results: ByteSize,
    child: Child,
    WorkerEnds { socket, reports }: WorkerEnds,
    stderr: StderrLog,
    remains: WorkerRemains,
    events: mpsc::Sender<PoolEvent>,
) -> io::Result<(Arc<WorkerLink>, Listener)> {
    socket.set_nonblocking(true)?;
    rustix::io::ioctl_fionbio(&reports, true)?;
    let link = Arc::new(WorkerLink {
        process: ChildProcess::from_id(child.id()),
        outbox: Outbox::new(socket),
        fault: Mutex::default(),
    });
    let inbox = Inbox {
        worker,
        results,
        reports: register(reports, Interest::READABLE)?,
        frames: FrameBuffer::default(),
        buffer: vec![0; READ_BYTES],
        held: None,
        events,
    };
    Ok((link.clone(), Listener { link, inbox, child, stderr, remains }))
}

/// The task that listens to one worker.
#[derive(Debug)]
pub(super) struct Listener {
    link: Arc<WorkerLink>,
    inbox: Inbox,
    child: Child,
    stderr: StderrLog,
    remains: WorkerRemains,
}

/// Why listening ended.
#[derive(Debug)]
enum ListenEnd {
    /// The worker closed the socket, or the socket failed.
    Closed,
    /// The worker sent something that is not a message.
    Malformed(FrameError),
    /// The receiver of the events is gone.
    NoReceiver,
}

impl Listener {
    /// Delivers the worker's messages until the worker ends. Then reports its exit.
    pub(super) async fn run(self) {
        let Self { link, mut inbox, mut child, stderr, remains } = self;
        let mut wait = Box::pin(child.wait());
        let ended = tokio::select! {
            biased;
            end = inbox.listen() => Err(end),
            () = link.outbox.run() => Err(ListenEnd::Closed),
            status = &mut wait => Ok(status),
        };
        let is_malformed = matches!(ended, Err(ListenEnd::Malformed(_)));
        let status = match ended {
            Ok(status) => status,
            Err(ListenEnd::Closed) => match tokio::time::timeout(EXIT_PATIENCE, &mut wait).await {
                Ok(status) => status,
                Err(_) => {
                    link.kill_for("it closed its connection but did not end".into());
                    wait.await
                }
            },
            Err(ListenEnd::Malformed(error)) => {
                link.kill_for(malformed(&error));
                wait.await
            }
            Err(ListenEnd::NoReceiver) => {
                link.process.kill();
                wait.await
            }
        };
        link.process.set_reaped();
        let dir = remains.dir.clone();
        let worker = inbox.worker;
        // `settle` makes about twenty file syscalls, so we do not run it on the runtime's thread.
        // If it fails, the job continues.
        let _ = tokio::task::spawn_blocking(move || settle(&dir, worker)).await;
        // We do not wait until the pipe or socket is closed: a child of the worker may still run,
        // and keep it open forever. All messages of the worker itself have arrived by now. Messages
        // after a malformed one are ignored.
        if !is_malformed && let ListenEnd::Malformed(error) = inbox.drain().await {
            link.kill_for(malformed(&error));
        }
        let mut exit = describe(status, link.take_fault(), &stderr);
        // We remove the cgroup before we report the exit.
        exit.failure = remains.cgroup.and_then(|cgroup| cgroup.end(exit.signal));
        exit.not_for_memory = exit.signal == Some(9)
            && remains.memory_kills.is_some_and(|kills| memory_kills() == Some(kills));
        // We wait a few seconds until the GPU's memory is free. If the receiver of events is gone,
        // no process needs them.
        let mut held = remains.gpu;
        if let Some((memory, lease)) = &held {
            match memory.wait(lease).await {
                Some(text) => drop(inbox.events.send(PoolEvent::Notice(text)).await),
                None => held = None,
            }
        }
        exit.holds_gpu = held.is_some();
        let _ = inbox.events.send(PoolEvent::Exited(worker, exit)).await;
        let Some((memory, lease)) = held else { return };
        tokio::select! {
            () = memory.wait_on(&lease) => drop(inbox.events.send(PoolEvent::GpuFree(worker)).await),
            () = inbox.events.closed() => {}
        }
    }
}

fn malformed(error: &FrameError) -> String {
    format!("it sent something that is not a message: {error}")
}

fn describe(status: io::Result<ExitStatus>, fault: Option<String>, log: &StderrLog) -> WorkerExit {
    let (code, signal, unknown) = match status {
        Ok(status) => (status.code(), status.signal(), None),
        Err(e) => (None, None, Some(format!("how it ended is unknown: {e}"))),
    };
    let tail = Some(log.tail()).filter(|tail| !tail.is_empty());
    let note: Vec<String> = [fault, unknown, tail].into_iter().flatten().collect();
    WorkerExit { code, signal, note: note.join("\n"), ..WorkerExit::default() }
}

/// Receives a worker's messages.
#[derive(Debug)]
struct Inbox {
    worker: WorkerId,
    /// The job's `limits.results`, in bytes.
    results: ByteSize,
    reports: AsyncFd<OwnedFd>,
    frames: FrameBuffer,
    buffer: Vec<u8>,
    /// A message that waits for room in the channel. We keep it here, so that it is not lost if
    /// `listen` is cancelled.
    held: Option<FromWorker>,
    events: mpsc::Sender<PoolEvent>,
}

impl Inbox {
    /// Delivers messages until the stream ends. No message is lost if the call is cancelled.
    async fn listen(&mut self) -> ListenEnd {
        loop {
            if let Some(end) = self.deliver().await {
                return end;
            }
            match self.read().await {
                Ok(0) => return ListenEnd::Closed,
                Ok(count) => self.frames.push(&self.buffer[..count]),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return ListenEnd::Closed,
            }
        }
    }

    /// Reads the bytes that have arrived, and waits if there are none.
    async fn read(&mut self) -> io::Result<usize> {
        loop {
            let mut ready = self.reports.readable().await?;
            let read = ready
                .try_io(|from| Ok(rustix::io::read(from.get_ref(), self.buffer.as_mut_slice())?));
            let Ok(read) = read else { continue };
            // A read that does not fill the buffer has emptied the pipe, so no other read is needed.
            if read.as_ref().is_ok_and(|count| (1..self.buffer.len()).contains(count)) {
                ready.clear_ready();
            }
            return read;
        }
    }

    /// Delivers the messages that have arrived, without waiting for more.
    async fn drain(&mut self) -> ListenEnd {
        loop {
            if let Some(end) = self.deliver().await {
                return end;
            }
            // We read directly: the runtime may not know yet that there is data.
            match rustix::io::read(self.reports.get_ref(), &mut self.buffer[..]) {
                Ok(0) => return ListenEnd::Closed,
                Ok(count) => self.frames.push(&self.buffer[..count]),
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => return ListenEnd::Closed,
            }
        }
    }

    /// Delivers the complete messages in the buffer. `None` if listening can continue.
    async fn deliver(&mut self) -> Option<ListenEnd> {
        loop {
            if self.held.is_none() {
                match self.frames.next_message::<FromWorker>() {
                    Ok(None) => return None,
                    Ok(Some(message)) => match message.check(self.results) {
                        Ok(()) => self.held = Some(message),
                        Err(error) => return Some(ListenEnd::Malformed(error)),
                    },
                    Err(error) => return Some(ListenEnd::Malformed(error)),
                }
            }
            let Ok(permit) = self.events.reserve().await else {
                return Some(ListenEnd::NoReceiver);
            };
            if let Some(message) = self.held.take() {
                permit.send(PoolEvent::Worker(self.worker, message));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::MiniBatchId;
    use crate::protocol::encode;
    use std::io::Write;

    /// More bytes than a pipe holds, and far more messages than the channel holds.
    #[test]
    fn messages_of_an_exited_worker_are_received() {
        const MESSAGES: u64 = 20_000;
        let (reports, mut theirs) = io::pipe().unwrap();
        rustix::io::ioctl_fionbio(&reports, true).unwrap();
        let worker = std::thread::spawn(move || {
            let mut bytes = Vec::new();
            for id in 0..MESSAGES {
                encode(&FromWorker::Started { id: MiniBatchId(id) }, &mut bytes).unwrap();
            }
            assert!(bytes.len() > 100_000, "{}", bytes.len());
            theirs.write_all(&bytes).unwrap();
        });
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let received = runtime.block_on(async {
            let (events, mut received) = mpsc::channel(4);
            let mut inbox = Inbox {
                worker: WorkerId(0),
                results: ByteSize(1),
                reports: register(reports.into(), Interest::READABLE).unwrap(),
                frames: FrameBuffer::default(),
                buffer: vec![0; READ_BYTES],
                held: None,
                events,
            };
            let listening = tokio::spawn(async move { inbox.listen().await });
            let mut ids = Vec::new();
            while let Some(event) = received.recv().await {
                let PoolEvent::Worker(_, FromWorker::Started { id }) = event else { panic!() };
                ids.push(id.0);
            }
            assert!(matches!(listening.await.unwrap(), ListenEnd::Closed));
            ids
        });
        assert_eq!(received, (0..MESSAGES).collect::<Vec<_>>());
        worker.join().unwrap();
    }
}
