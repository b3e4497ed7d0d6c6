//! What waits to be written to a worker.

use crate::protocol::{FrameError, ToWorker, encode};
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::net::unix::OwnedWriteHalf;
use tokio::sync::Notify;

/// An emptied buffer larger than this is given back; only a set-up makes it that large.
const KEEP: usize = 64 << 10;

/// The sending half of a worker's socket, with a queue that never makes the leader wait. It is
/// bounded by what is sent: a set-up and at most two outstanding mini-batches.
#[derive(Debug)]
pub(super) struct Outbox {
    socket: OwnedWriteHalf,
    queue: Mutex<Queue>,
    waiting: Notify,
}

#[derive(Debug, Default)]
struct Queue {
    bytes: Vec<u8>,
    written: usize,
    /// Writing failed, so the worker is going; nothing more is queued.
    broken: bool,
}

impl Outbox {
    pub(super) fn new(socket: OwnedWriteHalf) -> Self {
        Self { socket, queue: Mutex::default(), waiting: Notify::new() }
    }

    /// Sends a message, or queues what the socket does not take now. Fails if it is too long.
    pub(super) fn send(&self, message: &ToWorker) -> Result<(), FrameError> {
        let mut queue = self.lock();
        if queue.broken {
            return Ok(());
        }
        let idle = queue.bytes.is_empty();
        encode(message, &mut queue.bytes)?;
        // Written from here in most cases, which saves waking a task for each message.
        if idle && !self.write(&mut queue) {
            self.waiting.notify_one();
        }
        Ok(())
    }

    /// Writes what is queued, whenever the socket takes it. Never returns.
    pub(super) async fn run(&self) {
        loop {
            self.waiting.notified().await;
            loop {
                if self.write(&mut self.lock()) {
                    break;
                }
                // An error here shows in the next write.
                let _ = self.socket.writable().await;
            }
        }
    }

    /// Writes as much as the socket takes; whether nothing is left to write.
    fn write(&self, queue: &mut Queue) -> bool {
        while queue.written < queue.bytes.len() {
            match self.socket.try_write(&queue.bytes[queue.written..]) {
                Ok(0) => queue.broken = true,
                Ok(count) => queue.written += count,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return false,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => queue.broken = true,
            }
            if queue.broken {
                break;
            }
        }
        queue.written = 0;
        queue.bytes.clear();
        queue.bytes.shrink_to(KEEP);
        true
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        // Nothing panics while it is held in a way that leaves the queue half changed.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
