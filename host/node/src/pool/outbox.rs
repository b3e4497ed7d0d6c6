//! The queue of messages to a worker.

use crate::protocol::{FrameError, ToWorker, encode};
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::Notify;

/// An emptied buffer shrinks to this size. Only a set-up message makes it larger.
const KEPT_BYTES: usize = 64 << 10;
/// The pause before the next try if we cannot wait for the socket.
const RETRY_PAUSE: Duration = Duration::from_millis(10);

/// The sending half of a worker's socket, with a queue so that the leader never waits. The queue stays small,
/// because only a set-up and a few mini-batches are sent.
#[derive(Debug)]
pub(super) struct Outbox {
    socket: UnixStream,
    queue: Mutex<MessageQueue>,
    /// Notified when a part of the queue waits for the socket.
    waiting: Notify,
}

/// Registers a descriptor with the runtime, for one direction only. With both directions, each message that a
/// worker reads would wake the leader.
pub(super) fn register(fd: OwnedFd, interest: Interest) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: the `AsyncFd` owns the descriptor, which stays open and unchanged as long as the `AsyncFd`
    // lives.
    unsafe { AsyncFd::register_with_interest(fd, interest) }.map_err(io::Error::from)
}

/// The encoded messages that are not yet sent.
#[derive(Debug, Default)]
struct MessageQueue {
    bytes: Vec<u8>,
    /// How many of these bytes have been written.
    written: usize,
    /// Whether writing failed. The worker is then ending, and no more messages are queued.
    is_broken: bool,
}

impl Outbox {
    pub(super) fn new(socket: UnixStream) -> Self {
        Self { socket, queue: Mutex::default(), waiting: Notify::new() }
    }

    /// Appends a message to the queue. Fails if the message is too long.
    pub(super) fn queue(&self, message: &ToWorker) -> Result<(), FrameError> {
        let mut queue = self.lock();
        if queue.is_broken { Ok(()) } else { encode(message, &mut queue.bytes) }
    }

    /// Sends the queue. [`run`](Self::run) later writes the part that the socket does not take now.
    pub(super) fn flush(&self) {
        // Writing from here usually suffices, which saves waking a task for each message.
        if !self.write(&mut self.lock()) {
            self.waiting.notify_one();
        }
    }

    /// Writes the queue whenever the socket takes it. Never returns.
    pub(super) async fn run(&self) {
        loop {
            self.waiting.notified().await;
            loop {
                if self.write(&mut self.lock()) {
                    break;
                }
                if self.writable().await.is_err() {
                    // For example, this process has no free descriptors. It may have some soon.
                    tokio::time::sleep(RETRY_PAUSE).await;
                }
            }
        }
    }

    /// Waits until the socket takes more.
    async fn writable(&self) -> io::Result<()> {
        let socket = register(self.socket.try_clone()?.into(), Interest::WRITABLE)?;
        socket.writable().await.map(drop)
    }

    /// Writes as much as the socket takes. Returns whether the queue is empty.
    fn write(&self, queue: &mut MessageQueue) -> bool {
        while queue.written < queue.bytes.len() {
            match (&self.socket).write(&queue.bytes[queue.written..]) {
                Ok(0) => queue.is_broken = true,
                Ok(count) => queue.written += count,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return false,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => queue.is_broken = true,
            }
            if queue.is_broken {
                break;
            }
        }
        queue.written = 0;
        queue.bytes.clear();
        queue.bytes.shrink_to(KEPT_BYTES);
        true
    }

    fn lock(&self) -> MutexGuard<'_, MessageQueue> {
        // A panic while the lock is held cannot leave the queue half changed.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
