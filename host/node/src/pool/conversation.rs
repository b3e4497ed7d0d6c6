//! One worker's life as the leader sees it: listen, deliver, reap, report its end.

use super::PoolEvent;
use super::child::Child;
use super::confine::Cell;
use super::launch::{Process, StderrLog, settle};
use super::outbox::{Outbox, registered};
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

/// How long a worker that hung up may take to end.
const GRACE: Duration = Duration::from_secs(5);
/// Bytes read at once. Reports have some hundred bytes, so that one read takes many.
const READ: usize = 16 << 10;

/// The leader's end of one worker.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) process: Process,
    outbox: Outbox,
    /// Why the pool killed it, if it did so on its own.
    fault: Mutex<Option<String>>,
}

impl Link {
    /// Sends a message. Fails if it is too long.
    pub(super) fn try_send(&self, message: &ToWorker) -> Result<(), FrameError> {
        self.outbox.queue(message)?;
        self.outbox.flush();
        Ok(())
    }

    /// Queues a message. One that is too long to send ends the worker: it would wait for ever.
    pub(super) fn queue(&self, message: &ToWorker) {
        if let Err(error) = self.outbox.queue(message) {
            self.accuse(format!("a message to it could not be sent: {error}"));
        }
    }

    /// Sends what was queued.
    pub(super) fn flush(&self) {
        self.outbox.flush();
    }

    /// Sends a message, as [`queue`](Self::queue) and [`flush`](Self::flush) do.
    pub(super) fn send(&self, message: &ToWorker) {
        self.queue(message);
        self.flush();
    }

    fn accuse(&self, fault: String) {
        self.fault.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(fault);
        self.process.kill();
    }

    fn take_fault(&self) -> Option<String> {
        self.fault.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// What is to be put in order once a worker has ended.
#[derive(Debug)]
pub(super) struct Remains {
    pub(super) dir: JobDir,
    pub(super) cell: Option<Cell>,
    /// Its GPU, where somebody tells of its memory.
    pub(super) gpu: Option<(MemoryWatch, GpuLease)>,
    /// How many processes the kernel had killed for lack of memory when the job began.
    pub(super) memory_kills: Option<u64>,
}

/// Where a worker is spoken to, and where it is heard. A pipe takes a report in a third of the time that a socket
/// needs, and hardly anything else is sent as often.
#[derive(Debug)]
pub(super) struct Ends {
    pub(super) socket: UnixStream,
    pub(super) reports: OwnedFd,
}

/// Makes both ends of a worker: the one to send by, and the task that listens. `results` is its
/// `limits.results`.
pub(super) fn open(
    worker: WorkerId,
    results: ByteSize,
    child: Child,
    Ends { socket, reports }: Ends,
    stderr: StderrLog,
    remains: Remains,
    events: mpsc::Sender<PoolEvent>,
) -> io::Result<(Arc<Link>, Listener)> {
    socket.set_nonblocking(true)?;
    rustix::io::ioctl_fionbio(&reports, true)?;
    let link = Arc::new(Link {
        process: Process::of(child.id()),
        outbox: Outbox::new(socket),
        fault: Mutex::default(),
    });
    let inbox = Inbox {
        worker,
        results,
        reports: registered(reports, Interest::READABLE)?,
        frames: FrameBuffer::default(),
        buffer: vec![0; READ],
        held: None,
        events,
    };
    Ok((link.clone(), Listener { link, inbox, child, stderr, remains }))
}

/// The task of one worker.
#[derive(Debug)]
pub(super) struct Listener {
    link: Arc<Link>,
    inbox: Inbox,
    child: Child,
    stderr: StderrLog,
    remains: Remains,
}

/// Why listening ended.
#[derive(Debug)]
enum End {
    /// The worker closed the socket, or the socket failed.
    Closed,
    /// What it sent is no message.
    Malformed(FrameError),
    /// Nobody wants the events any more.
    Unheard,
}

impl Listener {
    /// Delivers the worker's messages until its end, then its end.
    pub(super) async fn run(self) {
        let Self { link, mut inbox, mut child, stderr, remains } = self;
        let mut wait = Box::pin(child.wait());
        let ended = tokio::select! {
            biased;
            end = inbox.listen() => Err(end),
            () = link.outbox.run() => Err(End::Closed),
            status = &mut wait => Ok(status),
        };
        let nonsense = matches!(ended, Err(End::Malformed(_)));
        let status = match ended {
            Ok(status) => status,
            Err(End::Closed) => match tokio::time::timeout(GRACE, &mut wait).await {
                Ok(status) => status,
                Err(_) => {
                    link.accuse("it hung up but did not end".into());
                    wait.await
                }
            },
            Err(End::Malformed(error)) => {
                link.accuse(malformed(&error));
                wait.await
            }
            Err(End::Unheard) => {
                link.process.kill();
                wait.await
            }
        };
        link.process.set_reaped();
        let dir = remains.dir.clone();
        let worker = inbox.worker;
        // Some twenty calls on files, for which the others need not wait. None of them is worth a job.
        let _ = tokio::task::spawn_blocking(move || settle(&dir, worker)).await;
        // A process that it left behind may still hold the socket, so waiting for the end of the
        // stream could take for ever; what the worker itself said has arrived by now. Behind something
        // that is no message nothing counts.
        if !nonsense && let End::Malformed(error) = inbox.drain().await {
            link.accuse(malformed(&error));
        }
        let mut exit = describe(status, link.take_fault(), &stderr);
        // Whoever sees the end finds no cgroup any more.
        exit.failure = remains.cell.and_then(|cell| cell.end(exit.signal));
        exit.not_for_memory = exit.signal == Some(9)
            && remains.memory_kills.is_some_and(|kills| memory_kills() == Some(kills));
        // Nor is its GPU's memory taken, if that comes back soon. Nobody listening is no loss.
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
    format!("it sent something that is no message: {error}")
}

fn describe(status: io::Result<ExitStatus>, fault: Option<String>, log: &StderrLog) -> WorkerExit {
    let (code, signal, unknown) = match status {
        Ok(status) => (status.code(), status.signal(), None),
        Err(e) => (None, None, Some(format!("how it ended cannot be found out: {e}"))),
    };
    let tail = Some(log.tail()).filter(|tail| !tail.is_empty());
    let note: Vec<String> = [fault, unknown, tail].into_iter().flatten().collect();
    WorkerExit { code, signal, note: note.join("\n"), ..WorkerExit::default() }
}

/// Where a worker is heard.
#[derive(Debug)]
struct Inbox {
    worker: WorkerId,
    /// What the rows of one attempt may come to.
    results: ByteSize,
    reports: AsyncFd<OwnedFd>,
    frames: FrameBuffer,
    buffer: Vec<u8>,
    /// A message that waits for room in the channel. Kept here, because `listen` may be cancelled
    /// while it waits.
    held: Option<FromWorker>,
    events: mpsc::Sender<PoolEvent>,
}

impl Inbox {
    /// Delivers messages until the stream ends. May be cancelled without losing any.
    async fn listen(&mut self) -> End {
        loop {
            if let Some(end) = self.deliver().await {
                return end;
            }
            match self.read().await {
                Ok(0) => return End::Closed,
                Ok(count) => self.frames.push(&self.buffer[..count]),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return End::Closed,
            }
        }
    }

    /// Reads what has come, waiting until there is something.
    async fn read(&mut self) -> io::Result<usize> {
        loop {
            let mut ready = self.reports.readable().await?;
            let read = ready
                .try_io(|from| Ok(rustix::io::read(from.get_ref(), self.buffer.as_mut_slice())?));
            let Ok(read) = read else { continue };
            // Then there was no more, which need not be asked for.
            if read.as_ref().is_ok_and(|count| (1..self.buffer.len()).contains(count)) {
                ready.clear_ready();
            }
            return read;
        }
    }

    /// Delivers what has come already, without waiting for more.
    async fn drain(&mut self) -> End {
        loop {
            if let Some(end) = self.deliver().await {
                return end;
            }
            // Read directly: the runtime may not have noticed yet that there is something.
            match rustix::io::read(self.reports.get_ref(), &mut self.buffer[..]) {
                Ok(0) => return End::Closed,
                Ok(count) => self.frames.push(&self.buffer[..count]),
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => return End::Closed,
            }
        }
    }

    /// Delivers the whole messages that have arrived.
    async fn deliver(&mut self) -> Option<End> {
        loop {
            if self.held.is_none() {
                match self.frames.next_message::<FromWorker>() {
                    Ok(None) => return None,
                    Ok(Some(message)) => match message.check(self.results) {
                        Ok(()) => self.held = Some(message),
                        Err(error) => return Some(End::Malformed(error)),
                    },
                    Err(error) => return Some(End::Malformed(error)),
                }
            }
            let Ok(permit) = self.events.reserve().await else { return Some(End::Unheard) };
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

    /// More than a pipe holds, by far more messages than may wait.
    #[test]
    fn what_a_worker_has_said_is_heard_when_it_is_gone() {
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
        let heard = runtime.block_on(async {
            let (events, mut heard) = mpsc::channel(4);
            let mut inbox = Inbox {
                worker: WorkerId(0),
                results: ByteSize(1),
                reports: registered(reports.into(), Interest::READABLE).unwrap(),
                frames: FrameBuffer::default(),
                buffer: vec![0; READ],
                held: None,
                events,
            };
            let listening = tokio::spawn(async move { inbox.listen().await });
            let mut ids = Vec::new();
            while let Some(event) = heard.recv().await {
                let PoolEvent::Worker(_, FromWorker::Started { id }) = event else { panic!() };
                ids.push(id.0);
            }
            assert!(matches!(listening.await.unwrap(), End::Closed));
            ids
        });
        assert_eq!(heard, (0..MESSAGES).collect::<Vec<_>>());
        worker.join().unwrap();
    }
}
